//! TaintToleration: taints repel pods that do not tolerate them.
//!
//! `NoSchedule` and `NoExecute` taints refuse a node; each `PreferNoSchedule` taint that
//! is not tolerated makes the node's score worse. For `PreferNoSchedule` only
//! tolerations of that effect, or of every effect, count.
//! Source: `plugins/tainttoleration/taint_toleration.go`, Kubernetes 1.36.

use outrank_api::taints::tolerates;

use crate::cluster::Cluster;
use crate::framework::{
    Code, DependsOn, FilterPlugin, Normalize, Plugin, Reason, Refusal, ScorePlugin,
};
use crate::ids::NodeId;
use crate::pod_class::PodClass;

/// See the module.
pub struct TaintToleration;

impl TaintToleration {
    /// Name in configurations.
    pub const NAME: &'static str = "TaintToleration";

    /// Whether the node has a `NoSchedule` or `NoExecute` taint that is not tolerated.
    pub(crate) fn repels(class: &PodClass, cluster: &Cluster, node: NodeId) -> bool {
        cluster.taints(node).iter().any(|taint| {
            matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
                && !class.tolerations.iter().any(|t| tolerates(t, taint, false))
        })
    }
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl FilterPlugin for TaintToleration {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        if !Self::repels(class, cluster, node) {
            return Ok(());
        }
        let code = Code::UnschedulableAndUnresolvable;
        Err(Refusal::new(Self::NAME, code, Reason::UntoleratedTaint))
    }
}

impl ScorePlugin for TaintToleration {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn normalize(&self) -> Normalize {
        Normalize::ByMaximumReversed
    }

    fn score_node(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
        let disliked = cluster.taints(node).iter().filter(|taint| {
            taint.effect == "PreferNoSchedule"
                && !class.tolerations.iter().any(|toleration| {
                    matches!(toleration.effect.as_str(), "" | "PreferNoSchedule")
                        && tolerates(toleration, taint, false)
                })
        });
        disliked.count() as i64
    }
}
