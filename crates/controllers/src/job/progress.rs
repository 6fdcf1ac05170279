//! How far a Job is: what its pods have come to, and whether it is over.

use std::collections::{BTreeMap, HashSet};

use outrank_api::time::unix_nanos;
use outrank_api::types::{ContainerStatus, Job, Pod, UncountedTerminatedPods};

use super::indexes::Indexes;
use super::policies::{self, Verdict};
use super::sums::JobSums;
use super::{
    Failures, INDEX_FAILURES, INDEX_IGNORED, SECOND, has_failed, indexed_completions, is_suspended,
    replaces_failed_only,
};
use crate::conditions;
use crate::controller::Plan;
use crate::pod_state::sidecar_statuses;

/// The wait after a failure, doubled with each, and the longest.
const BACK_OFF: i64 = 10 * SECOND;
const BACK_OFF_MAX: i64 = 600 * SECOND;

/// Why a job is over: reason and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Success(String, String),
    Failure(String, String),
}

/// How far a job is.
pub(super) struct Progress<'w> {
    pub(super) succeeded: i32,
    /// Numbers that are done, and those that have failed for good.
    pub(super) succeeded_indexes: Indexes,
    pub(super) failed_indexes: Option<Indexes>,
    /// By number, the pod that failed last and has not been replaced; it keeps its finalizer,
    /// since its failures are handed on to the next.
    pub(super) to_replace: BTreeMap<i32, &'w Pod>,
    pub(super) end: Option<End>,
}

impl<'w> Progress<'w> {
    pub(super) fn of(job: &Job, sums: &'w JobSums, now: i64, plan: &mut Plan) -> Self {
        let none = UncountedTerminatedPods::default();
        let uncounted = job
            .status
            .uncounted_terminated_pods
            .as_ref()
            .unwrap_or(&none);
        let known: HashSet<&String> = uncounted
            .succeeded
            .iter()
            .chain(&uncounted.failed)
            .collect();
        let completions = indexed_completions(job);
        let replaces_failed_only = replaces_failed_only(job);
        let (mut succeeded, mut failed) = (0_usize, 0_usize);
        for member in sums.unsettled() {
            let is_valid = completions.is_none() || member.index.is_some();
            if !is_valid || known.contains(&member.pod.metadata.uid) {
                continue;
            }
            if member.pod.status.phase == "Succeeded" {
                succeeded += 1;
            } else if has_failed(replaces_failed_only, member.pod) {
                failed += usize::from(policies::verdict(job, member.pod) != Verdict::Ignore);
            }
        }
        let mut progress = Self {
            succeeded: plus(job.status.succeeded, succeeded + uncounted.succeeded.len()),
            succeeded_indexes: Indexes::default(),
            failed_indexes: None,
            to_replace: BTreeMap::new(),
            end: None,
        };
        let failed = plus(job.status.failed, failed + uncounted.failed.len());
        progress.end = end_known(job)
            .or_else(|| end_by_policy(job, sums))
            .or_else(|| end_by_limits(job, sums, failed, now, plan));
        if let Some(completions) = completions {
            progress.look_at_indexes(job, sums, completions);
        }
        let is_active = sums.active_count() > 0;
        progress.end = progress
            .end
            .take()
            .or_else(|| progress.end_by_success(job).filter(|_| !is_active));
        progress
    }

    fn look_at_indexes(&mut self, job: &Job, sums: &'w JobSums, completions: i32) {
        self.succeeded_indexes = Indexes::read(&job.status.completed_indexes, completions);
        let unsettled = sums.unsettled();
        let succeeded = unsettled.filter(|it| it.pod.status.phase == "Succeeded");
        for index in succeeded.filter_map(|it| it.index) {
            self.succeeded_indexes.insert(index);
        }
        self.succeeded = plus(0, self.succeeded_indexes.len());
        if let Some(limit) = job.spec.backoff_limit_per_index {
            self.look_at_failed_indexes(job, sums, completions, limit);
        }
        if self.end.is_none() {
            let message = policies::success(job, &self.succeeded_indexes, completions);
            self.end = message.map(|it| End::Success("SuccessPolicy".to_owned(), it));
        }
    }

