//! The kubelet has the last word: what it refuses, and whom it evicts.

mod cluster;

use cluster::{Cluster, and, does, pod};
use outrank_node::{Input, Kubelet, KubeletConfig};
use serde_json::{Value, json};

fn priority(class: &str, value: i32) -> Value {
    json!({ "spec": { "priorityClassName": class, "priority": value } })
}

const NODE_CRITICAL: (&str, i32) = ("system-node-critical", 2_000_001_000);
const CLUSTER_CRITICAL: (&str, i32) = ("system-cluster-critical", 2_000_000_000);

#[test]
fn a_pod_that_bypassed_the_scheduler_and_does_not_fit_fails_and_takes_nothing() {
    let mut cluster = Cluster::new();
    cluster.create(pod("a", "1500m", priority("", 0)));
    cluster.create(pod("b", "1", priority("", 0)));
    cluster.create(pod("c", "500m", priority("", 0)));
    cluster.run_to(1);
    assert_eq!(cluster.phase("a"), "Running");
    assert_eq!(cluster.phase("b"), "Failed OutOfcpu");
    assert_eq!(cluster.phase("c"), "Running");
    let message = "Node didn't have enough resource: cpu, requested: 1000, used: 1500, \
                   capacity: 2000";
    let status = cluster.status("b");
    assert_eq!(status.message, format!("Pod was rejected: {message}"));
    assert!(status.conditions.is_empty() && status.container_statuses.is_empty());
    assert_eq!(cluster.events("b"), [format!("0 OutOfcpu: {message}")]);
    // It stays as it is, until someone deletes it.
    cluster.run_to(3600);
    assert_eq!(cluster.phase("b"), "Failed OutOfcpu");
    cluster.delete("b", None);
    assert_eq!(cluster.phase("b"), "gone");
}

#[test]
fn for_a_critical_pod_room_is_made() {
    let mut cluster = Cluster::new();
    let slow = does(&[("stop-after", "5s")]);
    cluster.create(pod("a", "1500m", and(priority("", 0), slow)));
    cluster.run_to(10);
    let (class, value) = NODE_CRITICAL;
    cluster.create(pod("b", "1", priority(class, value)));
    // The victim has its grace period; until it has ended it runs, and the other waits.
    cluster.run_to(14);
    assert_eq!(cluster.phase("a"), "Running");
    assert_eq!(cluster.condition("a", "DisruptionTarget"), "none");
    assert_eq!(cluster.phase("b"), "Pending");
    cluster.run_to(15);
    assert_eq!(cluster.phase("a"), "Failed Preempting");
    assert_eq!(
        cluster.status("a").message,
        "Preempted in order to admit critical pod"
    );
    assert_eq!(
        cluster.condition("a", "DisruptionTarget"),
        "True TerminationByKubelet"
    );
    assert_eq!(cluster.condition("a", "Ready"), "False PodFailed");
    assert_eq!(cluster.containers("a"), ["main: Error 143"]);
    assert_eq!(cluster.phase("b"), "Running");
    let events = cluster.events("a");
    let expected = [
        "10 Preempting: Preempted in order to admit critical pod",
        "10 Killing: Stopping container main",
    ];
    assert!(events.ends_with(&expected.map(str::to_owned)), "{events:?}");
    // The victim's object stays.
    cluster.run_to(3600);
    assert_eq!(cluster.phase("a"), "Failed Preempting");
}

#[test]
fn of_two_critical_pods_the_lower_one_goes() {
    let mut cluster = Cluster::with_node(json!({ "cpu": "1", "memory": "1Gi", "pods": "10" }));
    let (class, value) = CLUSTER_CRITICAL;
    cluster.create(pod("x", "800m", priority(class, value)));
    let (class, value) = NODE_CRITICAL;
    cluster.create(pod("k", "500m", priority(class, value)));
    cluster.run_to(1);
    assert_eq!(cluster.phase("x"), "Failed Preempting");
    assert_eq!(cluster.phase("k"), "Running");
}

#[test]
fn a_critical_pod_does_not_evict_one_of_its_own_priority() {
    let mut cluster = Cluster::with_node(json!({ "cpu": "1", "memory": "1Gi", "pods": "10" }));
    let (class, value) = NODE_CRITICAL;
    cluster.create(pod("first", "800m", priority(class, value)));
    cluster.create(pod("second", "500m", priority(class, value)));
    cluster.run_to(1);
    assert_eq!(cluster.phase("first"), "Running");
    assert_eq!(cluster.phase("second"), "Failed UnexpectedAdmissionError");
    assert_eq!(
        cluster.status("second").message,
        "Pod was rejected: Unexpected error while attempting to recover from admission failure: \
         preemption: error finding a set of pods to preempt: no set of running pods found to \
         reclaim resources: [(res: cpu, q: 300), ]"
    );
}

