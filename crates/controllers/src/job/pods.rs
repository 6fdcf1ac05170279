//! Making and deleting the pods of a Job.

use std::collections::{BTreeSet, HashMap};

use outrank_api::types::Pod;

use super::indexes::Indexes;
use super::policies::{self, Verdict};
use super::progress::{counted, wait_of_index};
use super::{
    FINALIZER, INDEX, INDEX_FAILURES, INDEX_IGNORED, Member, Turn, indexed_completions,
    is_suspended, replaces_failed_only, without_finalizer,
};
use crate::controller::Plan;
use crate::new_pod::NewPod;
use crate::pod_edit::PodEdit;
use crate::workloads::{prefix_with_index, sort_for_job};
use crate::write::Write;

/// How many pods are made or deleted at a time.
const BURST: usize = 500;

impl<'w> Turn<'w> {
    /// Makes or deletes pods; `wait` is until when none is made.
    pub(super) fn manage(&self, wait: Option<i64>, plan: &mut Plan) {
        if self.progress.end.is_some() {
            // Those that have not ended are counted, so their finalizers go anyway.
            return plan.step(self.sums.active().map(|it| Write::delete(it.stored)));
        }
        if self.job.metadata.deletion_timestamp.is_some() {
            return;
        }
        if is_suspended(self.job) {
            let active: Vec<Member<'w>> = self.sums.active().collect();
            return self.remove(&active, plan);
        }
        let (active, wanted) = (self.sums.active_count(), self.wanted());
        let surplus = self.surplus(active.saturating_sub(wanted));
        if !surplus.is_empty() {
            let some = &surplus[..surplus.len().min(BURST)];
            return self.remove(some, plan);
        }
        let going = match replaces_failed_only(self.job) {
            true => self.sums.terminating_count(),
            false => 0,
        };
        let missing = wanted.saturating_sub(active + going).min(BURST);
        if missing > 0 {
            self.create(missing, wait, plan);
        }
    }

    /// How many pods should be active.
    fn wanted(&self) -> usize {
        let number = |it: i32| usize::try_from(it).unwrap_or(0);
        let parallelism = number(self.job.spec.parallelism.unwrap_or(1));
        match self.job.spec.completions {
            Some(completions) => {
                number(completions.saturating_sub(self.progress.succeeded)).min(parallelism)
            }
            // After the first success the others run to their end.
            None if self.progress.succeeded > 0 => self.sums.active_count(),
            None => parallelism,
        }
    }

