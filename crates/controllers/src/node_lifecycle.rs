//! Node lifecycle: what becomes of nodes that are not well, or not heard of.
//!
//! A kubelet reports on its node: in the conditions of the node's status, and every ten seconds by
//! renewing a lease. From that the controller makes taints, since taints are what schedulers and
//! evictions look at:
//!
//! * A condition that is not as it should be (Ready, MemoryPressure, DiskPressure, PIDPressure,
//!   NetworkUnavailable) becomes a taint `NoSchedule` at once: no new pods. So does cordoning
//!   ([`condition_taints`]).
//! * A node of which nothing is heard for the grace period (50 s) gets the condition Ready
//!   `Unknown`, and its pods are no longer ready.
//! * A node that is not ready, or unknown, gets a taint `NoExecute` as well; that sends its pods
//!   away when they do not tolerate it any longer ([`taint_eviction`](crate::taint_eviction)).
//!   Pods tolerate it for 300 s unless they say otherwise.
//!
//! If many nodes fail at once, the fault may lie in between, and moving all their pods would make
//! it worse. So `NoExecute` taints are given out zone by zone at a limited rate: one node in ten
//! seconds, slower or not at all if most of a zone is not ready ([`ZoneState`]). If no zone has a
//! ready node any more, they are even taken back.
//!
//! The controller looks at all nodes in rounds, every five seconds. What is new in a node is known
//! from the next round on: a node that was last heard of in the round at 0 s is unknown at 50 s, and
//! gets the taint `NoExecute` as soon as that is written, if it is its turn. (Upstream's rounds take a little longer than five seconds, so 50 s have passed, just, ten
//! rounds later. Here it is 50 s to the nanosecond, and that is enough.) A round in which nothing can be
//! found is left out.
//!
//! Source: `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};

use outrank_api::decode::ObjectKind;
use outrank_api::time::{rfc3339, unix_nanos};
use outrank_api::types::{Node, NodeCondition, Pod, PodCondition, StringMap, Taint};
use serde_json::{Value, json};

use crate::controller::{Controller, Plan};
use crate::pod_state::set_condition;
use crate::world::{Key, Kind, Seen, Stored, World};
use crate::write::{Event, Outcome, Refusal, Write};

mod health;
mod rounds;
mod zones;

use health::ready;
use rounds::{Finding, Rounds};
pub use zones::ZoneState;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions, the status at which each is a reason for a taint, and the taint's key.
const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Old labels that are kept equal to newer ones.
const LABELS_KEPT_EQUAL: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// The namespace of the leases that kubelets renew.
const LEASES: &str = "kube-node-lease";

/// Flags of kube-controller-manager, with its defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeLifecycleOptions {
    /// `--node-monitor-period`: time from round to round, in seconds.
    pub node_monitor_period_seconds: u32,
    /// `--node-monitor-grace-period`: how long nothing may be heard of a node, in seconds.
    pub node_monitor_grace_period_seconds: u32,
    /// `--node-startup-grace-period`: the same for a node that has never reported.
    pub node_startup_grace_period_seconds: u32,
    /// `--node-eviction-rate`: nodes of a zone that get the taint `NoExecute` in a second.
    pub node_eviction_rate: f64,
    /// `--secondary-node-eviction-rate`: the same if most of the zone is not ready and it is
    /// large; if it is small, none do.
    pub secondary_node_eviction_rate: f64,
    /// `--large-cluster-size-threshold`: a zone with more nodes is large.
    pub large_cluster_size_threshold: usize,
    /// `--unhealthy-zone-threshold`: the share of nodes not ready from which on it is most.
    pub unhealthy_zone_threshold: f32,
    /// Whether nodes are lost of which nothing was ever heard, though they say that they are
    /// ready or not: their condition Ready has no heartbeat, and they have no lease. So it is
    /// upstream. A simulation in which no kubelet reports takes them at their word instead; one
    /// that gets a heartbeat or a lease must keep it up.
    pub silent_nodes_are_lost: bool,
}

