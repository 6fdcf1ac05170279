//! Runs a workload and measures it.
//!
//! What is measured is [`Engine::next`]: from the queue to the node, everything that a
//! decision costs in the engine, once the pods are queued. The yardstick is the same
//! decision by definition ([`Engine::evaluate`]: every node, every plugin, from scratch),
//! made for the first pods of the same workload in the same process; both must place
//! these pods on the same nodes.
//!
//! A decision that preempts is carried out at once: the victims go, and the pod is placed where
//! they were. Only the decision itself is measured, not what follows from it. The yardstick must
//! choose the same victims.

use std::time::{Duration, Instant};

use outrank_api::decode::Object;
use outrank_engine::ids::{NodeId, PodId};
use outrank_engine::preemption::Preemption;
use outrank_engine::{Decision, Engine, EngineConfig, Event, Outcome};
use serde::Serialize;

use crate::workload::{CreatePods, Op, Workload};

/// How much of the yardstick is measured.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Full evaluations stop after this time.
    pub full_evaluation: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            full_evaluation: Duration::from_secs(2),
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Name of the workload.
    pub workload: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Pods that were there before.
    pub pods_before: usize,
    /// Decisions that were measured.
    pub decisions: usize,
    /// How many of them placed their pod, those included that had others go first.
    pub scheduled: usize,
    /// Decisions per second.
    pub decisions_per_second: f64,
    /// Time of one decision, in nanoseconds.
    pub latency_nanos: Latency,
    /// Decisions that the yardstick made.
    pub full_evaluation_decisions: usize,
    /// Decisions per second of the yardstick.
    pub full_evaluations_per_second: f64,
    /// How many of the yardstick's placements are the same, and their victims; all must be.
    pub same_placements: usize,
    /// How much faster the decisions are than the yardstick.
    pub ratio: f64,
    /// Most memory that the process has used so far, in bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
}

/// Percentiles of the time of one decision, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// Half are not above this.
    pub p50: u64,
    /// 99 in 100 are not above this.
    pub p99: u64,
    /// 999 in 1000 are not above this.
    pub p999: u64,
    /// None is above this.
    pub max: u64,
}

/// Runs a workload with an engine that decides as configured.
///
/// # Errors
/// If the workload measures no pods, or what is wrong with the configuration.
pub fn measure(
    workload: &Workload,
    config: &EngineConfig,
    limits: &Limits,
) -> Result<Measured, String> {
    let mut fast = Fast::default();
    let (engine, pods_before) = play(workload, config, &mut fast)?;
    if fast.nanos.is_empty() {
        return Err(format!(
            "{}: no createPods has collectMetrics",
            workload.name
        ));
    }
    let total: u64 = fast.nanos.iter().sum();
    let decisions_per_second = fast.nanos.len() as f64 * 1e9 / total.max(1) as f64;
    let peak_memory_bytes = peak_memory_bytes();
    let nodes = engine.cluster().node_count();
    drop(engine);

    let mut full = Full {
        limit: limits.full_evaluation,
        placed: Vec::new(),
        spent: Duration::ZERO,
    };
    play(workload, config, &mut full)?;
    let full_evaluations_per_second = full.placed.len() as f64 / full.spent.as_secs_f64().max(1e-9);
    let same = full
        .placed
        .iter()
        .zip(&fast.placed)
        .filter(|(full, fast)| full == fast);
    let scheduled = fast
        .placed
        .iter()
        .filter(|placed| placed.node.is_some())
        .count();
    Ok(Measured {
        workload: workload.name.clone(),
        nodes,
        pods_before,
        decisions: fast.nanos.len(),
        scheduled,
        decisions_per_second,
        same_placements: same.count(),
        latency_nanos: latency(fast.nanos),
        full_evaluation_decisions: full.placed.len(),
        full_evaluations_per_second,
        ratio: decisions_per_second / full_evaluations_per_second,
        peak_memory_bytes,
    })
}

/// What became of a pod, and who had to go for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed {
    pod: PodId,
    node: Option<NodeId>,
    victims: Vec<PodId>,
}

/// Has the victims of a preemption go.
fn evict(engine: &mut Engine, preemption: &Preemption) {
    for victim in &preemption.victims.pods {
        if let Some((namespace, name)) = engine.pod_name(*victim) {
            let (namespace, name) = (namespace.to_owned(), name.to_owned());
            engine.handle(Event::PodGone { namespace, name }, 0);
        }
    }
}

/// Decides the pods that are measured.
trait Decider {
    fn decide(&mut self, engine: &mut Engine, pods: &CreatePods);
}