    fn look_at_failed_indexes(
        &mut self,
        job: &Job,
        sums: &'w JobSums,
        completions: i32,
        limit: i32,
    ) {
        let known = job.status.failed_indexes.as_deref().unwrap_or_default();
        let mut failed = Indexes::read(known, completions);
        let replaces_failed_only = replaces_failed_only(job);
        let gone_wrong: Vec<(i32, &Pod)> = sums
            .unsettled()
            .filter(|it| has_failed(replaces_failed_only, it.pod))
            .filter_map(|it| Some((it.index?, it.pod)))
            .collect();
        for (index, pod) in &gone_wrong {
            let is_final = match policies::verdict(job, pod) {
                Verdict::FailIndex => true,
                Verdict::Ignore => false,
                _ => counted(pod, INDEX_FAILURES) >= limit,
            };
            if is_final {
                failed.insert(*index);
            }
        }
        for (index, pod) in gone_wrong {
            let is_settled = [&self.succeeded_indexes, &failed, &sums.active_indexes];
            if is_settled.iter().any(|set| set.contains(index)) {
                continue;
            }
            let known = self.to_replace.entry(index).or_insert(pod);
            let is_later = finish_time(pod) >= finish_time(known);
            if is_later && failures_of_index(pod) >= failures_of_index(known) {
                *known = pod;
            }
        }
        if self.end.is_none() {
            self.end = end_by_indexes(job, failed.len(), self.succeeded_indexes.len(), completions);
        }
        self.failed_indexes = Some(failed);
    }

    /// Enough pods have succeeded.
    fn end_by_success(&self, job: &Job) -> Option<End> {
        let is_enough = match job.spec.completions {
            None => self.succeeded > 0,
            Some(completions) => self.succeeded >= completions,
        };
        is_enough.then(|| {
            let message = "Reached expected number of succeeded pods";
            End::Success("CompletionsReached".to_owned(), message.to_owned())
        })
    }
}

/// What the status says already.
fn end_known(job: &Job) -> Option<End> {
    let conditions = &job.status.conditions;
    let find = |condition_type| {
        let found = conditions::find(conditions, condition_type);
        let found = found.filter(|it| it.status == "True");
        found.map(|it| (it.reason.clone(), it.message.clone()))
    };
    let success = find("SuccessCriteriaMet").map(|(reason, it)| End::Success(reason, it));
    success.or_else(|| find("FailureTarget").map(|(reason, it)| End::Failure(reason, it)))
}

fn failure(reason: &str, message: &str) -> End {
    End::Failure(reason.to_owned(), message.to_owned())
}

fn end_by_policy(job: &Job, sums: &JobSums) -> Option<End> {
    job.spec.pod_failure_policy.as_ref()?;
    let mut messages = sums
        .failed()
        .filter_map(|it| match policies::verdict(job, it.pod) {
            Verdict::FailJob(message) => Some(message),
            _ => None,
        });
    messages
        .next()
        .map(|message| End::Failure("PodFailurePolicy".to_owned(), message))
}

fn end_by_limits(job: &Job, sums: &JobSums, failed: i32, now: i64, plan: &mut Plan) -> Option<End> {
    let limit = job.spec.backoff_limit.unwrap_or(6);
    if failed > limit || has_restarted_too_often(job, sums, limit) {
        let message = "Job has reached the specified backoff limit";
        return Some(failure("BackoffLimitExceeded", message));
    }
    let seconds = job
        .spec
        .active_deadline_seconds
        .filter(|_| !is_suspended(job))?;
    let start = job
        .status
        .start_time
        .as_deref()
        .and_then(unix_nanos)
        .unwrap_or(now);
    let deadline = start.saturating_add(seconds.saturating_mul(SECOND));
    if now >= deadline {
        let message = "Job was active longer than specified deadline";
        return Some(failure("DeadlineExceeded", message));
    }
    plan.look_at(deadline);
    None
}

/// Restarts count as failures where the kubelet restarts containers.
fn has_restarted_too_often(job: &Job, sums: &JobSums, limit: i32) -> bool {
    let restarts_containers = job.spec.template.spec.restart_policy == "OnFailure";
    restarts_containers && sums.restarts >= i64::from(limit.max(1))
}

fn end_by_indexes(job: &Job, failed: usize, succeeded: usize, completions: i32) -> Option<End> {
    let max = job
        .spec
        .max_failed_indexes
        .and_then(|it| usize::try_from(it).ok());
    if max.is_some_and(|max| failed > max) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(failure("MaxFailedIndexesExceeded", message));
    }
    let completions = usize::try_from(completions).unwrap_or(0);
    let all_are_over = failed > 0 && failed + succeeded >= completions;
    all_are_over.then(|| failure("FailedIndexes", "Job has failed indexes"))
}

