//! Everything at once: all pods of a cluster are scheduled until nothing moves any more.

mod explanation;
pub(crate) mod kills;
mod kubelet;
mod usage;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use outrank_api::types::{Node, Pod};
use outrank_controllers::volumes::PersistentVolumeBinder;
use outrank_engine::cluster::Cluster;
use outrank_engine::diagnosis::Diagnosis;
use outrank_engine::extensions::Extensions;
use outrank_engine::framework::{Code, Refusal};
use outrank_engine::ids::{NodeId, PodId};
use outrank_engine::preemption::PostFilterRefusal;
use outrank_engine::{Engine, EngineConfig, Event, Outcome, PodState, TimeNanos};

use crate::report::{
    KubeletRefusal, NoPreemption, PendingPod, PendingState, PlacedPod, PodReason, Report, Summary,
};
use crate::scenario::quotas::Quotas;
use crate::scenario::{Scenario, owner_of};
use kills::{BudgetBook, Life};
use usage::Usage;

/// How a rehearsal runs.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// How the engine decides.
    pub engine: EngineConfig,
    /// Plugins and extenders beside those that it brings. Extenders are asked to filter and to
    /// prioritize, never to bind.
    pub extensions: Extensions,
    /// How often a pod may be killed and made again before it is told as a loop and followed
    /// no longer.
    pub loop_limit: usize,
    /// Pods (`namespace/name`) of which it is told what every node says to them.
    pub explain: Vec<String>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            engine: EngineConfig::default(),
            extensions: Extensions::default(),
            loop_limit: 3,
            explain: Vec::new(),
        }
    }
}

impl RunOptions {
    /// An engine that knows nothing yet.
    ///
    /// # Errors
    /// What the engine refuses in its configuration.
    pub(crate) fn engine(&self) -> Result<Engine, String> {
        Engine::with_extensions(&self.engine, self.extensions.clone())
    }
}

/// Schedules all pods of a scenario. `progress` is told how many pods of how many are
/// decided.
///
/// # Errors
/// If the engine refuses its configuration, or a pod to be explained is not there.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Report, String> {
    let mut run = Run {
        engine: options.engine()?,
        binder: scenario.binder.clone(),
        pods: HashMap::new(),
        report: Report::default(),
        scores: HashMap::new(),
        lowest_bound_priority: None,
        as_of_nanos: scenario.as_of_nanos,
        now: TimeNanos::try_from(scenario.as_of_nanos).unwrap_or(0),
        preempts: options.engine.preempts(),
        loop_limit: options.loop_limit,
        budgets: BudgetBook::default(),
        quotas: scenario.quotas.clone(),
        healthy: HashSet::new(),
        lives: HashMap::new(),
        replaced: 0,
        given_up: Vec::new(),
        arriving: Vec::new(),
    };
    run.load_nodes(scenario);
    run.load_running(scenario);
    run.load_budgets(scenario);
    run.arrive(scenario);
    let before = Usage::of(run.engine.cluster());
    run.load_changes(scenario);
    run.schedule(progress);
    run.describe(scenario, &before);
    run.explain(&options.explain)?;
    Ok(run.report)
}

struct Run<'s> {
    engine: Engine,
    binder: PersistentVolumeBinder,
    /// The pods that the engine knows.
    pods: HashMap<PodId, Cow<'s, Pod>>,
    scores: HashMap<PodId, (usize, i64)>,
    /// The lowest priority of a pod on a node when everything is decided.
    lowest_bound_priority: Option<i32>,
    report: Report,
    /// The newest time that the input tells, and the time of all that happens.
    as_of_nanos: i64,
    now: TimeNanos,
    /// Whether pods may be killed for others.
    preempts: bool,
    loop_limit: usize,
    budgets: BudgetBook,
    quotas: Quotas,
    /// Pods that count as healthy for their budgets.
    healthy: HashSet<PodId>,
    /// Pods that were made in place of victims.
    lives: HashMap<PodId, Life>,
    /// How many were.
    replaced: u64,
    /// Pods that are no longer made anew, and who had them killed last.
    given_up: Vec<(Pod, String)>,
    /// Pods that have a node and do not run yet, and whether they are to stay.
    arriving: Vec<(&'s Pod, bool)>,
}

