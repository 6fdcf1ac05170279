//! NodeUnschedulable: keeps pods off cordoned nodes.
//!
//! `kubectl cordon` sets `spec.unschedulable`. Pods that tolerate the taint
//! `node.kubernetes.io/unschedulable:NoSchedule` (DaemonSet pods do) are let through.
//! Source: `plugins/nodeunschedulable/node_unschedulable.go`, Kubernetes 1.36.

use outrank_api::taints::tolerates;
use outrank_api::types::Taint;

use crate::cluster::Cluster;
use crate::framework::{Code, DependsOn, FilterPlugin, Plugin, Reason, Refusal};
use crate::ids::NodeId;
use crate::pod_class::PodClass;

/// See the module.
pub struct NodeUnschedulable {
    taint: Taint,
}

impl NodeUnschedulable {
    /// Name in configurations.
    pub const NAME: &'static str = "NodeUnschedulable";

    /// The plugin.
    pub fn new() -> Self {
        let taint = Taint {
            key: "node.kubernetes.io/unschedulable".into(),
            effect: "NoSchedule".into(),
            ..Taint::default()
        };
        Self { taint }
    }
}

impl Default for NodeUnschedulable {
    fn default() -> Self {
        Self::new()
    }
}

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl FilterPlugin for NodeUnschedulable {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn has_pre_filter(&self) -> bool {
        false
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        let tolerated = || {
            class
                .tolerations
                .iter()
                .any(|t| tolerates(t, &self.taint, false))
        };
        if !cluster.is_unschedulable(node) || tolerated() {
            return Ok(());
        }
        let code = Code::UnschedulableAndUnresolvable;
        Err(Refusal::new(Self::NAME, code, Reason::NodeUnschedulable))
    }
}
