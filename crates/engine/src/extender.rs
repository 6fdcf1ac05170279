//! Extenders: schedulers beside the scheduler that have a say of their own.
//!
//! An extender is asked after all Filter plugins which of the nodes that are left it
//! refuses, and after all Score plugins how it rates them. Where pods are to be preempted, it
//! says on which nodes, and which. It may be anything; kube-scheduler
//! knows it as a server that speaks JSON over HTTP. The engine does no I/O: it offers
//! [`Extender`], and whoever runs the engine hands over what implements it
//! ([`Extensions`](crate::extensions::Extensions)). Decisions about pods that an
//! extender is interested in are no longer the engine's alone: they can be repeated if the
//! extender answers the same. They are made by [`crate::evaluation`]; those about other pods
//! are made as if there was no extender.
//!
//! Sources: `schedule_one.go` findNodesThatPassExtenders and prioritizeNodes,
//! `framework/preemption/preemption.go` callExtenders, `extender.go`,
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

    /// Whether it has a say in which pods are preempted.
    fn supports_preemption(&self) -> bool {
        false
    }

    /// On which nodes room is to be made for the pod, by name, and which of their pods are to go.
    /// `victims` are those by which the scheduler would do it; of the answer any node may be, and
    /// any pods of it. Asked only if it has a say.
    ///
    /// # Errors
    /// Why it cannot say.
    fn preempt(
        &self,
        pod: &Pod,
        victims: &BTreeMap<String, NodeVictims<'_>>,
    ) -> Result<BTreeMap<String, MetaVictims>, String> {
        let _ = (pod, victims);
        Err(format!(
            "extender {:?} has no say in preemption",
            self.name()
        ))
    }
}

/// Pods that would have to go from a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeVictims<'p> {
    /// The pods, the most important first. Those that came without a UID have one that is made
    /// of their namespace and name.
    pub pods: Vec<&'p Pod>,
    /// How many of them PodDisruptionBudgets would keep.
    pub num_pdb_violations: i64,
}

/// Pods that are to go from a node, by their UIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetaVictims {
    /// UIDs of the pods; the first is taken for the most important.
    pub pod_uids: Vec<String>,
    /// How many of them PodDisruptionBudgets would keep.
    pub num_pdb_violations: i64,
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
    /// Pods with one, if somebody has a say in who is preempted.
    placed: FxHashMap<PodId, Pod>,
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

    /// Whether there is one that says who is preempted.
    fn say_who_goes(&self) -> bool {
        let mut extenders = self.extenders.iter();
        extenders.any(|extender| extender.supports_preemption())
    }

    /// Whether there is one that is asked anything.
    pub(crate) fn are_asked(&self) -> bool {
        self.have_say() || self.say_who_goes()
    }

    /// Keeps a pod without a node, or with one, to be shown. Without extenders nothing is kept.
    pub(crate) fn set_pod(&mut self, pod: PodId, object: &Pod, has_node: bool) {
        self.forget_pod(pod);
        let says_who_goes = self.say_who_goes();
        if !says_who_goes && (has_node || !self.have_say()) {
            return;
        }
        let mut object = object.clone();
        let metadata = &mut object.metadata;
        if says_who_goes && metadata.uid.is_empty() {
            metadata.uid = format!("{}/{}", metadata.namespace, metadata.name);
        }
        let kept = if has_node {
            &mut self.placed
        } else {
            &mut self.pods
        };
        kept.insert(pod, object);
    }

    /// A pod comes to a node.
    pub(crate) fn place_pod(&mut self, pod: PodId, node_name: &str) {
        let says_who_goes = self.say_who_goes();
        if let Some(mut object) = self.pods.remove(&pod).filter(|_| says_who_goes) {
            Arc::make_mut(&mut object.spec).node_name = node_name.to_owned();
            self.placed.insert(pod, object);
        }
    }

    pub(crate) fn forget_pod(&mut self, pod: PodId) {
        self.pods.remove(&pod);
        self.placed.remove(&pod);
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

    /// The extenders that want a say about whom a pod preempts; `None` if there are none.
    pub(crate) fn preempting_for(&self, pod: PodId) -> Option<Preempting<'_>> {
        let pod = self.pods.get(&pod)?;
        let extenders = self.extenders.iter().map(AsRef::as_ref);
        let has_say = |it: &&dyn Extender| it.supports_preemption() && it.is_interested(pod);
        let extenders: Vec<&dyn Extender> = extenders.filter(has_say).collect();
        (!extenders.is_empty()).then_some(Preempting {
            pod,
            extenders,
            placed: &self.placed,
        })
    }
}

