//! DaemonSets: one pod on every node that the template fits.
//!
//! The controller chooses the nodes; each pod gets a node affinity to its node, and tolerates
//! the taints that nodes in trouble get. When the template changes, pods are replaced node by
//! node: with `maxUnavailable`, the old one goes before the new one comes; with `maxSurge`, the new
//! one has to be available first. With the strategy `OnDelete` each is replaced when somebody
//! deletes it.
//!
//! Source: `pkg/controller/daemon`, Kubernetes 1.36.

mod rollout;
mod sums;

use std::collections::HashMap;

use outrank_api::decode::ObjectKind;
use outrank_api::labels::Selector;
use outrank_api::types::{
    ControllerRevision, DaemonSet, DaemonSetStatus, LabelSelector, Node, Pod,
};

use crate::controller::{Controller, Plan};
use crate::controller_revision::{Revision, Revisions, Template};
use crate::new_pod::NewPod;
use crate::pod_edit::PodEdit;
use crate::pod_state::{Availability, is_going};
use crate::replica_set::owners;
use crate::roster::{Rosters, uid_of_gone};
use crate::workloads::{Verdict, daemon_pod_order, daemon_tolerations};
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Event, Refusal, Write};

use self::sums::{Basis, DaemonSums};

/// How many pods are made, and how many deleted, at a time.
pub const BURST_REPLICAS: usize = 250;

pub(crate) const HASH_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// How long a node waits for another pod when one has failed: at first, and at most.
const BACK_OFF: i64 = 1_000_000_000;
const BACK_OFF_MAX: i64 = 15 * 60 * 1_000_000_000;

/// The controller of DaemonSets.
#[derive(Clone, Debug, Default)]
pub struct DaemonSetController {
    failures: Failures,
    rosters: Rosters<DaemonSums>,
}

/// Nodes where pods have failed, by uid and observed generation of the set and name of the node.
#[derive(Clone, Debug, Default)]
struct Failures(HashMap<(String, i64, String), BackOff>);

/// When the last failed pod was removed, and how long the next one stays.
#[derive(Clone, Copy, Debug)]
struct BackOff {
    since: i64,
    wait: i64,
}

