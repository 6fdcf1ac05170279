//! What a ReplicaSet counts of its pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrank_api::types::{Pod, StringMap};

use crate::pod_state::{Availability, is_active, is_going};
use crate::roster::Sums;
use crate::world::{Key, Objects, Stored};

/// What the counts depend on beside the pods.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Basis {
    pub(super) min_ready_seconds: i32,
    /// Those of the template.
    pub(super) labels: StringMap,
}

/// Counts over the pods of a ReplicaSet.
#[derive(Clone, Debug)]
pub(super) struct ReplicaSums {
    basis: Basis,
    /// By name.
    pub(super) active: Objects,
    /// Active and with all labels of the template.
    pub(super) fully_labeled: usize,
    /// Active and ready.
    pub(super) ready: usize,
    /// Of the ready ones, those that are not known to be available, by the time when they are.
    available_at: BTreeSet<(i64, Key)>,
    /// Being deleted, and not ended.
    pub(super) terminating: usize,
}

impl ReplicaSums {
    /// How many pods are available, and when the next one will be.
    pub(super) fn available(&mut self, now: i64) -> (usize, Option<i64>) {
        while let Some((time, _)) = self.available_at.first()
            && *time <= now
        {
            self.available_at.pop_first();
        }
        let next = self.available_at.first().map(|(time, _)| *time);
        (self.ready.saturating_sub(self.available_at.len()), next)
    }

    fn availability(&self, pod: &Pod) -> Availability {
        Availability::of(pod, self.basis.min_ready_seconds, i64::MIN)
    }

    fn has_all_labels(&self, pod: &Pod) -> bool {
        let mut labels = self.basis.labels.iter();
        labels.all(|(key, value)| pod.metadata.labels.get(key) == Some(value))
    }
}

impl Sums for ReplicaSums {
    type Basis = Basis;

    fn of(basis: &Basis) -> Self {
        Self {
            basis: basis.clone(),
            active: Objects::new(),
            fully_labeled: 0,
            ready: 0,
            available_at: BTreeSet::new(),
            terminating: 0,
        }
    }

    fn add(&mut self, key: &Key, stored: &Arc<Stored>, pod: &Pod) {
        self.terminating += usize::from(is_going(pod) && !pod.is_finished());
        if !is_active(pod) {
            return;
        }
        self.active.insert(key.clone(), stored.clone());
        self.fully_labeled += usize::from(self.has_all_labels(pod));
        match self.availability(pod) {
            Availability::NotReady => {}
            Availability::Now => self.ready += 1,
            Availability::At(time) => {
                self.ready += 1;
                self.available_at.insert((time, key.clone()));
            }
        }
    }

    fn take(&mut self, key: &Key, _: &Arc<Stored>, pod: &Pod) {
        self.terminating -= usize::from(is_going(pod) && !pod.is_finished());
        if self.active.remove(key).is_none() {
            return;
        }
        self.fully_labeled -= usize::from(self.has_all_labels(pod));
        match self.availability(pod) {
            Availability::NotReady => {}
            Availability::Now => self.ready -= 1,
            Availability::At(time) => {
                self.ready -= 1;
                self.available_at.remove(&(time, key.clone()));
            }
        }
    }
}
