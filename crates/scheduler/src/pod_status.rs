//! What a pod's status says of its scheduling.

use outrank_api::time::rfc3339;
use outrank_api::types::{PodCondition, PodStatus};

/// The condition that says whether a pod has its node.
const POD_SCHEDULED: &str = "PodScheduled";

/// Says that a pod has no node, and why: `Unschedulable` if no node takes it, `SchedulerError` if
/// something went wrong.
pub(crate) fn set_not_scheduled(status: &mut PodStatus, reason: &str, message: String, now: i64) {
    set_condition(status, POD_SCHEDULED, "False", reason, message, now);
}

/// Says that a pod is to be deleted since a scheduler preempts it.
pub(crate) fn set_preempted(status: &mut PodStatus, scheduler_name: &str, now: i64) {
    let message = format!("{scheduler_name}: preempting to accommodate a higher priority pod");
    let reason = "PreemptionByScheduler";
    set_condition(status, "DisruptionTarget", "True", reason, message, now);
}

/// Sets a condition; the time is that of the last change of its status.
fn set_condition(
    conditions_of: &mut PodStatus,
    type_: &str,
    status: &str,
    reason: &str,
    message: String,
    now: i64,
) {
    let conditions = &mut conditions_of.conditions;
    let known = conditions.iter().position(|it| it.type_ == type_);
    let since = known.and_then(|index| {
        let known = &conditions[index];
        (known.status == status).then(|| known.last_transition_time.clone())?
    });
    let condition = PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: Some(since.unwrap_or_else(|| rfc3339(now))),
        ..PodCondition::default()
    };
    match known {
        Some(index) => conditions[index] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        const SECOND: i64 = 1_000_000_000;
        let mut status = PodStatus::default();
        set_not_scheduled(&mut status, "Unschedulable", "no room".into(), SECOND);
        set_not_scheduled(
            &mut status,
            "Unschedulable",
            "still none".into(),
            9 * SECOND,
        );
        let [condition] = &status.conditions[..] else {
            panic!("{:?}", status.conditions);
        };
        assert_eq!(condition.message, "still none");
        let since = condition.last_transition_time.as_deref();
        assert_eq!(since, Some("1970-01-01T00:00:01Z"));
    }
}
