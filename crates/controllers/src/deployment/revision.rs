//! The ReplicaSet of the current template, and the numbers of revisions.
//!
//! Each template has a ReplicaSet whose name ends with the template's hash. The one in use has
//! the highest revision; rolling back to an old one gives it a new number, and it remembers its
//! old ones.

use outrank_api::decode::Object;
use outrank_api::types::{Deployment, ObjectMeta, ReplicaSet, StringMap};
use serde_json::{Map, json};

use super::scaling::within_range;
use super::{Rollout, Set};
use crate::claim::reference_to;
use crate::conditions;
use crate::controller::Plan;
use crate::deployment::status::{PROGRESSING, has_deadline, progressing};
use crate::generated_names::{NAME_BYTES_MAX, shortened, template_hash};
use crate::world::Stored;
use crate::write::{Create, Event, Refusal, Write, Written};

const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const HASH_LABEL: &str = "pod-template-hash";
/// Which revision to go back to.
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// Longest list of earlier revisions.
const HISTORY_BYTES_MAX: usize = 2000;

/// Annotations of a Deployment that its ReplicaSets do not get.
pub(super) const OWN_ANNOTATIONS: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    super::scaling::DESIRED,
    super::scaling::MAX,
    ROLLBACK_TO,
];

/// Whether the ReplicaSet of the current template is as it should be.
pub(super) enum Revision<'w> {
    /// It is.
    Ready(Set<'w>),
    /// It does not exist, and is not to be made.
    Absent,
    /// Something is written first.
    Moving,
}

impl Revision<'_> {
    pub(super) fn is_moving(&self) -> bool {
        matches!(self, Revision::Moving)
    }
}

/// The revision of a ReplicaSet; 0 if it has none that can be read.
pub(super) fn number(metadata: &ObjectMeta) -> i64 {
    parsed(metadata).unwrap_or(0)
}

/// The revision of a ReplicaSet; 0 without one, `None` if it cannot be read.
pub(super) fn parsed(metadata: &ObjectMeta) -> Option<i64> {
    let text = metadata.annotations.get(REVISION);
    text.map_or(Some(0), |it| it.parse().ok())
}