/// The extenders that are interested in whom a pod preempts.
pub(crate) struct Preempting<'e> {
    pod: &'e Pod,
    extenders: Vec<&'e dyn Extender>,
    placed: &'e FxHashMap<PodId, Pod>,
}

/// Who is to go from a node, and how many of them budgets would keep.
pub(crate) type ChosenVictims = (Vec<PodId>, i64);

impl Preempting<'_> {
    /// The candidates that are left once all extenders were asked, one after the other, each
    /// about what is left.
    ///
    /// # Errors
    /// What an extender that must not be passed over could not do, or said that cannot be.
    pub(crate) fn choose(
        &self,
        cluster: &Cluster,
        candidates: BTreeMap<NodeId, ChosenVictims>,
    ) -> Result<BTreeMap<NodeId, ChosenVictims>, String> {
        let mut left = candidates;
        for extender in &self.extenders {
            let shown = left.iter().map(|(node, victims)| {
                let name = cluster.name(*node).to_owned();
                (name, self.shown(victims))
            });
            let answer = extender.preempt(self.pod, &shown.collect());
            match answer.and_then(|answer| self.find(*extender, cluster, answer)) {
                Ok(found) => left = found,
                Err(_) if extender.is_ignorable() => continue,
                Err(error) => return Err(error),
            }
            left.retain(|_, (pods, _)| !(pods.is_empty() && extender.is_ignorable()));
            let mut chosen = left.iter();
            if let Some((node, _)) = chosen.find(|(_, (pods, _))| pods.is_empty()) {
                let node = cluster.name(*node);
                return Err(format!("expected at least one victim pod on node {node:?}"));
            }
            if left.is_empty() {
                break;
            }
        }
        Ok(left)
    }

    fn shown(&self, (pods, num_pdb_violations): &ChosenVictims) -> NodeVictims<'_> {
        let pods = pods.iter().filter_map(|pod| self.placed.get(pod));
        NodeVictims {
            pods: pods.collect(),
            num_pdb_violations: *num_pdb_violations,
        }
    }

    /// The pods that an answer means.
    fn find(
        &self,
        extender: &dyn Extender,
        cluster: &Cluster,
        answer: BTreeMap<String, MetaVictims>,
    ) -> Result<BTreeMap<NodeId, ChosenVictims>, String> {
        let found = answer.into_iter().map(|(name, victims)| {
            let node = cluster.node(&name);
            let node = node.ok_or_else(|| format!("nodeinfo not found for node name {name:?}"))?;
            let pods = victims.pod_uids.iter().map(|uid| {
                let mut pods = cluster.pods(node).iter().copied();
                let is_it = |pod: &Pod| pod.metadata.uid == *uid;
                let pod = pods.find(|pod| self.placed.get(pod).is_some_and(is_it));
                pod.ok_or_else(|| {
                    format!(
                        "extender: {} claims to preempt pod (UID: &{{{uid}}}) on node: {name}, \
                         but the pod is not found on that node",
                        extender.name()
                    )
                })
            });
            let pods: Vec<PodId> = pods.collect::<Result<_, String>>()?;
            Ok((node, (pods, victims.num_pdb_violations)))
        });
        found.collect()
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
