//! NodeName: a pod that names its node goes there or nowhere.
//!
//! A pod with `spec.nodeName` normally never reaches a scheduler; the check matters when
//! one asks about such a pod. Source: `plugins/nodename/node_name.go`, Kubernetes 1.36.

use crate::cluster::Cluster;
use crate::framework::{Code, DependsOn, FilterPlugin, Plugin, Reason, Refusal};
use crate::ids::NodeId;
use crate::pod_class::PodClass;
use crate::release::Release;

/// See the module.
pub struct NodeName {
    release: Release,
}

impl NodeName {
    /// Name in configurations.
    pub const NAME: &'static str = "NodeName";

    /// The plugin as of a release.
    pub fn new(release: Release) -> Self {
        Self { release }
    }
}

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl FilterPlugin for NodeName {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn has_pre_filter(&self) -> bool {
        false
    }

    fn applies(&self, class: &PodClass) -> bool {
        class.node_name.is_some()
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        if class
            .node_name
            .is_none_or(|name| name == cluster.name_symbol(node))
        {
            return Ok(());
        }
        let code = Code::UnschedulableAndUnresolvable;
        let reason = match self.release {
            Release::V1_36 => Reason::NodeNameMismatch,
            Release::V1_20 => Reason::Fixed("node(s) didn't match the requested hostname"),
        };
        Err(Refusal::new(Self::NAME, code, reason))
    }
}
