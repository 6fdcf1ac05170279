//! Everything at once: all pods of a cluster are scheduled until nothing moves any more.

use std::collections::{BTreeMap, HashMap};

use outrank_api::taints::tolerates;
use outrank_api::types::Pod;
use outrank_engine::diagnosis::Diagnosis;
use outrank_engine::ids::{NodeId, PodId};
use outrank_engine::plugins::node_affinity::NodeAffinity;
use outrank_engine::plugins::node_ports::NodePorts;
use outrank_engine::plugins::node_resources_fit::NodeResourcesFit;
use outrank_engine::{Engine, EngineConfig, Event, Outcome, PodState};

use crate::report::{
    KubeletRefusal, NodeReport, PendingPod, PendingState, PlacedPod, PodReason, Report,
    ResourceUse, Summary,
};
use crate::scenario::{Scenario, owner_of};

/// How a rehearsal runs.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// How the engine decides.
    pub engine: EngineConfig,
}

/// Schedules all pods of a scenario. `progress` is told how many pods of how many are
/// decided.
///
/// # Errors
/// If the engine refuses its configuration.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Report, String> {
    let mut run = Run {
        engine: Engine::new(&options.engine)?,
        pods: HashMap::new(),
        report: Report::default(),
        scores: HashMap::new(),
    };
    run.load(scenario);
    let before = run.resource_use();
    let used_before = run.node_use();
    run.schedule(progress);
    run.describe(scenario, &before, &used_before);
    Ok(run.report)
}

struct Run<'s> {
    engine: Engine,
    /// The pods that the engine knows.
    pods: HashMap<PodId, &'s Pod>,
    scores: HashMap<PodId, (usize, i64)>,
    report: Report,
}

