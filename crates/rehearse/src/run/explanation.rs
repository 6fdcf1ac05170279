//! What every node says to one pod: whether it would take it, why not, and who would have to
//! go there.
//!
//! It is told of the cluster as it is when nothing moves any more. A pod that has its place by
//! then is asked about as if it looked for one again.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrank_api::types::Pod;
use outrank_engine::evaluation::Evaluation;
use outrank_engine::framework::{Code, Refusal};
use outrank_engine::ids::{NodeId, PodId};
use outrank_engine::plugins::node_affinity::NodeAffinity;
use outrank_engine::preemption::{Candidate, PreemptionReport};
use outrank_engine::{Event, PodState};

use super::Run;
use crate::report::{Explanation, NodeExplanation, NodePreemption, NodeRefusal};

impl Run<'_> {
    /// Explains the pods of these names (`namespace/name`, or a name in `default`). The engine is of
    /// no use for anything else afterwards.
    ///
    /// # Errors
    /// If there is no such pod.
    pub(super) fn explain(&mut self, names: &[String]) -> Result<(), String> {
        let mut pods = Vec::new();
        for name in names {
            let (namespace, pod) = name.split_once('/').unwrap_or(("default", name));
            let id = self.engine.pod(namespace, pod);
            let known = id.filter(|id| self.pods.contains_key(id));
            pods.push(known.ok_or_else(|| self.no_such_pod(namespace, pod))?);
        }
        for pod in pods {
            let explanation = self.explanation(pod);
            self.report.explanations.extend(explanation);
        }
        Ok(())
    }

    fn no_such_pod(&self, namespace: &str, name: &str) -> String {
        let victims = self.report.victims.iter();
        let mut killed = victims.filter(|it| it.namespace == namespace && it.name == name);
        match killed.next() {
            Some(victim) => format!(
                "pod {namespace}/{name} is killed by {}: there is nothing to explain",
                victim.killed_by
            ),
            None => format!(
                "there is no pod {namespace}/{name} that runs or waits in the end: give \
                 NAMESPACE/NAME as -o wide shows it"
            ),
        }
    }

    fn explanation(&mut self, id: PodId) -> Option<Explanation> {
        let pod = self.pods[&id].clone().into_owned();
        let placed = match self.engine.pod_state(id) {
            Some(PodState::Placed(node)) => Some(self.engine.cluster().name(*node).to_owned()),
            _ => None,
        };
        let id = match placed {
            Some(_) => self.ask_again(&pod)?,
            None => id,
        };
        let evaluation = self.engine.evaluate(id)?;
        let preemption = self.engine.preemption(id, &evaluation, self.now);
        let mut nodes = self.said_by_nodes(&evaluation);
        if let Some(report) = &preemption {
            self.add_preemption(report, &mut nodes);
        }
        let mut nodes: Vec<NodeExplanation> = nodes.into_values().collect();
        nodes.sort_by(|a, b| (b.score, &a.node).cmp(&(a.score, &b.node)));
        let refusals = preemption.iter().flat_map(|report| &report.refusals);
        let refusals: Vec<String> = refusals
            .map(|refusal| refusal.text(self.engine.cluster()))
            .collect();
        Some(Explanation {
            pod: pod.key(),
            priority: pod.spec.priority.unwrap_or(0),
            node: placed,
            error: evaluation.error.clone(),
            may_preempt: preemption.as_ref().and_then(|report| report.is_eligible),
            no_preemption: (!refusals.is_empty()).then(|| refusals.join(", ")),
            nodes,
        })
    }

    /// Has a pod that has its place look for one again.
    fn ask_again(&mut self, pod: &Pod) -> Option<PodId> {
        let metadata = &pod.metadata;
        let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
        let gone = Event::PodGone { namespace, name };
        self.engine.handle(gone, self.now);
        let mut pod = pod.clone();
        pod.status.nominated_node_name.clear();
        Arc::make_mut(&mut pod.spec).node_name.clear();
        self.engine.handle(Event::PodPending(pod.clone()), self.now);
        self.engine.pod(&metadata.namespace, &metadata.name)
    }

    fn said_by_nodes(&self, evaluation: &Evaluation) -> BTreeMap<NodeId, NodeExplanation> {
        let cluster = self.engine.cluster();
        let for_all = match &evaluation.pre_filter {
            Some(refusal) => self.refusal(refusal),
            None => not_looked_at(evaluation),
        };
        let nodes = cluster.nodes().map(|node| {
            let said = NodeExplanation {
                node: cluster.name(node).to_owned(),
                refusal: Some(for_all.clone()),
                ..NodeExplanation::default()
            };
            (node, said)
        });
        let mut nodes: BTreeMap<NodeId, NodeExplanation> = nodes.collect();
        for (node, refusal) in &evaluation.refused {
            if let Some(said) = nodes.get_mut(node) {
                said.refusal = Some(self.refusal(refusal));
            }
        }
        for (row, node) in evaluation.feasible.iter().enumerate() {
            if let Some(said) = nodes.get_mut(node) {
                said.refusal = None;
                said.score = evaluation.totals.get(row).copied();
                let scores = evaluation.scores.iter();
                said.scores = scores
                    .filter_map(|of| Some((of.plugin.to_owned(), *of.weighted.get(row)?)))
                    .collect();
            }
        }
        nodes
    }

    fn add_preemption(
        &self,
        report: &PreemptionReport,
        nodes: &mut BTreeMap<NodeId, NodeExplanation>,
    ) {
        for (node, refusal) in &report.rejected {
            if let Some(said) = nodes.get_mut(node) {
                said.preemption = Some(NodePreemption {
                    refusal: Some(self.refusal(refusal)),
                    ..NodePreemption::default()
                });
            }
        }
        for candidate in &report.candidates {
            if let Some(said) = nodes.get_mut(&candidate.node) {
                let is_best = report.possible_nodes.contains(&candidate.node);
                said.preemption = Some(self.candidate(candidate, is_best));
            }
        }
    }

    fn refusal(&self, refusal: &Refusal) -> NodeRefusal {
        let cluster = self.engine.cluster();
        let texts = refusal.reasons.iter().map(|reason| reason.text(cluster));
        NodeRefusal {
            plugin: refusal.plugin.to_owned(),
            code: refusal.code.name().to_owned(),
            reasons: texts.collect(),
        }
    }

    fn candidate(&self, candidate: &Candidate, is_best: bool) -> NodePreemption {
        let victims = candidate.victims.pods.iter();
        let names = victims.filter_map(|victim| self.pods.get(victim).map(|pod| pod.key()));
        NodePreemption {
            is_best,
            victims: names.collect(),
            pdb_violations: candidate.victims.violating.len(),
            refusal: None,
        }
    }
}

/// The refusal of a node that was not looked at: PreFilter left it out, or nothing was asked of
/// it since something is wrong with the pod, or enough other nodes were found.
fn not_looked_at(evaluation: &Evaluation) -> NodeRefusal {
    let (plugin, reason) = match &evaluation.listed_nodes {
        Some(_) => (
            NodeAffinity::NAME,
            "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        ),
        None => ("", "was not looked at"),
    };
    NodeRefusal {
        plugin: plugin.to_owned(),
        code: Code::UnschedulableAndUnresolvable.name().to_owned(),
        reasons: vec![reason.to_owned()],
    }
}
