//! The scheduling queue: which pod is tried next, and who waits for what.
//!
//! A pod is in one of these places. *Active* pods are tried next, higher priority first,
//! then who came first. Pods that were refused are *waiting*; when the cluster changes in
//! a way that lets a node take them they move on, to *backoff* if their last attempt is
//! too recent (1 second after the first, doubling up to 10), else to active. When nothing
//! is active, backing off is cut short: there is nothing better to do. *Gated* pods are
//! not in the queue at all.
//!
//! Source: `backend/queue/{scheduling_queue,active_queue,backoff_queue}.go` and
//! `plugins/queuesort/priority_sort.go`, Kubernetes 1.36. Unlike there, waiting pods are
//! kept by class, since an event helps all pods of a class or none, and by priority, since it may
//! let some of them preempt.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::ids::{ClassId, PodId};
use crate::plugins::priority_sort::PrioritySort;

/// Time in nanoseconds since some fixed instant; the caller's clock.
pub type TimeNanos = u64;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// How long a refused pod waits at least before it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first attempt, in seconds.
    pub initial_seconds: u64,
    /// At most, in seconds.
    pub maximum_seconds: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial_seconds: 1,
            maximum_seconds: 10,
        }
    }
}

impl Backoff {
    fn nanos(self, attempts: u32) -> u64 {
        let doubled = self.initial_seconds.checked_shl(attempts.saturating_sub(1));
        let doubled =
            doubled.filter(|seconds| seconds >> attempts.saturating_sub(1) == self.initial_seconds);
        doubled
            .unwrap_or(u64::MAX)
            .min(self.maximum_seconds)
            .saturating_mul(NANOS_PER_SECOND)
    }
}

/// What the queue remembers of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueState {
    /// When the pod came, or when it was last refused.
    timestamp: TimeNanos,
    /// Order among pods of equal priority and timestamp.
    sequence: u64,
    /// How often it was tried.
    pub(crate) attempts: u32,
    place: Place,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    Active,
    Backoff(TimeNanos),
    /// As a pod of that priority.
    Waiting(i32),
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchedulingQueue {
    backoff: Backoff,
    active: BinaryHeap<(PrioritySort, PodId)>,
    backing_off: BTreeSet<(TimeNanos, u64, PodId)>,
    waiting: BTreeMap<(ClassId, i32), BTreeMap<u64, PodId>>,
    next_sequence: u64,
}