impl Controller for DaemonSetController {
    fn name(&self) -> &'static str {
        "daemonset-controller"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, _: i64) -> Vec<Key> {
        match &seen.key.kind {
            Kind::Known(ObjectKind::DaemonSet) => {
                self.rosters.note_owner(seen);
                if let Some(uid) = uid_of_gone(seen) {
                    self.failures.0.retain(|(set, ..), _| set != uid);
                }
                vec![seen.key.clone()]
            }
            Kind::Known(ObjectKind::Pod) => {
                self.rosters.note(seen);
                owners::<DaemonSet>(seen, world)
            }
            Kind::Known(ObjectKind::ControllerRevision) => owners::<DaemonSet>(seen, world),
            Kind::Known(ObjectKind::Node) => {
                let is_alike = match seen.both::<Node>() {
                    [Some(old), Some(new)] => {
                        old.metadata.labels == new.metadata.labels
                            && old.spec.taints == new.spec.taints
                    }
                    _ => false,
                };
                if is_alike {
                    return Vec::new();
                }
                let node = seen.both::<Node>()[1];
                let sums = self.rosters.all_sums();
                sums.for_each(|it| it.note_node(&seen.key.name, node));
                let sets = world.all::<DaemonSet>();
                sets.map(|set| Key::of::<DaemonSet>(&set.metadata))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        let Some(stored) = world.stored(key) else {
            return plan;
        };
        let Some(set) = stored.get::<DaemonSet>() else {
            return plan;
        };
        if set.spec.selector == Some(LabelSelector::default()) {
            let message =
                "This daemon set is selecting all pods. A non-empty selector is required.";
            let event = Event::warning(stored, "SelectingAll", message.to_owned());
            plan.step([Write::Event(event)]);
        } else if set.metadata.deletion_timestamp.is_none() {
            self.go_on(stored, set, world, now, &mut plan);
        }
        plan
    }

    fn refused(
        &mut self,
        key: &Key,
        world: &World,
        _: i64,
        refusals: &[(Write, Refusal)],
    ) -> Vec<Write> {
        let is_collision = refusals.iter().any(|(write, refusal)| {
            let Write::Create(create) = write else {
                return false;
            };
            create.object.get::<ControllerRevision>().is_some() && refusal.already_exists()
        });
        let stored = world.stored(key).filter(|_| is_collision);
        let Some((stored, set)) = stored.and_then(|it| Some((it, it.get::<DaemonSet>()?))) else {
            return Vec::new();
        };
        let mut status = set.status.clone();
        let collisions = status.collision_count.get_or_insert(0);
        *collisions = collisions.saturating_add(1);
        Vec::from_iter(Write::status(stored, &set.status, &status))
    }
}

impl DaemonSetController {
    fn go_on(
        &mut self,
        stored: &Stored,
        set: &DaemonSet,
        world: &World,
        now: i64,
        plan: &mut Plan,
    ) {
        let Ok(selector) = Selector::from_label_selector(set.spec.selector.as_ref()) else {
            return;
        };
        let mut of_revisions = Plan::nothing();
        let revisions = Revisions::of(world, stored, &selector, &mut of_revisions);
        let revision = revisions.current(&template_of(stored, set));
        let hash = revision.as_ref().map_or("", hash_of);
        let basis = Basis {
            spec: set.spec.template.spec.clone(),
            hash: hash.to_owned(),
            generation: generation_of(set).cloned(),
            min_ready_seconds: set.spec.min_ready_seconds,
        };
        let Self { failures, rosters } = self;
        let roster = rosters.of(world, stored, &selector, &basis);
        plan.step(roster.claims(stored, |_| true));
        plan.steps.append(&mut of_revisions.steps);
        let revision = match revision {
            Ok(revision) => revision,
            Err(write) => return plan.step([*write]),
        };
        roster.sums.refresh(world, now);
        let turn = Turn {
            stored,
            set,
            world,
            now,
            hash: hash_of(&revision),
            sums: &roster.sums,
        };
        let status = turn.status(plan);
        plan.step(Write::status(stored, &set.status, &status));
        let mut changes = failures.manage(&turn, plan);
        if changes.is_empty() {
            changes = turn.roll();
        }
        turn.carry_out(changes, plan);
        // Of those in use, only the current one does not count.
        let is_old = |it: &Revision<'_>| it.name() != revision.name();
        let is_live = |it: &Revision<'_>| !is_old(it) || turn.sums.has_hash(hash_of(it));
        plan.step(revisions.truncate(set.spec.revision_history_limit, is_old, is_live));
    }
}

impl Failures {
    /// Which nodes lack a pod, and which pods should not be where they are.
    fn manage<'w>(&mut self, turn: &Turn<'w>, plan: &mut Plan) -> Changes<'w> {
        let mut changes = Changes::default();
        let mut lost = Vec::new();
        for (node, verdict) in turn.sums.attention() {
            let pods = turn.sums.pods_on(node);
            let staying = pods.iter().copied().filter(|pod| !is_going(pod));
            match verdict {
                Some(Verdict::Run) if pods.is_empty() => changes.create.push(node),
                Some(verdict @ (Verdict::Run | Verdict::Keep)) => {
                    let is_served = self.tidy(turn, node, &pods, &mut changes, plan);
                    // Where there may be two, the next one need not wait for the last to go.
                    if !is_served && verdict == Verdict::Run && turn.leeway().0 > 0 {
                        changes.create.push(node);
                    }
                }
                Some(Verdict::Leave) => changes.delete.extend(staying),
                // Pods that wait for a node that is not there would wait for ever.
                None => lost.extend(staying.filter(|pod| pod.spec.node_name.is_empty())),
            }
        }
        changes.delete.extend(lost);
        changes
    }

    /// Of the pods on a node that may have one, finds those that are too many or have ended. False if
    /// there are no others.
    fn tidy<'w>(
        &mut self,
        turn: &Turn<'w>,
        node: &'w str,
        pods: &[&'w Pod],
        changes: &mut Changes<'w>,
        plan: &mut Plan,
    ) -> bool {
        let mut running: Vec<&'w Pod> = Vec::new();
        for pod in pods.iter().copied().filter(|pod| !is_going(pod)) {
            let Pod { metadata, .. } = pod;
            let place = format!("{}/{} on node {node}", metadata.namespace, metadata.name);
            match pod.status.phase.as_str() {
                "Failed" => match self.may_replace(turn, node) {
                    Ok(()) => {
                        let message =
                            format!("Found failed daemon pod {place}, will try to kill it");
                        let event = Event::warning(turn.stored, "FailedDaemonPod", message);
                        changes.events.push(Write::Event(event));
                        changes.delete.push(pod);
                    }
                    Err(time) => plan.look_at(time),
                },
                "Succeeded" => {
                    let message =
                        format!("Found succeeded daemon pod {place}, will try to delete it");
                    let event = Event::normal(turn.stored, "SucceededDaemonPod", message);
                    changes.events.push(Write::Event(event));
                    changes.delete.push(pod);
                }
                _ => running.push(pod),
            }
        }
        running.sort_by(|a, b| daemon_pod_order(a, b));
        let is_served = !running.is_empty();
        match turn.leeway().0 {
            0 => changes.delete.extend(running.into_iter().skip(1)),
            _ => turn.keep_one_of_each(running, changes),
        }
        is_served
    }

    /// Whether a failed pod may be removed now, else when: a node where pods fail one after the
    /// other gets a new one ever more slowly.
    fn may_replace(&mut self, turn: &Turn<'_>, node: &str) -> Result<(), i64> {
        let uid = turn.set.metadata.uid.clone();
        let key = (uid, turn.set.status.observed_generation, node.to_owned());
        let wait = match self.0.get(&key) {
            Some(known) if turn.now - known.since < known.wait => {
                return Err(known.since + known.wait);
            }
            Some(known) if turn.now - known.since < 2 * BACK_OFF_MAX => {
                (known.wait * 2).min(BACK_OFF_MAX)
            }
            _ => BACK_OFF,
        };
        let since = turn.now;
        self.0.insert(key, BackOff { since, wait });
        Ok(())
    }
}

