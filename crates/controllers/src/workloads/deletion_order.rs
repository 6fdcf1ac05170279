//! Which pods go first when there are too many.
//!
//! Controllers delete where it hurts least: pods that have no node yet before those that
//! have, pending before running, unready before ready, and the young before the old.
//! Source: `pkg/controller/controller_utils.go`, `ActivePodsWithRanks` (ReplicaSets) and
//! `ActivePods` (Jobs), Kubernetes 1.36.
//!
//! Two of upstream's criteria are not looked at, because the typed objects do not hold
//! them: since when a pod is ready, and how often its containers were restarted. Creation
//! times are compared as they are; upstream rounds them to powers of two of the age and
//! then chooses by uid, which without a clock cannot be repeated.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

use outrank_api::types::Pod;

use super::existing::is_active;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Sorts the pods of a ReplicaSet, the first to go first.
///
/// `related` are all pods of the ReplicaSets of the same owner: of pods that are alike,
/// those go first whose node has more of them.
pub(crate) fn sort_for_replica_set(pods: &mut [&Pod], related: &[&Pod]) {
    let mut pods_on_node: HashMap<&str, usize> = HashMap::new();
    for pod in related.iter().filter(|pod| is_active(pod)) {
        *pods_on_node.entry(&pod.spec.node_name).or_default() += 1;
    }
    pods.sort_by_cached_key(|pod| {
        let crowd = pods_on_node
            .get(pod.spec.node_name.as_str())
            .copied()
            .unwrap_or(0);
        let early = (is_placed(pod), phase_rank(pod), is_ready(pod));
        (
            early,
            deletion_cost(pod),
            Reverse(crowd),
            Age::of(pod),
            identity(pod),
        )
    });
}

/// Sorts the pods of a Job, the first to go first.
pub(crate) fn sort_for_job(pods: &mut [&Pod]) {
    pods.sort_by_cached_key(|pod| {
        (
            is_placed(pod),
            phase_rank(pod),
            is_ready(pod),
            Age::of(pod),
            identity(pod),
        )
    });
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

fn is_ready(pod: &Pod) -> bool {
    pod.status
        .conditions
        .iter()
        .any(|it| it.type_ == "Ready" && it.status == "True")
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

/// Orders pods by creation: those without a time first, then the younger before the older.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Age(Option<Reverse<String>>);

impl Age {
    fn of(pod: &Pod) -> Self {
        Self(pod.metadata.creation_timestamp.clone().map(Reverse))
    }
}

/// Makes the order total.
fn identity(pod: &Pod) -> (String, String) {
    (pod.metadata.uid.clone(), pod.metadata.name.clone())
}

/// Orders the pods that a DaemonSet has on one node; all but the first go.
///
/// Source: `pkg/controller/daemon/daemon_controller.go`, `podByCreationTimestampAndPhase`.
pub(super) fn daemon_pod_order(a: &Pod, b: &Pod) -> Ordering {
    let key = |pod: &Pod| (!is_placed(pod), pod.metadata.creation_timestamp.clone());
    key(a)
        .cmp(&key(b))
        .then_with(|| a.metadata.name.cmp(&b.metadata.name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outrank_api::types::{ObjectMeta, PodCondition, PodSpec, PodStatus};

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
        let mut order: Vec<&Pod> = pods.iter().collect();
        let related = order.clone();
        sort_for_replica_set(&mut order, &related);
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
