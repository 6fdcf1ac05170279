use outrank_controllers::Controllers;
use outrank_controllers::replica_set::ReplicaSetController;
use outrank_engine::EngineConfig;
use outrank_engine::extensions::Extensions;
use serde_json::{Value, json};

use super::Simulation;

const SECOND: i64 = 1_000_000_000;

fn simulation(objects: impl IntoIterator<Item = Value>) -> Simulation {
    let controllers = Controllers::new(vec![Box::new(ReplicaSetController::new())]);
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
            "metadata": {"labels": {"app": name}},
            "spec": {"priority": priority, "terminationGracePeriodSeconds": 20,
                "containers": [{"name": "c", "image": "i",
                    "resources": {"requests": {"cpu": cpu}}}]}}}})
}

/// The timeline as text, a line each.
fn told(simulation: &Simulation, wanted: &[&str]) -> Vec<String> {
    let entries = simulation.timeline().entries().iter();
    let entries = entries.filter(|entry| wanted.contains(&&*entry.reason));
    let lines = entries.map(|entry| {
        let (kind, name) = entry.object.split_once(" default/").unwrap_or_default();
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
    let wanted = ["Running", "Preempted", "Terminating", "Gone", "Scheduled"];
    let lines = told(&simulation, &wanted);
    for line in &lines {
        println!("{line}");
    }
    panic!();
}