impl SchedulingQueue {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            ..Self::default()
        }
    }

    /// Adds a pod that was not in the queue.
    pub(crate) fn add(
        &mut self,
        pod: PodId,
        priority: i32,
        state: &mut QueueState,
        now: TimeNanos,
    ) {
        state.timestamp = now;
        state.sequence = self.sequence();
        self.activate(pod, priority, state);
    }

    /// Takes a pod out of wherever it is.
    pub(crate) fn remove(&mut self, pod: PodId, class: ClassId, state: &mut QueueState) {
        match std::mem::take(&mut state.place) {
            // Entries of the heap are checked when they come to the top.
            Place::Nowhere | Place::Active => {}
            Place::Backoff(until) => {
                self.backing_off.remove(&(until, state.sequence, pod));
            }
            Place::Waiting(priority) => self.forget_waiting((class, priority), state.sequence),
        }
    }

    /// Takes out a pod if it waits for an event; returns whether it did.
    pub(crate) fn stop_waiting(
        &mut self,
        pod: PodId,
        class: ClassId,
        state: &mut QueueState,
    ) -> bool {
        let waits = matches!(state.place, Place::Waiting(_));
        if waits {
            self.remove(pod, class, state);
        }
        waits
    }

    /// Takes the pod that is tried next. `state` gives the state of a pod.
    pub(crate) fn pop(&mut self, state: impl Fn(PodId) -> Option<QueueState>) -> Option<PodId> {
        while let Some((key, pod)) = self.active.pop() {
            let sequence = key.sequence();
            let current = state(pod);
            let is_current =
                |state: &QueueState| state.place == Place::Active && state.sequence == sequence;
            if current.as_ref().is_some_and(is_current) {
                return Some(pod);
            }
        }
        self.backing_off.pop_first().map(|(_, _, pod)| pod)
    }

    /// Moves pods whose backoff is over to the active ones.
    pub(crate) fn flush(&mut self, now: TimeNanos) -> Vec<PodId> {
        let mut due = Vec::new();
        while let Some(&(until, _, pod)) = self.backing_off.first()
            && until <= now
        {
            self.backing_off.pop_first();
            due.push(pod);
        }
        due
    }

    /// Marks a popped pod as tried.
    pub(crate) fn tried(state: &mut QueueState) {
        state.place = Place::Nowhere;
        state.attempts = state.attempts.saturating_add(1);
    }

    /// Lets a refused pod wait for an event.
    pub(crate) fn wait(
        &mut self,
        pod: PodId,
        class: ClassId,
        priority: i32,
        state: &mut QueueState,
        now: TimeNanos,
    ) {
        state.timestamp = now;
        state.sequence = self.sequence();
        state.place = Place::Waiting(priority);
        self.waiting
            .entry((class, priority))
            .or_default()
            .insert(state.sequence, pod);
    }

    /// Classes with waiting pods, in order.
    pub(crate) fn waiting_classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        let mut last = None;
        let classes = self.waiting.keys().map(|(class, _)| *class);
        classes.filter(move |class| last.replace(*class) != Some(*class))
    }

    /// Classes with waiting pods and their priorities, in order.
    pub(crate) fn waiting_kinds(&self) -> impl Iterator<Item = (ClassId, i32)> + '_ {
        self.waiting.keys().copied()
    }

    /// The waiting pods of a class, by priority and then in the order in which they were
    /// refused.
    pub(crate) fn waiting(&self, class: ClassId) -> impl Iterator<Item = PodId> + '_ {
        let kinds = self.waiting.range((class, i32::MIN)..=(class, i32::MAX));
        kinds.flat_map(|(_, pods)| pods.values().copied())
    }

    /// Takes out the waiting pods of a class.
    pub(crate) fn take_waiting(&mut self, class: ClassId) -> Vec<PodId> {
        let kinds = self.waiting.range((class, i32::MIN)..=(class, i32::MAX));
        let priorities: Vec<i32> = kinds.map(|((_, priority), _)| *priority).collect();
        let pods = priorities.into_iter();
        pods.flat_map(|priority| self.take_waiting_of(class, priority))
            .collect()
    }

    /// Takes out the waiting pods of a class and priority, in the order in which they were
    /// refused.
    pub(crate) fn take_waiting_of(&mut self, class: ClassId, priority: i32) -> Vec<PodId> {
        self.waiting
            .remove(&(class, priority))
            .unwrap_or_default()
            .into_values()
            .collect()
    }

    /// Queues a pod that no longer waits: at once, or when its backoff is over.
    pub(crate) fn requeue(
        &mut self,
        pod: PodId,
        priority: i32,
        state: &mut QueueState,
        now: TimeNanos,
    ) {
        let until = state
            .timestamp
            .saturating_add(self.backoff.nanos(state.attempts));
        if until <= now {
            return self.activate(pod, priority, state);
        }
        state.place = Place::Backoff(until);
        self.backing_off.insert((until, state.sequence, pod));
    }

    /// Makes a pod active, keeping its timestamp.
    pub(crate) fn activate(&mut self, pod: PodId, priority: i32, state: &mut QueueState) {
        state.place = Place::Active;
        let key = PrioritySort::new(priority, state.timestamp, state.sequence);
        self.active.push((key, pod));
    }

    fn sequence(&mut self) -> u64 {
        self.next_sequence += 1;
        self.next_sequence
    }

    fn forget_waiting(&mut self, kind: (ClassId, i32), sequence: u64) {
        if let Some(pods) = self.waiting.get_mut(&kind) {
            pods.remove(&sequence);
            if pods.is_empty() {
                self.waiting.remove(&kind);
            }
        }
    }
}
