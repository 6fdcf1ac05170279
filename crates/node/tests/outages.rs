//! What happens when a node is not heard of for a while, and how it is known to be there.

mod cluster;

use cluster::{Cluster, SECOND, and, does, pod};
use outrank_node::{KubeletConfig, Outage, Write};
use serde_json::json;

#[test]
fn pods_of_an_unreachable_node_run_on_unseen() {
    let mut cluster = Cluster::new();
    let never = json!({ "spec": { "restartPolicy": "Never" } });
    cluster.create(pod("job", "500m", and(never, does(&[("run-for", "60s")]))));
    cluster.create(pod("web", "500m", json!({})));
    cluster.create(pod("deleted", "500m", json!({})));
    cluster.run_to(30);
    cluster.stop_node(Outage::Unreachable);
    let writes = cluster.writes.len();
    cluster.delete("deleted", Some(30));
    cluster.create(pod("late", "1", json!({})));
    cluster.run_to(100);
    assert_eq!(cluster.writes.len(), writes, "nothing is reported");
    assert_eq!(cluster.phase("job"), "Running");
    assert_eq!(cluster.phase("deleted"), "Running");
    assert_eq!(cluster.phase("late"), "Pending");
    cluster.start_node();
    assert_eq!(cluster.phase("job"), "Succeeded");
    let ended = cluster.status("job").container_statuses[0]
        .state
        .terminated
        .clone();
    assert_eq!(
        ended.unwrap().finished_at.as_deref(),
        Some("1970-01-01T00:01:00Z")
    );
    assert_eq!(cluster.phase("deleted"), "gone");
    assert_eq!(cluster.phase("late"), "Running");
    assert_eq!(cluster.containers("web"), ["main: Running, ready"]);
}

#[test]
fn a_node_that_was_powered_off_starts_its_pods_anew() {
    let mut cluster = Cluster::new();
    let policy = |policy: &str| json!({ "spec": { "restartPolicy": policy } });
    let init = json!({ "spec": { "initContainers": [{ "name": "init" }] } });
    cluster.create(pod("always", "400m", and(policy("Always"), init)));
    cluster.create(pod("on-failure", "400m", policy("OnFailure")));
    cluster.create(pod("never", "400m", policy("Never")));
    cluster.create(pod("deleted", "400m", json!({})));
    cluster.create(pod("removed", "400m", json!({})));
    cluster.run_to(50);
    cluster.stop_node(Outage::PoweredOff);
    cluster.run_to(60);
    cluster.delete("deleted", None);
    cluster.remove("removed");
    cluster.run_to(200);
    assert_eq!(cluster.phase("never"), "Running", "nothing is reported");
    cluster.start_node();
    assert_eq!(
        cluster.containers("always"),
        [
            "init: Completed 0, restarts 1",
            "main: Running, ready, restarts 1"
        ]
    );
    assert_eq!(
        cluster.containers("on-failure"),
        ["main: Running, ready, restarts 1"]
    );
    let last = cluster.status("on-failure").container_statuses[0]
        .last_state
        .terminated
        .clone();
    let last = last.unwrap();
    assert_eq!((last.reason.as_str(), last.exit_code), ("Unknown", 255));
    assert_eq!(last.finished_at.as_deref(), Some("1970-01-01T00:00:50Z"));
    assert_eq!(cluster.phase("never"), "Failed");
    assert_eq!(cluster.containers("never"), ["main: Unknown 255"]);
    assert_eq!(cluster.phase("deleted"), "gone");
    let pods: Vec<String> = cluster
        .kubelet
        .active_pods()
        .iter()
        .map(|(_, pod)| pod.metadata.name.clone())
        .collect();
    assert_eq!(pods, ["always", "on-failure"]);
}

#[test]
fn a_smaller_node_refuses_the_pods_created_last() {
    let mut cluster = Cluster::new();
    for second in 0..4 {
        cluster.run_to(second);
        cluster.create(pod(&format!("p{second}"), "500m", json!({})));
    }
    cluster.stop_node(Outage::PoweredOff);
    cluster.change_node(|node| {
        let allocatable = json!({ "cpu": "1", "memory": "4Gi", "pods": "110" });
        node.status.allocatable = serde_json::from_value(allocatable).unwrap();
    });
    cluster.start_node();
    let phases = ["p0", "p1", "p2", "p3"].map(|name| cluster.phase(name));
    assert_eq!(
        phases,
        ["Running", "Running", "Failed OutOfcpu", "Failed OutOfcpu"]
    );
}

