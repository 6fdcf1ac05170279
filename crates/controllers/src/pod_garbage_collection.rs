//! Pod garbage collection: pods that nobody else would remove.
//!
//! Every 20 seconds it is looked for
//!
//! * pods that have ended, if there are more than a threshold (12,500): the oldest go, evicted
//!   ones first;
//! * pods that are being deleted on a node that is not ready and has the taint
//!   `node.kubernetes.io/out-of-service`: somebody has said that the machine is off;
//! * orphans: pods on a node that is not there, when it has not been there for 40 seconds;
//! * pods that are being deleted and were never on a node: there is no kubelet to let them end.
//!
//! Those that have not ended are set to `Failed` first. All are removed at once, without grace.
//!
//! Source: `pkg/controller/podgc/gc_controller.go`, Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::decode::ObjectKind;
use outrank_api::types::{Node, Pod, PodCondition};

use crate::controller::{Controller, Plan};
use crate::pod_state::set_condition;
use crate::world::{Key, Kind, Seen, World};
use crate::write::{Delete, Event, Outcome, Write};

const SECOND: i64 = 1_000_000_000;

/// Time from one look to the next.
const CHECK_PERIOD: i64 = 20 * SECOND;

/// How long a node must not have been there.
const QUARANTINE: i64 = 40 * SECOND;

/// How many pods that have ended may stay, by default (`--terminated-pod-gc-threshold`).
pub const TERMINATED_PODS_MAX: usize = 12_500;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The controller.
#[derive(Clone, Debug)]
pub struct PodGarbageCollector {
    /// How many pods that have ended may stay; 0 for any number.
    terminated_max: usize,
    /// The first look; the others are counted from it.
    started_at: Option<i64>,
    /// Pods that have ended.
    ended: BTreeSet<Key>,
    /// Pods that are being deleted.
    going: BTreeSet<Key>,
    /// Nodes that have pods and may not be there, and since when a look has found them so.
    missing: BTreeMap<String, Option<i64>>,
}

impl PodGarbageCollector {
    /// A collector that lets so many pods stay that have ended; 0 is any number.
    pub fn new(terminated_max: usize) -> Self {
        PodGarbageCollector {
            terminated_max,
            started_at: None,
            ended: BTreeSet::new(),
            going: BTreeSet::new(),
            missing: BTreeMap::new(),
        }
    }

    fn note_pod(&mut self, seen: &Seen, world: &World) {
        let [_, new] = seen.both::<Pod>();
        let put = |pods: &mut BTreeSet<Key>, is_in: bool| match is_in {
            true => pods.insert(seen.key.clone()),
            false => pods.remove(&seen.key),
        };
        put(&mut self.ended, new.is_some_and(|pod| !is_alive(pod)));
        let is_going = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        put(&mut self.going, new.is_some_and(is_going));
        let node = new.map_or("", |pod| &pod.spec.node_name);
        if !node.is_empty() && world.find::<Node>("", node).is_none() {
            self.missing.entry(node.to_owned()).or_default();
        }
    }

    fn has_work(&self) -> bool {
        self.has_too_many() || !self.going.is_empty() || !self.missing.is_empty()
    }

    fn has_too_many(&self) -> bool {
        self.terminated_max > 0 && self.ended.len() > self.terminated_max
    }

    /// The pods to remove now, each with the condition that says why, if there is one.
    fn look(&mut self, world: &World, now: i64) -> BTreeMap<Key, Option<PodCondition>> {
        let mut found = BTreeMap::new();
        let pods = |keys: &BTreeSet<Key>| {
            let pods = keys.iter().filter_map(|key| world.get::<Pod>(key));
            pods.collect::<Vec<&Pod>>()
        };
        if self.has_too_many() {
            let mut ended = pods(&self.ended);
            let surplus = ended.len().saturating_sub(self.terminated_max);
            ended.sort_by_key(|pod| {
                let is_evicted = pod.status.phase == "Failed" && pod.status.reason == "Evicted";
                (
                    !is_evicted,
                    &pod.metadata.creation_timestamp,
                    &pod.metadata.name,
                )
            });
            found.extend(
                ended
                    .into_iter()
                    .take(surplus)
                    .map(|pod| (key_of(pod), None)),
            );
        }
        let going = pods(&self.going);
        let stuck = going.iter().filter(|pod| {
            let node = &pod.spec.node_name;
            node.is_empty() || world.find::<Node>("", node).is_some_and(is_out_of_service)
        });
        found.extend(stuck.map(|pod| (key_of(pod), None)));
        for node in self.gone_nodes(world, now) {
            let orphans = world.pods_on(&node);
            found.extend(orphans.map(|pod| (key_of(pod), Some(orphaned(pod)))));
        }
        found
    }

