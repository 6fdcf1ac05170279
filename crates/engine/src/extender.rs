//! Extenders: schedulers beside the scheduler that have a say of their own.
//!
//! An extender is asked after all Filter plugins which of the nodes that are left it
//! refuses, and after all Score plugins how it rates them. It may be anything; kube-scheduler
//! knows it as a server that speaks JSON over HTTP. The engine does no I/O: it offers
//! [`Extender`], and whoever runs the engine hands over what implements it
//! ([`Extensions`](crate::extensions::Extensions)). Decisions about pods that an
//! extender is interested in are no longer the engine's alone: they can be repeated if the
//! extender answers the same. They are made by [`crate::evaluation`]; those about other pods
//! are made as if there was no extender.
//!
//! Sources: `schedule_one.go` findNodesThatPassExtenders and prioritizeNodes, `extender.go`,
//! `kube-scheduler/extender/v1/types.go`, Kubernetes 1.36.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use outrank_api::types::{Node, Pod};
use rustc_hash::FxHashMap;

use crate::cluster::Cluster;
use crate::framework::{Code, MAX_NODE_SCORE, Reason, Refusal};
use crate::ids::{NodeId, PodId};

/// The name under which refusals by extenders are told, whichever it was.
pub const EXTENDER: &str = "Extender";

/// The score by which an extender says that a node is best. Higher ones are taken as they
/// are.
pub const MAX_EXTENDER_PRIORITY: i64 = 10;

/// Refuses and rates nodes beside the plugins.
pub trait Extender: fmt::Debug + Send + Sync {
    /// What people know it by, such as its URL.
    fn name(&self) -> &str;

    /// Whether it is passed over if it cannot say which nodes it refuses. If not the pod's
    /// cycle ends with an error.
    fn is_ignorable(&self) -> bool;

    /// Whether it refuses nodes at all.
    fn is_filter(&self) -> bool;

    /// Whether it rates nodes at all.
    fn is_prioritizer(&self) -> bool;

    /// By what its ratings are multiplied.
    fn weight(&self) -> i64;

    /// Whether it wants to be asked about the pod.
    fn is_interested(&self, pod: &Pod) -> bool;

    /// Which of `nodes`, of which there is at least one, may take the pod.
    ///
    /// # Errors
    /// Why it cannot say.
    fn filter(&self, pod: &Pod, nodes: &[&Node]) -> Result<ExtenderFilterResult, String>;

    /// How good `nodes` are, by name, from 0 to [`MAX_EXTENDER_PRIORITY`]. Nodes that are
    /// missing get 0, and so do all if it cannot say; several ratings of one node are added.
    ///
    /// # Errors
    /// Why it cannot say.
    fn prioritize(&self, pod: &Pod, nodes: &[&Node]) -> Result<Vec<(String, i64)>, String>;
}

/// What an extender says about nodes. Nodes that it was not asked about do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderFilterResult {
    /// Names of the nodes that may take the pod.
    pub nodes: Vec<String>,
    /// Why others may not, by name. A node that is in none of the lists may not either.
    pub failed: BTreeMap<String, String>,
    /// Why others may not, whichever pods went away; comes before `failed`.
    pub failed_and_unresolvable: BTreeMap<String, String>,
}

/// What one extender gave the feasible nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderScores {
    /// Its name.
    pub extender: String,
    /// Scores as it gave them, in the order of the feasible nodes.
    pub raw: Vec<i64>,
    /// The same in the range of plugins, multiplied by its weight.
    pub weighted: Vec<i64>,
}

/// All extenders, and the objects that are shown to them.
#[derive(Default)]
pub(crate) struct Extenders {
    extenders: Vec<Arc<dyn Extender>>,
    /// Pods without a node.
    pods: FxHashMap<PodId, Pod>,
    nodes: FxHashMap<NodeId, Node>,
}

impl Extenders {
    /// Extenders in the order in which they are asked.
    pub(crate) fn new(extenders: Vec<Arc<dyn Extender>>) -> Self {
        Self {
            extenders,
            ..Self::default()
        }
    }

    /// Whether there is one that refuses or rates nodes.
    pub(crate) fn have_say(&self) -> bool {
        let mut extenders = self.extenders.iter();
        extenders.any(|extender| extender.is_filter() || extender.is_prioritizer())
    }

    /// Keeps a pod to be shown. Without extenders nothing is kept.
    pub(crate) fn set_pod(&mut self, pod: PodId, object: &Pod) {
        if self.have_say() {
            self.pods.insert(pod, object.clone());
        }
    }

    pub(crate) fn forget_pod(&mut self, pod: PodId) {
        self.pods.remove(&pod);
    }

    /// Keeps a node to be shown. Without extenders nothing is kept.
    pub(crate) fn set_node(&mut self, node: NodeId, object: &Node) {
        if self.have_say() {
            self.nodes.insert(node, object.clone());
        }
    }

