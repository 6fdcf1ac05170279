//! How long controllers take for one workload with many pods.
//!
//! ```text
//! cargo run --release -p outrank-controllers --example large_sets -- 20000
//! ```
//!
//! Each line is a workload: the time until all its pods are there ("made"), and the time to take
//! note of a status of each pod, one after the other ("each"), as they come when pods start at
//! different times. Twice the pods should take about twice the time.

#![expect(
    clippy::disallowed_methods,
    reason = "this measures; it decides nothing"
)]

use std::time::Instant;

use outrank_controllers::disruption::DisruptionController;
use outrank_controllers::virtual_cluster::{PodLife, VirtualCluster};
use outrank_controllers::{Controllers, Key, workload_controllers};
use serde_json::{Value, json};

/// What is measured. `Claims` is a StatefulSet whose pods have claims, `Failing` a Job whose pods all
/// fail, `Budget` a ReplicaSet with a PodDisruptionBudget.
const KINDS: [&str; 7] = [
    "ReplicaSet",
    "Job",
    "Failing",
    "StatefulSet",
    "Claims",
    "DaemonSet",
    "Budget",
];

fn main() {
    let pods = std::env::args().nth(1).and_then(|it| it.parse().ok());
    let pods: usize = pods.unwrap_or(10_000);
    let selected = std::env::args().nth(2);
    for kind in KINDS {
        if selected.as_deref().is_none_or(|it| it == kind) {
            measure(kind, pods);
        }
    }
}

fn measure(kind: &str, pods: usize) {
    let mut controllers = workload_controllers();
    controllers.push(Box::new(DisruptionController::new()));
    let mut cluster = VirtualCluster::new(Controllers::new(controllers), "2026-01-01T00:00:00Z");
    cluster.is_logging = false;
    cluster.pod_life = PodLife::Pending;
    let start = Instant::now();
    if kind == "DaemonSet" {
        for node in 0..pods {
            let name = format!("n{node}");
            cluster.create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
        }
    }
    if kind == "Budget" {
        cluster.create(
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}}}),
        );
    }
    cluster.create(workload(kind, pods));
    cluster.settle();
    let made = start.elapsed();
    let keys: Vec<Key> = cluster.pods("default").collect();
    assert_eq!(keys.len(), pods);
    let start = Instant::now();
    let phase = match kind {
        "Job" => "Succeeded",
        "Failing" => "Failed",
        _ => "Running",
    };
    for key in &keys {
        cluster.set_pod_status(key, phase, phase == "Running");
        cluster.settle();
    }
    let each = start.elapsed();
    println!("{kind:<12} {pods:>7} pods  made {made:>8.2?}  each {each:>8.2?}");
}

fn workload(kind: &str, pods: usize) -> Value {
    let (is_failing, has_claims) = (kind == "Failing", kind == "Claims");
    let kind = match kind {
        "Budget" => "ReplicaSet",
        "Failing" => "Job",
        "Claims" => "StatefulSet",
        kind => kind,
    };
    let mut spec = json!({"template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}], "restartPolicy": "Always"},
    }});
    if kind == "Job" {
        spec["template"]["spec"]["restartPolicy"] = "Never".into();
        spec["parallelism"] = pods.into();
        spec["completions"] = pods.into();
        if is_failing {
            spec["backoffLimit"] = pods.into();
        }
    } else {
        spec["selector"] = json!({"matchLabels": {"app": "web"}});
    }
    if matches!(kind, "ReplicaSet" | "StatefulSet") {
        spec["replicas"] = pods.into();
    }
    if kind == "StatefulSet" {
        spec["podManagementPolicy"] = "Parallel".into();
        if has_claims {
            spec["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}}]);
        }
    }
    let api_version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": spec})
}
