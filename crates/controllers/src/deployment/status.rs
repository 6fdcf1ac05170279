//! What the status of a Deployment says.
//!
//! `Available` is about the pods: there are enough. `Progressing` is about the rollout: it moves,
//! it is complete, or nothing has moved for `progressDeadlineSeconds`.

use outrank_api::time::{rfc3339, unix_nanos};
use outrank_api::types::{Deployment, DeploymentStatus, ReplicaSetStatus, WorkloadCondition};

use super::scaling::{leeway, within_range};
use super::{Rollout, Set};
use crate::conditions::{self, condition};
use crate::controller::Plan;
use crate::write::Write;

pub(super) const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";

const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

const SECOND: i64 = 1_000_000_000;

/// Whether a rollout that does not move counts as failed at some time.
pub(super) fn has_deadline(deployment: &Deployment) -> bool {
    let seconds = deployment.spec.progress_deadline_seconds;
    seconds.is_some_and(|seconds| seconds != i32::MAX)
}

/// The condition `Progressing` as it is written now.
pub(super) fn progressing(
    status: &str,
    reason: &str,
    message: String,
    now: i64,
) -> WorkloadCondition {
    WorkloadCondition {
        last_update_time: Some(rfc3339(now)),
        ..condition(PROGRESSING, status, reason, message, now)
    }
}

