//! NodePreferAvoidPods: nodes whose annotation `scheduler.alpha.kubernetes.io/preferAvoidPods`
//! names the ReplicationController or ReplicaSet of a pod get nothing, all others the
//! highest score. With its weight of 10,000 this is nearly a filter.
//! Source: `plugins/nodepreferavoidpods/node_prefer_avoid_pods.go`, Kubernetes 1.20.

use crate::cluster::Cluster;
use crate::framework::{DependsOn, MAX_NODE_SCORE, Plugin, ScorePlugin};
use crate::ids::NodeId;
use crate::pod_class::PodClass;

/// See the module.
pub struct NodePreferAvoidPods;

impl NodePreferAvoidPods {
    /// Name in configurations of 1.20.
    pub const NAME: &'static str = "NodePreferAvoidPods";
}

impl Plugin for NodePreferAvoidPods {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

impl ScorePlugin for NodePreferAvoidPods {
    fn depends_on(&self) -> DependsOn {
        DependsOn::NodeObject
    }

    fn score_node(&self, class: &PodClass, cluster: &Cluster, node: NodeId) -> i64 {
        let controller = class.legacy.as_ref().and_then(|pod| pod.controller);
        let avoids = |controller| {
            let node = cluster.legacy_node(node);
            node.is_some_and(|node| node.avoided_controllers.contains(&controller))
        };
        match controller {
            Some(controller) if avoids(controller) => 0,
            _ => MAX_NODE_SCORE,
        }
    }
}
