use outrank_controllers::garbage_collection::GarbageCollector;
use outrank_controllers::node_lifecycle::NodeLifecycleOptions;
use outrank_controllers::{Controllers, cluster_controllers, workload_controllers};
use outrank_engine::EngineConfig;
use outrank_engine::extensions::Extensions;
use serde_json::{Value, json};

use super::Simulation;

const SECOND: i64 = 1_000_000_000;

fn simulation(objects: impl IntoIterator<Item = Value>) -> Simulation {
    let nodes = NodeLifecycleOptions {
        silent_nodes_are_lost: false,
        ..NodeLifecycleOptions::default()
    };
    let mut controllers = workload_controllers();
    controllers.extend(cluster_controllers(nodes, GarbageCollector::new()));
    let controllers = Controllers::new(controllers);
    let config = EngineConfig::default();
    let start = "2026-01-01T00:00:00Z";
    let simulation = Simulation::new(controllers, &config, Extensions::default(), start);
    let mut simulation = simulation.expect("the default configuration");
    for object in objects {
        simulation.cluster_mut().create(object);
    }
    simulation
}

fn node(name: &str, cpu: i64) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": 110}}})
}

fn replica_set(name: &str, replicas: i32, cpu: i64, priority: i32) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name},
                "annotations": {"node.outrank.dev/stop-after": "15s"}},
            "spec": {"priority": priority, "terminationGracePeriodSeconds": 20,
                "containers": [{"name": "c", "image": "i",
                    "resources": {"requests": {"cpu": cpu}}}],
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                        "effect": "NoExecute", "tolerationSeconds": 300},
                    {"key": "node.kubernetes.io/unreachable", "operator": "Exists",
                        "effect": "NoExecute", "tolerationSeconds": 300}]}}}})
}

/// The timeline as text, a line each.
fn told(simulation: &Simulation, wanted: &[&str]) -> Vec<String> {
    let entries = simulation.timeline().entries().iter();
    let entries = entries.filter(|entry| wanted.contains(&&*entry.reason));
    let lines = entries.map(|entry| {
        let (kind, name) = entry.object.split_once(' ').unwrap_or_default();
        let name = name.strip_prefix("default/").unwrap_or(name);
        let name = name.split('-').next().unwrap_or_default();
        format!("{} {kind} {name} {}", entry.at_seconds, entry.reason)
    });
    lines.collect()
}

#[test]
fn victims_take_their_grace_and_are_made_again() {
    let batch = replica_set("batch", 2, 2, 0);
    let mut simulation = simulation([node("a", 4), batch]);
    simulation.run_until(simulation.cluster().now() + 60 * SECOND);
    let online = replica_set("online", 1, 3, 100);
    simulation.cluster_mut().create(online);
    simulation.run_until(simulation.cluster().now() + 60 * SECOND);
    let wanted = [
        "Running",
        "Preempted",
        "Terminating",
        "Gone",
        "FailedScheduling",
    ];
    let expected = [
        "0 Pod batch Running",
        "0 Pod batch Running",
        "60 Pod batch Terminating",
        "60 Pod batch Terminating",
        "60 Pod batch Preempted",
        "60 Pod batch Preempted",
        "60 Pod online FailedScheduling",
        "60 Pod batch FailedScheduling",
        "60 Pod batch FailedScheduling",
        "75 Pod batch Gone",
        "75 Pod batch Gone",
        "75 Pod batch FailedScheduling",
        "75 Pod batch FailedScheduling",
        "75 Pod online Running",
    ];
    assert_eq!(told(&simulation, &wanted), expected);
    // It was told why it had to go.
    let pods = simulation.cluster().pods("default");
    let waiting: Vec<_> = pods.map(|key| simulation.cluster().value(&key)).collect();
    let names = waiting.iter().map(|pod| &pod["spec"]["nodeName"]);
    assert_eq!(names.filter(|node| **node == "a").count(), 1);
}

/// Taints drive pods away when their time has come, and a lost node is noticed first.
#[test]
fn a_lost_node_loses_its_pods_after_five_minutes() {
    let web = replica_set("web", 2, 3, 0);
    let mut simulation = simulation([node("a", 4), node("b", 4), web]);
    simulation.run_until(simulation.cluster().now() + 10 * SECOND);
    simulation
        .stop_nodes(&["a".to_owned()])
        .expect("there is such a node");
    simulation.cluster_mut().create(node("c", 4));
    simulation.run_until(simulation.cluster().now() + 600 * SECOND);
    let wanted = ["NotReady", "Terminating", "Running"];
    let expected = [
        "0 Pod web Running",
        "0 Pod web Running",
        "65 Node a NotReady",
        "370 Pod web Terminating",
        "370 Pod web Running",
    ];
    assert_eq!(told(&simulation, &wanted), expected);
}

#[test]
fn there_is_no_such_node() {
    let mut simulation = simulation([node("a", 4)]);
    let error = simulation.stop_nodes(&["b".to_owned()]);
    let message = "cannot stop node b: there is no such node";
    assert_eq!(error, Err(message.to_owned()));
}