    /// Nodes whose quarantine is over. They are looked at anew if pods stay on them.
    fn gone_nodes(&mut self, world: &World, now: i64) -> Vec<String> {
        let mut gone = Vec::new();
        self.missing.retain(|node, since| {
            let is_there = world.find::<Node>("", node).is_some();
            if is_there || world.pods_on(node).next().is_none() {
                return false;
            }
            let since = *since.get_or_insert(now);
            let is_over = since.saturating_add(QUARANTINE) <= now;
            if is_over {
                gone.push(node.clone());
            }
            true
        });
        for node in &gone {
            self.missing.insert(node.clone(), None);
        }
        gone
    }
}

impl Default for PodGarbageCollector {
    fn default() -> Self {
        Self::new(TERMINATED_PODS_MAX)
    }
}

impl Controller for PodGarbageCollector {
    fn name(&self) -> &'static str {
        "pod-garbage-collector-controller"
    }

    fn concerned(&mut self, seen: &Seen, world: &World, now: i64) -> Vec<Key> {
        self.started_at.get_or_insert(now);
        match seen.key.kind {
            Kind::Known(ObjectKind::Pod) => self.note_pod(seen, world),
            Kind::Known(ObjectKind::Node) => {
                let node = &*seen.key.name;
                if seen.new.is_none() && world.pods_on(node).next().is_some() {
                    self.missing.entry(node.to_owned()).or_default();
                }
            }
            _ => return Vec::new(),
        }
        Vec::from_iter(self.has_work().then(all_pods))
    }

    fn reconcile(&mut self, _: &Key, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        let start = *self.started_at.get_or_insert(now);
        let since_last = (now - start).rem_euclid(CHECK_PERIOD);
        if since_last == 0 {
            let found = self.look(world, now);
            let failed = found.iter();
            plan.step(failed.filter_map(|(pod, why)| fail(pod, why.as_ref(), world, now)));
            plan.step(found.keys().filter_map(|pod| removal(pod, world)));
        }
        if self.has_work() {
            plan.look_at(now.saturating_add(CHECK_PERIOD - since_last));
        }
        plan
    }

    fn tell(&self, _: &Key, _: &World, _: &Write, _: &Outcome) -> Option<Event> {
        None
    }
}

/// Stands for all pods when it is their turn together.
fn all_pods() -> Key {
    Key::new(ObjectKind::Pod, "", "")
}

fn key_of(pod: &Pod) -> Key {
    Key::of::<Pod>(&pod.metadata)
}

/// Whether a pod has not ended. One without a phase has, for upstream.
fn is_alive(pod: &Pod) -> bool {
    matches!(pod.status.phase.as_str(), "Pending" | "Running" | "Unknown")
}

fn is_out_of_service(node: &Node) -> bool {
    let mut conditions = node.status.conditions.iter();
    let is_ready = conditions.any(|it| it.type_ == "Ready" && it.status == "True");
    let mut taints = node.spec.taints.iter();
    !is_ready && taints.any(|taint| taint.key == OUT_OF_SERVICE)
}

fn orphaned(pod: &Pod) -> PodCondition {
    PodCondition {
        type_: "DisruptionTarget".to_owned(),
        observed_generation: pod.metadata.generation,
        status: "True".to_owned(),
        reason: "DeletionByPodGC".to_owned(),
        message: "PodGC: node no longer exists".to_owned(),
        last_transition_time: None,
    }
}

/// Sets a pod to `Failed`, unless it has ended.
fn fail(key: &Key, why: Option<&PodCondition>, world: &World, now: i64) -> Option<Write> {
    let stored = world.stored(key)?;
    let pod = stored.get::<Pod>()?;
    if pod.is_finished() {
        return None;
    }
    let mut status = pod.status.clone();
    status.phase = "Failed".to_owned();
    status.observed_generation = pod.metadata.generation;
    if let Some(condition) = why {
        set_condition(&mut status.conditions, condition.clone(), now);
    }
    Some(Write::status(stored, &pod.status, &status)?.at_version(stored))
}

fn removal(key: &Key, world: &World) -> Option<Write> {
    let uid = world.stored(key)?.metadata().uid.clone();
    Some(Write::Delete(Delete {
        key: key.clone(),
        uid: Some(uid),
        resource_version: None,
        grace_seconds: Some(0),
        propagation: None,
    }))
}
