//! Namespace deletion: a namespace goes when all that is in it has gone.
//!
//! A namespace that is deleted is `Terminating`: nothing new comes into it, and it stays as long
//! as `kubernetes` is among its finalizers (`spec.finalizers`). Five seconds later, so that what
//! was on its way has arrived, this controller
//!
//! 1. deletes all pods and waits until they have gone, so that nothing runs any more that could
//!    use what else is there;
//! 2. deletes everything else;
//! 3. takes itself out of the finalizers, and with the last of them the namespace goes.
//!
//! What is still there, and which finalizers hold it, is told in the conditions once the pods have
//! gone. Between two looks there is half the longest grace period of the pods, or half of the 15
//! seconds that finalizers are supposed to take, and a second. Objects that should have gone and
//! have not are an error, after which it looks again soon, and then ever later, at most after a
//! minute.
//!
//! Source: `pkg/controller/namespace` and its `deletion`, Kubernetes 1.36. Upstream deletes kinds
//! in no order; here it is that of their names.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrank_api::decode::ObjectKind;
use outrank_api::time::{rfc3339, unix_nanos};
use outrank_api::types::{Namespace, NamespaceCondition, NamespaceStatus, Pod};
use serde_json::{Value, json};

use crate::controller::{Controller, Plan};
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Delete, Event, Outcome, Patch, Propagation, Refusal, Subresource, Write};

const SECOND: i64 = 1_000_000_000;

/// Time between the deletion of a namespace and that of what is in it.
const DELETION_GRACE: i64 = 5 * SECOND;

/// How long finalizers are supposed to take, in seconds.
const FINALIZERS_SECONDS: i64 = 15;

/// The first wait after an error, and the longest.
const BACK_OFF: i64 = SECOND / 200;
const BACK_OFF_MAX: i64 = 60 * SECOND;

/// Our name among the finalizers.
const OURS: &str = "kubernetes";

/// The conditions in their order, each with reason and message if all is well.
const CONDITIONS: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        CONTENT_FAILURE,
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        CONTENT_REMAINING,
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        FINALIZERS_REMAINING,
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];
const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
const CONTENT_REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";

/// The controller.
#[derive(Clone, Debug, Default)]
pub struct NamespaceController {
    deletions: BTreeMap<Key, Deletion>,
}

/// How far the deletion of a namespace has come.
#[derive(Clone, Copy, Debug)]
struct Deletion {
    /// When to look next.
    next_look: i64,
    /// Whether the pods have gone in this look.
    are_pods_gone: bool,
    /// How many errors there were in a row.
    errors: u32,
}

impl NamespaceController {
    /// A controller that knows of no deletion yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Controller for NamespaceController {
    fn name(&self) -> &'static str {
        "namespace-controller"
    }

    fn concerned(&mut self, seen: &Seen, _: &World, now: i64) -> Vec<Key> {
        let around = Key::new(ObjectKind::Namespace, "", &seen.key.namespace);
        if self.deletions.contains_key(&around) {
            return vec![around];
        }
        let [_, namespace] = seen.both::<Namespace>();
        let is_going = |it: &Namespace| it.metadata.deletion_timestamp.is_some();
        if !namespace.is_some_and(is_going) {
            self.deletions.remove(&seen.key);
            return Vec::new();
        }
        self.deletions.entry(seen.key.clone()).or_insert(Deletion {
            next_look: now.saturating_add(DELETION_GRACE),
            are_pods_gone: false,
            errors: 0,
        });
        vec![seen.key.clone()]
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        let stored = world.stored(key);
        let namespace = stored.and_then(|it| Some((it, it.get::<Namespace>()?)));
        let (Some((stored, namespace)), Some(deletion)) = (namespace, self.deletions.get_mut(key))
        else {
            return plan;
        };
        if namespace.spec.finalizers.is_empty() {
            return plan;
        }
        if now < deletion.next_look {
            plan.look_at(deletion.next_look);
            return plan;
        }
        let content = Content::of(namespace, world, deletion);
        plan.step(content.deletions());
        if !plan.steps.is_empty() {
            // When that is done the content has changed, and it is our turn again.
            return plan;
        }
        let remaining = content.remaining(namespace, now);
        let has_failed = !remaining.errors.is_empty();
        // What has just been deleted may have gone, and it is only not known yet.
        if !has_failed || deletion.errors > 0 {
            let status = remaining.status(&namespace.status, now);
            plan.step(Write::status(stored, &namespace.status, &status));
        }
        match content.objects.is_empty() {
            true => plan.step([finalized(stored, namespace)]),
            false => plan.look_at(deletion.wait(&remaining, now)),
        }
        plan
    }

    fn refused(
        &mut self,
        key: &Key,
        world: &World,
        now: i64,
        refusals: &[(Write, Refusal)],
    ) -> Vec<Write> {
        let Some(stored) = world.stored(key) else {
            return Vec::new();
        };
        let Some(namespace) = stored.get::<Namespace>() else {
            return Vec::new();
        };
        let deletions = refusals
            .iter()
            .filter(|(write, _)| matches!(write, Write::Delete(_)));
        let errors: Vec<String> = deletions.map(|(_, it)| it.message.clone()).collect();
        if errors.is_empty() {
            return Vec::new();
        }
        let remaining = Remaining {
            errors,
            ..Remaining::default()
        };
        let status = remaining.status(&namespace.status, now);
        Vec::from_iter(Write::status(stored, &namespace.status, &status))
    }

    fn tell(&self, _: &Key, _: &World, _: &Write, _: &Outcome) -> Option<Event> {
        None
    }
}

