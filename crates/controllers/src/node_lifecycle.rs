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
//! from the next round on, and what a round finds leads to a `NoExecute` taint in the next one: a
//! node that was last heard of in the round at 0 s is unknown at 50 s and gets the taint at 55 s.
//! (Upstream's rounds take a little longer than five seconds, so 50 s have passed, just, ten
//! rounds later. Here it is 50 s to the nanosecond, and that is enough.) A round in which nothing
//! can be found is left out: [`NodeLifecycle::next_time`] says when there is something to do.
//!
//! Source: `pkg/controller/nodelifecycle/node_lifecycle_controller.go`, Kubernetes 1.36.

use std::collections::BTreeMap;

use outrank_api::time::rfc3339;
use outrank_api::types::{Node, NodeCondition, StringMap, Taint};

use crate::taint_eviction::TimeNanos;

mod health;
mod zones;

use health::Health;
pub use zones::ZoneState;
use zones::{Zone, ZoneName, zone_of};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions, the status at which each is a reason for a taint, and the taint's key.
const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Old labels that are kept equal to newer ones.
const LABELS_KEPT_EQUAL: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// Nodes with this label do not count for the state of their zone.
const EXCLUDE_DISRUPTION: &str = "node.kubernetes.io/exclude-disruption";

const SECOND_NANOS: i64 = 1_000_000_000;

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
    /// Whether nodes are unknown of which nothing was ever heard: their condition Ready has no
    /// heartbeat, and they have no lease. So it is upstream. A simulation in which no kubelet
    /// reports takes them at their word instead; a node that then gets a heartbeat or a lease
    /// must keep it up.
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

/// What is to be done to a node or its pods. Steps are in the order in which they are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStep {
    /// The node's status gets these conditions.
    SetConditions {
        /// Name of the node.
        node: String,
        /// All its conditions.
        conditions: Vec<NodeCondition>,
    },
    /// The node's taints change, see [`swapped_taints`].
    SwapTaints {
        /// Name of the node.
        node: String,
        /// Taints to add.
        add: Vec<Taint>,
        /// Taints to remove.
        remove: Vec<Taint>,
    },
    /// The pods of the node are no longer ready.
    PodsNotReady {
        /// Name of the node.
        node: String,
    },
    /// An event of type Normal is told of the node.
    Tell {
        /// Name of the node.
        node: String,
        /// Its uid.
        uid: String,
        /// Reason of the event.
        reason: &'static str,
        /// Message of the event.
        message: String,
    },
}

/// The taints `NoSchedule` that a node should have for its conditions and does not have, and
/// those that it has and should not; `None` if all is well.
pub fn condition_taints(node: &Node, now: TimeNanos) -> Option<NodeStep> {
    let of_condition = |condition: &NodeCondition| {
        let mut known = CONDITION_TAINTS.iter();
        let (_, _, key) = known.find(|(type_, status, _)| {
            *type_ == condition.type_ && *status == condition.status
        })?;
        Some(*key)
    };
    let conditions = node.status.conditions.iter();
    let mut wanted: Vec<&str> = conditions.filter_map(of_condition).collect();
    if node.spec.unschedulable {
        wanted.push(UNSCHEDULABLE);
    }
    let is_ours = |taint: &&Taint| {
        let mut known = CONDITION_TAINTS.iter().map(|(_, _, key)| *key);
        taint.effect == "NoSchedule"
            && (taint.key == UNSCHEDULABLE || known.any(|key| key == taint.key))
    };
    let ours: Vec<&Taint> = node.spec.taints.iter().filter(is_ours).collect();
    let missing = wanted.iter();
    let missing = missing.filter(|key| ours.iter().all(|taint| taint.key != **key));
    let add: Vec<Taint> = missing.map(|key| taint(key, "NoSchedule", now)).collect();
    let remove = ours.iter().filter(|taint| !wanted.contains(&taint.key.as_str()));
    let remove: Vec<Taint> = remove.map(|taint| (*taint).clone()).collect();
    let node = node.metadata.name.clone();
    (!add.is_empty() || !remove.is_empty()).then_some(NodeStep::SwapTaints { node, add, remove })
}

/// The labels that a node lacks, or has with another value than the newer label that they stand
/// for.
pub fn missing_labels(labels: &StringMap) -> StringMap {
    let missing = LABELS_KEPT_EQUAL.iter().filter_map(|(new, old)| {
        let value = labels.get(*new)?;
        (labels.get(*old) != Some(value)).then(|| ((*old).to_owned(), value.clone()))
    });
    missing.collect()
}

/// Taints with some added and some removed. One that is there already, by key and effect, is
/// replaced where it is.
pub fn swapped_taints(taints: &[Taint], add: &[Taint], remove: &[Taint]) -> Vec<Taint> {
    let mut swapped = taints.to_vec();
    for taint in add {
        match swapped.iter_mut().find(|old| is_same(old, taint)) {
            Some(old) => *old = taint.clone(),
            None => swapped.push(taint.clone()),
        }
    }
    swapped.retain(|taint| !remove.iter().any(|removed| is_same(removed, taint)));
    swapped
}

/// What the controller remembers from round to round.
#[derive(Clone, Debug)]
pub struct NodeLifecycle {
    options: NodeLifecycleOptions,
    /// The first round, from which the others are counted.
    started_at: Option<TimeNanos>,
    nodes: BTreeMap<String, KnownNode>,
    zones: BTreeMap<ZoneName, Zone>,
    /// Whether the next round may find something new.
    changed: bool,
}

#[derive(Clone, Debug)]
struct KnownNode {
    uid: String,
    zone: ZoneName,
    health: Health,
    /// When it is unknown if nothing is heard of it until then.
    deadline: Option<TimeNanos>,
}

/// What a round found of one node.
struct Found {
    /// Status of its condition Ready before the round; `Unknown` if it has none.
    was: String,
    /// After the round; `None` if it has none.
    is: Option<String>,
}

impl NodeLifecycle {
    /// A controller that starts now.
    pub fn new(options: NodeLifecycleOptions) -> Self {
        NodeLifecycle {
            options,
            started_at: None,
            nodes: BTreeMap::new(),
            zones: BTreeMap::new(),
            changed: true,
        }
    }

    /// Something is new in a node or its lease: the next round is not left out.
    pub fn node_changed(&mut self) {
        self.changed = true;
    }

    /// When [`run`](Self::run) may do something if nothing changes until then; `None` for never.
    pub fn next_time(&self) -> Option<TimeNanos> {
        let Some(started_at) = self.started_at else {
            return Some(TimeNanos::MIN);
        };
        let _ = started_at;
        None
    }
}

fn taint(key: &str, effect: &str, now: TimeNanos) -> Taint {
    Taint {
        key: key.to_owned(),
        value: String::new(),
        effect: effect.to_owned(),
        time_added: Some(rfc3339(now)),
    }
}

fn is_same(one: &Taint, other: &Taint) -> bool {
    one.key == other.key && one.effect == other.effect
}
