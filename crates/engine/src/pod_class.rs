//! Pods, compiled: all that scheduling reads of a pod's spec.
//!
//! Pods made from one template differ in name only. What filters and scores read of
//! them is a [`PodClass`]; pods with equal classes share one row and one cache of
//! verdicts, which is what makes the second identical pod nearly free.

use outrank_api::types::Toleration;

use crate::cluster::{Cluster, HostPort, PodUsage};
use crate::ids::{ResourceId, Symbol};
use crate::node_match::{PreferredNodes, RequiredNodes};
use crate::plugins::node_declared_features::FeatureSet;
use crate::pod_match::{Labels, SpreadConstraint, label_value};

/// All that scheduling reads of a pod's spec. Equal specs give equal classes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodClass {
    /// Which profile places the pod.
    pub profile: usize,
    /// What NodeResourcesFit asks for, by resource: requests above zero, in 1.20 all.
    pub requests: Box<[(ResourceId, i64)]>,
    /// Requests in the order of the resources that NodeResourcesFit scores, in 1.20 those
    /// that its predecessors score.
    pub fit_score_requests: Box<[i64]>,
    /// Requests in the order of the resources that NodeResourcesBalancedAllocation scores.
    pub balanced_score_requests: Box<[i64]>,
    /// What the pod takes of a node once it is there.
    pub usage: PodUsage,
    /// `spec.nodeName` as the user set it.
    pub node_name: Option<Symbol>,
    /// Node selector and required node affinity.
    pub required_nodes: RequiredNodes,
    /// Nodes to which required node affinity to `metadata.name` restricts the pod, sorted
    /// by name; `Some` and empty when the terms contradict each other.
    pub listed_nodes: Option<Box<[Symbol]>>,
    /// Preferred node affinity, or why it cannot be read; `None` if there is none.
    pub preferred_nodes: Option<Result<PreferredNodes, String>>,
    /// Tolerations.
    pub tolerations: Box<[Toleration]>,
    /// Ports of the node that the pod wants.
    pub host_ports: Box<[HostPort]>,
    /// Images of init containers, containers and image volumes, with a tag.
    pub images: Box<[Symbol]>,
    /// Number of init containers and containers.
    pub container_count: i64,
    /// Annotations that plugins read, by key.
    pub annotations: Box<[(Symbol, Symbol)]>,
    /// Topology spread constraints of the pod itself.
    pub spread_constraints: Box<[SpreadConstraint]>,
    /// Whether the pod claims devices (dynamic resource allocation).
    pub has_resource_claims: bool,
    /// Features of the kubelet that the pod needs.
    pub needed_features: FeatureSet,
    /// What only plugins of the past read; `None` if the profile is of today.
    pub legacy: Option<Box<LegacyPod>>,
}

/// What only plugins of the past read of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LegacyPod {
    /// Kind and UID of the ReplicationController or ReplicaSet that controls it.
    pub controller: Option<(Symbol, Symbol)>,
    /// `spec.nodeSelector`, sorted by key.
    pub node_selector: Labels,
    /// Whether it is of QoS class BestEffort.
    pub is_best_effort: bool,
}

impl PodClass {
    /// The value of an annotation of the pod, if a plugin of the profile says that it reads
    /// it ([`Plugin::annotations`](crate::framework::Plugin::annotations)). O(log annotations).
    pub fn annotation<'c>(&self, key: &str, cluster: &'c Cluster) -> Option<&'c str> {
        let value = label_value(&self.annotations, cluster.symbols.find(key)?)?;
        Some(cluster.symbols.text(value))
    }
}
