//! PodToleratesNodeNoExecuteTaints: a node whose `NoExecute` taints a pod does not tolerate
//! does not take it, whatever its `NoSchedule` taints.
//! Source: `algorithm/predicates/predicates.go`, Kubernetes 1.17.

use outrank_api::taints::find_untolerated;

use crate::cluster::Cluster;
use crate::framework::{Code, DependsOn, FilterPlugin, Plugin, Reason, Refusal};
use crate::ids::NodeId;
use crate::pod_class::PodClass;

/// See the module.
pub struct PodToleratesNodeNoExecuteTaints;

impl PodToleratesNodeNoExecuteTaints {
    /// Name in a Policy.
    pub const NAME: &'static str = "PodToleratesNodeNoExecuteTaints";
}

impl Plugin for PodToleratesNodeNoExecuteTaints {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl FilterPlugin for PodToleratesNodeNoExecuteTaints {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        let taints = cluster.taints(node);
        let untolerated = find_untolerated(taints, &class.tolerations, false, |taint| {
            taint.effect == "NoExecute"
        });
        if untolerated.is_none() {
            return Ok(());
        }
        let reason = Reason::Fixed("node(s) had taints that the pod didn't tolerate");
        let code = Code::UnschedulableAndUnresolvable;
        Err(Refusal::new(Self::NAME, code, reason))
    }
}
