//! PodDisruptionBudgets: how many pods may go.
//!
//! The disruption controller counts the pods that a budget selects, how many of them are
//! healthy, and how many must be; the difference is what may go. Where a budget says a share,
//! or how many may be *unavailable*, it is of the pods that there should be: the replicas that
//! the pods' controllers ask for.
//! Source: `pkg/controller/disruption/disruption.go`, Kubernetes 1.36.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use outrank_api::types::{
    IntOrString, OwnerReference, Pod, PodDisruptionBudget, PodDisruptionBudgetStatus,
};

/// The status of a budget, given the pods that it selects. `scale` tells how many replicas a
/// controller asks for; `None` if it is not known, which leaves nothing to allow where the
/// budget needs to know. What the status says of the past (`disrupted_pods`) stays.
pub fn budget_status(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    scale: &dyn Fn(&OwnerReference) -> Option<i32>,
) -> PodDisruptionBudgetStatus {
    let disrupted = &budget.status.disrupted_pods;
    let healthy = pods
        .iter()
        .filter(|pod| is_healthy(pod) && !disrupted.contains_key(&pod.metadata.name));
    let healthy = healthy.count() as i32;
    let (expected, desired) = expectation(budget, pods, scale).unwrap_or_default();
    let allowed = match expected {
        0 => 0,
        _ => (healthy - desired).max(0),
    };
    PodDisruptionBudgetStatus {
        observed_generation: budget.status.observed_generation,
        disrupted_pods: disrupted.clone(),
        disruptions_allowed: allowed,
        current_healthy: healthy,
        desired_healthy: desired,
        expected_pods: expected,
    }
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

/// How many pods there should be, and how many must be healthy; `None` if that cannot be
/// known.
fn expectation(
    budget: &PodDisruptionBudget,
    pods: &[&Pod],
    scale: &dyn Fn(&OwnerReference) -> Option<i32>,
) -> Option<(i32, i32)> {
    let spec = &budget.spec;
    if let Some(unavailable) = &spec.max_unavailable {
        let expected = expected_scale(pods, scale)?;
        let unavailable = scaled(unavailable, expected)?;
        return Some((expected, (expected - unavailable).max(0)));
    }
    match spec.min_available.as_ref()? {
        IntOrString::Int(desired) => Some((pods.len() as i32, *desired)),
        share => {
            let expected = expected_scale(pods, scale)?;
            Some((expected, scaled(share, expected)?))
        }
    }
}

/// The sum of what the controllers of the pods ask for, each counted once.
fn expected_scale(pods: &[&Pod], scale: &dyn Fn(&OwnerReference) -> Option<i32>) -> Option<i32> {
    let mut scales: BTreeMap<(&str, &str), i32> = BTreeMap::new();
    for pod in pods {
        let owner = pod.metadata.controller()?;
        let key = (owner.kind.as_str(), owner.name.as_str());
        if let Entry::Vacant(entry) = scales.entry(key) {
            entry.insert(scale(owner)?);
        }
    }
    Some(scales.values().sum())
}

/// A number, or a share of the whole, rounded up.
fn scaled(number: &IntOrString, whole: i32) -> Option<i32> {
    match number {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(share) => {
            let percent: i64 = share.strip_suffix('%')?.parse().ok()?;
            let scaled = (percent * i64::from(whole) + 99).div_euclid(100);
            i32::try_from(scaled).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pods(running: usize, waiting: usize) -> Vec<Pod> {
        let phases = [("Running", running), ("Pending", waiting)];
        let pod = |phase: &str| {
            let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": "u", "controller": true});
            let pod = json!({"metadata": {"name": "p", "ownerReferences": [owner]},
                "status": {"phase": phase}});
            serde_json::from_value(pod).expect("a pod")
        };
        let pods = phases
            .into_iter()
            .flat_map(|(phase, count)| std::iter::repeat_with(move || pod(phase)).take(count));
        pods.collect()
    }

    /// Healthy, desired and allowed, of a budget over three running and one waiting pod of a
    /// controller that wants five.
    fn counted(spec: Value) -> (i32, i32, i32) {
        let budget = serde_json::from_value(json!({"spec": spec})).expect("a budget");
        let pods = pods(3, 1);
        let pods: Vec<&Pod> = pods.iter().collect();
        let status = budget_status(&budget, &pods, &|_| Some(5));
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
        let pods: Vec<&Pod> = pods.iter().collect();
        let status = budget_status(&budget, &pods, &|_| None);
        assert_eq!(status.disruptions_allowed, 0);
    }
}
