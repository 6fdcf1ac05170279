//! Counting the pods of a Job, each once, and saying when it is over.

use outrank_api::time::rfc3339;
use outrank_api::types::{JobStatus, UncountedTerminatedPods, WorkloadCondition};

use super::indexes::Indexes;
use super::policies::{self, Verdict};
use super::progress::{End, plus};
use super::{
    Member, Turn, has_failed, indexed_completions, is_suspended, replaces_failed_only,
    without_finalizer,
};
use crate::conditions::{self, condition};
use crate::controller::Plan;
use crate::write::{Event, Write};

/// How many pods are counted at a time.
const UNCOUNTED_MAX: usize = 500;

impl<'w> Turn<'w> {
    /// Writes the status, then lets pods that are in it go.
    pub(super) fn track(&self, plan: &mut Plan) {
        let old = &self.job.status;
        let mut status = old.clone();
        let (active, terminating) = (self.sums.active_count(), self.sums.terminating_count());
        status.active = plus(0, active);
        status.ready = Some(plus(0, self.sums.ready));
        status.terminating = Some(plus(0, terminating));
        if status.start_time.is_none() && !is_suspended(self.job) {
            status.start_time = Some(rfc3339(self.now));
        }
        self.settle(&mut status);
        let (counted, is_all) = self.count(&mut status);
        let mut events = Vec::new();
        match &self.progress.end {
            None => events.extend(self.note_suspension(&mut status)),
            Some(end) => {
                self.announce(end, &mut status);
                let uncounted = status.uncounted_terminated_pods.as_ref();
                let is_settled =
                    uncounted.is_none_or(|it| it.succeeded.is_empty() && it.failed.is_empty());
                let rests = active == 0 && terminating == 0;
                if is_all && counted.is_empty() && is_settled && rests {
                    events.extend(self.finish(end, &mut status));
                }
            }
        }
        plan.step(Write::status(self.stored, old, &status));
        plan.step(events);
        plan.step(counted.iter().map(|it| without_finalizer(it.stored)));
    }

    /// Moves pods without finalizer from the list of uncounted ones into the sums.
    fn settle(&self, status: &mut JobStatus) {
        let uncounted = status
            .uncounted_terminated_pods
            .get_or_insert_with(Default::default);
        let before = (uncounted.succeeded.len(), uncounted.failed.len());
        uncounted.succeeded.retain(|uid| self.sums.holds(uid));
        uncounted.failed.retain(|uid| self.sums.holds(uid));
        status.succeeded = plus(status.succeeded, before.0 - uncounted.succeeded.len());
        status.failed = plus(status.failed, before.1 - uncounted.failed.len());
    }

    /// Adds pods that have ended to the list of uncounted ones. Returns those whose finalizer
    /// may go once that is written, and whether these are all.
    fn count(&self, status: &mut JobStatus) -> (Vec<Member<'w>>, bool) {
        let completions = indexed_completions(self.job);
        let uncounted = status
            .uncounted_terminated_pods
            .get_or_insert_with(Default::default);
        let prior = completions.map(|it| Indexes::read(&status.completed_indexes, it));
        let mut done = prior.unwrap_or_default();
        let before = done.len();
        let mut counted = Vec::new();
        let mut is_all = true;
        for member in self.countable() {
            let new = done.len() - before + uncounted.succeeded.len() + uncounted.failed.len();
            if new >= UNCOUNTED_MAX {
                is_all = false;
                break;
            }
            counted.push(member);
            self.count_one(&member, &mut done, uncounted);
        }
        if completions.is_some() {
            status.succeeded = plus(0, done.len());
            status.completed_indexes = done.write();
            status.failed_indexes = self.progress.failed_indexes.as_ref().map(Indexes::write);
        }
        (counted, is_all)
    }

    /// The pods that need not be held any more once they are counted, by number and name: all of
    /// them when the job is over.
    fn countable(&self) -> Box<dyn Iterator<Item = Member<'w>> + '_> {
        if self.progress.end.is_some() || self.job.metadata.deletion_timestamp.is_some() {
            return Box::new(self.sums.held());
        }
        Box::new(self.sums.unsettled().filter(|it| !self.waits(it)))
    }

    /// Whether a pod has failed and is yet to be replaced.
    fn waits(&self, member: &Member<'_>) -> bool {
        let waiting = member
            .index
            .and_then(|it| self.progress.to_replace.get(&it));
        let is_it = waiting.is_some_and(|it| it.metadata.uid == member.pod.metadata.uid);
        is_it && member.pod.status.phase != "Succeeded"
    }

