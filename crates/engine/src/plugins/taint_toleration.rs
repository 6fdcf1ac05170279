//! TaintToleration: taints repel pods that do not tolerate them.
//!
//! `NoSchedule` and `NoExecute` taints refuse a node; each `PreferNoSchedule` taint that
//! is not tolerated makes the node's score worse. For `PreferNoSchedule` only
//! tolerations of that effect, or of every effect, count.
//! Source: `plugins/tainttoleration/taint_toleration.go`, Kubernetes 1.36.

use outrank_api::taints::{find_untolerated, tolerates};
use outrank_api::types::Taint;

use crate::cluster::Cluster;
use crate::framework::{
    Code, DependsOn, FilterPlugin, Normalize, Plugin, Reason, Refusal, ScorePlugin,
};
use crate::ids::NodeId;
use crate::pod_class::PodClass;
use crate::release::Release;

/// See the module.
pub struct TaintToleration {
    release: Release,
}

impl TaintToleration {
    /// Name in configurations.
    pub const NAME: &'static str = "TaintToleration";

    /// The plugin as of a release.
    pub fn new(release: Release) -> Self {
        Self { release }
    }

    /// Whether the node has a `NoSchedule` or `NoExecute` taint that is not tolerated.
    pub(crate) fn repels(class: &PodClass, cluster: &Cluster, node: NodeId) -> bool {
        Self::repelling_taint(class, cluster, node).is_some()
    }

    /// The first `NoSchedule` or `NoExecute` taint of the node that is not tolerated.
    fn repelling_taint<'c>(
        class: &PodClass,
        cluster: &'c Cluster,
        node: NodeId,
    ) -> Option<&'c Taint> {
        let repels = |taint: &Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        find_untolerated(cluster.taints(node), &class.tolerations, false, repels)
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

    fn has_pre_filter(&self) -> bool {
        false
    }

    fn filter_node(
        &self,
        class: &PodClass,
        cluster: &Cluster,
        node: NodeId,
    ) -> Result<(), Refusal> {
        let Some(taint) = Self::repelling_taint(class, cluster, node) else {
            return Ok(());
        };
        let code = Code::UnschedulableAndUnresolvable;
        let reason = match self.release {
            Release::V1_36 => Reason::UntoleratedTaint,
            Release::V1_20 => {
                let Taint { key, value, .. } = taint;
                let text =
                    format!("node(s) had taint {{{key}: {value}}}, that the pod didn't tolerate");
                Reason::Text(text.into())
            }
        };
        Err(Refusal::new(Self::NAME, code, reason))
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

    fn score_node_alone(&self, _: &PodClass, _: &Cluster, _: NodeId) -> Result<i64, String> {
        Err("failed to read \"PreScoreTaintToleration\" from cycleState: not found".into())
    }
}