impl<'s> Run<'s> {
    fn load_nodes(&mut self, scenario: &'s Scenario) {
        for event in &scenario.surroundings {
            self.engine.handle(event.clone(), self.now);
        }
        for node in &scenario.nodes {
            self.engine
                .handle(Event::NodeChanged(node.clone()), self.now);
        }
    }

    /// Pods that run before anything is changed or decided. Others that have their node come to it
    /// after them.
    fn load_running(&mut self, scenario: &'s Scenario) {
        let staying = scenario.pods.iter().map(|pod| (pod, true));
        let leaving = scenario.deleted.iter().map(|pod| (pod, false));
        let bound = staying.chain(leaving);
        let bound = bound.filter(|(pod, _)| !pod.is_finished() && !pod.spec.node_name.is_empty());
        let (running, arriving): (Vec<_>, Vec<_>) =
            bound.partition(|(pod, _)| pod.status.phase == "Running");
        let nodes = scenario
            .nodes
            .iter()
            .map(|node| (node.metadata.name.as_str(), node));
        let nodes: HashMap<&str, &Node> = nodes.collect();
        for (pod, stays) in running {
            if stays && !nodes.contains_key(pod.spec.node_name.as_str()) {
                self.kubelet_refuses(pod, "NodeNotFound", "there is no such node".into());
            }
            if let Some(id) = self.add(Cow::Borrowed(pod)) {
                self.note_healthy(id);
            }
        }
        self.arriving = arriving;
    }

