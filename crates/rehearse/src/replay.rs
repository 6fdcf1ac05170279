//! A trace under a virtual clock: pods come and go as they did, and wait when there is
//! no room.
//!
//! A pod runs for as long as it did in the trace (from creation to deletion), counted from
//! when it is placed here. At one instant, pods that go make room first, then pods that
//! come are queued, then everything that can be placed is. Deciding takes no virtual time, and
//! neither does it take pods to go that are killed for others: they come again at once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use outrank_api::pod_resources::gpus;
use outrank_api::time::rfc3339;
use outrank_api::types::Pod;
use outrank_engine::ids::{NodeId, PodId};
use outrank_engine::preemption::Preemption;
use outrank_engine::{Engine, Event, Outcome, TimeNanos};
use serde::Serialize;

use crate::run::RunOptions;
use crate::scenario::Scenario;
use crate::trace::Trace;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// How many spans of equal length utilization is told for.
const SPANS: usize = 24;

/// What a replay says: plain data, stable as JSON. Times are seconds since the first
/// arrival.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayReport {
    /// Number of nodes.
    pub nodes: usize,
    /// Pods that came.
    pub pods: usize,
    /// Pods that were placed at some time.
    pub placed: usize,
    /// Pods that still wait at the end.
    pub pending: usize,
    /// When the last thing happened.
    pub end_seconds: u64,
    /// How many decisions were made; a pod that is tried again counts again.
    pub decisions: usize,
    /// Time from arrival to placement, of the pods that were placed.
    pub pending_seconds: Percentiles,
    /// Most pods that waited at one time.
    pub peak_pending: usize,
    /// When that was first the case.
    pub peak_pending_seconds: u64,
    /// Utilization over time.
    pub utilization: Vec<Span>,
    /// Why pods still wait at the end: kube-scheduler's message, and how many pods.
    pub reasons: BTreeMap<String, usize>,
    /// Pods that were killed so that others had a place, in the order in which they went.
    /// Each comes again at once and has all of its work before it.
    pub victims: Vec<ReplayVictim>,
    /// GPUs that victims held, times the seconds that they had run: work that was lost.
    pub lost_gpu_seconds: u64,
    /// Pods that were killed more than once.
    pub killed_again: usize,
    /// The same trace without the configuration, or with preemption switched the other way, if
    /// one of these is what is rehearsed.
    pub without_change: Option<Box<ReplayReport>>,
}

/// A pod that was killed so that another had a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayVictim {
    /// When.
    pub at_seconds: u64,
    /// `namespace/name`.
    pub pod: String,
    /// Its priority.
    pub priority: i32,
    /// Name of its PriorityClass; empty if it has none.
    pub priority_class_name: String,
    /// The node that it lost.
    pub node: String,
    /// GPUs that it held.
    pub gpus: i64,
    /// For how long it had run.
    pub running_seconds: u64,
    /// `namespace/name` of the pod that had it killed.
    pub killed_by: String,
    /// The priority of that pod.
    pub killed_by_priority: i32,
    /// How often it was killed, this time included.
    pub kills: usize,
}

/// Percentiles of times, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Half are not above this.
    pub p50: u64,
    /// Nine in ten are not above this.
    pub p90: u64,
    /// 99 in 100 are not above this.
    pub p99: u64,
    /// None is above this.
    pub max: u64,
}

/// Utilization in a span of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// Where the span starts.
    pub start_seconds: u64,
    /// Share of each resource that was requested, from 0 to 1, averaged over the span.
    pub requested: BTreeMap<String, f64>,
    /// Pods that waited, averaged over the span.
    pub pending: f64,
}

