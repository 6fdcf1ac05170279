//! DynamicResources: pods that claim devices through ResourceClaims.
//!
//! Allocation of devices is not modelled: a pod with resource claims is refused, with a
//! reason that says so, rather than placed as if it had none. Pods without claims get
//! score 0, as upstream gives them (`plugins/dynamicresources/dynamicresources.go`,
//! Kubernetes 1.36).

use crate::cluster::Cluster;
use crate::framework::{
    Code, DependsOn, FilterPlugin, Normalize, Plugin, Reason, Refusal, ScorePlugin,
};
use crate::ids::NodeId;
use crate::pod_class::PodClass;

/// See the module.
pub struct DynamicResources;

impl DynamicResources {
    /// Name in configurations.
    pub const NAME: &'static str = "DynamicResources";
}

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl FilterPlugin for DynamicResources {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn applies(&self, class: &PodClass) -> bool {
        class.has_resource_claims
    }

    fn pre_filter(&self, class: &PodClass) -> Result<(), Refusal> {
        if !class.has_resource_claims {
            return Ok(());
        }
        let text = "pod has resource claims, and dynamic resource allocation is not supported";
        let code = Code::UnschedulableAndUnresolvable;
        Err(Refusal::new(Self::NAME, code, Reason::Text(text.into())))
    }

    fn filter_node(&self, _: &PodClass, _: &Cluster, _: NodeId) -> Result<(), Refusal> {
        Ok(())
    }
}

impl ScorePlugin for DynamicResources {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn normalize(&self) -> Normalize {
        Normalize::ByMaximum
    }

    fn score_node(&self, _: &PodClass, _: &Cluster, _: NodeId) -> i64 {
        0
    }
}