    pub(crate) fn forget_node(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// The extenders that want a say about a pod; `None` if there are none.
    pub(crate) fn interested_in(&self, pod: PodId) -> Option<Interested<'_>> {
        let pod = self.pods.get(&pod)?;
        let extenders = self.extenders.iter().map(AsRef::as_ref);
        let has_say =
            |it: &&dyn Extender| (it.is_filter() || it.is_prioritizer()) && it.is_interested(pod);
        let extenders: Vec<&dyn Extender> = extenders.filter(has_say).collect();
        (!extenders.is_empty()).then_some(Interested {
            pod,
            extenders,
            nodes: &self.nodes,
        })
    }
}

/// The extenders that are interested in a pod.
pub(crate) struct Interested<'e> {
    pod: &'e Pod,
    extenders: Vec<&'e dyn Extender>,
    nodes: &'e FxHashMap<NodeId, Node>,
}

impl Interested<'_> {
    /// The nodes that all extenders would take. They are asked one after the other, each
    /// about the nodes that are left. What they say of others goes into `refused`, also in
    /// place of what plugins said.
    ///
    /// # Errors
    /// What an extender that must not be passed over could not do.
    pub(crate) fn filter(
        &self,
        cluster: &Cluster,
        feasible: &[NodeId],
        refused: &mut BTreeMap<NodeId, Refusal>,
    ) -> Result<Vec<NodeId>, String> {
        let mut left = feasible.to_vec();
        for extender in self.extenders.iter().filter(|it| it.is_filter()) {
            if left.is_empty() {
                break;
            }
            match self.ask(*extender, cluster, &left, refused) {
                Ok(nodes) => left = nodes,
                Err(_) if extender.is_ignorable() => {}
                Err(error) => return Err(error),
            }
        }
        for node in feasible {
            if left.binary_search(node).is_ok() {
                refused.remove(node);
            } else {
                // An extender need not say why.
                refused.entry(*node).or_insert(Refusal {
                    plugin: EXTENDER,
                    code: Code::UnschedulableAndUnresolvable,
                    reasons: Vec::new(),
                });
            }
        }
        Ok(left)
    }

    fn ask(
        &self,
        extender: &dyn Extender,
        cluster: &Cluster,
        nodes: &[NodeId],
        refused: &mut BTreeMap<NodeId, Refusal>,
    ) -> Result<Vec<NodeId>, String> {
        let answer = extender.filter(self.pod, &self.objects(nodes))?;
        let mut left = Vec::new();
        for name in &answer.nodes {
            let node = cluster
                .node(name)
                .filter(|node| nodes.binary_search(node).is_ok());
            left.push(node.ok_or_else(|| {
                format!(
                    "extender {:?} claims a filtered node {name:?} which is not found in the \
                     input node list",
                    extender.name()
                )
            })?);
        }
        left.sort_unstable();
        left.dedup();
        // What is told last counts.
        let failed = [
            (&answer.failed, Code::Unschedulable),
            (
                &answer.failed_and_unresolvable,
                Code::UnschedulableAndUnresolvable,
            ),
        ];
        for (failed, code) in failed {
            for (name, message) in failed {
                if let Some(node) = cluster.node(name) {
                    let reason = Reason::Text(message.as_str().into());
                    refused.insert(node, Refusal::new(EXTENDER, code, reason));
                }
            }
        }
        Ok(left)
    }

    /// How extenders rate nodes; those that could not say are left out.
    pub(crate) fn prioritize(&self, cluster: &Cluster, feasible: &[NodeId]) -> Vec<ExtenderScores> {
        let objects = self.objects(feasible);
        let rating = self.extenders.iter().filter(|it| it.is_prioritizer());
        let scores = rating.filter_map(|extender| {
            let given = extender.prioritize(self.pod, &objects).ok()?;
            let mut raw = vec![0_i64; feasible.len()];
            for (name, score) in given {
                let node = cluster.node(&name);
                if let Some(at) = node.and_then(|node| feasible.binary_search(&node).ok()) {
                    raw[at] = raw[at].wrapping_add(score);
                }
            }
            // Scores may be anything: as upstream, sums wrap around.
            let factor = MAX_NODE_SCORE / MAX_EXTENDER_PRIORITY;
            let factor = extender.weight().wrapping_mul(factor);
            Some(ExtenderScores {
                extender: extender.name().to_owned(),
                weighted: raw.iter().map(|raw| raw.wrapping_mul(factor)).collect(),
                raw,
            })
        });
        scores.collect()
    }

    fn objects(&self, nodes: &[NodeId]) -> Vec<&Node> {
        let nodes = nodes.iter();
        nodes.filter_map(|node| self.nodes.get(node)).collect()
    }
}
