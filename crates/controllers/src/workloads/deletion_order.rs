//! Which pods go first when there are too many.
//!
//! Controllers delete where it hurts least: pods that have no node yet before those that
//! have, pending before running, unready before ready, and the young before the old.
//! Source: `pkg/controller/controller_utils.go`, `ActivePodsWithRanks` (ReplicaSets) and
//! `ActivePods` (Jobs), Kubernetes 1.36.
//!
//! ReplicaSets compare ages by their order of magnitude (powers of two), so that pods of about
//! the same age are taken in no particular order, which is that of their uids; where no time is
//! given, ages are compared as they are.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use outrank_api::time::unix_nanos;
use outrank_api::types::{ContainerStatus, Pod, PodCondition};

use crate::pod_state::{is_active, sidecar_statuses};

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
    let crowd = |pod: &Pod| {
        let crowd = pods_on_node.get(pod.spec.node_name.as_str());
        Reverse(crowd.copied().unwrap_or(0))
    };
    let first = |pod: &Pod| {
        (
            early(pod),
            deletion_cost(pod),
            crowd(pod),
            ready_rank(pod, now),
        )
    };
    let mut ready_times: HashMap<_, ReadyTimes<'_>> = HashMap::new();
    let mut keyed = Vec::with_capacity(pods.len());
    for pod in pods {
        let first = first(pod);
        let time = ready_condition(pod).and_then(|it| it.last_transition_time.as_deref());
        let times = ready_times.entry(first).or_insert(ReadyTimes::Same(time));
        if *times != ReadyTimes::Same(time) {
            *times = ReadyTimes::Different;
        }
        let ids = (&pod.metadata.uid, &pod.metadata.name);
        keyed.push(((first, Some(late(pod, now)), ids), pod));
    }
    // Of pods that are ready for about the same time, but not for the same, any may go.
    for ((first, late, _), _) in &mut keyed {
        late.take_if(|_| ready_times.get(first) == Some(&ReadyTimes::Different));
    }
    if count < keyed.len() {
        keyed.select_nth_unstable_by(count, |a, b| a.0.cmp(&b.0));
        keyed.truncate(count);
    }
    keyed.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    keyed.into_iter().map(|(_, pod)| pod).collect()
}

/// Since when pods of about the same age are ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadyTimes<'p> {
    /// All since this time, or all do not say.
    Same(Option<&'p str>),
    Different,
}

/// Sorts the pods of a Job, the first to go first.
pub(crate) fn sort_for_job(pods: &mut [&Pod]) {
    pods.sort_by_cached_key(|pod| {
        let metadata = &pod.metadata;
        let first = (early(pod), ready_rank(pod, None), late(pod, None));
        (first, &metadata.uid, &metadata.name)
    });
}

/// What is looked at first: how far a pod is.
fn early(pod: &Pod) -> (bool, u8, bool) {
    (
        is_placed(pod),
        phase_rank(pod),
        ready_condition(pod).is_some(),
    )
}

/// For how long a pod is ready; ready pods that do not say come first.
fn ready_rank(pod: &Pod, now: Option<i64>) -> i64 {
    let since = |ready: &PodCondition| age_rank(ready.last_transition_time.as_deref(), now);
    ready_condition(pod).map_or(0, since)
}

/// What is looked at last: restarts of containers, then of sidecars, and the age.
fn late(pod: &Pod, now: Option<i64>) -> (Reverse<i32>, Reverse<i32>, i64) {
    let restarts = |it: &ContainerStatus| it.restart_count;
    let containers = pod.status.container_statuses.iter().map(restarts);
    let sidecars = sidecar_statuses(pod).map(restarts);
    (
        Reverse(containers.max().unwrap_or(0)),
        Reverse(sidecars.max().unwrap_or(0)),
        age_rank(pod.metadata.creation_timestamp.as_deref(), now),
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

    use outrank_api::types::{Container, ObjectMeta, PodSpec, PodStatus};

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

    /// `pod` with a uid, ready since a time.
    fn ready_since(uid: &str, time: Option<&str>, restarts: i32) -> Pod {
        let mut pod = pod(&format!("{uid} n-{uid} Running ready 2024-01-01T00:00:00Z"));
        pod.metadata.uid = uid.into();
        pod.status.conditions[0].last_transition_time = time.map(str::to_owned);
        pod.status.container_statuses = vec![ContainerStatus {
            restart_count: restarts,
            ..Default::default()
        }];
        pod
    }

    #[test]
    fn of_pods_ready_for_about_the_same_time_the_lowest_uid_goes() {
        let [first, second] = ["2024-01-01T00:00:10Z", "2024-01-01T00:00:11Z"];
        let now = unix_nanos("2024-01-02T00:00:00Z");
        let victim = |pods: &[Pod]| {
            let all: Vec<&Pod> = pods.iter().collect();
            let victims = first_of_replica_set(all.clone(), 1, &all, now);
            victims[0].metadata.uid.clone()
        };
        // Restarts count only among those that are ready since the same second.
        let pods = [
            ready_since("a", Some(first), 0),
            ready_since("b", Some(second), 9),
        ];
        assert_eq!(victim(&pods), "a");
        let pods = [
            ready_since("a", Some(first), 0),
            ready_since("b", Some(first), 9),
        ];
        assert_eq!(victim(&pods), "b");
    }

    #[test]
    fn a_ready_pod_that_does_not_say_since_when_goes_first() {
        let pods = [
            ready_since("a", Some("2024-01-01T00:00:10Z"), 0),
            ready_since("b", None, 0),
        ];
        for now in [None, unix_nanos("2024-01-01T00:00:10Z")] {
            let all: Vec<&Pod> = pods.iter().collect();
            let first = first_of_replica_set(all.clone(), 1, &all, now);
            assert_eq!(first[0].metadata.uid, "b", "{now:?}");
        }
        let mut all: Vec<&Pod> = pods.iter().collect();
        sort_for_job(&mut all);
        assert_eq!(all[0].metadata.uid, "b");
    }

    #[test]
    fn restarts_of_sidecars_decide_where_those_of_containers_do_not() {
        let time = Some("2024-01-01T00:00:10Z");
        let mut pods = [ready_since("a", time, 1), ready_since("b", time, 1)];
        let container = |name: &str, policy: Option<&str>| Container {
            name: name.into(),
            restart_policy: policy.map(str::to_owned),
            ..Default::default()
        };
        let status = |name: &str, restart_count| ContainerStatus {
            name: name.into(),
            restart_count,
            ..Default::default()
        };
        for (pod, [init, sidecar]) in pods.iter_mut().zip([[9, 2], [0, 3]]) {
            Arc::make_mut(&mut pod.spec).init_containers =
                vec![container("init", None), container("side", Some("Always"))];
            pod.status.init_container_statuses =
                vec![status("init", init), status("side", sidecar)];
        }
        let all: Vec<&Pod> = pods.iter().collect();
        let first = first_of_replica_set(all.clone(), 1, &all, unix_nanos("2024-01-02T00:00:00Z"));
        assert_eq!(first[0].metadata.uid, "b");
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