impl Deletion {
    /// When to look again at what remains.
    fn wait(&mut self, remaining: &Remaining, now: i64) -> i64 {
        let wait = match remaining.errors.is_empty() {
            true => {
                self.errors = 0;
                (remaining.seconds / 2 + 1).saturating_mul(SECOND)
            }
            false => {
                let wait = BACK_OFF.saturating_mul(1 << self.errors.min(40));
                self.errors += 1;
                wait.min(BACK_OFF_MAX)
            }
        };
        self.are_pods_gone = false;
        self.next_look = now.saturating_add(wait);
        self.next_look
    }
}

/// What is to go now: the pods, if there are any, or else everything.
struct Content<'w> {
    objects: Vec<&'w Arc<Stored>>,
    /// Whether it is the pods.
    are_pods: bool,
}

impl<'w> Content<'w> {
    fn of(namespace: &'w Namespace, world: &'w World, deletion: &mut Deletion) -> Self {
        let name = &namespace.metadata.name;
        let mut objects: Vec<&Arc<Stored>> = world.everything_within(name).collect();
        let is_pod = |it: &&Arc<Stored>| it.kind() == Kind::Known(ObjectKind::Pod);
        let are_pods = !deletion.are_pods_gone && objects.iter().any(is_pod);
        if are_pods {
            objects.retain(is_pod);
        } else {
            deletion.are_pods_gone = true;
        }
        Self { objects, are_pods }
    }

    /// Deletes what nobody has deleted yet.
    fn deletions(&self) -> impl Iterator<Item = Write> {
        let objects = self.objects.iter();
        let left = objects.filter(|it| it.metadata().deletion_timestamp.is_none());
        left.map(|stored| {
            Write::Delete(Delete {
                key: stored.key(),
                uid: None,
                resource_version: None,
                grace_seconds: None,
                propagation: Some(Propagation::Background),
            })
        })
    }

    fn remaining(&self, namespace: &Namespace, now: i64) -> Remaining {
        let mut remaining = Remaining::default();
        let mut kinds: BTreeMap<Kind, Vec<&Stored>> = BTreeMap::new();
        for stored in &self.objects {
            kinds.entry(stored.kind()).or_default().push(stored);
            for finalizer in &stored.metadata().finalizers {
                *remaining.finalizers.entry(finalizer.clone()).or_default() += 1;
            }
        }
        for (kind, objects) in kinds {
            let has_finalizers = |it: &&Stored| !it.metadata().finalizers.is_empty();
            let seconds = match grace_seconds(&objects, namespace, now) {
                0 if objects.iter().any(has_finalizers) => FINALIZERS_SECONDS,
                seconds => seconds,
            };
            if seconds == 0 {
                remaining
                    .errors
                    .push(unexpected(&kind, &namespace.metadata.name));
            }
            remaining.seconds = remaining.seconds.max(seconds);
            remaining.kinds.push((kind, objects.len()));
        }
        if self.are_pods {
            // Upstream tells of what remains only when all of it has had its turn.
            remaining.kinds.clear();
            remaining.finalizers.clear();
        }
        remaining
    }
}

