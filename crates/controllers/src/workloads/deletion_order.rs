//! Which pods go first when there are too many.
//!
//! Controllers delete where it hurts least: pods that have no node yet before those that
//! have, pending before running, unready before ready, and the young before the old.
//! Source: `pkg/controller/controller_utils.go`, `ActivePodsWithRanks` (ReplicaSets) and
//! `ActivePods` (Jobs), Kubernetes 1.36.
//!
//! ReplicaSets compare ages by their order of magnitude (powers of two), so that pods of about
//! the same age are taken in no particular order; where no time is given, ages are compared as
//! they are.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use outrank_api::time::unix_nanos;
use outrank_api::types::{Pod, PodCondition};

use crate::pod_state::is_active;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The pods of a ReplicaSet that go first when `count` are too many, the first to go first.
/// O(n), and O(count × log count) to sort those.
///
/// `related` are all pods of the ReplicaSets of the same owner: of pods that are alike,
/// those go first whose node has more of them.
pub(crate) fn first_of_replica_set<'p>(
    pods: Vec<&'p Pod>,
    count: usize,
    related: &[&Pod],
    now: Option<i64>,
) -> Vec<&'p Pod> {
    let mut pods_on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| is_active(pod)) {
        *pods_on_node.entry(&pod.spec.node_name).or_default() += 1;
    }
    let key = |pod: &'p Pod| {
        let crowd = pods_on_node.get(pod.spec.node_name.as_str());
        let crowd = crowd.copied().unwrap_or(0);
        (
            early(pod),
            deletion_cost(pod),
            Reverse(crowd),
            late(pod, now),
        )
    };
    let mut keyed: Vec<_> = pods.into_iter().map(|pod| (key(pod), pod)).collect();
    if count < keyed.len() {
        keyed.select_nth_unstable_by(count, |a, b| a.0.cmp(&b.0));
        keyed.truncate(count);
    }
    keyed.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    keyed.into_iter().map(|(_, pod)| pod).collect()
}

/// Sorts the pods of a Job, the first to go first.
pub(crate) fn sort_for_job(pods: &mut [&Pod]) {
    pods.sort_by_cached_key(|pod| (early(pod), late(pod, None)));
}

/// What is looked at first: how far a pod is.
fn early(pod: &Pod) -> (bool, u8, bool) {
    (
        is_placed(pod),
        phase_rank(pod),
        ready_condition(pod).is_some(),
    )
}

/// What is looked at last: for how long the pod is ready, its restarts, its age; and its name,
/// to make the order total.
fn late(pod: &Pod, now: Option<i64>) -> (i64, Reverse<i32>, i64, &str, &str) {
    let ready = ready_condition(pod);
    let since = ready.and_then(|it| it.last_transition_time.as_deref());
    let restarts = pod
        .status
        .container_statuses
        .iter()
        .map(|it| it.restart_count);
    let metadata = &pod.metadata;
    let created = metadata.creation_timestamp.as_deref();
    (
        since.map_or(0, |since| age_rank(Some(since), now)),
        Reverse(restarts.max().unwrap_or(0)),
        age_rank(created, now),
        &metadata.uid,
        &metadata.name,
    )
}

/// Orders by age: what has no time first, then the younger before the older.
fn age_rank(time: Option<&str>, now: Option<i64>) -> i64 {
    let Some(time) = time.and_then(unix_nanos) else {
        return i64::MIN;
    };
    match now {
        None => time.saturating_neg(),
        Some(now) => match now.saturating_sub(time) {
            age if age > 0 => i64::from(age.ilog2()),
            _ => -1,
        },
    }
}

fn is_placed(pod: &Pod) -> bool {
    !pod.spec.node_name.is_empty()
}

fn phase_rank(pod: &Pod) -> u8 {
    match pod.status.phase.as_str() {
        "Running" => 2,
        "Unknown" => 1,
        _ => 0,
    }
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let mut conditions = pod.status.conditions.iter();
    conditions.find(|it| it.type_ == "Ready" && it.status == "True")
}

