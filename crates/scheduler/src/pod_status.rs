//! What a pod's status says of its scheduling.

use outrank_api::types::{PodCondition, PodStatus};
use outrank_controllers::set_condition;

/// The condition that says whether a pod has its node.
const POD_SCHEDULED: &str = "PodScheduled";

/// Says that a pod has no node, and why: `Unschedulable` if no node takes it, `SchedulerError` if
/// something went wrong. `generation` is that of the pod which was looked at.
pub(crate) fn set_not_scheduled(
    status: &mut PodStatus,
    generation: i64,
    reason: &str,
    message: String,
    now: i64,
) {
    let condition = PodCondition {
        observed_generation: generation,
        ..condition(POD_SCHEDULED, "False", reason, message)
    };
    set_condition(&mut status.conditions, condition, now);
}

/// Says that a pod is to be deleted since a scheduler preempts it.
pub(crate) fn set_preempted(
    status: &mut PodStatus,
    generation: i64,
    scheduler_name: &str,
    now: i64,
) {
    let message = format!("{scheduler_name}: preempting to accommodate a higher priority pod");
    let condition = PodCondition {
        observed_generation: generation,
        ..condition("DisruptionTarget", "True", "PreemptionByScheduler", message)
    };
    set_condition(&mut status.conditions, condition, now);
}

fn condition(type_: &str, status: &str, reason: &str, message: String) -> PodCondition {
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        ..PodCondition::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        const SECOND: i64 = 1_000_000_000;
        let mut status = PodStatus::default();
        set_not_scheduled(&mut status, 1, "Unschedulable", "no room".into(), SECOND);
        set_not_scheduled(
            &mut status,
            2,
            "Unschedulable",
            "still none".into(),
            9 * SECOND,
        );
        let [condition] = &status.conditions[..] else {
            panic!("{:?}", status.conditions);
        };
        assert_eq!(condition.message, "still none");
        assert_eq!(condition.observed_generation, 2);
        let since = condition.last_transition_time.as_deref();
        assert_eq!(since, Some("1970-01-01T00:00:01Z"));
    }
}
