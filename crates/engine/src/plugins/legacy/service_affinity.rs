//! ServiceAffinity: the pods of a service stay on nodes with equal values of some labels, or
//! spread over the values of others.
//!
//! Filter: the values that a pod does not ask for itself (`nodeSelector`) are those of the
//! node of the first pod that has all the pod's labels, if a service selects the pod. First is
//! by the scheduler's own order of nodes, in which zones take turns, then by arrival.
//!
//! Score: the pods of the pod's service are counted by node; of the values of a label, the
//! one with fewer of them gets more. Nodes without the label get nothing for it.
//! Source: `plugins/serviceaffinity/service_affinity.go`, Kubernetes 1.20.

use std::collections::BTreeMap;

use crate::cluster::{Cluster, PodInfo};
use crate::framework::{
    ClusterEvent, ClusterFilterPlugin, ClusterScorePlugin, Code, IncomingPod, MAX_NODE_SCORE,
    MovedPods, NodeFilter, NodeScore, Plugin, Reason, Refusal,
};
use crate::ids::{NodeId, PodId, Symbol, Symbols};
use crate::pod_match::{LabelMatch, label_value};
use crate::profile::ServiceAffinityArgs;

/// See the module.
pub struct ServiceAffinity {
    affinity_labels: Box<[Symbol]>,
    anti_affinity_labels: Box<[Symbol]>,
}

impl ServiceAffinity {
    /// Name in configurations of 1.20.
    pub const NAME: &'static str = "ServiceAffinity";

    /// The plugin with its arguments.
    pub fn new(args: &ServiceAffinityArgs, symbols: &mut Symbols) -> Self {
        let mut compile = |labels: &[String]| {
            let symbols = labels.iter().map(|label| symbols.intern(label));
            symbols.collect()
        };
        Self {
            affinity_labels: compile(&args.affinity_labels),
            anti_affinity_labels: compile(&args.anti_affinity_labels_preference),
        }
    }

    /// The values that a node must have, by label.
    fn wanted(
        &self,
        pod: &IncomingPod<'_>,
        cluster: &Cluster,
        moved: &MovedPods,
    ) -> BTreeMap<Symbol, Symbol> {
        let own = pod
            .class
            .legacy
            .as_ref()
            .map_or(&[][..], |legacy| &legacy.node_selector);
        let asked = self
            .affinity_labels
            .iter()
            .filter_map(|label| Some((*label, label_value(own, *label)?)));
        let mut wanted: BTreeMap<Symbol, Symbol> = asked.collect();
        let identity = cluster.identity(pod.info.identity);
        // As upstream counts, a label that is given twice is never complete.
        if wanted.len() == self.affinity_labels.len() || cluster.first_service(identity).is_none() {
            return wanted;
        }
        let Some(node) = first_node_with_like(pod, cluster, moved) else {
            return wanted;
        };
        for label in &self.affinity_labels {
            if let Some(value) = cluster.label(node, *label) {
                wanted.entry(*label).or_insert(value);
            }
        }
        wanted
    }
}

/// The node of the first pod of the same namespace that has all labels of the pod.
fn first_node_with_like(
    pod: &IncomingPod<'_>,
    cluster: &Cluster,
    moved: &MovedPods,
) -> Option<NodeId> {
    let own = cluster.identity(pod.info.identity);
    let like = LabelMatch::of_labels(&own.labels);
    let is_like = |node: &NodeId| {
        moved.pods(cluster, *node).any(|other| {
            let other = cluster.identity(cluster.pod_info(other).identity);
            other.namespace == own.namespace && like.matches(&other.labels)
        })
    };
    cluster.nodes_in_turns().into_iter().find(is_like)
}

impl Plugin for ServiceAffinity {
    fn name(&self) -> &'static str {
        Self::NAME
    }
}

struct Filter<'c> {
    plugin: &'c ServiceAffinity,
    pod: IncomingPod<'c>,
    cluster: &'c Cluster,
    wanted: BTreeMap<Symbol, Symbol>,
    moved: MovedPods,
}

