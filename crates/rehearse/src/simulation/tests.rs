use outrank_api::decode::{LoadedObject, load};
use outrank_controllers::garbage_collection::GarbageCollector;
use outrank_controllers::node_lifecycle::NodeLifecycleOptions;
use outrank_controllers::{Controllers, cluster_controllers, workload_controllers};
use outrank_engine::EngineConfig;
use outrank_engine::extensions::Extensions;
use serde_json::{Value, json};

use super::Simulation;
use crate::run::{RunOptions, run};
use crate::scenario::{AdmissionOptions, Changes, Scenario};

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
        "365 Pod web Terminating",
        "365 Pod web Running",
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

fn guarded(name: &str, node: &str, priority: i32) -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web",
        "controller": true});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"},
            "creationTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [owner]},
        "spec": {"nodeName": node, "priority": priority, "terminationGracePeriodSeconds": 20,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": 4}}}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Two pods of a budget that lets one go, another pod that is dearer, and two that want a place.
fn contested() -> Vec<LoadedObject> {
    let mut dear = guarded("dear", "c", 5);
    dear["metadata"]["labels"] = json!({});
    dear["metadata"]["ownerReferences"] = json!([]);
    let urgent = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"priorityClassName": "urgent", "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {"cpu": 4}}}]}})
    };
    let web = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i",
                "resources": {"requests": {"cpu": 4}}}]}}}});
    let objects = [
        node("a", 4),
        node("b", 4),
        node("c", 4),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "urgent"}, "value": 100}),
        web,
        guarded("web-1", "a", 0),
        guarded("web-2", "b", 0),
        dear,
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
        urgent("u-1"),
        urgent("u-2"),
    ];
    let text: Vec<String> = objects.iter().map(ToString::to_string).collect();
    let loaded = load([("cluster.yaml", text.join("\n---\n").as_bytes())]);
    assert_eq!(loaded.errors, []);
    loaded.objects
}

/// What the first kill takes of a budget counts for the second, with time and without.
#[test]
fn budgets_are_counted_between_two_kills() {
    let scenario = Scenario::new(contested(), Changes::default()).expect("a scenario");
    let report = run(&scenario, &RunOptions::default(), &mut |_, _| {}).expect("a report");
    let victims = report.victims.iter();
    let killed: Vec<(&str, bool)> = victims.map(|it| (&*it.name, it.pdb_violated)).collect();
    assert_eq!(killed, [("web-1", false), ("dear", false)]);

    let options = RunOptions::default();
    let simulation = Simulation::of(contested(), &options, &AdmissionOptions::default());
    let mut simulation = simulation.expect("a simulation");
    simulation.run_until(simulation.cluster().now() + SECOND);
    let entries = simulation.timeline().entries().iter();
    let preempted = entries.filter(|it| it.reason == "Preempted");
    let killed: Vec<&str> = preempted.map(|it| it.object.as_str()).collect();
    assert_eq!(killed, ["Pod default/web-1", "Pod default/dear"]);
}

