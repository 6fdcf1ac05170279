//! What a Job keeps of its pods, so that it need not look at all of them each time.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use outrank_api::types::{Job, Pod};

use super::indexes::Indexes;
use super::{INDEX, Member, has_failed, has_finalizer, indexed_completions, replaces_failed_only};
use crate::pod_state::{is_active, is_going, is_ready};
use crate::roster::Sums;
use crate::world::{Key, Objects, Stored};

/// What the sums depend on beside the pods.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Basis {
    /// How many pods have numbers, if they have.
    completions: Option<i32>,
    /// Whether a pod that is going has not failed yet.
    replaces_failed_only: bool,
}

impl Basis {
    pub(super) fn of(job: &Job) -> Self {
        Self {
            completions: indexed_completions(job),
            replaces_failed_only: replaces_failed_only(job),
        }
    }
}

/// Sums over the pods of a job.
#[derive(Clone, Debug)]
pub(super) struct JobSums {
    basis: Basis,
    active: Objects,
    /// Active and ready.
    pub(super) ready: usize,
    /// Being deleted, and not ended.
    terminating: Objects,
    /// Restarts of the containers of pods that have not ended.
    pub(super) restarts: i64,
    /// All that have failed, counted or not.
    failed: Objects,
    /// With the finalizer, by number and name.
    held: BTreeMap<Place, Arc<Stored>>,
    held_uids: HashSet<String>,
    /// Those of `held` that have succeeded or failed.
    unsettled: BTreeMap<Place, Arc<Stored>>,
    /// The numbers of active pods.
    pub(super) active_indexes: Indexes,
    /// Active pods whose number another has, too.
    doubles: BTreeMap<i32, BTreeSet<Key>>,
    /// Active pods without a number where there should be one.
    without_index: usize,
}

/// In the order in which pods are counted.
type Place = (Option<i32>, Key);

impl JobSums {
    /// How many pods are active.
    pub(super) fn active_count(&self) -> usize {
        self.active.len()
    }

    /// The active pods, by name.
    pub(super) fn active(&self) -> impl Iterator<Item = Member<'_>> {
        self.members(self.active.values())
    }

    /// How many pods are being deleted and have not ended.
    pub(super) fn terminating_count(&self) -> usize {
        self.terminating.len()
    }

    /// The pods that are being deleted and have not ended, by name.
    pub(super) fn terminating(&self) -> impl Iterator<Item = Member<'_>> {
        self.members(self.terminating.values())
    }

    /// The pods that have failed, by name.
    pub(super) fn failed(&self) -> impl Iterator<Item = Member<'_>> {
        self.members(self.failed.values())
    }

    /// The pods that have ended, or count as failed, and are held until they are counted: by
    /// number and name.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = Member<'_>> {
        self.members(self.unsettled.values())
    }

    /// All pods with the finalizer, by number and name.
    pub(super) fn held(&self) -> impl Iterator<Item = Member<'_>> {
        self.members(self.held.values())
    }

    /// Whether the pod with this uid has the finalizer.
    pub(super) fn holds(&self, uid: &str) -> bool {
        self.held_uids.contains(uid)
    }

    /// Whether each active pod has a number of its own, if pods have numbers.
    pub(super) fn has_one_of_each(&self) -> bool {
        self.without_index == 0 && self.doubles.is_empty()
    }

    fn members<'s>(
        &'s self,
        stored: impl Iterator<Item = &'s Arc<Stored>>,
    ) -> impl Iterator<Item = Member<'s>> {
        stored.filter_map(|stored| {
            let pod = stored.get::<Pod>()?;
            let index = self.index_of(pod);
            Some(Member { stored, pod, index })
        })
    }

    fn index_of(&self, pod: &Pod) -> Option<i32> {
        let completions = self.basis.completions?;
        let index = pod.metadata.annotations.get(INDEX)?;
        let index: i32 = index.parse().ok()?;
        (0..completions).contains(&index).then_some(index)
    }

    fn is_failure(&self, pod: &Pod) -> bool {
        has_failed(self.basis.replaces_failed_only, pod)
    }

    fn add_active_index(&mut self, key: &Key, pod: &Pod) {
        match self.index_of(pod) {
            None => self.without_index += usize::from(self.basis.completions.is_some()),
            Some(index) if self.active_indexes.insert(index) => {}
            Some(index) => {
                self.doubles.entry(index).or_default().insert(key.clone());
            }
        }
    }

    fn take_active_index(&mut self, key: &Key, pod: &Pod) {
        let Some(index) = self.index_of(pod) else {
            self.without_index -= usize::from(self.basis.completions.is_some());
            return;
        };
        let Some(doubles) = self.doubles.get_mut(&index) else {
            self.active_indexes.remove(index);
            return;
        };
        // It does not matter which of them is taken for the first.
        if !doubles.remove(key) {
            doubles.pop_first();
        }
        if doubles.is_empty() {
            self.doubles.remove(&index);
        }
    }
}

impl Sums for JobSums {
    type Basis = Basis;

    fn of(basis: &Basis) -> Self {
        Self {
            basis: basis.clone(),
            active: Objects::new(),
            ready: 0,
            terminating: Objects::new(),
            restarts: 0,
            failed: Objects::new(),
            held: BTreeMap::new(),
            held_uids: HashSet::new(),
            unsettled: BTreeMap::new(),
            active_indexes: Indexes::default(),
            doubles: BTreeMap::new(),
            without_index: 0,
        }
    }

    fn add(&mut self, key: &Key, stored: &Arc<Stored>, pod: &Pod) {
        if is_active(pod) {
            self.active.insert(key.clone(), stored.clone());
            self.ready += usize::from(is_ready(pod));
            self.add_active_index(key, pod);
        }
        if is_going(pod) && !pod.is_finished() {
            self.terminating.insert(key.clone(), stored.clone());
        }
        self.restarts += restarts(pod);
        let has_failed = self.is_failure(pod);
        if has_failed {
            self.failed.insert(key.clone(), stored.clone());
        }
        if has_finalizer(stored) {
            let place = (self.index_of(pod), key.clone());
            self.held_uids.insert(pod.metadata.uid.clone());
            if has_failed || pod.status.phase == "Succeeded" {
                self.unsettled.insert(place.clone(), stored.clone());
            }
            self.held.insert(place, stored.clone());
        }
    }

    fn take(&mut self, key: &Key, stored: &Arc<Stored>, pod: &Pod) {
        if self.active.remove(key).is_some() {
            self.ready -= usize::from(is_ready(pod));
            self.take_active_index(key, pod);
        }
        self.terminating.remove(key);
        self.restarts -= restarts(pod);
        self.failed.remove(key);
        if has_finalizer(stored) {
            let place = (self.index_of(pod), key.clone());
            self.held_uids.remove(&pod.metadata.uid);
            self.unsettled.remove(&place);
            self.held.remove(&place);
        }
    }
}

/// How often containers of a pod that has not ended were started again.
fn restarts(pod: &Pod) -> i64 {
    let status = &pod.status;
    if !matches!(status.phase.as_str(), "Running" | "Pending") {
        return 0;
    }
    let containers = status.init_container_statuses.iter();
    let containers = containers.chain(&status.container_statuses);
    containers.map(|it| i64::from(it.restart_count)).sum()
}