#[test]
fn victims_go_one_after_the_other_and_nobody_takes_their_place() {
    let mut cluster = Cluster::new();
    let slow = |name: &str, cpu: &str| {
        pod(
            name,
            cpu,
            and(priority("", 0), does(&[("stop-after", "4s")])),
        )
    };
    cluster.create(slow("one", "1"));
    cluster.create(slow("two", "1"));
    let (class, value) = NODE_CRITICAL;
    cluster.create(pod("critical", "2", priority(class, value)));
    cluster.run_to(1);
    cluster.create(pod("late", "100m", priority("", 0)));
    cluster.run_to(5);
    let phases = ["one", "two", "critical", "late"].map(|name| cluster.phase(name));
    assert_eq!(
        phases,
        ["Running", "Failed Preempting", "Pending", "Pending"]
    );
    cluster.run_to(8);
    let phases = ["one", "two", "critical", "late"].map(|name| cluster.phase(name));
    assert_eq!(
        phases,
        [
            "Failed Preempting",
            "Failed Preempting",
            "Running",
            "Failed OutOfcpu"
        ]
    );
}

#[test]
fn a_critical_pod_that_is_deleted_while_its_victims_go_never_starts() {
    let mut cluster = Cluster::new();
    cluster.create(pod(
        "a",
        "2",
        and(priority("", 0), does(&[("stop-after", "9s")])),
    ));
    let (class, value) = NODE_CRITICAL;
    cluster.create(pod("critical", "1", priority(class, value)));
    cluster.run_to(2);
    cluster.delete("critical", None);
    cluster.create(pod("next", "1", priority("", 0)));
    cluster.run_to(20);
    assert_eq!(cluster.phase("critical"), "gone");
    assert_eq!(cluster.phase("a"), "Failed Preempting");
    assert_eq!(cluster.phase("next"), "Running");
}

#[test]
fn extended_resources_that_the_node_does_not_name_do_not_count() {
    let mut cluster = Cluster::with_node(json!({
        "cpu": "2", "memory": "4Gi", "pods": "10", "nvidia.com/gpu": "1",
    }));
    let wants = |name: &str| {
        let requests = json!({ "cpu": "1m", name: "2" });
        json!({ "spec": { "containers": [{ "name": "main", "resources": { "requests": requests } }] } })
    };
    cluster.create(pod("license", "0", wants("example.com/license")));
    cluster.create(pod("gpus", "0", wants("nvidia.com/gpu")));
    cluster.run_to(1);
    assert_eq!(cluster.phase("license"), "Running");
    assert_eq!(cluster.phase("gpus"), "Failed OutOfnvidia.com/gpu");
}

#[test]
fn labels_ports_and_taints_are_looked_at_too() {
    let mut cluster = Cluster::new();
    let port = json!({ "spec": { "containers": [
        { "name": "main", "ports": [{ "containerPort": 80, "hostPort": 8080 }] },
    ]}});
    cluster.create(pod("web", "0", port.clone()));
    cluster.create(pod("also-web", "0", port));
    let ssd = json!({ "spec": { "nodeSelector": { "disk": "ssd" } } });
    cluster.create(pod("wants-ssd", "0", ssd));
    cluster.change_node(|node| {
        let taint = json!({ "key": "broken", "effect": "NoExecute" });
        node.spec.taints = vec![serde_json::from_value(taint).unwrap()];
    });
    cluster.create(pod("late", "0", json!({})));
    let from_file =
        json!({ "metadata": { "annotations": { "kubernetes.io/config.source": "file" } } });
    cluster.create(pod("static", "0", from_file));
    cluster.run_to(1);
    let names = ["web", "also-web", "wants-ssd", "late", "static"];
    assert_eq!(
        names.map(|name| cluster.phase(name)),
        [
            "Running",
            "Failed NodePorts",
            "Failed NodeAffinity",
            "Failed TaintToleration",
            "Running"
        ]
    );
}

#[test]
fn without_its_node_a_kubelet_admits_nobody() {
    let mut kubelet = Kubelet::new(KubeletConfig {
        node_name: "n1".to_owned(),
        ..KubeletConfig::default()
    });
    let waiting = pod("a", "1", json!({ "spec": { "nodeName": "n1" } }));
    kubelet.handle(
        Input::PodChanged(serde_json::from_value(waiting).unwrap()),
        0,
    );
    assert_eq!(kubelet.advance(0), []);
    let elsewhere = pod("b", "1", json!({ "spec": { "nodeName": "n2" } }));
    kubelet.handle(
        Input::PodChanged(serde_json::from_value(elsewhere).unwrap()),
        0,
    );
    let node = json!({
        "metadata": { "name": "n1" },
        "status": { "allocatable": { "cpu": "1", "pods": "1" } },
    });
    kubelet.handle(Input::NodeChanged(serde_json::from_value(node).unwrap()), 0);
    let pods: Vec<String> = kubelet
        .active_pods()
        .iter()
        .map(|(_, pod)| pod.key())
        .collect();
    assert_eq!(pods, ["/a"]);
}
