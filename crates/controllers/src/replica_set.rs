//! ReplicaSets and ReplicationControllers: so many pods, all alike.
//!
//! Missing pods are made in steps of 1, 2, 4, ..., surplus ones are deleted where it hurts least
//! (`deletion_order`). The status counts what there is; if pods cannot be made or deleted, the
//! condition `ReplicaFailure` says why until they can.
//!
//! Source: `pkg/controller/replicaset`, Kubernetes 1.36; that of ReplicationControllers is the
//! same code.

mod sums;

use std::sync::Arc;

use outrank_api::decode::{ObjectKind, Typed};
use outrank_api::labels::Selector;
use outrank_api::time::rfc3339;
use outrank_api::types::{
    DaemonSet, Deployment, Job, Pod, PodTemplateSpec, ReplicaSet, ReplicaSetStatus,
    ReplicationController, StatefulSet, WorkloadCondition,
};

use crate::controller::{Controller, Plan};
use crate::new_pod::NewPod;
use crate::pod_state::is_active;
use crate::roster::{Roster, Rosters};
use crate::workloads::first_of_replica_set;
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Refusal, Write};

use self::sums::{Basis, ReplicaSums};

/// How many pods are made or deleted at a time.
pub const BURST_REPLICAS: usize = 500;

const FAILURE: &str = "ReplicaFailure";

/// The controller of ReplicaSets, or of ReplicationControllers.
#[derive(Clone, Debug)]
pub struct ReplicaSetController {
    kind: ObjectKind,
    burst_replicas: usize,
    rosters: Rosters<ReplicaSums>,
}

impl Default for ReplicaSetController {
    fn default() -> Self {
        Self {
            kind: ObjectKind::ReplicaSet,
            burst_replicas: BURST_REPLICAS,
            rosters: Rosters::default(),
        }
    }
}

impl ReplicaSetController {
    /// The controller of ReplicaSets.
    pub fn new() -> Self {
        Self::default()
    }

    /// The controller of ReplicationControllers.
    pub fn of_replication_controllers() -> Self {
        Self {
            kind: ObjectKind::ReplicationController,
            ..Self::new()
        }
    }

    /// The same with another limit to how many pods are made or deleted at a time.
    pub fn with_burst(self, burst_replicas: usize) -> Self {
        Self {
            burst_replicas,
            ..self
        }
    }

    /// The pods of a set.
    fn roster(&mut self, set: &Replicas<'_>, world: &World) -> &mut Roster<ReplicaSums> {
        let basis = Basis {
            min_ready_seconds: set.min_ready_seconds,
            labels: set.template.metadata.labels.clone(),
        };
        self.rosters.of(world, set.stored, &set.selector, &basis)
    }
}