#[test]
fn an_eviction_that_the_power_cut_interrupts_is_decided_anew() {
    let mut cluster = Cluster::new();
    let slow = does(&[("stop-after", "20s")]);
    cluster.create(pod("victim", "2", slow));
    let critical = json!({ "spec": { "priority": 2_000_001_000 } });
    cluster.create(pod("critical", "1", critical));
    cluster.run_to(5);
    assert_eq!(cluster.phase("critical"), "Pending");
    cluster.stop_node(Outage::PoweredOff);
    cluster.run_to(100);
    cluster.start_node();
    assert_eq!(cluster.phase("victim"), "Failed Preempting");
    assert_eq!(cluster.phase("critical"), "Running");
}

#[test]
fn a_pod_that_waited_and_was_deleted_meanwhile_is_not_considered_any_more() {
    let mut cluster = Cluster::new();
    cluster.create(pod("victim", "2", does(&[("stop-after", "20s")])));
    let critical = json!({ "spec": { "priority": 2_000_001_000 } });
    cluster.create(pod("critical", "1", critical));
    cluster.create(pod("late", "2", json!({})));
    cluster.run_to(5);
    cluster.stop_node(Outage::PoweredOff);
    cluster.delete("late", None);
    cluster.run_to(50);
    cluster.start_node();
    assert_eq!(cluster.phase("critical"), "Running");
    assert_eq!(cluster.phase("late"), "gone");
    assert_eq!(cluster.events("late"), Vec::<String>::new());
}

#[test]
fn the_lease_is_renewed_every_10_seconds_and_the_status_every_5_minutes() {
    let config = KubeletConfig {
        node_name: "n1".to_owned(),
        heartbeats: true,
        ..KubeletConfig::default()
    };
    let mut cluster = Cluster::with_config(config, json!({ "cpu": "2", "pods": "10" }));
    cluster.run_to(600);
    let times = |cluster: &Cluster, wanted: fn(&Write) -> bool| -> Vec<i64> {
        let writes = cluster.writes.iter().filter(|(_, write)| wanted(write));
        writes.map(|(time, _)| time / SECOND).collect()
    };
    let is_lease = |write: &Write| matches!(write, Write::RenewLease { .. });
    let is_status = |write: &Write| matches!(write, Write::NodeStatus { .. });
    assert_eq!(
        times(&cluster, is_lease),
        (0..=60).map(|i| i * 10).collect::<Vec<_>>()
    );
    assert_eq!(times(&cluster, is_status), [0, 300, 600]);

    cluster.stop_node(Outage::Unreachable);
    cluster.run_to(700);
    // What the node lifecycle controller makes of it:
    cluster.change_node(|node| {
        for condition in &mut node.status.conditions {
            condition.status = "Unknown".to_owned();
        }
    });
    cluster.run_to(750);
    assert_eq!(times(&cluster, is_lease).last(), Some(&600));
    cluster.start_node();
    cluster.run_to(765);
    assert_eq!(times(&cluster, is_lease)[61..], [750, 760]);
    let conditions = cluster.node.status.conditions.iter();
    let conditions: Vec<String> = conditions
        .map(|it| format!("{} {}", it.type_, it.status))
        .collect();
    assert_eq!(
        conditions,
        [
            "MemoryPressure False",
            "DiskPressure False",
            "PIDPressure False",
            "Ready True"
        ]
    );
    let ready = cluster.node.status.conditions.last().unwrap();
    assert_eq!(
        ready.last_transition_time.as_deref(),
        Some("1970-01-01T00:12:30Z")
    );
}

#[test]
fn what_the_kubelet_declares_is_what_it_admits_by() {
    let config = KubeletConfig {
        node_name: "n1".to_owned(),
        capacity: serde_json::from_value(json!({ "cpu": "4", "memory": "8Gi", "pods": "2" }))
            .unwrap(),
        reserved: serde_json::from_value(json!({ "cpu": "500m", "memory": "1Gi" })).unwrap(),
        heartbeats: false,
    };
    let mut cluster = Cluster::with_config(config, json!({}));
    let allocatable = json!({ "cpu": "3500m", "memory": "7Gi", "pods": "2" });
    assert_eq!(json!(cluster.node.status.allocatable), allocatable);
    cluster.create(pod("large", "4", json!({})));
    cluster.create(pod("a", "1", json!({})));
    cluster.create(pod("b", "1", json!({})));
    cluster.create(pod("c", "1", json!({})));
    let phases = ["large", "a", "b", "c"].map(|name| cluster.phase(name));
    assert_eq!(
        phases,
        ["Failed OutOfcpu", "Running", "Running", "Failed OutOfpods"]
    );
}