    fn count_one(
        &self,
        member: &Member<'_>,
        done: &mut Indexes,
        uncounted: &mut UncountedTerminatedPods,
    ) {
        let uid = &member.pod.metadata.uid;
        let is_indexed = indexed_completions(self.job).is_some();
        if uncounted.failed.contains(uid) || uncounted.succeeded.contains(uid) {
            return;
        }
        if member.pod.status.phase == "Succeeded" {
            match (is_indexed, member.index) {
                // The number itself tells that it is counted.
                (true, index) => {
                    index.map(|index| done.insert(index));
                }
                (false, _) => uncounted.succeeded.push(uid.clone()),
            }
            return;
        }
        // When the job has failed, so have all pods that have not ended.
        let has_lost = matches!(self.progress.end, Some(End::Failure(..)));
        let is_valid = !is_indexed || member.index.is_some();
        let is_failure = has_lost || has_failed(replaces_failed_only(self.job), member.pod);
        if is_failure && is_valid && policies::verdict(self.job, member.pod) != Verdict::Ignore {
            uncounted.failed.push(uid.clone());
        }
    }

    /// Says that the job is about to be over.
    fn announce(&self, end: &End, status: &mut JobStatus) {
        let (condition_type, reason, message) = match end {
            End::Success(reason, message) => ("SuccessCriteriaMet", reason, message),
            End::Failure(reason, message) => ("FailureTarget", reason, message),
        };
        self.ensure(status, condition_type, "True", reason, message);
    }

    /// Says that the job is over.
    fn finish(&self, end: &End, status: &mut JobStatus) -> Vec<Write> {
        match end {
            End::Success(reason, message) => {
                self.ensure(status, "Complete", "True", reason, message);
                status.completion_time = Some(rfc3339(self.now));
                let message = "Too many succeeded pods running after completion count reached";
                let completions = self.job.spec.completions;
                let too_many = completions.is_some_and(|it| status.succeeded > it);
                let too_many = too_many.then(|| {
                    Event::warning(self.stored, "TooManySucceededPods", message.to_owned())
                });
                let completed = Event::normal(self.stored, "Completed", "Job completed".to_owned());
                too_many
                    .into_iter()
                    .chain([completed])
                    .map(Write::Event)
                    .collect()
            }
            End::Failure(reason, message) => {
                self.ensure(status, "Failed", "True", reason, message);
                let reason = known_reason(reason);
                vec![Write::Event(Event::warning(
                    self.stored,
                    reason,
                    message.clone(),
                ))]
            }
        }
    }

    /// Says whether the job is held. While it is, it has not begun; when it goes on, its time begins
    /// anew.
    fn note_suspension(&self, status: &mut JobStatus) -> Option<Write> {
        let (value, reason, message, event) = match is_suspended(self.job) {
            true => ("True", "JobSuspended", "Job suspended", "Suspended"),
            false => ("False", "JobResumed", "Job resumed", "Resumed"),
        };
        if !self.ensure(status, "Suspended", value, reason, message) {
            return None;
        }
        status.start_time = (value == "False").then(|| rfc3339(self.now));
        let event = Event::normal(self.stored, event, message.to_owned());
        Some(Write::Event(event))
    }

    /// Sets a condition where it stands. True if something has changed; that something is not so
    /// is only said where it was so before.
    fn ensure(
        &self,
        status: &mut JobStatus,
        condition_type: &str,
        value: &str,
        reason: &str,
        message: &str,
    ) -> bool {
        let new = WorkloadCondition {
            last_probe_time: Some(rfc3339(self.now)),
            ..condition(condition_type, value, reason, message.to_owned(), self.now)
        };
        let known = conditions::find(&status.conditions, condition_type);
        let is_same = known.is_some_and(|it| {
            (it.status.as_str(), it.reason.as_str(), it.message.as_str())
                == (value, reason, message)
        });
        if is_same || known.is_none() && value == "False" {
            return false;
        }
        let mut conditions = status.conditions.iter_mut();
        match conditions.find(|it| it.type_ == condition_type) {
            Some(known) => *known = new,
            None => status.conditions.push(new),
        }
        true
    }
}

/// Reasons of failure, as events take them.
fn known_reason(reason: &str) -> &'static str {
    const REASONS: [&str; 5] = [
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "FailedIndexes",
        "MaxFailedIndexesExceeded",
        "PodFailurePolicy",
    ];
    let known = REASONS.into_iter().find(|it| *it == reason);
    known.unwrap_or("Failed")
}