/// What is to be done on nodes.
#[derive(Default)]
struct Changes<'w> {
    events: Vec<Write>,
    /// Nodes that get a pod.
    create: Vec<&'w str>,
    delete: Vec<&'w Pod>,
}

impl Changes<'_> {
    fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }
}

/// One look at a set.
struct Turn<'w> {
    stored: &'w Stored,
    set: &'w DaemonSet,
    world: &'w World,
    now: i64,
    hash: &'w str,
    sums: &'w DaemonSums,
}

/// The template of a set, of which there is to be a revision.
pub(crate) fn template_of<'w>(stored: &'w Stored, set: &'w DaemonSet) -> Template<'w> {
    Template {
        owner: stored,
        template: &set.spec.template,
        collisions: set.status.collision_count,
        hash_label: HASH_LABEL,
    }
}

/// What pods of a revision have as label; empty if it does not say.
fn hash_of<'w>(revision: &Revision<'w>) -> &'w str {
    let hash = revision.revision.metadata.labels.get(HASH_LABEL);
    hash.map_or("", String::as_str)
}

/// The number of the template as an annotation says it.
fn generation_of(set: &DaemonSet) -> Option<&String> {
    let text = set.metadata.annotations.get(GENERATION_ANNOTATION);
    text.filter(|it| it.parse::<i64>().is_ok())
}

impl<'w> Turn<'w> {
    fn is_available(&self, pod: &Pod) -> bool {
        self.sums.availability(pod, self.now) == Availability::Now
    }

    fn carry_out(&self, changes: Changes<'w>, plan: &mut Plan) {
        plan.step(changes.events);
        let create = changes.create.into_iter().take(BURST_REPLICAS);
        plan.slow_start(create.map(|node| self.new_pod(node)));
        let delete = changes.delete.into_iter().take(BURST_REPLICAS);
        let delete = delete.filter_map(|it| self.world.stored(&Key::of::<Pod>(&it.metadata)));
        plan.step(delete.map(|it| Write::delete(it)));
    }

    fn new_pod(&self, node: &str) -> Write {
        let template = &self.set.spec.template;
        let mut pod = NewPod::of(self.stored, template, "/spec/template/spec");
        if let Some(generation) = generation_of(self.set) {
            pod.label(GENERATION_LABEL, generation.as_str());
        }
        pod.label(HASH_LABEL, self.hash);
        let tolerations = daemon_tolerations(template.spec.host_network);
        pod.edits.push(PodEdit::Node(node.to_owned()));
        pod.edits
            .extend(tolerations.into_iter().map(PodEdit::Toleration));
        pod.create()
    }

    fn status(&self, plan: &mut Plan) -> DaemonSetStatus {
        let old = &self.set.status;
        let counts = self.sums.counts();
        self.sums
            .next_time()
            .into_iter()
            .for_each(|time| plan.look_at(time));
        DaemonSetStatus {
            observed_generation: self.set.metadata.generation,
            collision_count: old.collision_count,
            conditions: old.conditions.clone(),
            desired_number_scheduled: counts.desired,
            number_misscheduled: counts.misscheduled,
            current_number_scheduled: counts.current,
            updated_number_scheduled: counts.updated,
            number_ready: counts.ready,
            number_available: counts.available,
            number_unavailable: counts.desired - counts.available,
        }
    }
}