    /// The active pods that must go, at least so many: first those whose number is wrong, or
    /// another's too.
    fn surplus(&self, at_least: usize) -> Vec<Member<'w>> {
        if at_least == 0 && self.sums.has_one_of_each() {
            return Vec::new();
        }
        let mut left: Vec<Member<'w>> = self.sums.active().collect();
        let mut surplus = Vec::new();
        let mut pods: Vec<&Pod> = left.iter().map(|it| it.pod).collect();
        sort_for_job(&mut pods);
        let rank: HashMap<&str, usize> = pods
            .iter()
            .enumerate()
            .map(|(rank, pod)| (pod.metadata.uid.as_str(), rank))
            .collect();
        left.sort_by_key(|it| rank.get(it.pod.metadata.uid.as_str()).copied());
        if indexed_completions(self.job).is_some() {
            let mut seen = BTreeSet::new();
            let mut staying = Vec::new();
            for member in left.into_iter().rev() {
                match member.index {
                    Some(index) if seen.insert(index) => staying.push(member),
                    _ => surplus.push(member),
                }
            }
            staying.reverse();
            left = staying;
        }
        let more = at_least.saturating_sub(surplus.len());
        surplus.extend(left.into_iter().take(more));
        surplus
    }

    /// Deletes pods that shall not count.
    fn remove(&self, members: &[Member<'w>], plan: &mut Plan) {
        let uncounted = members.iter().filter(|it| it.has_finalizer());
        plan.step(uncounted.map(|it| without_finalizer(it.stored)));
        plan.step(members.iter().map(|it| Write::delete(it.stored)));
    }

    fn create(&self, missing: usize, wait: Option<i64>, plan: &mut Plan) {
        let is_per_index = self.job.spec.backoff_limit_per_index.is_some();
        if let Some(time) = wait.filter(|_| !is_per_index) {
            return plan.look_at(time);
        }
        let Some(completions) = indexed_completions(self.job) else {
            let new = std::iter::repeat_with(|| self.new_pod().create());
            return plan.slow_start(new.take(missing));
        };
        let mut indexes = self.pending_indexes(completions, missing);
        if is_per_index {
            indexes.retain(|index| {
                let replaced = self.progress.to_replace.get(index);
                let wait = replaced.map(|pod| wait_of_index(pod));
                let wait = wait.filter(|time| *time > self.now);
                wait.into_iter().for_each(|time| plan.look_at(time));
                wait.is_none()
            });
        }
        plan.slow_start(indexes.into_iter().map(|it| self.new_indexed_pod(it)));
    }

    /// The lowest numbers that are neither done nor given up nor at work.
    fn pending_indexes(&self, completions: i32, count: usize) -> Vec<i32> {
        let mut going = Indexes::default();
        if replaces_failed_only(self.job) {
            for index in self.sums.terminating().filter_map(|it| it.index) {
                going.insert(index);
            }
        }
        let taken = [
            Some(&self.progress.succeeded_indexes),
            Some(&self.sums.active_indexes),
            self.progress.failed_indexes.as_ref(),
            Some(&going),
        ];
        let mut pending = Vec::new();
        let mut index = 0;
        while index < completions && pending.len() < count {
            let mut taken = taken.iter().flatten();
            match taken.find_map(|it| it.end_of_run(index)) {
                Some(last) => index = last.saturating_add(1),
                None => {
                    pending.push(index);
                    index += 1;
                }
            }
        }
        pending
    }

    fn new_pod(&self) -> NewPod {
        let template = &self.job.spec.template;
        let mut pod = NewPod::of(self.stored, template, "/spec/template/spec");
        let finalizers = &mut pod.metadata.finalizers;
        if !finalizers.iter().any(|it| it == FINALIZER) {
            finalizers.push(FINALIZER.to_owned());
        }
        pod
    }

    fn new_indexed_pod(&self, index: i32) -> Write {
        let mut pod = self.new_pod();
        let name = &self.job.metadata.name;
        pod.metadata.generate_name = prefix_with_index(name, u64::from(index.unsigned_abs()));
        pod.label(INDEX, index.to_string());
        let annotations = &mut pod.metadata.annotations;
        annotations.insert(INDEX.to_owned(), index.to_string());
        if self.job.spec.backoff_limit_per_index.is_some() {
            let (failures, ignored) = self.failures_before(index);
            annotations.insert(INDEX_FAILURES.to_owned(), failures.to_string());
            if ignored > 0 {
                annotations.insert(INDEX_IGNORED.to_owned(), ignored.to_string());
            }
        }
        pod.edits.push(PodEdit::Hostname(format!("{name}-{index}")));
        pod.edits.push(PodEdit::EnvOfLabel {
            name: "JOB_COMPLETION_INDEX",
            label: INDEX,
        });
        pod.create()
    }

    /// How often an index has failed, and how often that was ignored.
    fn failures_before(&self, index: i32) -> (i32, i32) {
        let Some(pod) = self.progress.to_replace.get(&index) else {
            return (0, 0);
        };
        let (failures, ignored) = (counted(pod, INDEX_FAILURES), counted(pod, INDEX_IGNORED));
        match policies::verdict(self.job, pod) {
            Verdict::Ignore => (failures, ignored.saturating_add(1)),
            _ => (failures.saturating_add(1), ignored),
        }
    }
}