impl Default for NodeLifecycleOptions {
    fn default() -> Self {
        NodeLifecycleOptions {
            node_monitor_period_seconds: 5,
            node_monitor_grace_period_seconds: 50,
            node_startup_grace_period_seconds: 60,
            node_eviction_rate: 0.1,
            secondary_node_eviction_rate: 0.01,
            large_cluster_size_threshold: 50,
            unhealthy_zone_threshold: 0.55,
            silent_nodes_are_lost: true,
        }
    }
}

/// The controller.
#[derive(Clone, Debug)]
pub struct NodeLifecycleController {
    rounds: Rounds,
    /// The `NoExecute` taint that a node is to have, or that it is to have none of ours, until
    /// it is so.
    decided: BTreeMap<String, Option<&'static str>>,
    /// Nodes that were lost and whose pods may still say that they are ready.
    lost: BTreeSet<String>,
}

impl NodeLifecycleController {
    /// A controller that starts with the first node that it sees.
    pub fn new(options: NodeLifecycleOptions) -> Self {
        NodeLifecycleController {
            rounds: Rounds::new(options),
            decided: BTreeMap::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Looks at all nodes, if it is time, and taints those whose turn it is.
    fn look_around(&mut self, world: &World, now: i64) -> Plan {
        let mut plan = Plan::nothing();
        let nodes: Vec<&Node> = world.all::<Node>().collect();
        let renewed = |node: &str| lease_renewed(world, node);
        let mut findings = self.rounds.round(&nodes, &renewed, now);
        let is_unknown = |it: &Finding| matches!(it, Finding::Unknown { .. });
        // A node gets the taint for the condition that it has, so that is written first.
        if !findings.iter().any(is_unknown) {
            findings.extend(self.rounds.taint_next(world, now));
        }
        let mut statuses = Vec::new();
        let mut writes = Vec::new();
        for finding in findings {
            match finding {
                Finding::Unknown { node, conditions } => {
                    statuses.extend(status_write(world, &node, conditions));
                }
                Finding::Event {
                    node,
                    uid,
                    reason,
                    message,
                } => writes.push(Write::Event(node_event(&node, uid, reason, message))),
                Finding::Lost { node } => {
                    self.lost.insert(node);
                }
                Finding::NoExecute { node, key } => {
                    self.decided.insert(node, key);
                }
            }
        }
        writes.extend(self.pods_of_lost(world, now));
        // When statuses are written it is our turn again, and then for the taints.
        if statuses.is_empty() {
            writes.extend(self.taints_decided(world, now));
        }
        plan.step(statuses.into_iter().chain(writes));
        plan.look_again = self.rounds.next_time();
        plan
    }

    /// Makes the pods of lost nodes not ready. Nodes stay lost until it is so.
    fn pods_of_lost(&mut self, world: &World, now: i64) -> Vec<Write> {
        let mut writes = Vec::new();
        self.lost.retain(|node| {
            let before = writes.len();
            writes.extend(
                world
                    .pods_on(node)
                    .flat_map(|pod| not_ready(pod, world, now)),
            );
            writes.len() > before
        });
        writes
    }

    /// Writes the taints that were decided on, until they are there.
    fn taints_decided(&mut self, world: &World, now: i64) -> Vec<Write> {
        let mut writes = Vec::new();
        self.decided.retain(|name, key| {
            let stored = world.stored(&Key::new(ObjectKind::Node, "", name));
            let node = stored.and_then(|it| Some((it, it.get::<Node>()?)));
            let Some((stored, node)) = node else {
                return false;
            };
            // It may have come back since.
            let key = key.filter(|_| ready(node).is_none_or(|ready| ready.status != "True"));
            let swapped = no_execute_taints(&node.spec.taints, key, now);
            let is_so = swapped == node.spec.taints;
            writes.extend((!is_so).then(|| taints_write(stored, &swapped)));
            !is_so
        });
        writes
    }
}

impl Controller for NodeLifecycleController {
    fn name(&self) -> &'static str {
        "node-controller"
    }

    fn concerned(&mut self, seen: &Seen, _: &World, now: i64) -> Vec<Key> {
        match &seen.key.kind {
            Kind::Known(ObjectKind::Node) => {
                self.rounds.something_changed(now);
                vec![all_nodes(), seen.key.clone()]
            }
            Kind::Known(ObjectKind::Pod) => {
                let [old, new] = seen.both::<Pod>();
                let was_on = old.map_or("", |old| &old.spec.node_name);
                let is_new = new.is_some_and(|new| new.spec.node_name != was_on);
                Vec::from_iter(is_new.then(|| seen.key.clone()))
            }
            kind if kind.name() == "Lease" && &*seen.key.namespace == LEASES => {
                self.rounds.something_changed(now);
                vec![all_nodes()]
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&mut self, key: &Key, world: &World, now: i64) -> Plan {
        if *key == all_nodes() {
            return self.look_around(world, now);
        }
        let mut plan = Plan::nothing();
        let Some(stored) = world.stored(key) else {
            return plan;
        };
        if let Some(node) = stored.get::<Node>() {
            plan.step(node_changes(stored, node, now));
        }
        if let Some(pod) = stored.get::<Pod>()
            && let Some(node) = world.find::<Node>("", &pod.spec.node_name)
            && ready(node).is_some_and(|ready| ready.status != "True")
        {
            plan.step(not_ready(pod, world, now));
        }
        plan
    }

    fn refused(&mut self, _: &Key, _: &World, now: i64, _: &[(Write, Refusal)]) -> Vec<Write> {
        // What was found has not come about: the next round finds it again.
        self.rounds.something_changed(now);
        Vec::new()
    }

    fn tell(&self, _: &Key, _: &World, _: &Write, _: &Outcome) -> Option<Event> {
        None
    }
}

/// Stands for all nodes when it is their turn together.
fn all_nodes() -> Key {
    Key::new(ObjectKind::Node, "", "")
}

/// When the lease of a node was renewed, in nanoseconds since 1970.
fn lease_renewed(world: &World, node: &str) -> Option<i64> {
    let lease = Key::new(Kind::of("coordination.k8s.io/v1", "Lease"), LEASES, node);
    let lease = world.stored(&lease)?.raw()?;
    unix_nanos(lease.pointer("/spec/renewTime")?.as_str()?)
}

fn status_write(world: &World, node: &str, conditions: Vec<NodeCondition>) -> Option<Write> {
    let stored = world.stored(&Key::new(ObjectKind::Node, "", node))?;
    let old = &stored.get::<Node>()?.status;
    let mut new = old.clone();
    new.conditions = conditions;
    Some(Write::status(stored, old, &new)?.at_version(stored))
}

fn node_event(node: &str, uid: String, reason: &'static str, message: String) -> Event {
    Event {
        regarding: Key::new(ObjectKind::Node, "", node),
        uid,
        resource_version: String::new(),
        is_warning: false,
        reason: reason.into(),
        message,
    }
}

/// What makes a pod no longer ready, and tells so, if it has the condition and does not say so of
/// the pod as it is.
fn not_ready(pod: &Pod, world: &World, now: i64) -> Vec<Write> {
    let Some(stored) = world.stored(&Key::of::<Pod>(&pod.metadata)) else {
        return Vec::new();
    };
    let mut status = pod.status.clone();
    let ready = status.conditions.iter().find(|it| it.type_ == "Ready");
    let Some(ready) = ready else {
        return Vec::new();
    };
    let condition = PodCondition {
        status: "False".to_owned(),
        observed_generation: pod.metadata.generation,
        ..ready.clone()
    };
    if !set_condition(&mut status.conditions, condition, now) {
        return Vec::new();
    }
    let write = Write::status(stored, &pod.status, &status);
    let write = write.map(|write| write.at_version(stored));
    let event = Event::warning(stored, "NodeNotReady", "Node is not ready".to_owned());
    write.into_iter().chain([Write::Event(event)]).collect()
}

/// What a node gets as soon as it changes: taints of its conditions, and labels.
fn node_changes(stored: &Stored, node: &Node, now: i64) -> Option<Write> {
    let taints = condition_taints(node, now);
    let labels = missing_labels(&node.metadata.labels);
    if taints == node.spec.taints && labels.is_empty() {
        return None;
    }
    let Write::Patch(mut patch) = taints_write(stored, &taints) else {
        return None;
    };
    if !labels.is_empty() {
        patch.changes["metadata"] = json!({ "labels": labels });
    }
    Some(Write::Patch(patch))
}

fn taints_write(stored: &Stored, taints: &[Taint]) -> Write {
    let taints = match taints {
        [] => Value::Null,
        taints => json!(taints),
    };
    Write::patch(stored, json!({"spec": {"taints": taints}})).at_version(stored)
}

/// The taints of a node with the `NoSchedule` ones that its conditions ask for, and without those
/// that they do not ask for any more.
pub fn condition_taints(node: &Node, now: i64) -> Vec<Taint> {
    let of_condition = |condition: &NodeCondition| {
        let mut known = CONDITION_TAINTS.iter();
        let is_meant = |(type_, status, _): &&(&str, &str, &str)| {
            *type_ == condition.type_ && *status == condition.status
        };
        known.find(is_meant).map(|(_, _, key)| *key)
    };
    let conditions = node.status.conditions.iter();
    let mut wanted: Vec<&str> = conditions.filter_map(of_condition).collect();
    wanted.extend(node.spec.unschedulable.then_some(UNSCHEDULABLE));
    let is_ours = |key: &str| {
        key == UNSCHEDULABLE || CONDITION_TAINTS.iter().any(|(_, _, known)| *known == key)
    };
    let mut taints = node.spec.taints.clone();
    let is_there = |key: &str| {
        let mut taints = node.spec.taints.iter();
        taints.any(|taint| taint.key == key && taint.effect == "NoSchedule")
    };
    let missing = wanted.iter().filter(|key| !is_there(key));
    taints.extend(missing.map(|key| taint(key, "NoSchedule", now)));
    taints.retain(|taint| {
        let key = taint.key.as_str();
        taint.effect != "NoSchedule" || !is_ours(key) || wanted.contains(&key)
    });
    taints
}

/// The taints of a node with the `NoExecute` one of this key and without the other of ours.
fn no_execute_taints(taints: &[Taint], key: Option<&str>, now: i64) -> Vec<Taint> {
    let is_ours = |taint: &Taint| {
        taint.effect == "NoExecute" && matches!(taint.key.as_str(), NOT_READY | UNREACHABLE)
    };
    let mut swapped = taints.to_vec();
    swapped.retain(|taint| !is_ours(taint) || Some(taint.key.as_str()) == key);
    let is_there = swapped.iter().any(is_ours);
    swapped.extend(
        key.filter(|_| !is_there)
            .map(|key| taint(key, "NoExecute", now)),
    );
    swapped
}

/// The labels that a node lacks, or has with another value than the newer label that they stand
/// for.
fn missing_labels(labels: &StringMap) -> StringMap {
    let missing = LABELS_KEPT_EQUAL.iter().filter_map(|(new, old)| {
        let value = labels.get(*new)?;
        (labels.get(*old) != Some(value)).then(|| ((*old).to_owned(), value.clone()))
    });
    missing.collect()
}

fn taint(key: &str, effect: &str, now: i64) -> Taint {
    Taint {
        key: key.to_owned(),
        value: String::new(),
        effect: effect.to_owned(),
        time_added: Some(rfc3339(now)),
    }
}