/// A number of pods more.
pub(super) fn plus(number: i32, pods: usize) -> i32 {
    number.saturating_add(i32::try_from(pods).unwrap_or(i32::MAX))
}

/// A number in an annotation; 0 without one, and below 0.
pub(super) fn counted(pod: &Pod, annotation: &str) -> i32 {
    let text = pod.metadata.annotations.get(annotation);
    let number: i32 = text.and_then(|it| it.parse().ok()).unwrap_or(0);
    number.max(0)
}

/// How often the index of a pod had failed before the pod, counted or not.
fn failures_of_index(pod: &Pod) -> i32 {
    counted(pod, INDEX_FAILURES).saturating_add(counted(pod, INDEX_IGNORED))
}

/// Until when an index whose pod has failed is not tried again.
pub(super) fn wait_of_index(pod: &Pod) -> i64 {
    finish_time(pod).saturating_add(back_off(failures_of_index(pod).saturating_add(1)))
}

fn back_off(failures: i32) -> i64 {
    let doubled = u32::try_from(failures.saturating_sub(1))
        .unwrap_or(0)
        .min(20);
    BACK_OFF.saturating_mul(1 << doubled).min(BACK_OFF_MAX)
}

/// When the last of containers ended; `None` if one has not, or does not say.
fn last_end<'p>(statuses: impl Iterator<Item = &'p ContainerStatus>) -> Option<i64> {
    let end = |it: &ContainerStatus| {
        let ended = it.state.terminated.as_ref()?;
        ended.finished_at.as_deref().and_then(unix_nanos)
    };
    let ends: Option<Vec<i64>> = statuses.map(end).collect();
    ends?.into_iter().max()
}

/// When a pod ended, as far as it says. Sidecars end after the other containers.
fn finish_time(pod: &Pod) -> i64 {
    let sidecars: Vec<&ContainerStatus> = sidecar_statuses(pod).collect();
    let containers = last_end(pod.status.container_statuses.iter());
    let last = match sidecars.is_empty() {
        true => containers,
        false => last_end(sidecars.into_iter()).map(|it| containers.unwrap_or(it).max(it)),
    };
    let unready = || {
        let ready = pod
            .status
            .conditions
            .iter()
            .find(|it| it.type_ == "Ready")?;
        let since = ready.last_transition_time.as_deref();
        since
            .filter(|_| ready.status == "False")
            .and_then(unix_nanos)
    };
    let metadata = &pod.metadata;
    // The wish to delete it came a grace period before.
    let deletion = || {
        let end = metadata
            .deletion_timestamp
            .as_deref()
            .and_then(unix_nanos)?;
        let grace = metadata.deletion_grace_period_seconds.unwrap_or(0);
        Some(end.saturating_sub(grace.saturating_mul(SECOND)))
    };
    let creation = || metadata.creation_timestamp.as_deref().and_then(unix_nanos);
    last.or_else(unready)
        .or_else(deletion)
        .or_else(creation)
        .unwrap_or(0)
}

impl Failures {
    /// Notes which pods have ended since this was last asked.
    pub(super) fn note(&mut self, job: &Job, sums: &JobSums) {
        let uncounted = job.status.uncounted_terminated_pods.as_ref();
        let lists = uncounted.map(|it| [&it.succeeded, &it.failed]);
        let is_counted =
            |uid: &String| lists.is_some_and(|it| it.iter().any(|it| it.contains(uid)));
        let mut noted = HashSet::new();
        let mut succeeded: Option<i64> = None;
        let mut failed: Vec<i64> = Vec::new();
        for member in sums.unsettled() {
            let uid = &member.pod.metadata.uid;
            noted.insert(uid.clone());
            if self.noted.contains(uid) || is_counted(uid) {
                continue;
            }
            let time = finish_time(member.pod);
            match member.pod.status.phase == "Succeeded" {
                true => succeeded = succeeded.max(Some(time)),
                false => failed.push(time),
            }
        }
        self.noted = noted;
        if succeeded.is_some() {
            (self.count, self.last) = (0, None);
            failed.retain(|time| Some(*time) > succeeded);
        }
        self.count = plus(self.count, failed.len());
        self.last = failed.into_iter().max().or(self.last);
    }

    /// Until when no pod is made.
    pub(super) fn wait_until(&self) -> Option<i64> {
        Some(self.last?.saturating_add(back_off(self.count)))
    }
}