impl<'w> Rollout<'w> {
    /// Sees to the ReplicaSet of the current template: makes it if it is to be made, gives it its
    /// revision, and the Deployment the same.
    pub(super) fn revise(&self, is_made: bool, plan: &mut Plan) -> Revision<'w> {
        let revisions = self.old.iter().map(|it| number(&it.set.metadata));
        let next = revisions.max().unwrap_or(0).saturating_add(1);
        let Some(new) = self.new else {
            if !is_made {
                return Revision::Absent;
            }
            let create = self.create(next);
            let message = format!(
                "Created new replica set {:?}",
                create.object.metadata().name
            );
            plan.step([Write::Create(Box::new(create))]);
            plan.step(self.note_set("NewReplicaSetCreated", message));
            return Revision::Moving;
        };
        if let Some(write) = self.update(&new, next) {
            plan.step([write]);
            return Revision::Moving;
        }
        let writes = self.update_deployment(&new);
        if !writes.is_empty() {
            plan.step(writes);
            return Revision::Moving;
        }
        Revision::Ready(new)
    }

    /// What the Deployment says of the ReplicaSet: its revision, and that it was found or made.
    fn update_deployment(&self, new: &Set<'_>) -> Vec<Write> {
        let mut writes = Vec::new();
        let revision = new.set.metadata.annotations.get(REVISION);
        if let Some(revision) = revision
            && self.deployment.metadata.annotations.get(REVISION) != Some(revision)
        {
            let changes = json!({"metadata": {"annotations": {REVISION: revision}}});
            writes.push(Write::patch(self.stored, changes).through_status());
        }
        let conditions = &self.deployment.status.conditions;
        if conditions::find(conditions, PROGRESSING).is_none() {
            let message = format!("Found new replica set {:?}", new.set.metadata.name);
            writes.extend(self.note_set("FoundNewReplicaSet", message));
        }
        writes
    }

    /// Notes that the rollout has begun, if it has a deadline.
    fn note_set(&self, reason: &str, message: String) -> Option<Write> {
        let status = &self.deployment.status;
        let mut changed = status.clone();
        let noted = progressing("True", reason, message, self.now);
        conditions::set(&mut changed.conditions, noted);
        let write = Write::status(self.stored, status, &changed);
        write.filter(|_| has_deadline(self.deployment))
    }

    /// Brings the annotations and `minReadySeconds` of the ReplicaSet up to date.
    fn update(&self, new: &Set<'_>, next: i64) -> Option<Write> {
        let metadata = &new.set.metadata;
        let mut annotations = Map::new();
        for (name, value) in self.handed_down() {
            if metadata.annotations.get(name) != Some(value) {
                annotations.insert(name.clone(), value.as_str().into());
            }
        }
        let known = metadata.annotations.get(REVISION).map(String::as_str);
        let known = known.filter(|it| !it.is_empty());
        // One that is no number stays as it is.
        match known.map_or(Ok(0), str::parse::<i64>) {
            Ok(number) if number < next => {
                annotations.insert(REVISION.to_owned(), next.to_string().into());
                let history = known.and_then(|known| history(metadata, known));
                annotations.extend(history.map(|it| (REVISION_HISTORY.to_owned(), it.into())));
            }
            Ok(_) => {}
            Err(_) => annotations.clear(),
        }
        let mut changes = json!({});
        if !annotations.is_empty() {
            changes["metadata"]["annotations"] = annotations.into();
        }
        let seconds = self.deployment.spec.min_ready_seconds;
        if new.set.spec.min_ready_seconds != seconds {
            changes["spec"]["minReadySeconds"] = seconds.into();
        }
        let is_nothing = changes.as_object().is_none_or(|it| it.is_empty());
        (!is_nothing).then(|| Write::patch(new.stored, changes))
    }

    /// The annotations that ReplicaSets get from the Deployment.
    pub(super) fn handed_down(&self) -> impl Iterator<Item = (&'w String, &'w String)> {
        let annotations = self.deployment.metadata.annotations.iter();
        annotations.filter(|(name, _)| !OWN_ANNOTATIONS.contains(&name.as_str()))
    }

    fn create(&self, revision: i64) -> Create {
        let deployment = self.deployment;
        let source = self.stored.raw();
        let template = source.and_then(|it| it.pointer("/spec/template"));
        let collisions = deployment.status.collision_count;
        let hash = template_hash(&deployment.spec.template, template, collisions);
        let name = shortened(&deployment.metadata.name, NAME_BYTES_MAX - 1 - hash.len());
        let handed_down = self.handed_down().map(|(k, v)| (k.clone(), v.clone()));
        let mut annotations: StringMap = handed_down.collect();
        annotations.insert(REVISION.to_owned(), revision.to_string());
        let sizes = self.size_annotations();
        annotations.extend(sizes.map(|(name, value)| (name.to_owned(), value)));

        let mut set = ReplicaSet::default();
        set.spec.template = deployment.spec.template.clone();
        let labels = &mut set.spec.template.metadata.labels;
        labels.insert(HASH_LABEL.to_owned(), hash.clone());
        set.metadata = ObjectMeta {
            name: format!("{name}-{hash}"),
            namespace: deployment.metadata.namespace.clone(),
            labels: labels.clone(),
            annotations,
            owner_references: vec![reference_to(self.stored)],
            ..Default::default()
        };
        set.spec.replicas = Some(within_range(self.first_size()));
        set.spec.min_ready_seconds = deployment.spec.min_ready_seconds;
        let mut selector = deployment.spec.selector.clone().unwrap_or_default();
        selector.match_labels.insert(HASH_LABEL.to_owned(), hash);
        set.spec.selector = Some(selector);
        Create {
            object: Object::ReplicaSet(Box::new(set)),
            written: source.map(|source| Written {
                at: "/spec/template/spec",
                source: source.clone(),
                pointer: "/spec/template/spec".into(),
                edits: Vec::new(),
            }),
        }
    }
}

/// The revisions that a ReplicaSet has had before, with one more. The oldest are left out if there
/// are too many.
fn history(metadata: &ObjectMeta, last: &str) -> Option<String> {
    let before = metadata.annotations.get(REVISION_HISTORY);
    let Some(before) = before.filter(|it| !it.is_empty() && !it.starts_with(',')) else {
        return Some(last.to_owned());
    };
    let all = format!("{before},{last}");
    let surplus = all.len().saturating_sub(HISTORY_BYTES_MAX);
    let cuts = all.match_indices(',').map(|(comma, _)| comma + 1);
    let start = std::iter::once(0).chain(cuts).find(|it| *it >= surplus)?;
    Some(all[start..].to_owned())
}

/// What to write down when the ReplicaSet could not be made. If another has its name, the next
/// name is another.
pub(super) fn refused(
    stored: &Stored,
    deployment: &Deployment,
    create: &Create,
    refusal: &Refusal,
    now: i64,
) -> Vec<Write> {
    let mut status = deployment.status.clone();
    if refusal.already_exists() {
        let collisions = status.collision_count.get_or_insert(0);
        *collisions = collisions.saturating_add(1);
        return Vec::from_iter(Write::status(stored, &deployment.status, &status));
    }
    if refusal.namespace_ends() {
        return Vec::new();
    }
    let name = &create.object.metadata().name;
    let message = &refusal.message;
    let message = format!("Failed to create new replica set {name:?}: {message}");
    let reason = "ReplicaSetCreateError";
    let event = Event::warning(stored, reason, message.clone());
    if has_deadline(deployment) {
        let failed = progressing("False", reason, message, now);
        conditions::set(&mut status.conditions, failed);
    }
    let status = Write::status(stored, &deployment.status, &status);
    status.into_iter().chain([Write::Event(event)]).collect()
}