/// What the pod's annotation says it costs to delete it; 0 without one, and for numbers
/// that are not written plainly.
fn deletion_cost(pod: &Pod) -> i32 {
    let Some(text) = pod.metadata.annotations.get(DELETION_COST) else {
        return 0;
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = !digits.starts_with('+') && (digits == "0" || !digits.starts_with('0'));
    text.parse().ok().filter(|_| is_plain).unwrap_or(0)
}

/// Orders the pods that a DaemonSet has on one node; all but the first go.
///
/// Source: `pkg/controller/daemon/daemon_controller.go`, `podByCreationTimestampAndPhase`.
pub(crate) fn daemon_pod_order(a: &Pod, b: &Pod) -> Ordering {
    let key = |pod: &Pod| (!is_placed(pod), pod.metadata.creation_timestamp.clone());
    key(a)
        .cmp(&key(b))
        .then_with(|| a.metadata.name.cmp(&b.metadata.name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outrank_api::types::{ContainerStatus, ObjectMeta, PodSpec, PodStatus};

    use super::*;

    /// `name node phase ready created`, with `-` for nothing.
    fn pod(text: &str) -> Pod {
        let words: Vec<&str> = text
            .split(' ')
            .map(|it| if it == "-" { "" } else { it })
            .collect();
        let [name, node, phase, ready, created] = words[..] else {
            panic!("{text}")
        };
        let condition = PodCondition {
            type_: "Ready".into(),
            status: if ready == "ready" { "True" } else { "False" }.into(),
            ..Default::default()
        };
        Pod {
            metadata: ObjectMeta {
                name: name.into(),
                creation_timestamp: (!created.is_empty()).then(|| created.into()),
                ..Default::default()
            },
            spec: Arc::new(PodSpec {
                node_name: node.into(),
                ..Default::default()
            }),
            status: PodStatus {
                phase: phase.into(),
                conditions: vec![condition],
                ..Default::default()
            },
        }
    }

    fn sorted(pods: &[Pod]) -> Vec<&str> {
        let all: Vec<&Pod> = pods.iter().collect();
        let order = first_of_replica_set(all.clone(), pods.len(), &all, None);
        for count in 0..pods.len() {
            let first = first_of_replica_set(all.clone(), count, &all, None);
            assert_eq!(first, order[..count], "the first {count}");
        }
        order.iter().map(|pod| pod.metadata.name.as_str()).collect()
    }

    #[test]
    fn each_criterion_decides_before_the_next() {
        let pods = [
            pod("old n1 Running ready 2024-01-01T00:00:00Z"),
            pod("young n2 Running ready 2024-01-02T00:00:00Z"),
            pod("ageless n3 Running ready -"),
            pod("unready n4 Running - 2024-01-01T00:00:00Z"),
            pod("unknown n5 Unknown ready 2024-01-01T00:00:00Z"),
            pod("pending n6 Pending - 2024-01-01T00:00:00Z"),
            pod("unplaced - Pending - 2023-01-01T00:00:00Z"),
        ];
        assert_eq!(
            sorted(&pods),
            [
                "unplaced", "pending", "unknown", "unready", "ageless", "young", "old"
            ]
        );
    }

    #[test]
    fn ages_of_one_magnitude_are_alike_and_restarts_decide() {
        let mut pods = [
            pod("a n1 Running ready 2024-01-01T00:00:00Z"),
            pod("b n2 Running ready 2024-01-01T00:00:05Z"),
        ];
        let at = |pods: &[Pod], time: &str| {
            let all: Vec<&Pod> = pods.iter().collect();
            let first = first_of_replica_set(all.clone(), 1, &all, unix_nanos(time));
            first[0].metadata.name.clone()
        };
        assert_eq!(at(&pods, "2024-01-01T00:00:06Z"), "b");
        assert_eq!(at(&pods, "2024-01-02T00:00:00Z"), "a");
        pods[1].status.container_statuses = vec![ContainerStatus {
            restart_count: 3,
            ..Default::default()
        }];
        assert_eq!(at(&pods, "2024-01-02T00:00:00Z"), "b");
    }

    #[test]
    fn a_crowded_node_gives_first_but_cost_comes_before() {
        let mut pods = [
            pod("alone n1 Running ready 2024-01-02T00:00:00Z"),
            pod("crowd-1 n2 Running ready 2024-01-01T00:00:00Z"),
            pod("crowd-2 n2 Running ready 2024-01-01T00:00:00Z"),
        ];
        assert_eq!(sorted(&pods), ["crowd-1", "crowd-2", "alone"]);
        pods[1]
            .metadata
            .annotations
            .insert(DELETION_COST.into(), "5".into());
        assert_eq!(sorted(&pods), ["crowd-2", "alone", "crowd-1"]);
    }

    #[test]
    fn costs_that_are_not_plain_numbers_are_none() {
        for (text, cost) in [
            ("-7", -7),
            ("0", 0),
            ("+7", 0),
            ("07", 0),
            ("-0", 0),
            ("-07", 0),
            ("many", 0),
        ] {
            let mut pod = pod("a n1 Running ready -");
            pod.metadata
                .annotations
                .insert(DELETION_COST.into(), text.into());
            assert_eq!(deletion_cost(&pod), cost, "{text}");
        }
    }
}
