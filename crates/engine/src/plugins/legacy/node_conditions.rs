//! The predicates that looked at the conditions of a node, before these became taints:
//! CheckNodeCondition, CheckNodeMemoryPressure, CheckNodeDiskPressure and
//! CheckNodePIDPressure.
//!
//! A node must be ready, have a network, not be out of disk and not be cordoned; all that is
//! wrong is told. A node under pressure takes no pods, one with too little memory only
//! those that request or limit something.
//! Source: `algorithm/predicates/predicates.go`, Kubernetes 1.13 (1.12 for OutOfDisk).

use outrank_api::types::NodeCondition;

use crate::cluster::Cluster;
use crate::framework::{Code, DependsOn, FilterPlugin, Plugin, Reason, Refusal};
use crate::ids::NodeId;
use crate::pod_class::PodClass;

/// What of a node's conditions keeps pods away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeConditions {
    not_ready: bool,
    out_of_disk: bool,
    network_unavailable: bool,
    memory_pressure: bool,
    disk_pressure: bool,
    pid_pressure: bool,
}

impl NodeConditions {
    /// Compiles conditions. One that the node does not have keeps nothing away.
    pub(crate) fn compile(conditions: &[NodeCondition]) -> Self {
        let mut compiled = Self::default();
        for NodeCondition { type_, status, .. } in conditions {
            let (is_true, is_false) = (status == "True", status == "False");
            match type_.as_str() {
                "Ready" => compiled.not_ready |= !is_true,
                "OutOfDisk" => compiled.out_of_disk |= !is_false,
                "NetworkUnavailable" => compiled.network_unavailable |= !is_false,
                "MemoryPressure" => compiled.memory_pressure = is_true,
                "DiskPressure" => compiled.disk_pressure = is_true,
                "PIDPressure" => compiled.pid_pressure = is_true,
                _ => {}
            }
        }
        compiled
    }
}

/// One of the predicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeConditionPredicate {
    /// The node is ready, has a network and a disk, and is not cordoned.
    Condition,
    /// The node has enough memory, or the pod is not of class BestEffort.
    MemoryPressure,
    /// The node has enough disk.
    DiskPressure,
    /// The node has enough process identifiers.
    PidPressure,
}

impl NodeConditionPredicate {
    /// Name of the first in a Policy.
    pub const CONDITION: &'static str = "CheckNodeCondition";
    /// Name of the second in a Policy.
    pub const MEMORY_PRESSURE: &'static str = "CheckNodeMemoryPressure";
    /// Name of the third in a Policy.
    pub const DISK_PRESSURE: &'static str = "CheckNodeDiskPressure";
    /// Name of the fourth in a Policy.
    pub const PID_PRESSURE: &'static str = "CheckNodePIDPressure";

    fn reasons(self, class: &PodClass, cluster: &Cluster, node: NodeId) -> Vec<Reason> {
        let legacy = cluster.legacy_node(node);
        let conditions = legacy.map_or_else(NodeConditions::default, |node| node.conditions);
        let is_best_effort = || class.legacy.as_ref().is_some_and(|pod| pod.is_best_effort);
        let checks = match self {
            Self::Condition => vec![
                (conditions.not_ready, "node(s) were not ready"),
                (conditions.out_of_disk, "node(s) were out of disk space"),
                (
                    conditions.network_unavailable,
                    "node(s) had unavailable network",
                ),
                (cluster.is_unschedulable(node), "node(s) were unschedulable"),
            ],
            Self::MemoryPressure => vec![(
                conditions.memory_pressure && is_best_effort(),
                "node(s) had memory pressure",
            )],
            Self::DiskPressure => vec![(conditions.disk_pressure, "node(s) had disk pressure")],
            Self::PidPressure => vec![(conditions.pid_pressure, "node(s) had pid pressure")],
        };
        let failed = checks.into_iter().filter(|(is_wrong, _)| *is_wrong);
        failed.map(|(_, text)| Reason::Fixed(text)).collect()
    }
}

impl Plugin for NodeConditionPredicate {
    fn name(&self) -> &'static str {
        match self {
            Self::Condition => Self::CONDITION,
            Self::MemoryPressure => Self::MEMORY_PRESSURE,
            Self::DiskPressure => Self::DISK_PRESSURE,
            Self::PidPressure => Self::PID_PRESSURE,
        }
    }
}

impl FilterPlugin for NodeConditionPredicate {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        let reasons = self.reasons(class, cluster, node);
        if reasons.is_empty() {
            return Ok(());
        }
        Err(Refusal {
            plugin: self.name(),
            code: Code::UnschedulableAndUnresolvable,
            reasons,
        })
    }
}
