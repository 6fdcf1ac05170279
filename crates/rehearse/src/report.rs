//! What a rehearsal says: plain data, stable as JSON.
//!
//! The JSON form of [`Report`] is the output of `outrank rehearse -o json`; fields are
//! only ever added. Amounts are integers: `cpu` in thousandths of a core, memory and
//! storage in bytes, everything else in units.

use std::collections::{BTreeMap, HashSet};

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
    /// Pods that are killed so that others have a place, in the order in which they go.
    pub victims: Vec<Victim>,
    /// Pods that were killed and made again more often than is told.
    pub loops: Vec<PreemptionLoop>,
    /// Pods that admission refused.
    pub refused: Vec<RefusedPod>,
    /// Pods that a change deletes or evicts, and those that their controllers delete because
    /// there are more than asked for.
    pub deleted: Vec<String>,
    /// Pods of other schedulers, which are left alone, by scheduler name.
    pub other_schedulers: BTreeMap<String, Vec<String>>,
    /// Pods that name their node and that the kubelet there refuses.
    pub kubelet_refusals: Vec<KubeletRefusal>,
    /// Use of each resource over all nodes.
    pub resources: BTreeMap<String, ResourceUse>,
    /// The nodes by name.
    pub nodes: Vec<NodeReport>,
    /// What every node says to the pods that were asked for.
    pub explanations: Vec<Explanation>,
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
    /// Pods that are killed so that others have a place; if there is a change, those only that
    /// would not be killed without it.
    pub victims: usize,
    /// Those of them that a PodDisruptionBudget does not allow to go.
    pub pdb_violations: usize,
    /// Pods that would be killed without the change, too.
    pub victims_without_change: usize,
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
    /// kube-scheduler's message, all of it.
    pub message: String,
    /// The part of it that says why nodes refuse the pod.
    pub filter_message: String,
    /// Why nobody is killed for it; `null` if preemption is off, or somebody is.
    pub no_preemption: Option<NoPreemption>,
    /// Whether pods of lower priority might be killed for it were preemption on, where it is
    /// off: its policy allows that, there are such pods on nodes, and for some node it could
    /// help.
    pub may_preempt: bool,
    /// Reasons, most nodes first.
    pub reasons: Vec<PodReason>,
}

/// A pod that is killed so that another has a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Victim {
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
    /// The node that it loses.
    pub node: String,
    /// GPUs that it holds.
    pub gpus: i64,
    /// For how long it has run, up to the newest time that the input tells; `null` if it does
    /// not tell when the pod started.
    pub running_seconds: Option<u64>,
    /// How long it may take to end, in seconds.
    pub grace_seconds: i64,
    /// `namespace/name` of the pod that has it killed.
    pub killed_by: String,
    /// The priority of that pod.
    pub killed_by_priority: i32,
    /// Whether a PodDisruptionBudget does not allow it to go.
    pub pdb_violated: bool,
    /// Whether the kubelet kills it, for a critical pod that came to its node, and not the
    /// scheduler.
    pub by_kubelet: bool,
    /// How many kills there are up to this one, each by the replacement of the victim before;
    /// 1 if no other kill led to it.
    pub chain_length: usize,
    /// What becomes of the pod that its controller makes in its place.
    pub replacement: Replacement,
    /// Whether it is killed without the change, too.
    pub without_change: bool,
}

impl Victim {
    /// `namespace/name`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The pod that is made in place of a victim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replacement {
    /// Its `namespace/name`.
    pub pod: Option<String>,
    /// What becomes of it.
    pub state: ReplacementState,
    /// The node it goes to.
    pub node: Option<String>,
}

/// What becomes of the pod that is made in place of a victim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum ReplacementState {
    /// Nobody makes one: the victim has no controller.
    #[default]
    Nobody,
    /// It finds a place.
    Placed,
    /// It waits.
    Waiting,
    /// Admission refuses it.
    Refused,
    /// It is killed in turn.
    Killed,
    /// It was killed and made again so often that it is no longer followed.
    Loop,
}

/// A pod that is killed and made again, over and over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionLoop {
    /// `namespace/name` of the first pod.
    pub pod: String,
    /// `Kind/name` of its controller, which makes it anew.
    pub owner: Option<String>,
    /// `namespace/name` of the pod that was killed last, in the place of the first.
    pub last_pod: String,
    /// How often it was killed.
    pub kills: usize,
    /// `namespace/name` of the pod that had it killed last.
    pub killed_by: String,
}

impl Report {
    /// Marks the victims that `without`, the report of the same cluster without the change,
    /// has as well, and counts the others.
    pub fn compare(&mut self, without: &Report) {
        let before: HashSet<String> = without.victims.iter().map(Victim::key).collect();
        for victim in &mut self.victims {
            victim.without_change = before.contains(&victim.key());
        }
        self.count_victims();
    }

    /// Counts victims for the summary.
    pub(crate) fn count_victims(&mut self) {
        let caused = || self.victims.iter().filter(|it| !it.without_change);
        self.summary.victims = caused().count();
        self.summary.pdb_violations = caused().filter(|it| it.pdb_violated).count();
        self.summary.victims_without_change = self.victims.len() - self.summary.victims;
    }
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
    /// It was killed and made again so often that it is no longer followed.
    Loop,
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

/// Why nobody is killed for a pod that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoPreemption {
    /// kube-scheduler's text.
    pub message: String,
    /// Why it would not help on nodes that were tried, most nodes first.
    pub tried: Vec<PodReason>,
}

/// A pod that the kubelet of its node refuses: it fails, and uses nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletRefusal {
    /// `namespace/name`.
    pub pod: String,
    /// The node that the pod names.
    pub node: String,
    /// The reason in its status, such as `OutOfcpu`; `NodeNotFound` if there is no such node.
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

/// What every node says to one pod in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `namespace/name`.
    pub pod: String,
    /// Its priority.
    pub priority: i32,
    /// The node that it is on. The nodes are asked as if it was not, and looked for a place.
    pub node: Option<String>,
    /// What is wrong with the pod, so that it is not decided.
    pub error: Option<String>,
    /// Whether it may have others killed; `null` if that was not asked, since a node takes it or
    /// preemption is off.
    pub may_preempt: Option<bool>,
    /// kube-scheduler's text why nobody is killed for it.
    pub no_preemption: Option<String>,
    /// The nodes, the best first, and those that refuse the pod by name.
    pub nodes: Vec<NodeExplanation>,
}

/// What one node says to a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeExplanation {
    /// The node.
    pub node: String,
    /// Why it does not take the pod; `null` if it does.
    pub refusal: Option<NodeRefusal>,
    /// Its score; `null` if it does not take the pod.
    pub score: Option<i64>,
    /// The parts of the score by plugin, weighted.
    pub scores: BTreeMap<String, i64>,
    /// What preemption would do there; `null` if it was not tried.
    pub preemption: Option<NodePreemption>,
}

/// Why a node does not take a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeRefusal {
    /// The plugin that refuses.
    pub plugin: String,
    /// `Unschedulable`, or `UnschedulableAndUnresolvable` if no preemption could help.
    pub code: String,
    /// kube-scheduler's texts.
    pub reasons: Vec<String>,
}

/// What preempting for a pod would do on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePreemption {
    /// Why it would not help; `null` if it would.
    pub refusal: Option<NodeRefusal>,
    /// Pods (`namespace/name`) that would be killed, the most important first.
    pub victims: Vec<String>,
    /// How many of them a PodDisruptionBudget does not allow to go.
    pub pdb_violations: usize,
    /// Whether no other node is better.
    pub is_best: bool,
}