    /// Pods that go, and pods that want a place.
    fn load_changes(&mut self, scenario: &'s Scenario) {
        for pod in &scenario.deleted {
            let metadata = &pod.metadata;
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            if let Some(id) = self.engine.pod(&namespace, &name) {
                self.pods.remove(&id);
            }
            self.engine
                .handle(Event::PodGone { namespace, name }, self.now);
        }
        self.report.summary.running = self.pods.len();
        let pods = scenario.pods.iter().filter(|pod| !pod.is_finished());
        let pending = pods.filter(|pod| pod.spec.node_name.is_empty());
        let mut waiting: Vec<&Pod> = pending.filter(|pod| !is_on_its_way_out(pod)).collect();
        // Pods that wait already have waited since their creation; new ones come last.
        waiting.sort_by_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_deref();
            (created.is_none(), created)
        });
        for pod in waiting {
            self.add(Cow::Borrowed(pod));
        }
    }

    /// Budgets, with what they allow as things are.
    fn load_budgets(&mut self, scenario: &Scenario) {
        let pods = scenario.pods.iter().filter(|pod| !pod.is_finished());
        self.budgets = BudgetBook::new(&scenario.budgets, pods, &scenario.scales);
        for budget in self.budgets.all() {
            let changed = Event::BudgetChanged(budget.clone());
            self.engine.handle(changed, self.now);
        }
    }

    fn add(&mut self, pod: Cow<'s, Pod>) -> Option<PodId> {
        let changed = Event::PodChanged(pod.clone().into_owned());
        self.engine.handle(changed, self.now);
        let metadata = &pod.metadata;
        let id = self.engine.pod(&metadata.namespace, &metadata.name)?;
        self.pods.insert(id, pod);
        Some(id)
    }

    fn kubelet_refuses(&mut self, pod: &Pod, reason: &str, message: String) {
        self.report.kubelet_refusals.push(KubeletRefusal {
            pod: pod.key(),
            node: pod.spec.node_name.clone(),
            reason: reason.to_owned(),
            message,
        });
    }

    /// Decides until nothing moves any more. Volumes are bound and made once no pod can be
    /// decided, which takes a real cluster longer than deciding; then pods that wait for
    /// them get their turn.
    fn schedule(&mut self, progress: &mut dyn FnMut(usize, usize)) {
        let total = self.pods.len();
        let mut decided = 0;
        loop {
            let mut placed = Vec::new();
            while let Some(decision) = self.engine.next(self.now) {
                decided += 1;
                if decided % 1024 == 0 {
                    progress(decided.min(total), total);
                }
                if let Some(preemption) = &decision.preemption {
                    self.carry_out(decision.pod, preemption);
                }
                if let Outcome::Scheduled {
                    feasible_nodes,
                    total_score,
                    ..
                } = decision.outcome
                {
                    placed.push(decision.pod);
                    self.scores
                        .insert(decision.pod, (feasible_nodes, total_score));
                }
            }
            placed.iter().for_each(|pod| self.bind_volumes(*pod));
            self.start(&placed);
            let changes = self.binder.take_changes();
            if changes.is_empty() {
                break;
            }
            for event in changes.into_iter().filter_map(Event::of_storage) {
                self.engine.handle(event, self.now);
            }
        }
        progress(total, total);
    }

    /// Does for a pod that has its place what was reserved for it.
    fn bind_volumes(&mut self, pod: PodId) {
        let cluster = self.engine.cluster();
        let (Some(reservation), Some(PodState::Placed(node))) =
            (cluster.storage.reservation(pod), self.engine.pod_state(pod))
        else {
            return;
        };
        let text = |symbol| cluster.symbols.text(symbol).to_owned();
        let claim_name = |(namespace, name)| (text(namespace), text(name));
        for &(volume, claim) in &reservation.bindings {
            self.binder.bind(&claim_name(claim), &text(volume));
        }
        for &claim in &reservation.provisions {
            self.binder
                .provision(&claim_name(claim), cluster.name(*node));
        }
    }

    fn describe(&mut self, scenario: &Scenario, before: &Usage) {
        let mut pods: Vec<PodId> = self.pods.keys().copied().collect();
        pods.sort_unstable();
        let is_bound =
            |id: &&PodId| matches!(self.engine.pod_state(**id), Some(PodState::Placed(_)));
        let bound = pods.iter().filter(is_bound);
        self.lowest_bound_priority = bound
            .map(|id| self.pods[id].spec.priority.unwrap_or(0))
            .min();
        let mut placed = Vec::new();
        for id in pods {
            match self.engine.pod_state(id).cloned() {
                Some(PodState::Placed(node)) => {
                    if let Some(&(feasible_nodes, score)) = self.scores.get(&id) {
                        placed.push(self.placed_pod(id, node, feasible_nodes, score));
                    }
                }
                Some(PodState::OnUnknownNode(_)) => {}
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
        for (pod, killed_by) in std::mem::take(&mut self.given_up) {
            let message = format!("made again and killed by {killed_by}, over and over");
            let pending = pending_pod(&pod, PendingState::Loop, message);
            self.report.pending.push(pending);
        }
        self.follow_replacements();
        self.report
            .refused
            .splice(0..0, scenario.refused.iter().cloned());
        self.report.deleted = scenario.deleted.iter().map(Pod::key).collect();
        self.report.resources = before.totals(self.engine.cluster());
        self.report.nodes = before.nodes(self.engine.cluster(), &self.report.placed);
        self.report.summary = self.summary(scenario);
        self.report.count_victims();
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
            unschedulable: of_state(PendingState::Unschedulable) + of_state(PendingState::Loop),
            gated: of_state(PendingState::Gated),
            errors: of_state(PendingState::Error),
            refused: self.report.refused.len(),
            other_schedulers: self.report.other_schedulers.values().map(Vec::len).sum(),
            finished: scenario.pods.iter().filter(|pod| pod.is_finished()).count(),
            terminating: scenario
                .pods
                .iter()
                .filter(|pod| is_on_its_way_out(pod))
                .count(),
            ..Summary::default()
        }
    }

    fn placed_pod(&self, id: PodId, node: NodeId, feasible_nodes: usize, score: i64) -> PlacedPod {
        let pod = &self.pods[&id];
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
        let pod = &self.pods[&id];
        let cluster = self.engine.cluster();
        let mut filter_message = None;
        let mut no_preemption = None;
        let (state, message, reasons) = match state {
            PodState::Unschedulable(diagnosis) => {
                filter_message = Some(diagnosis.filter_message(cluster));
                no_preemption = self.no_preemption(diagnosis);
                let message = diagnosis.message(cluster);
                (
                    PendingState::Unschedulable,
                    message,
                    self.reasons(diagnosis),
                )
            }
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
        let mut pending = pending_pod(pod, state, message);
        pending.no_preemption = no_preemption;
        pending.may_preempt = self.may_preempt(pod, &reasons);
        pending.reasons = reasons;
        if let Some(message) = filter_message {
            pending.filter_message = message;
        }
        pending
    }

    fn may_preempt(&self, pod: &Pod, reasons: &[PodReason]) -> bool {
        let priority = pod.spec.priority.unwrap_or(0);
        !self.preempts
            && pod.spec.preemption_policy.as_deref() != Some("Never")
            && reasons
                .iter()
                .any(|reason| reason.code == Code::Unschedulable.name())
            && self
                .lowest_bound_priority
                .is_some_and(|lowest| lowest < priority)
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
            reasons.push(reason(refusal, nodes, cluster));
        }
        sort_reasons(&mut reasons);
        reasons
    }

    /// Why PostFilter of DefaultPreemption did not help.
    fn no_preemption(&self, diagnosis: &Diagnosis) -> Option<NoPreemption> {
        let cluster = self.engine.cluster();
        let of_preemption = |it: &&PostFilterRefusal| {
            !matches!(
                it,
                PostFilterRefusal::NothingToDeallocate | PostFilterRefusal::StateNotFound
            )
        };
        let mut refusals = diagnosis.post_filter.iter();
        let refusal = refusals.find(of_preemption)?;
        let mut tried = Vec::new();
        if let PostFilterRefusal::NotHelpful { rejected, .. } = refusal {
            let rejected = rejected.iter();
            tried.extend(rejected.map(|(refusal, nodes)| reason(refusal, *nodes, cluster)));
            sort_reasons(&mut tried);
        }
        let message = refusal.text(cluster);
        Some(NoPreemption { message, tried })
    }
}

/// A pod that waits, before it is known why.
fn pending_pod(pod: &Pod, state: PendingState, message: String) -> PendingPod {
    PendingPod {
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        owner: owner_of(pod),
        priority: pod.spec.priority.unwrap_or(0),
        priority_class_name: pod.spec.priority_class_name.clone(),
        state,
        filter_message: message.clone(),
        message,
        no_preemption: None,
        may_preempt: false,
        reasons: Vec::new(),
    }
}

fn reason(refusal: &Refusal, nodes: usize, cluster: &Cluster) -> PodReason {
    let texts = refusal.reasons.iter().map(|reason| reason.text(cluster));
    PodReason {
        nodes,
        plugin: refusal.plugin.to_owned(),
        code: refusal.code.name().to_owned(),
        reasons: texts.collect(),
    }
}

/// Most nodes first.
fn sort_reasons(reasons: &mut [PodReason]) {
    reasons.sort_by(|one, other| {
        (other.nodes, &one.plugin, &one.reasons).cmp(&(one.nodes, &other.plugin, &other.reasons))
    });
}

/// Whether a pod is being deleted before it got a node: schedulers leave it alone.
fn is_on_its_way_out(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() && pod.spec.node_name.is_empty() && !pod.is_finished()
}