/// How long pods may take to end: the longest grace period of those that have not, from the
/// deletion of the namespace; 0 if that is over, and for other objects.
fn grace_seconds(objects: &[&Stored], namespace: &Namespace, now: i64) -> i64 {
    let pods = objects.iter().filter_map(|it| it.get::<Pod>());
    let pods = pods.filter(|pod| !pod.is_finished());
    let longest = pods
        .filter_map(|pod| pod.spec.termination_grace_period_seconds)
        .max();
    let seconds = longest.unwrap_or(0).max(0);
    let deleted_at = namespace
        .metadata
        .deletion_timestamp
        .as_deref()
        .and_then(unix_nanos);
    let passed = now.saturating_sub(deleted_at.unwrap_or(now));
    if passed >= seconds.saturating_mul(SECOND) {
        0
    } else {
        seconds
    }
}

fn unexpected(kind: &Kind, namespace: &str) -> String {
    let (api_version, resource) = (kind.api_version(), kind.plural());
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!(
        "unexpected items still remain in namespace: {namespace} for gvr: {slash}{api_version}, \
         Resource={resource}"
    )
}

/// What has not gone yet, as far as it is told.
#[derive(Debug, Default)]
struct Remaining {
    kinds: Vec<(Kind, usize)>,
    finalizers: BTreeMap<String, usize>,
    /// How long it is supposed to take.
    seconds: i64,
    errors: Vec<String>,
}

impl Remaining {
    /// The status that says so.
    fn status(&self, old: &NamespaceStatus, now: i64) -> NamespaceStatus {
        let mut status = old.clone();
        for (type_, reason, message) in CONDITIONS {
            let (is_true, reason, message) = match self.problem(type_) {
                Some((reason, message)) => ("True", reason, message),
                None => ("False", reason, message.to_owned()),
            };
            let mut new = NamespaceCondition {
                type_: type_.to_owned(),
                status: is_true.to_owned(),
                last_transition_time: Some(rfc3339(now)),
                reason: reason.to_owned(),
                message,
            };
            match status.conditions.iter_mut().find(|it| it.type_ == type_) {
                None => status.conditions.push(new),
                Some(old) => {
                    if old.status == new.status {
                        new.last_transition_time = old.last_transition_time.take();
                    }
                    *old = new;
                }
            }
        }
        status
    }

    /// Reason and message of a condition that is not well.
    fn problem(&self, type_: &str) -> Option<(&'static str, String)> {
        let sorted = |mut parts: Vec<String>| {
            parts.sort();
            parts.join(", ")
        };
        match type_ {
            CONTENT_FAILURE if !self.errors.is_empty() => {
                let (count, errors) = (self.errors.len(), sorted(self.errors.clone()));
                let text =
                    format!("Failed to delete all resource types, {count} remaining: {errors}");
                Some(("ContentDeletionFailed", text))
            }
            CONTENT_REMAINING if !self.kinds.is_empty() => {
                let kinds = self.kinds.iter().map(|(kind, count)| {
                    let (resource, group) = (kind.plural(), kind.group());
                    format!("{resource}.{group} has {count} resource instances")
                });
                let kinds = sorted(kinds.collect());
                let text = format!("Some resources are remaining: {kinds}");
                Some(("SomeResourcesRemain", text))
            }
            FINALIZERS_REMAINING if !self.finalizers.is_empty() => {
                let finalizers = self.finalizers.iter();
                let finalizers =
                    finalizers.map(|(name, count)| format!("{name} in {count} resource instances"));
                let finalizers = sorted(finalizers.collect());
                let text =
                    format!("Some content in the namespace has finalizers remaining: {finalizers}");
                Some(("SomeFinalizersRemain", text))
            }
            _ => None,
        }
    }
}

/// Takes us out of the finalizers.
fn finalized(stored: &Stored, namespace: &Namespace) -> Write {
    let finalizers = namespace.spec.finalizers.iter();
    let left: Vec<&String> = finalizers.filter(|it| *it != OURS).collect();
    let left = if left.is_empty() {
        Value::Null
    } else {
        json!(left)
    };
    Write::Patch(Box::new(Patch {
        key: stored.key(),
        subresource: Some(Subresource::Finalize),
        changes: json!({"spec": {"finalizers": left}}),
        uid: Some(stored.metadata().uid.clone()),
        resource_version: None,
    }))
}