impl ClusterFilterPlugin for ServiceAffinity {
    fn prepare_filter<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
    ) -> Option<Box<dyn NodeFilter + 'c>> {
        if self.affinity_labels.is_empty() {
            return None;
        }
        let moved = MovedPods::default();
        Some(Box::new(Filter {
            plugin: self,
            pod: *pod,
            cluster,
            wanted: self.wanted(pod, cluster, &moved),
            moved,
        }))
    }

    fn may_help(&self, _: &IncomingPod<'_>, event: &ClusterEvent<'_>, _: &Cluster) -> bool {
        let is_about_nodes_or_pods = !matches!(
            event,
            ClusterEvent::Storage { .. } | ClusterEvent::Namespace
        );
        is_about_nodes_or_pods && !self.affinity_labels.is_empty()
    }
}

impl NodeFilter for Filter<'_> {
    fn filter_node(&self, node: NodeId) -> Result<(), Refusal> {
        let mut wanted = self.wanted.iter();
        if wanted.all(|(label, value)| self.cluster.label(node, *label) == Some(*value)) {
            return Ok(());
        }
        let reason = Reason::Fixed("node(s) didn't match service affinity");
        let name = ServiceAffinity::NAME;
        Err(Refusal::new(name, Code::Unschedulable, reason))
    }

    fn count_pod(&mut self, pod: PodId, node: NodeId, by: i64) {
        self.moved.count(pod, node, by);
        self.wanted = self.plugin.wanted(&self.pod, self.cluster, &self.moved);
    }
}

struct Score<'c> {
    cluster: &'c Cluster,
    namespace: Symbol,
    /// The pods of the service; `None` if no service selects the pod, or all pods.
    selector: Option<LabelMatch>,
    labels: &'c [Symbol],
}

impl ClusterScorePlugin for ServiceAffinity {
    fn prepare_score<'c>(
        &'c self,
        pod: &IncomingPod<'c>,
        cluster: &'c Cluster,
        _: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        let identity = cluster.identity(pod.info.identity);
        let service = cluster.first_service(identity);
        let selector = service.map(|labels| LabelMatch::of_labels(labels));
        Some(Box::new(Score {
            cluster,
            namespace: identity.namespace,
            selector: selector.filter(|selector| !selector.is_empty()),
            labels: &self.anti_affinity_labels,
        }))
    }
}

impl NodeScore for Score<'_> {
    fn score_node(&self, node: NodeId) -> i64 {
        let Some(selector) = &self.selector else {
            return 0;
        };
        let counts = |info: &PodInfo| {
            let other = self.cluster.identity(info.identity);
            !info.is_terminating
                && other.namespace == self.namespace
                && selector.matches(&other.labels)
        };
        let pods = self.cluster.pods(node).iter();
        pods.map(|pod| self.cluster.pod_info(*pod))
            .filter(counts)
            .count() as i64
    }

    fn normalize(&self, feasible: &[NodeId], scores: &mut [i64]) {
        let all: i64 = scores.iter().sum();
        let highest = MAX_NODE_SCORE as f64;
        let mut normalized = vec![0.0; scores.len()];
        for label in self.labels {
            let value = |node: &NodeId| self.cluster.label(*node, *label);
            let mut by_value: BTreeMap<Symbol, i64> = BTreeMap::new();
            for (node, score) in feasible.iter().zip(scores.iter()) {
                if let Some(value) = value(node) {
                    *by_value.entry(value).or_insert(0) += score;
                }
            }
            for (node, sum) in feasible.iter().zip(&mut normalized) {
                let Some(there) = value(node).and_then(|value| by_value.get(&value)) else {
                    continue;
                };
                let score = match all {
                    0 => highest,
                    all => highest * ((all - there) as f64 / all as f64),
                };
                *sum += score / self.labels.len() as f64;
            }
        }
        for (score, normalized) in scores.iter_mut().zip(normalized) {
            *score = normalized as i64;
        }
    }
}
