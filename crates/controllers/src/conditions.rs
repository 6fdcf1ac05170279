//! The conditions of workloads: what changes when one is set.

use outrank_api::time::rfc3339;
use outrank_api::types::WorkloadCondition;

/// A condition that has just come about.
pub(crate) fn condition(
    condition_type: &str,
    status: &str,
    reason: &str,
    message: String,
    now: i64,
) -> WorkloadCondition {
    WorkloadCondition {
        type_: condition_type.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(rfc3339(now)),
        reason: reason.to_owned(),
        message,
        ..Default::default()
    }
}

/// The condition of a type.
pub(crate) fn find<'c>(
    conditions: &'c [WorkloadCondition],
    condition_type: &str,
) -> Option<&'c WorkloadCondition> {
    conditions.iter().find(|it| it.type_ == condition_type)
}

/// Whether the condition of a type is true.
pub(crate) fn is_true(conditions: &[WorkloadCondition], condition_type: &str) -> bool {
    find(conditions, condition_type).is_some_and(|it| it.status == "True")
}

/// Removes the condition of a type.
pub(crate) fn remove(conditions: &mut Vec<WorkloadCondition>, condition_type: &str) {
    conditions.retain(|it| it.type_ != condition_type);
}

/// Sets a condition, unless it has the same status for the same reason already. It keeps its
/// time of transition if the status stays.
pub(crate) fn set(conditions: &mut Vec<WorkloadCondition>, mut new: WorkloadCondition) {
    if let Some(old) = find(conditions, &new.type_) {
        if old.status == new.status && old.reason == new.reason {
            return;
        }
        if old.status == new.status {
            new.last_transition_time = old.last_transition_time.clone();
        }
    }
    remove(conditions, &new.type_);
    conditions.push(new);
}