/// A set whose pods run, as a dump has it that lacks ControllerRevisions.
fn set_without_revision(kind: &str, status: Value) -> Vec<LoadedObject> {
    let template = json!({"metadata": {"labels": {"app": "s"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let mut spec = json!({"selector": {"matchLabels": {"app": "s"}}, "template": template});
    if kind == "StatefulSet" {
        spec["replicas"] = 2.into();
    }
    let set = json!({"apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": "s", "namespace": "default", "uid": "s", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": spec, "status": status});
    let hash = if kind == "StatefulSet" {
        "s-abc"
    } else {
        "abc"
    };
    let pod = |number: i32| {
        let mut pod = guarded(&format!("s-{number}"), ["a", "b"][number as usize], 0);
        pod["metadata"]["labels"] = json!({"app": "s", "controller-revision-hash": hash});
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": kind,
            "name": "s", "uid": "s", "controller": true}]);
        pod
    };
    let objects = [node("a", 4), node("b", 4), set, pod(0), pod(1)];
    let text: Vec<String> = objects.iter().map(ToString::to_string).collect();
    let loaded = load([("dump.yaml", text.join("\n---\n").as_bytes())]);
    assert_eq!(loaded.errors, []);
    loaded.objects
}

/// How many pods are deleted in ten minutes, and what is doubted.
fn gone_and_doubts(objects: Vec<LoadedObject>) -> (usize, usize) {
    let doubts = super::doubts(&objects);
    let options = RunOptions::default();
    let simulation = Simulation::of(objects, &options, &AdmissionOptions::default());
    let mut simulation = simulation.expect("a simulation");
    simulation.run_until(simulation.cluster().now() + 600 * SECOND);
    (told(&simulation, &["Terminating"]).len(), doubts.len())
}

#[test]
fn sets_whose_revisions_are_not_in_the_dump_stay_as_they_are() {
    let status = json!({"observedGeneration": 3, "replicas": 2, "readyReplicas": 2,
        "updatedReplicas": 2, "currentRevision": "s-abc", "updateRevision": "s-abc"});
    let stateful = |status: &Value| set_without_revision("StatefulSet", status.clone());
    assert_eq!(gone_and_doubts(stateful(&status)), (0, 0));
    let daemon = |status: &Value| set_without_revision("DaemonSet", status.clone());
    let updated = json!({"observedGeneration": 3, "currentNumberScheduled": 2,
        "desiredNumberScheduled": 2, "updatedNumberScheduled": 2});
    assert_eq!(gone_and_doubts(daemon(&updated)), (0, 0));
    // The status is about another template: it is not known which pods are of this one.
    let mut older = status.clone();
    older["observedGeneration"] = 2.into();
    assert_eq!(gone_and_doubts(stateful(&older)), (2, 1));
    let mut partly = updated.clone();
    partly["updatedNumberScheduled"] = 1.into();
    assert_eq!(gone_and_doubts(daemon(&partly)), (2, 1));
}

fn loaded(objects: &[Value]) -> Vec<LoadedObject> {
    let text: Vec<String> = objects.iter().map(ToString::to_string).collect();
    let loaded = load([("cluster.yaml", text.join("\n---\n").as_bytes())]);
    assert_eq!(loaded.errors, []);
    loaded.objects
}

fn job(name: &str, metadata: &Value, class: &str) -> Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
        "spec": {"template": {"spec": {"restartPolicy": "Never", "priorityClassName": class,
            "containers": [{"name": "c", "image": "i",
                "resources": {"requests": {"cpu": 4}}}]}}}});
    job["metadata"]["name"] = name.into();
    job
}

/// A Job that a cluster has, one that has yet to be made, and a class without which the more
/// important one cannot be made.
fn two_jobs(important: Value, small: Value) -> Vec<LoadedObject> {
    loaded(&[
        node("a", 4),
        important,
        small,
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "hi"}, "value": 100, "preemptionPolicy": "Never"}),
    ])
}

#[test]
fn all_of_the_input_is_there_before_anybody_acts() {
    let (stored, new) = (json!({"uid": "u"}), json!({}));
    for (important, small) in [(&stored, &new), (&new, &stored), (&new, &new)] {
        let objects = two_jobs(job("important", important, "hi"), job("small", small, ""));
        let options = RunOptions::default();
        let scenario = Scenario::new(objects.clone(), Changes::default()).expect("a scenario");
        let report = run(&scenario, &options, &mut |_, _| {}).expect("a report");
        let plain = report.placed.iter().map(|it| it.owner.clone());
        let plain: Vec<_> = plain.collect();
        assert_eq!(plain, [Some("Job/important".to_owned())]);

        let simulation = Simulation::of(objects, &options, &AdmissionOptions::default());
        let simulation = simulation.expect("a simulation");
        assert_eq!(told(&simulation, &["FailedCreate", "Refused"]), [""; 0]);
        let report = simulation.report();
        let waiting = report.waiting.iter().map(|it| it.owner.clone());
        let waiting: Vec<_> = waiting.collect();
        assert_eq!(waiting, [Some("Job/small".to_owned())]);
    }
}

/// What runs already counts in quotas that nobody has counted yet.
#[test]
fn quotas_of_the_input_hold_from_the_start() {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "1"}}});
    let new = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let objects = loaded(&[node("a", 8), guarded("old", "a", 0), quota, new]);
    let options = RunOptions::default();
    let simulation = Simulation::of(objects, &options, &AdmissionOptions::default());
    let simulation = simulation.expect("a simulation");
    assert_eq!(told(&simulation, &["Refused"]), ["0 Pod new Refused"]);
}

/// Pods that wait at the start are decided before a change is made.
#[test]
fn a_change_begins_when_the_cluster_is_at_rest() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let objects = loaded(&[node("a", 4), pod]);
    let options = RunOptions::default();
    let simulation = Simulation::of(objects, &options, &AdmissionOptions::default());
    let mut simulation = simulation.expect("a simulation");
    simulation.begin_change();
    let changes = Changes {
        drain: vec!["a".to_owned()],
        ..Changes::default()
    };
    simulation.change(&changes).expect("there is such a node");
    simulation.run_until(simulation.cluster().now() + SECOND);
    let wanted = ["Running", "Changed", "Terminating", "Gone"];
    let expected = [
        "0 Pod p Running",
        "0   Changed",
        "0 Pod p Terminating",
        "0 Pod p Gone",
    ];
    assert_eq!(told(&simulation, &wanted), expected);
}