impl Controller for ReplicaSetController {
    fn name(&self) -> &'static str {
        match self.kind {
            ObjectKind::ReplicationController => "replication-controller",
            _ => "replicaset-controller",
        }
    }

    fn concerned(&mut self, seen: &Seen, world: &World, _: i64) -> Vec<Key> {
        match &seen.key.kind {
            Kind::Known(kind) if *kind == self.kind => {
                self.rosters.note_owner(seen);
                vec![seen.key.clone()]
            }
            Kind::Known(ObjectKind::Pod) => {
                self.rosters.note(seen);
                match self.kind {
                    ObjectKind::ReplicationController => {
                        owners::<ReplicationController>(seen, world)
                    }
                    _ => owners::<ReplicaSet>(seen, world),
                }
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        let Some(set) = world.stored(key).and_then(|it| Replicas::of(it)) else {
            return plan;
        };
        let burst = self.burst_replicas;
        let roster = self.roster(&set, world);
        plan.step(roster.claims(set.stored, is_active));
        if set.stored.metadata().deletion_timestamp.is_none() {
            bring_to_number(&set, &roster.sums, burst, world, now, &mut plan);
        }
        let status = set.status_of(&mut roster.sums, now, &mut plan);
        plan.step(Write::status(set.stored, set.status, &status));
        plan
    }

    fn refused(
        &mut self,
        key: &Key,
        world: &World,
        now: i64,
        refusals: &[(Write, Refusal)],
    ) -> Vec<Write> {
        let set = world.stored(key).and_then(|it| Replicas::of(it));
        let (Some(set), Some((write, refusal))) = (set, refusals.first()) else {
            return Vec::new();
        };
        let error = &refusal.message;
        let (reason, message) = match write {
            Write::Create(_) => ("FailedCreate", error.clone()),
            Write::Delete(_) => ("FailedDelete", format!("unable to delete pods: {error}")),
            Write::Patch(_) | Write::Bind(_) | Write::Event(_) => return Vec::new(),
        };
        let sums = &mut self.roster(&set, world).sums;
        let mut status = set.status_of(sums, now, &mut Plan::nothing());
        status.conditions = set.status.conditions.clone();
        if !status.conditions.iter().any(|it| it.type_ == FAILURE) {
            status.conditions.push(WorkloadCondition {
                type_: FAILURE.to_owned(),
                status: "True".to_owned(),
                last_transition_time: Some(rfc3339(now)),
                reason: reason.to_owned(),
                message,
                ..Default::default()
            });
        }
        Vec::from_iter(Write::status(set.stored, set.status, &status))
    }
}

/// Makes what is missing or deletes what is too much, at most `burst` pods at a time.
fn bring_to_number(
    set: &Replicas<'_>,
    sums: &ReplicaSums,
    burst: usize,
    world: &World,
    now: i64,
    plan: &mut Plan,
) {
    let (wanted, count) = (set.replicas, sums.active.len());
    if count < wanted {
        let missing = (wanted - count).min(burst);
        let new = || NewPod::of(set.stored, set.template, "/spec/template/spec").create();
        plan.slow_start(std::iter::repeat_with(new).take(missing));
        return;
    }
    let surplus = (count - wanted).min(burst);
    if wanted == 0 {
        // All go; which of them first, upstream says, but nobody can tell.
        let all = sums.active.values().take(surplus);
        plan.step(all.map(|pod| Write::delete(pod)));
    } else if surplus > 0 {
        let pods = sums.active.values().filter_map(|it| it.get::<Pod>());
        let related = related_pods(set.stored, world);
        let first = first_of_replica_set(pods.collect(), surplus, &related, Some(now));
        let keys = first.iter().map(|pod| Key::of::<Pod>(&pod.metadata));
        let stored = keys.filter_map(|key| world.stored(&key));
        plan.step(stored.map(|pod| Write::delete(pod)));
    }
}

/// A ReplicaSet or a ReplicationController.
struct Replicas<'w> {
    stored: &'w Stored,
    replicas: usize,
    min_ready_seconds: i32,
    selector: Selector,
    template: &'w PodTemplateSpec,
    status: &'w ReplicaSetStatus,
    counts_terminating: bool,
}

impl<'w> Replicas<'w> {
    /// `None` if it is something else, or its selector cannot be read.
    fn of(stored: &'w Stored) -> Option<Self> {
        let count = |replicas: Option<i32>| usize::try_from(replicas.unwrap_or(1)).unwrap_or(0);
        if let Some(set) = stored.get::<ReplicaSet>() {
            return Some(Self {
                stored,
                replicas: count(set.spec.replicas),
                min_ready_seconds: set.spec.min_ready_seconds,
                selector: Selector::from_label_selector(set.spec.selector.as_ref()).ok()?,
                template: &set.spec.template,
                status: &set.status,
                counts_terminating: true,
            });
        }
        let controller = stored.get::<ReplicationController>()?;
        Some(Self {
            stored,
            replicas: count(controller.spec.replicas),
            min_ready_seconds: controller.spec.min_ready_seconds,
            selector: Selector::from_set(&controller.spec.selector),
            template: &controller.spec.template,
            status: &controller.status,
            counts_terminating: false,
        })
    }

