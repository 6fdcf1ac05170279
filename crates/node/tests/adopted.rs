//! Pods that run already when their kubelet comes: they go on as their status says.

use std::sync::Arc;

use outrank_api::time::rfc3339;
use outrank_api::types::{Node, Pod};
use outrank_node::{Input, Kubelet, KubeletConfig, Write};
use serde_json::{Value, json};

const SECOND: i64 = 1_000_000_000;

/// When the kubelet comes; the container began 100 s before.
const NOW: i64 = 1_000 * SECOND;

/// Whether a pod is said to be ready, and since when in seconds from [`NOW`], each time that its
/// kubelet says so within five minutes.
fn told(status: Value, annotations: Value) -> Vec<(i64, bool)> {
    let node = json!({"metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}}});
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        "status": status,
    });
    let node: Node = serde_json::from_value(node).expect("a node");
    let pod: Pod = serde_json::from_value(pod).expect("a pod");
    let mut kubelet = Kubelet::new(KubeletConfig {
        node_name: "n1".to_owned(),
        ..KubeletConfig::default()
    });
    kubelet.handle(Input::NodeChanged(Arc::new(node)), NOW);
    kubelet.handle(Input::PodChanged(Arc::new(pod)), NOW);
    let mut told = Vec::new();
    let mut now = NOW;
    loop {
        for write in kubelet.advance(now) {
            let Write::PodStatus { status, .. } = write else {
                continue;
            };
            let mut conditions = status.conditions.iter();
            let ready = conditions.find(|it| it.type_ == "Ready");
            let is_ready = ready.is_some_and(|it| it.status == "True");
            told.push(((now - NOW) / SECOND, is_ready));
        }
        match kubelet.next_time() {
            Some(next) if next <= NOW + 300 * SECOND => now = next.max(now),
            _ => return told,
        }
    }
}

fn running(is_ready: bool) -> Value {
    let ready = if is_ready { "True" } else { "False" };
    let since = rfc3339(NOW - 100 * SECOND);
    json!({
        "phase": "Running", "startTime": since,
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}],
        "containerStatuses": [{"name": "c", "ready": is_ready, "restartCount": 0,
            "state": {"running": {"startedAt": since}}}],
    })
}

fn ready_after(time: &str) -> Value {
    json!({"node.outrank.dev/ready-after": time})
}

#[test]
fn what_is_ready_stays_ready() {
    for time in ["0s", "30s", "200s", "never"] {
        let told = told(running(true), ready_after(time));
        assert_eq!(told, [(0, true)], "ready-after {time}");
    }
}

#[test]
fn what_is_not_ready_becomes_so_in_its_time() {
    let told_of = |time: &str| told(running(false), ready_after(time));
    assert_eq!(told_of("160s"), [(0, false), (60, true)]);
    // It should have been ready long ago, and is not: nobody knows why.
    assert_eq!(told_of("30s"), [(0, false)]);
    assert_eq!(told(running(false), json!({})), [(0, false)]);
    assert_eq!(told_of("never"), [(0, false)]);
}

#[test]
fn a_pod_that_says_nothing_is_as_one_that_began_then() {
    let since = rfc3339(NOW - 100 * SECOND);
    let status = || json!({"phase": "Running", "startTime": since});
    assert_eq!(told(status(), json!({})), [(0, true)]);
    assert_eq!(
        told(status(), ready_after("160s")),
        [(0, false), (60, true)]
    );
    let said = json!({"phase": "Running", "startTime": since,
        "conditions": [{"type": "Ready", "status": "True"}]});
    assert_eq!(told(said, ready_after("160s")), [(0, true)]);
}