/// Runs the operations of a workload; returns the engine and how many pods were not
/// measured.
fn play(
    workload: &Workload,
    config: &EngineConfig,
    decider: &mut dyn Decider,
) -> Result<(Engine, usize), String> {
    let mut engine = Engine::new(config)?;
    let mut pods_before = 0;
    for op in &workload.ops {
        match op {
            Op::CreateNodes(nodes) => {
                nodes
                    .nodes()
                    .for_each(|node| engine.handle(Event::NodeChanged(node), 0));
                let csi_nodes = nodes.csi_nodes();
                csi_nodes.for_each(|node| tell(&mut engine, Object::CSINode(node.into())));
            }
            Op::CreateStorage(storage) => {
                storage.objects().for_each(|it| tell(&mut engine, it));
            }
            Op::CreatePods(pods) => {
                pods.storage_objects().for_each(|it| tell(&mut engine, it));
                pods.pods()
                    .for_each(|pod| engine.handle(Event::PodChanged(pod), 0));
                if pods.collect_metrics {
                    decider.decide(&mut engine, pods);
                } else {
                    pods_before += pods.count;
                    if !pods.skip_wait_to_completion {
                        while engine.next(0).is_some() {}
                    }
                }
            }
            Op::Barrier => while engine.next(0).is_some() {},
            Op::CreateNamespaces(namespaces) => {
                let namespaces = namespaces.namespaces();
                namespaces.for_each(|it| engine.handle(Event::NamespaceChanged(it), 0));
            }
        }
    }
    Ok((engine, pods_before))
}

fn tell(engine: &mut Engine, storage: Object) {
    engine.handle(Event::StorageChanged(storage), 0);
}

/// The engine's own decisions, one by one.
#[derive(Default)]
struct Fast {
    nanos: Vec<u64>,
    placed: Vec<Placed>,
}

impl Decider for Fast {
    fn decide(&mut self, engine: &mut Engine, pods: &CreatePods) {
        self.nanos.reserve(pods.count);
        self.placed.reserve(pods.count);
        loop {
            let start = Instant::now();
            let decision = engine.next(0);
            let nanos = start.elapsed().as_nanos() as u64;
            let Some(decision) = decision else { break };
            self.nanos.push(nanos);
            self.placed.push(placed_by(engine, &decision));
        }
    }
}

/// What a decision comes to once it is carried out.
fn placed_by(engine: &mut Engine, decision: &Decision) -> Placed {
    let mut outcome = decision.outcome.clone();
    let mut victims = Vec::new();
    if let Some(preemption) = &decision.preemption {
        evict(engine, preemption);
        victims.clone_from(&preemption.victims.pods);
        if let Some(next) = engine.decide_pod(decision.pod, 0) {
            outcome = next.outcome;
        }
    }
    let node = match outcome {
        Outcome::Scheduled { node, .. } => Some(node),
        _ => None,
    };
    Placed {
        pod: decision.pod,
        node,
        victims,
    }
}

/// The same decisions by evaluating every node, for as long as the limit allows.
struct Full {
    limit: Duration,
    placed: Vec<Placed>,
    spent: Duration,
}

impl Decider for Full {
    fn decide(&mut self, engine: &mut Engine, pods: &CreatePods) {
        for pod in pods.pods() {
            if self.spent >= self.limit {
                break;
            }
            let metadata = &pod.metadata;
            let Some(id) = engine.pod(&metadata.namespace, &metadata.name) else {
                continue;
            };
            let start = Instant::now();
            let Some(evaluation) = engine.evaluate(id) else {
                continue;
            };
            let best = evaluation.best();
            let node = best
                .into_iter()
                .min_by_key(|node| engine.cluster().name(*node));
            let report = engine.preemption(id, &evaluation, 0);
            self.spent += start.elapsed();
            let preemption = report.and_then(|report| report.preemption);
            if let Some(preemption) = &preemption {
                evict(engine, preemption);
            }
            let node = node.or(preemption.as_ref().map(|it| it.node));
            if let Some(node) = node {
                engine.place(id, node, 0);
            }
            self.placed.push(Placed {
                pod: id,
                node,
                victims: preemption.map_or_else(Vec::new, |it| it.victims.pods),
            });
        }
    }
}

fn latency(mut nanos: Vec<u64>) -> Latency {
    nanos.sort_unstable();
    let at = |permille: usize| {
        let rank = (nanos.len() * permille).div_ceil(1000).max(1) - 1;
        nanos.get(rank).copied().unwrap_or(0)
    };
    Latency {
        p50: at(500),
        p99: at(990),
        p999: at(999),
        max: at(1000),
    }
}

/// `VmHWM` of this process; `None` where there is no `/proc`.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
