//! What a rehearsal says: plain data, stable as JSON.
//!
//! The JSON form of [`Report`] is the output of `outrank rehearse -o json`; fields are
//! only ever added. Amounts are integers: `cpu` in thousandths of a core, memory and
//! storage in bytes, everything else in units.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::scenario::RefusedPod;

/// The outcome of a rehearsal.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Totals.
    pub summary: Summary,
    /// Pods that were placed, in the order in which they came.
    pub placed: Vec<PlacedPod>,
    /// Pods that wait, in the order in which they came.
    pub pending: Vec<PendingPod>,
    /// Pods that admission refused.
    pub refused: Vec<RefusedPod>,
    /// Pods that a change deletes or evicts, and those that their controllers delete because
    /// there are more than asked for.
    pub deleted: Vec<String>,
    /// Pods of other schedulers, which are left alone, by scheduler name.
    pub other_schedulers: BTreeMap<String, Vec<String>>,
    /// Pods that name their node and that the kubelet there would refuse.
    pub kubelet_refusals: Vec<KubeletRefusal>,
    /// Use of each resource over all nodes.
    pub resources: BTreeMap<String, ResourceUse>,
    /// The nodes by name.
    pub nodes: Vec<NodeReport>,
}

/// Totals of a rehearsal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Number of nodes.
    pub nodes: usize,
    /// Pods that were on a node before, and stay.
    pub running: usize,
    /// Pods that were placed.
    pub placed: usize,
    /// Pods that no node takes.
    pub unschedulable: usize,
    /// Pods that scheduling gates hold.
    pub gated: usize,
    /// Pods that could not be decided because something is wrong with them.
    pub errors: usize,
    /// Pods that admission refused.
    pub refused: usize,
    /// Pods of other schedulers.
    pub other_schedulers: usize,
    /// Pods that had ended (Succeeded or Failed).
    pub finished: usize,
    /// Pods that are being deleted before they got a node; they are left alone.
    pub terminating: usize,
}

impl Summary {
    /// Pods that wait, for whatever reason.
    pub fn pending(&self) -> usize {
        self.unschedulable + self.gated + self.errors
    }
}

/// A pod that was placed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `Kind/name` of its controller.
    pub owner: Option<String>,
    /// Priority.
    pub priority: i32,
    /// Name of its PriorityClass; empty if it has none.
    pub priority_class_name: String,
    /// The node it goes to.
    pub node: String,
    /// How many nodes could have taken it.
    pub feasible_nodes: usize,
    /// The node's score; 0 if it was the only one, which is not scored.
    pub score: i64,
}

/// A pod that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingPod {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `Kind/name` of its controller.
    pub owner: Option<String>,
    /// Priority.
    pub priority: i32,
    /// Name of its PriorityClass; empty if it has none.
    pub priority_class_name: String,
    /// How it waits.
    pub state: PendingState,
    /// kube-scheduler's message.
    pub message: String,
    /// Whether a real cluster might evict pods of lower priority for it: its policy allows
    /// that, there are such pods on nodes, and for some node it could help.
    pub may_preempt: bool,
    /// Reasons, most nodes first.
    pub reasons: Vec<PodReason>,
}

/// How a pod waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PendingState {
    /// No node takes it.
    Unschedulable,
    /// Scheduling gates hold it.
    Gated,
    /// Something is wrong with it.
    Error,
}

/// Why nodes refuse a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReason {
    /// How many nodes refuse it for exactly this.
    pub nodes: usize,
    /// The plugin that refuses.
    pub plugin: String,
    /// `Unschedulable`, or `UnschedulableAndUnresolvable` if no preemption could help.
    pub code: String,
    /// kube-scheduler's texts.
    pub reasons: Vec<String>,
}

/// A pod that the kubelet of its node would refuse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletRefusal {
    /// `namespace/name`.
    pub pod: String,
    /// The node that the pod names.
    pub node: String,
    /// What check it fails.
    pub reason: String,
    /// Details.
    pub message: String,
}

/// Use of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ResourceUse {
    /// What pods may use.
    pub allocatable: i64,
    /// Requested before the rehearsal.
    pub before: i64,
    /// Requested after it.
    pub after: i64,
}

/// A node after the rehearsal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeReport {
    /// Name.
    pub name: String,
    /// How many pods were placed there.
    pub placed: usize,
    /// Use of its resources.
    pub resources: BTreeMap<String, ResourceUse>,
}
