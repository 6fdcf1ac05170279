//! DynamicResources: pods that claim devices through ResourceClaims.
//!
//! Allocation of devices is not modelled: a pod with resource claims is refused, with a
//! reason that says so, rather than placed as if it had none. Pods without claims get
//! score 0, as upstream gives them (`plugins/dynamicresources/dynamicresources.go`,
//! Kubernetes 1.36).

use crate::alone::failure;
use crate::cluster::Cluster;
use crate::framework::{
    Code, DependsOn, FilterPlugin, Normalize, Plugin, PreparedBy, Reason, Refusal, ScorePlugin,
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

    fn reserve_error_alone(&self) -> Option<&'static str> {
        Some("not found")
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

    fn filter_node_alone(&self, _: &PodClass, _: &Cluster, _: NodeId) -> Result<(), Refusal> {
        let text = "not found";
        Err(failure(Self::NAME, text))
    }
}

impl ScorePlugin for DynamicResources {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn prepared_by(&self) -> PreparedBy {
        PreparedBy::PreFilter
    }

    fn normalize(&self) -> Normalize {
        Normalize::ByMaximum
    }

    fn score_node(&self, _: &PodClass, _: &Cluster, _: NodeId) -> i64 {
        0
    }

    fn score_node_alone(&self, _: &PodClass, _: &Cluster, _: NodeId) -> Result<i64, String> {
        Err("not found".into())
    }
}