impl<'s> Run<'s> {
    fn load(&mut self, scenario: &'s Scenario) {
        for event in &scenario.surroundings {
            self.engine.handle(event.clone(), 0);
        }
        for node in &scenario.nodes {
            self.engine.handle(Event::NodeChanged(node.clone()), 0);
        }
        let live = scenario.pods.iter().filter(|pod| !pod.is_finished());
        let (bound, pending): (Vec<&Pod>, Vec<&Pod>) =
            live.partition(|pod| !pod.spec.node_name.is_empty());
        // Those that run are there first; the others come to their node after them.
        let (running, arriving): (Vec<&Pod>, Vec<&Pod>) = bound
            .into_iter()
            .partition(|pod| pod.status.phase == "Running");
        running.into_iter().for_each(|pod| self.add(pod));
        arriving.into_iter().for_each(|pod| {
            self.check_as_kubelet(pod, scenario);
            self.add(pod);
        });
        let mut waiting: Vec<&Pod> = pending
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none())
            .collect();
        // Pods that wait already have waited since their creation; new ones come last.
        waiting.sort_by_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_deref();
            (created.is_none(), created)
        });
        waiting.into_iter().for_each(|pod| self.add(pod));
    }

    fn add(&mut self, pod: &'s Pod) {
        self.engine.handle(Event::PodChanged(pod.clone()), 0);
        if let Some(id) = self.engine.pod(&pod.metadata.namespace, &pod.metadata.name) {
            self.pods.insert(id, pod);
        }
    }

    /// Lists a pod that was bound to its node by somebody else if the kubelet would refuse
    /// it there. It counts as placed all the same.
    fn check_as_kubelet(&mut self, pod: &Pod, scenario: &Scenario) {
        let Some(node) = self.engine.cluster().node(&pod.spec.node_name) else {
            return self.kubelet_refuses(pod, "NodeNotFound", "there is no such node".into());
        };
        let plugins = [NodeResourcesFit::NAME, NodeAffinity::NAME, NodePorts::NAME];
        self.engine.handle(Event::PodPending(pod.clone()), 0);
        let id = self.engine.pod(&pod.metadata.namespace, &pod.metadata.name);
        let refusal = id.and_then(|id| self.engine.refusal(id, node, &plugins));
        if let Some(refusal) = refusal {
            let cluster = self.engine.cluster();
            let texts = refusal.reasons.iter().map(|reason| reason.text(cluster));
            let message = texts.collect::<Vec<_>>().join(", ");
            return self.kubelet_refuses(pod, refusal.plugin, message);
        }
        let object = scenario
            .nodes
            .iter()
            .find(|node| node.metadata.name == pod.spec.node_name);
        let mut taints = object.iter().flat_map(|node| &node.spec.taints);
        let untolerated = taints.find(|taint| {
            taint.effect == "NoExecute"
                && !pod
                    .spec
                    .tolerations
                    .iter()
                    .any(|t| tolerates(t, taint, false))
        });
        if let Some(taint) = untolerated {
            let message = format!("node has the untolerated NoExecute taint {}", taint.key);
            self.kubelet_refuses(pod, "TaintToleration", message);
        }
    }

    fn kubelet_refuses(&mut self, pod: &Pod, reason: &str, message: String) {
        self.report.kubelet_refusals.push(KubeletRefusal {
            pod: pod.key(),
            node: pod.spec.node_name.clone(),
            reason: reason.to_owned(),
            message,
        });
    }

    fn schedule(&mut self, progress: &mut dyn FnMut(usize, usize)) {
        let total = self.pods.len();
        let mut decided = 0;
        while let Some(decision) = self.engine.next(0) {
            decided += 1;
            if decided % 1024 == 0 {
                progress(decided.min(total), total);
            }
            if let Outcome::Scheduled {
                feasible_nodes,
                total_score,
                ..
            } = decision.outcome
            {
                self.scores
                    .insert(decision.pod, (feasible_nodes, total_score));
            }
        }
        progress(total, total);
    }

    fn describe(
        &mut self,
        scenario: &Scenario,
        before: &[(String, ResourceUse)],
        used_before: &HashMap<NodeId, Vec<(String, i64)>>,
    ) {
        let mut pods: Vec<PodId> = self.pods.keys().copied().collect();
        pods.sort_unstable();
        let mut placed = Vec::new();
        for id in pods {
            match self.engine.pod_state(id).cloned() {
                Some(PodState::Placed(node)) => {
                    if let Some(&(feasible_nodes, score)) = self.scores.get(&id) {
                        placed.push(self.placed_pod(id, node, feasible_nodes, score));
                    } else {
                        self.report.summary.running += 1;
                    }
                }
                Some(PodState::OnUnknownNode(_)) => self.report.summary.running += 1,
                Some(PodState::Ignored) => {
                    let pod = self.pods[&id].key();
                    let scheduler = self.pods[&id].spec.scheduler_name.clone();
                    self.report
                        .other_schedulers
                        .entry(scheduler)
                        .or_default()
                        .push(pod);
                }
                Some(state) => {
                    let pending = self.pending_pod(id, &state);
                    self.report.pending.push(pending);
                }
                None => {}
            }
        }
        self.report.placed = placed;
        self.report.refused = scenario.refused.clone();
        self.report.deleted = scenario.deleted.clone();
        self.report.resources = self.resources(before);
        self.report.nodes = self.nodes(used_before);
        self.report.summary = self.summary(scenario);
    }

    fn summary(&self, scenario: &Scenario) -> Summary {
        let of_state = |state| {
            self.report
                .pending
                .iter()
                .filter(|pod| pod.state == state)
                .count()
        };
        Summary {
            nodes: scenario.nodes.len(),
            running: self.report.summary.running,
            placed: self.report.placed.len(),
            unschedulable: of_state(PendingState::Unschedulable),
            gated: of_state(PendingState::Gated),
            errors: of_state(PendingState::Error),
            refused: self.report.refused.len(),
            other_schedulers: self.report.other_schedulers.values().map(Vec::len).sum(),
            finished: scenario.pods.iter().filter(|pod| pod.is_finished()).count(),
        }
    }

    fn placed_pod(&self, id: PodId, node: NodeId, feasible_nodes: usize, score: i64) -> PlacedPod {
        let pod = self.pods[&id];
        PlacedPod {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            owner: owner_of(pod),
            priority: pod.spec.priority.unwrap_or(0),
            priority_class_name: pod.spec.priority_class_name.clone(),
            node: self.engine.cluster().name(node).to_owned(),
            feasible_nodes,
            score,
        }
    }

    fn pending_pod(&self, id: PodId, state: &PodState) -> PendingPod {
        let pod = self.pods[&id];
        let cluster = self.engine.cluster();
        let (state, message, reasons) = match state {
            PodState::Unschedulable(diagnosis) => (
                PendingState::Unschedulable,
                diagnosis.message(cluster),
                self.reasons(diagnosis),
            ),
            PodState::Gated(refusal) => {
                let texts = refusal.reasons.iter().map(|reason| reason.text(cluster));
                (
                    PendingState::Gated,
                    texts.collect::<Vec<_>>().join(", "),
                    Vec::new(),
                )
            }
            PodState::Error(error) => (PendingState::Error, error.to_string(), Vec::new()),
            _ => (
                PendingState::Unschedulable,
                "was not tried".to_owned(),
                Vec::new(),
            ),
        };
        PendingPod {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            owner: owner_of(pod),
            priority: pod.spec.priority.unwrap_or(0),
            priority_class_name: pod.spec.priority_class_name.clone(),
            state,
            message,
            reasons,
        }
    }

    fn reasons(&self, diagnosis: &Diagnosis) -> Vec<PodReason> {
        let cluster = self.engine.cluster();
        let mut reasons = Vec::new();
        let for_all = diagnosis
            .pre_filter
            .iter()
            .map(|refusal| (refusal, diagnosis.node_count));
        let by_node = diagnosis
            .refusals
            .iter()
            .map(|(refusal, nodes)| (refusal, *nodes));
        for (refusal, nodes) in for_all.chain(by_node) {
            let texts = refusal
                .reasons
                .iter()
                .map(|reason| reason.text(cluster))
                .collect();
            reasons.push(PodReason {
                nodes,
                plugin: refusal.plugin.to_owned(),
                code: refusal.code.name().to_owned(),
                reasons: texts,
            });
        }
        reasons.sort_by(|one, other| {
            (other.nodes, &one.plugin, &one.reasons).cmp(&(
                one.nodes,
                &other.plugin,
                &other.reasons,
            ))
        });
        reasons
    }

    /// Allocatable and requested of each resource over all nodes.
    fn resource_use(&self) -> Vec<(String, ResourceUse)> {
        let cluster = self.engine.cluster();
        let mut uses = Vec::new();
        for resource in cluster.resources() {
            let mut total = ResourceUse::default();
            for node in cluster.nodes() {
                let allocatable = cluster.allocatable(node, resource);
                total.allocatable = total.allocatable.saturating_add(allocatable);
                total.before = total
                    .before
                    .saturating_add(cluster.requested(node, resource));
            }
            uses.push((cluster.resource_name(resource).to_owned(), total));
        }
        let pods = ResourceUse {
            allocatable: cluster.nodes().map(|node| cluster.allowed_pods(node)).sum(),
            before: cluster
                .nodes()
                .map(|node| cluster.pods(node).len() as i64)
                .sum(),
            after: 0,
        };
        uses.push(("pods".to_owned(), pods));
        uses
    }

    fn resources(&self, before: &[(String, ResourceUse)]) -> BTreeMap<String, ResourceUse> {
        let after = self.resource_use();
        let mut resources = BTreeMap::new();
        for (name, after) in after {
            let before = before.iter().find(|(other, _)| *other == name);
            let before = before.map_or(0, |(_, before)| before.before);
            if after.allocatable != 0 || after.before != 0 {
                let used = ResourceUse {
                    allocatable: after.allocatable,
                    before,
                    after: after.before,
                };
                resources.insert(name, used);
            }
        }
        resources
    }

    fn node_use(&self) -> HashMap<NodeId, Vec<(String, i64)>> {
        let cluster = self.engine.cluster();
        let used = |node| {
            let resources = cluster.resources();
            let used = resources.map(|resource| {
                (
                    cluster.resource_name(resource).to_owned(),
                    cluster.requested(node, resource),
                )
            });
            let pods = ("pods".to_owned(), cluster.pods(node).len() as i64);
            used.chain([pods]).collect()
        };
        cluster.nodes().map(|node| (node, used(node))).collect()
    }

    fn nodes(&self, before: &HashMap<NodeId, Vec<(String, i64)>>) -> Vec<NodeReport> {
        let cluster = self.engine.cluster();
        let mut placed: HashMap<&str, usize> = HashMap::new();
        for pod in &self.report.placed {
            *placed.entry(&pod.node).or_default() += 1;
        }
        let after = self.node_use();
        let mut nodes = Vec::new();
        for node in cluster.nodes() {
            let mut resources = BTreeMap::new();
            for (name, after) in &after[&node] {
                let before = before.get(&node).and_then(|used| {
                    used.iter()
                        .find(|(other, _)| other == name)
                        .map(|(_, before)| *before)
                });
                let allocatable = match cluster
                    .resources()
                    .find(|r| cluster.resource_name(*r) == name)
                {
                    Some(resource) => cluster.allocatable(node, resource),
                    None => cluster.allowed_pods(node),
                };
                if allocatable != 0 || *after != 0 {
                    let before = before.unwrap_or(0);
                    resources.insert(
                        name.clone(),
                        ResourceUse {
                            allocatable,
                            before,
                            after: *after,
                        },
                    );
                }
            }
            let name = cluster.name(node).to_owned();
            nodes.push(NodeReport {
                placed: placed.get(name.as_str()).copied().unwrap_or(0),
                name,
                resources,
            });
        }
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        nodes
    }
}