/// Replays a trace. `progress` is told how many of how many arrivals are over.
///
/// # Errors
/// If the engine refuses its configuration, or admission refuses a pod.
pub fn replay(
    trace: &Trace,
    options: &RunOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<ReplayReport, String> {
    let pods = trace.pods.iter().map(|pod| pod.pod.clone()).collect();
    let scenario = Scenario::of_new_pods(trace.nodes.clone(), pods, &trace.priority_classes)?;
    if let Some(refused) = scenario.refused.first() {
        return Err(format!("{}: {}", refused.pod, refused.message));
    }
    let mut replay = Replay::new(trace, scenario, options)?;
    replay.run(progress);
    Ok(replay.report())
}

/// One task: when it comes and how long it runs, in nanoseconds.
struct Task {
    pod: Pod,
    arrival: TimeNanos,
    duration: Option<TimeNanos>,
    /// When it last got its place; `None` if it never did.
    started: Option<TimeNanos>,
    /// How often it was killed. A departure counts for the run that it was planned in.
    kills: usize,
}

struct Replay {
    engine: Engine,
    tasks: Vec<Task>,
    /// Tasks that came, by the engine's number.
    tasks_by_pod: HashMap<PodId, usize>,
    /// When, which task, and how often it was killed before.
    departures: BinaryHeap<Reverse<(TimeNanos, usize, usize)>>,
    victims: Vec<ReplayVictim>,
    lost_gpu_seconds: u64,
    /// Whether pods may be killed for others.
    preempts: bool,
    now: TimeNanos,
    waiting: usize,
    decisions: usize,
    waits: Vec<TimeNanos>,
    peak: (usize, TimeNanos),
    /// Requested of each resource.
    requested: Vec<i64>,
    /// What was requested, and how many waited, from when on.
    history: Vec<(TimeNanos, Vec<i64>, usize)>,
}

impl Replay {
    fn new(trace: &Trace, scenario: Scenario, options: &RunOptions) -> Result<Self, String> {
        let mut engine = options.engine()?;
        for event in scenario.surroundings {
            engine.handle(event, 0);
        }
        for node in scenario.nodes {
            engine.handle(Event::NodeChanged(node), 0);
        }
        let first = trace.pods.first().map_or(0, |pod| pod.arrival_seconds);
        let nanos = |from: i64, to: i64| {
            u64::try_from(to.saturating_sub(from))
                .unwrap_or(0)
                .saturating_mul(NANOS_PER_SECOND)
        };
        let tasks = trace
            .pods
            .iter()
            .zip(scenario.pods)
            .map(|(task, pod)| Task {
                pod,
                arrival: nanos(first, task.arrival_seconds),
                duration: task
                    .departure_seconds
                    .map(|end| nanos(task.arrival_seconds, end)),
                started: None,
                kills: 0,
            });
        Ok(Self {
            tasks: tasks.collect(),
            engine,
            tasks_by_pod: HashMap::new(),
            departures: BinaryHeap::new(),
            victims: Vec::new(),
            lost_gpu_seconds: 0,
            preempts: options.engine.preempts(),
            now: 0,
            waiting: 0,
            decisions: 0,
            waits: Vec::new(),
            peak: (0, 0),
            requested: Vec::new(),
            history: Vec::new(),
        })
    }

    fn run(&mut self, progress: &mut dyn FnMut(usize, usize)) {
        let mut arrived = 0;
        loop {
            let arrival = self.tasks.get(arrived).map(|task| task.arrival);
            let departure = self.departures.peek().map(|Reverse((time, ..))| *time);
            // A rule may hold a pod back only for a time.
            let retry = self.engine.next_retry();
            let times = [arrival, departure, retry].into_iter().flatten();
            let Some(now) = times.min() else {
                break;
            };
            self.now = now;
            self.depart();
            while self
                .tasks
                .get(arrived)
                .is_some_and(|task| task.arrival <= now)
            {
                self.arrive(arrived);
                arrived += 1;
            }
            self.place();
            self.record();
            progress(arrived, self.tasks.len());
        }
    }

    fn depart(&mut self) {
        while let Some(&Reverse((time, task, kills))) = self.departures.peek()
            && time <= self.now
        {
            self.departures.pop();
            if self.tasks[task].kills != kills {
                continue;
            }
            let metadata = &self.tasks[task].pod.metadata;
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            if let Some(pod) = self.engine.pod(&namespace, &name) {
                self.count(pod, -1);
                self.tasks_by_pod.remove(&pod);
            }
            self.engine
                .handle(Event::PodGone { namespace, name }, self.now);
        }
    }

    fn arrive(&mut self, task: usize) {
        let pod = &self.tasks[task].pod;
        self.engine.handle(Event::PodChanged(pod.clone()), self.now);
        if let Some(id) = self.engine.pod(&pod.metadata.namespace, &pod.metadata.name) {
            self.tasks_by_pod.insert(id, task);
            self.waiting += 1;
        }
    }

    fn place(&mut self) {
        while let Some(decision) = self.engine.next(self.now) {
            self.decisions += 1;
            if let Some(preemption) = &decision.preemption {
                self.carry_out(decision.pod, preemption);
            }
            if let Outcome::Scheduled { node, .. } = decision.outcome {
                self.start(decision.pod, node);
            }
        }
        if self.waiting > self.peak.0 {
            self.peak = (self.waiting, self.now);
        }
    }

    /// The node takes a pod.
    fn start(&mut self, pod: PodId, node: NodeId) {
        let task = self.tasks_by_pod[&pod];
        let Task {
            arrival, duration, ..
        } = self.tasks[task];
        self.waiting -= 1;
        if self.tasks[task].started.is_none() {
            self.waits.push(self.now - arrival);
        }
        self.tasks[task].started = Some(self.now);
        self.count(pod, 1);
        if let Some(duration) = duration {
            let end = self.now.saturating_add(duration);
            let kills = self.tasks[task].kills;
            self.departures.push(Reverse((end, task, kills)));
        }
        if self.preempts {
            let mut running = self.tasks[task].pod.clone();
            let node_name = self.engine.cluster().name(node).to_owned();
            Arc::make_mut(&mut running.spec).node_name = node_name;
            running.status.phase = "Running".into();
            let now = i64::try_from(self.now).unwrap_or(i64::MAX);
            running.status.start_time = Some(rfc3339(now));
            self.engine.handle(Event::PodChanged(running), self.now);
        }
    }

    /// Victims go at once, and come again at once.
    fn carry_out(&mut self, preemptor: PodId, preemption: &Preemption) {
        let node = self.engine.cluster().name(preemption.node).to_owned();
        for victim in &preemption.victims.pods {
            let Some(&task) = self.tasks_by_pod.get(victim) else {
                continue;
            };
            self.count(*victim, -1);
            self.tasks_by_pod.remove(victim);
            let started = self.tasks[task].started.unwrap_or(self.now);
            self.tasks[task].kills += 1;
            let pod = &self.tasks[task].pod;
            let killer = &self.tasks[self.tasks_by_pod[&preemptor]].pod;
            let running_seconds = (self.now - started) / NANOS_PER_SECOND;
            let gpus = gpus(pod);
            self.lost_gpu_seconds += running_seconds * gpus as u64;
            self.victims.push(ReplayVictim {
                at_seconds: self.now / NANOS_PER_SECOND,
                pod: pod.key(),
                priority: pod.spec.priority.unwrap_or(0),
                priority_class_name: pod.spec.priority_class_name.clone(),
                node: node.clone(),
                gpus,
                running_seconds,
                killed_by: killer.key(),
                killed_by_priority: killer.spec.priority.unwrap_or(0),
                kills: self.tasks[task].kills,
            });
            let metadata = &pod.metadata;
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            self.engine
                .handle(Event::PodGone { namespace, name }, self.now);
            self.arrive(task);
        }
    }

    fn count(&mut self, pod: PodId, sign: i64) {
        for &(resource, amount) in self.engine.pod_requests(pod) {
            let row = resource.index();
            if self.requested.len() <= row {
                self.requested.resize(row + 1, 0);
            }
            self.requested[row] += sign * amount;
        }
    }

    fn record(&mut self) {
        self.history
            .push((self.now, self.requested.clone(), self.waiting));
    }

    fn report(&mut self) -> ReplayReport {
        self.waits.sort_unstable();
        let mut reasons = BTreeMap::new();
        for pod in self.engine.pods() {
            if let Some(outrank_engine::PodState::Unschedulable(diagnosis)) =
                self.engine.pod_state(pod)
            {
                *reasons
                    .entry(diagnosis.message(self.engine.cluster()))
                    .or_insert(0) += 1;
            }
        }
        ReplayReport {
            nodes: self.engine.cluster().node_count(),
            pods: self.tasks.len(),
            placed: self.waits.len(),
            pending: self.waiting,
            end_seconds: self.now / NANOS_PER_SECOND,
            decisions: self.decisions,
            pending_seconds: percentiles(&self.waits),
            peak_pending: self.peak.0,
            peak_pending_seconds: self.peak.1 / NANOS_PER_SECOND,
            utilization: self.utilization(),
            reasons,
            killed_again: self.tasks.iter().filter(|task| task.kills > 1).count(),
            victims: std::mem::take(&mut self.victims),
            lost_gpu_seconds: self.lost_gpu_seconds,
            without_change: None,
        }
    }

    fn utilization(&self) -> Vec<Span> {
        let cluster = self.engine.cluster();
        let allocatable: Vec<i64> = cluster
            .resources()
            .map(|resource| {
                cluster
                    .nodes()
                    .map(|node| cluster.allocatable(node, resource))
                    .sum()
            })
            .collect();
        let length = self.now.div_ceil(SPANS as u64);
        if length == 0 {
            return Vec::new();
        }
        let mut spans = Vec::new();
        for span in 0..SPANS as u64 {
            let (start, end) = (span * length, ((span + 1) * length).min(self.now));
            if start >= end {
                break;
            }
            let mut sums = vec![0f64; allocatable.len()];
            let mut pending = 0f64;
            for (from, until, requested, waiting) in self.pieces(start, end) {
                let share = (until - from) as f64 / (end - start) as f64;
                for (sum, amount) in sums.iter_mut().zip(requested) {
                    *sum += share * *amount as f64;
                }
                pending += share * waiting as f64;
            }
            let used = sums.iter().zip(&allocatable).zip(cluster.resources());
            let used = used.filter(|((_, allocatable), _)| **allocatable > 0);
            spans.push(Span {
                start_seconds: start / NANOS_PER_SECOND,
                requested: used
                    .map(|((sum, allocatable), resource)| {
                        (
                            cluster.resource_name(resource).to_owned(),
                            sum / *allocatable as f64,
                        )
                    })
                    .collect(),
                pending,
            });
        }
        spans
    }

    /// The pieces of the history between two times.
    fn pieces(
        &self,
        start: TimeNanos,
        end: TimeNanos,
    ) -> impl Iterator<Item = (TimeNanos, TimeNanos, &[i64], usize)> {
        let first = self
            .history
            .partition_point(|(time, ..)| *time <= start)
            .saturating_sub(1);
        let entries = self.history[first..].iter().enumerate();
        entries.map_while(move |(index, (time, requested, waiting))| {
            let until = self
                .history
                .get(first + index + 1)
                .map_or(end, |(next, ..)| *next);
            let (from, until) = ((*time).max(start), until.min(end));
            (*time < end).then_some((from, until.max(from), requested.as_slice(), *waiting))
        })
    }
}

fn percentiles(sorted_nanos: &[TimeNanos]) -> Percentiles {
    let at = |percent: usize| {
        let rank = (sorted_nanos.len() * percent).div_ceil(100).max(1) - 1;
        sorted_nanos
            .get(rank)
            .map_or(0, |nanos| nanos / NANOS_PER_SECOND)
    };
    Percentiles {
        p50: at(50),
        p90: at(90),
        p99: at(99),
        max: at(100),
    }
}
