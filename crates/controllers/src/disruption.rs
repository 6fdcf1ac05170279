//! PodDisruptionBudgets: how many pods may go.
//!
//! The disruption controller counts the pods that a budget selects, how many of them are
//! healthy, and how many must be; the difference is what may go. Where a budget says a share,
//! or how many may be *unavailable*, it is of the pods that there should be: the replicas that
//! the pods' controllers ask for.
//!
//! Who evicts a pod writes its name into `disruptedPods` of the budget's status, so that the pod
//! counts as gone before it is. If it has not gone two minutes later it counts again. So it is
//! with pods that were told that they would be disrupted (condition `DisruptionTarget`): two
//! minutes later it is no longer true.
//!
//! Source: `pkg/controller/disruption/disruption.go`, Kubernetes 1.36.

use std::collections::BTreeMap;

use outrank_api::names::quoted;
use outrank_api::time::rfc3339;
use outrank_api::types::{
    Condition, IntOrString, OwnerReference, Pod, PodDisruptionBudget, PodDisruptionBudgetStatus,
};

use crate::share;

mod controller;
mod selected;

pub use controller::DisruptionController;
pub use selected::Selected;

/// The status of a budget, given what it counts of the pods that it selects. `scale` tells how many replicas a
/// controller asks for; `None` if it is not known, which leaves nothing to allow where the
/// budget needs to know. What the status says of the past (`disrupted_pods`) stays.
pub fn budget_status(
    budget: &PodDisruptionBudget,
    pods: &Selected,
    scale: &dyn Fn(&OwnerReference) -> Option<i32>,
) -> PodDisruptionBudgetStatus {
    let scale = |owner: &OwnerReference| {
        let replicas = scale(owner)?;
        let uid = format!("{} {}", owner.kind, owner.name);
        Some(Scale { uid, replicas })
    };
    let expected = Expected::of(budget, pods, &|owner| Ok(scale(owner)));
    let expected = expected.unwrap_or_default();
    expected.status(pods, budget.status.clone())
}

/// Whether a pod counts as healthy: it is ready and not being deleted. A pod that says nothing
/// of its readiness, as in a manifest, is if it runs.
pub fn is_healthy(pod: &Pod) -> bool {
    let mut conditions = pod.status.conditions.iter();
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    let is_ready = match ready {
        Some(ready) => ready.status == "True",
        None => pod.status.phase == "Running",
    };
    is_ready && pod.metadata.deletion_timestamp.is_none()
}

/// The condition that says whether a budget allows anything.
pub(crate) const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// Its reason if the controller could not count.
pub(crate) const SYNC_FAILED: &str = "SyncFailed";

/// Says by a condition whether the budget allows anything, as the numbers of its status are.
pub(crate) fn tell_whether_allowed(status: &mut PodDisruptionBudgetStatus, now: i64) {
    let (is_allowed, reason) = match status.disruptions_allowed > 0 {
        true => ("True", "SufficientPods"),
        false => ("False", "InsufficientPods"),
    };
    set_allowed(status, is_allowed, reason, String::new(), now);
}

fn set_allowed(
    status: &mut PodDisruptionBudgetStatus,
    is_allowed: &str,
    reason: &str,
    message: String,
    now: i64,
) {
    let mut new = Condition {
        type_: DISRUPTION_ALLOWED.to_owned(),
        status: is_allowed.to_owned(),
        observed_generation: status.observed_generation,
        last_transition_time: Some(rfc3339(now)),
        reason: reason.to_owned(),
        message,
    };
    match status
        .conditions
        .iter_mut()
        .find(|it| it.type_ == new.type_)
    {
        None => status.conditions.push(new),
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.take();
            }
            *old = new;
        }
    }
}

/// How many replicas somebody asks for, told apart by uid.
struct Scale {
    uid: String,
    replicas: i32,
}

/// Tells how many replicas the controller of a pod asks for; `None` if it is not there.
type ScaleOf<'a> = &'a dyn Fn(&OwnerReference) -> Result<Option<Scale>, String>;

/// How many pods there should be.
#[derive(Debug, Default)]
struct Expected {
    pods: i32,
    healthy: i32,
    /// Whether there are pods without a controller where that matters.
    has_unmanaged: bool,
}

impl Expected {
    /// The error is upstream's text.
    fn of(
        budget: &PodDisruptionBudget,
        pods: &Selected,
        scale: ScaleOf<'_>,
    ) -> Result<Self, String> {
        let spec = &budget.spec;
        if let Some(unavailable) = &spec.max_unavailable {
            let mut expected = Self::by_scale(pods, scale)?;
            let unavailable = scaled(unavailable, expected.pods)?;
            expected.healthy = expected.pods.saturating_sub(unavailable).max(0);
            return Ok(expected);
        }
        match &spec.min_available {
            None => Ok(Self::default()),
            Some(IntOrString::Int(healthy)) => Ok(Self {
                pods: number(pods.count()),
                healthy: *healthy,
                has_unmanaged: false,
            }),
            Some(share) => {
                let mut expected = Self::by_scale(pods, scale)?;
                expected.healthy = scaled(share, expected.pods)?;
                Ok(expected)
            }
        }
    }

