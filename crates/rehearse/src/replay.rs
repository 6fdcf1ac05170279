//! A trace under a virtual clock: pods come and go as they did, and wait when there is
//! no room.
//!
//! A pod runs for as long as it did in the trace (from creation to deletion), counted from
//! when it is placed here. At one instant, pods that go make room first, then pods that
//! come are queued, then everything that can be placed is. Deciding takes no virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use outrank_api::types::Pod;
use outrank_engine::ids::PodId;
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
}

struct Replay {
    engine: Engine,
    tasks: Vec<Task>,
    /// Tasks that came, by the engine's number.
    tasks_by_pod: HashMap<PodId, usize>,
    departures: BinaryHeap<Reverse<(TimeNanos, usize)>>,
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
            });
        Ok(Self {
            tasks: tasks.collect(),
            engine,
            tasks_by_pod: HashMap::new(),
            departures: BinaryHeap::new(),
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
            let departure = self.departures.peek().map(|Reverse((time, _))| *time);
            let Some(now) = arrival.into_iter().chain(departure).min() else {
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
        while let Some(&Reverse((time, task))) = self.departures.peek()
            && time <= self.now
        {
            self.departures.pop();
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
            if !matches!(decision.outcome, Outcome::Scheduled { .. }) {
                continue;
            }
            let task = self.tasks_by_pod[&decision.pod];
            let Task {
                arrival, duration, ..
            } = self.tasks[task];
            self.waiting -= 1;
            self.waits.push(self.now - arrival);
            self.count(decision.pod, 1);
            if let Some(duration) = duration {
                self.departures
                    .push(Reverse((self.now.saturating_add(duration), task)));
            }
        }
        if self.waiting > self.peak.0 {
            self.peak = (self.waiting, self.now);
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