    /// The status, given the sums over its pods, without a failure.
    fn status_of(&self, sums: &mut ReplicaSums, now: i64, plan: &mut Plan) -> ReplicaSetStatus {
        let mut conditions = self.status.conditions.clone();
        conditions.retain(|it| it.type_ != FAILURE);
        let (available, next) = sums.available(now);
        next.into_iter().for_each(|time| plan.look_at(time));
        let count = |pods: usize| i32::try_from(pods).unwrap_or(i32::MAX);
        ReplicaSetStatus {
            replicas: count(sums.active.len()),
            fully_labeled_replicas: count(sums.fully_labeled),
            ready_replicas: count(sums.ready),
            available_replicas: count(available),
            terminating_replicas: self.counts_terminating.then(|| count(sums.terminating)),
            observed_generation: self.stored.metadata().generation,
            conditions,
        }
    }
}

/// The pods of all ReplicaSets of the same owner: where they are crowded, one goes first. A set
/// without owner has none, as upstream looks for them by the owner.
fn related_pods<'w>(set: &'w Stored, world: &'w World) -> Vec<&'w Pod> {
    let owner = set.metadata().controller().into_iter();
    let sets = owner.flat_map(|owner| world.dependents_of_kind(&owner.uid, ReplicaSet::KIND));
    let pods = sets.flat_map(|set| world.dependents_of_kind(&set.metadata().uid, Pod::KIND));
    pods.filter_map(|it| it.get()).collect()
}

/// The owners of a type that a change of an object concerns: those that manage it or did, and
/// if nobody does, those whose selector it matches.
pub(crate) fn owners<T: Typed + Selecting>(seen: &Seen, world: &World) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for object in [&seen.old, &seen.new].into_iter().flatten() {
        let metadata = object.metadata();
        match metadata.controller() {
            Some(owner) if owner.kind == T::KIND.name() => {
                let key = Key::new(T::KIND, &metadata.namespace, &owner.name);
                let is_meant = |it: &&Arc<Stored>| it.metadata().uid == owner.uid;
                if world.stored(&key).filter(is_meant).is_some() && !keys.contains(&key) {
                    keys.push(key);
                }
            }
            Some(_) => {}
            None if seen
                .new
                .as_ref()
                .is_some_and(|new| Arc::ptr_eq(new, object)) =>
            {
                let selecting = world.within::<T>(&metadata.namespace);
                let matching = selecting.filter(|it| it.selects(&metadata.labels));
                keys.extend(matching.map(|it| Key::of::<T>(it.metadata_of())));
            }
            None => {}
        }
    }
    keys
}

/// Selects objects by label.
pub(crate) trait Selecting {
    /// Its metadata.
    fn metadata_of(&self) -> &outrank_api::types::ObjectMeta;
    /// Whether objects with these labels are selected; an empty selector selects none.
    fn selects(&self, labels: &outrank_api::types::StringMap) -> bool;
}

macro_rules! selecting {
    ($($kind:ty,)*) => {$(
        impl Selecting for $kind {
            fn metadata_of(&self) -> &outrank_api::types::ObjectMeta {
                &self.metadata
            }

            fn selects(&self, labels: &outrank_api::types::StringMap) -> bool {
                Selector::from_label_selector(self.spec.selector.as_ref())
                    .is_ok_and(|selector| !selector.is_empty() && selector.matches(labels))
            }
        }
    )*};
}

selecting!(ReplicaSet, Deployment, StatefulSet, DaemonSet, Job,);

impl Selecting for ReplicationController {
    fn metadata_of(&self) -> &outrank_api::types::ObjectMeta {
        &self.metadata
    }

    fn selects(&self, labels: &outrank_api::types::StringMap) -> bool {
        !self.spec.selector.is_empty() && Selector::from_set(&self.spec.selector).matches(labels)
    }
}