    /// The sum of what the controllers of the pods ask for, each counted once. If that of several
    /// pods is not known, the first pod by name is told.
    fn by_scale(pods: &Selected, scale: ScaleOf<'_>) -> Result<Self, String> {
        let mut scales: BTreeMap<String, i32> = BTreeMap::new();
        let mut unknown: Option<(&str, String)> = None;
        for (owner, pod) in pods.managers() {
            let error = match scale(&owner) {
                Ok(Some(scale)) => {
                    scales.insert(scale.uid, scale.replicas);
                    continue;
                }
                Ok(None) => format!("found no controllers for pod {}", quoted(pod)),
                Err(error) => error,
            };
            if unknown.as_ref().is_none_or(|(first, _)| pod < *first) {
                unknown = Some((pod, error));
            }
        }
        match unknown {
            Some((_, error)) => Err(error),
            None => Ok(Self {
                pods: scales.into_values().fold(0, i32::saturating_add),
                healthy: 0,
                has_unmanaged: pods.has_unmanaged(),
            }),
        }
    }

    /// The status that comes of it; what `status` says of the past stays.
    fn status(
        &self,
        pods: &Selected,
        status: PodDisruptionBudgetStatus,
    ) -> PodDisruptionBudgetStatus {
        let healthy = number(pods.healthy(status.disrupted_pods.keys()));
        let allowed = match self.pods {
            ..=0 => 0,
            _ => healthy.saturating_sub(self.healthy).max(0),
        };
        PodDisruptionBudgetStatus {
            disruptions_allowed: allowed,
            current_healthy: healthy,
            desired_healthy: self.healthy,
            expected_pods: self.pods,
            ..status
        }
    }
}

fn number(pods: usize) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

/// A number, or a share of the whole, rounded up.
fn scaled(number: &IntOrString, whole: i32) -> Result<i32, String> {
    let scaled = share::scaled(number, whole, true);
    scaled.and_then(|it| i32::try_from(it).ok()).ok_or_else(|| {
        let why = match number {
            IntOrString::String(share) if share.ends_with('%') => {
                let number = quoted(share.trim_end_matches('%'));
                let value = quoted(share);
                format!("invalid value {value}: strconv.Atoi: parsing {number}: invalid syntax")
            }
            _ => "invalid type: string is not a percentage".to_owned(),
        };
        format!("invalid value for IntOrString: {why}")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pods(running: usize, waiting: usize) -> Vec<Pod> {
        let phases = [("Running", running), ("Pending", waiting)];
        let mut names = 0..;
        let pod = |phase: &str| {
            let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "u", "controller": true});
            let name = format!("p{}", names.next().unwrap_or(0));
            let pod = json!({"metadata": {"name": name, "ownerReferences": [owner]},
                "status": {"phase": phase}});
            serde_json::from_value(pod).expect("a pod")
        };
        let phases = phases
            .into_iter()
            .flat_map(|(phase, count)| std::iter::repeat_n(phase, count));
        phases.map(pod).collect()
    }

    /// Healthy, desired and allowed, of a budget over three running and one waiting pod of a
    /// controller that wants five.
    fn counted(spec: Value) -> (i32, i32, i32) {
        let budget = serde_json::from_value(json!({"spec": spec})).expect("a budget");
        let pods = pods(3, 1);
        let status = budget_status(&budget, &Selected::of(&pods), &|_| Some(5));
        let desired = status.desired_healthy;
        (status.current_healthy, desired, status.disruptions_allowed)
    }

    #[test]
    fn numbers_count_pods_and_shares_count_replicas() {
        assert_eq!(counted(json!({"minAvailable": 2})), (3, 2, 1));
        assert_eq!(counted(json!({"minAvailable": 4})), (3, 4, 0));
        // 2.5 of 5 replicas, rounded up.
        assert_eq!(counted(json!({"minAvailable": "50%"})), (3, 3, 0));
        assert_eq!(counted(json!({"maxUnavailable": 3})), (3, 2, 1));
        assert_eq!(counted(json!({"maxUnavailable": "30%"})), (3, 3, 0));
        assert_eq!(counted(json!({"maxUnavailable": "100%"})), (3, 0, 3));
    }

    #[test]
    fn nothing_may_go_where_the_number_of_replicas_is_not_known() {
        let spec = json!({"spec": {"maxUnavailable": 3}});
        let budget = serde_json::from_value(spec).expect("a budget");
        let pods = pods(3, 0);
        let status = budget_status(&budget, &Selected::of(&pods), &|_| None);
        assert_eq!(status.disruptions_allowed, 0);
    }
}