impl Rollout<'_> {
    fn progressing(&self, status: &str, reason: &str, message: String) -> WorkloadCondition {
        progressing(status, reason, message, self.now)
    }

    /// Notes that the Deployment was paused or resumed, so that the time between does not count
    /// against the deadline. True if that has to be written first.
    pub(super) fn note_pause(&self, plan: &mut Plan) -> bool {
        let status = &self.deployment.status;
        let known = conditions::find(&status.conditions, PROGRESSING);
        let reason = known.map_or("", |it| it.reason.as_str());
        if !has_deadline(self.deployment) || reason == TIMED_OUT {
            return false;
        }
        let new = match (self.deployment.spec.paused, reason == PAUSED) {
            (true, false) => self.progressing("Unknown", PAUSED, "Deployment is paused".into()),
            (false, true) => self.progressing(
                "Unknown",
                "DeploymentResumed",
                "Deployment is resumed".into(),
            ),
            _ => return false,
        };
        let mut changed = status.clone();
        conditions::set(&mut changed.conditions, new);
        plan.step(Write::status(self.stored, status, &changed));
        true
    }

    /// Writes what there is, where no progress is expected.
    pub(super) fn write_counts(&self, plan: &mut Plan) {
        let status = self.counted();
        plan.step(Write::status(self.stored, &self.deployment.status, &status));
    }

    /// Writes what there is and how the rollout goes.
    pub(super) fn write_progress(&self, plan: &mut Plan) {
        let old = &self.deployment.status;
        let mut status = self.counted();
        match has_deadline(self.deployment) {
            true => self.judge_progress(&mut status, plan),
            false => conditions::remove(&mut status.conditions, PROGRESSING),
        }
        match self.failure() {
            Some(failure) => conditions::set(&mut status.conditions, failure),
            None => conditions::remove(&mut status.conditions, FAILURE),
        }
        plan.step(Write::status(self.stored, old, &status));
    }

    fn judge_progress(&self, status: &mut DeploymentStatus, plan: &mut Plan) {
        let old = &self.deployment.status;
        let known = conditions::find(&old.conditions, PROGRESSING);
        let was_complete = known.is_some_and(|it| it.reason == COMPLETE);
        if was_complete && status.replicas == status.updated_replicas {
            return;
        }
        let subject = match &self.new {
            Some(new) => format!("ReplicaSet {:?}", new.set.metadata.name),
            None => format!("Deployment {:?}", self.deployment.metadata.name),
        };
        if self.is_complete(status) {
            let message = format!("{subject} has successfully progressed.");
            let complete = self.progressing("True", COMPLETE, message);
            conditions::set(&mut status.conditions, complete);
            return;
        }
        if has_moved(old, status) {
            let message = format!("{subject} is progressing.");
            let mut moving = self.progressing("True", "ReplicaSetUpdated", message);
            if let Some(known) = known.filter(|it| it.status == "True") {
                moving.last_transition_time = known.last_transition_time.clone();
            }
            conditions::remove(&mut status.conditions, PROGRESSING);
            conditions::set(&mut status.conditions, moving);
        } else if let Some(known) = known.filter(|it| it.reason != COMPLETE) {
            let is_late = known.reason == TIMED_OUT || self.deadline(known) < self.now;
            if is_late {
                let message = format!("{subject} has timed out progressing.");
                let late = self.progressing("False", TIMED_OUT, message);
                conditions::set(&mut status.conditions, late);
            }
        }
        let waits = conditions::find(&status.conditions, PROGRESSING);
        if let Some(waits) = waits.filter(|it| it.reason != TIMED_OUT) {
            let deadline = self.deadline(waits).max(self.now);
            plan.look_at(deadline.saturating_add(SECOND));
        }
    }

    /// When the rollout counts as failed, if nothing moves.
    fn deadline(&self, known: &WorkloadCondition) -> i64 {
        let since = known.last_update_time.as_deref().and_then(unix_nanos);
        let seconds = self.deployment.spec.progress_deadline_seconds.unwrap_or(0);
        since
            .unwrap_or(self.now)
            .saturating_add(i64::from(seconds) * SECOND)
    }

    /// Whether all pods are of the current template and available.
    pub(super) fn is_complete(&self, status: &DeploymentStatus) -> bool {
        let counts = [
            status.updated_replicas,
            status.replicas,
            status.available_replicas,
        ];
        counts
            .iter()
            .all(|count| i64::from(*count) == self.replicas)
    }

    /// The first failure of a ReplicaSet, that of the current template before others.
    fn failure(&self) -> Option<WorkloadCondition> {
        let sets = self.new.iter().chain(&self.old);
        let mut failures =
            sets.filter_map(|it| conditions::find(&it.set.status.conditions, FAILURE));
        failures.next().map(|failure| WorkloadCondition {
            last_update_time: failure.last_transition_time.clone(),
            ..failure.clone()
        })
    }

    /// The status with new counts; of the conditions, `Available` is judged anew.
    fn counted(&self) -> DeploymentStatus {
        let old = &self.deployment.status;
        let sum = |count: fn(&ReplicaSetStatus) -> i32| {
            let statuses = self.all().map(|it| &it.set.status);
            let counts = statuses.map(|it| i64::from(count(it)));
            within_range(counts.sum())
        };
        let wanted: i64 = self.all().map(Set::replicas).sum();
        let available = sum(|it| it.available_replicas);
        // One that has not been looked at yet has none; any other that does not say leaves it open.
        let terminating = |it: &Set<'_>| {
            let status = &it.set.status;
            let unseen = (status.observed_generation == 0).then_some(0);
            status.terminating_replicas.or(unseen).map(i64::from)
        };
        let terminating: Option<i64> = self.all().map(terminating).sum();
        let mut status = DeploymentStatus {
            observed_generation: self.deployment.metadata.generation,
            replicas: sum(|it| it.replicas),
            updated_replicas: self.new.as_ref().map_or(0, |it| it.set.status.replicas),
            ready_replicas: sum(|it| it.ready_replicas),
            available_replicas: available,
            unavailable_replicas: within_range((wanted - i64::from(available)).max(0)),
            terminating_replicas: terminating.map(within_range),
            collision_count: old.collision_count,
            conditions: old.conditions.clone(),
        };
        let needed = self.replicas - leeway(self.deployment).1;
        let (value, reason, message) = match i64::from(available) >= needed {
            true => (
                "True",
                "MinimumReplicasAvailable",
                "Deployment has minimum availability.",
            ),
            false => (
                "False",
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            ),
        };
        let available = WorkloadCondition {
            last_update_time: Some(rfc3339(self.now)),
            ..condition(AVAILABLE, value, reason, message.to_owned(), self.now)
        };
        conditions::set(&mut status.conditions, available);
        status
    }
}

/// Whether the rollout is further than it was.
fn has_moved(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let outdated =
        |status: &DeploymentStatus| i64::from(status.replicas) - i64::from(status.updated_replicas);
    new.updated_replicas > old.updated_replicas
        || outdated(new) < outdated(old)
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}
