//! Rehearsals, looked at by the checker: nothing is where it may not be, nothing waits that
//! has room; and what becomes of each manifest in `tests/seeds`.

#[path = "../../../tests/random.rs"]
mod random;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outrank_api::decode::{KeepRaw, LoadOptions, Loaded, LoadedObject, Object, load_with};
use outrank_api::types::{Node, Pod};
use outrank_checker::{Options, check, wrongly_pending};
use outrank_rehearse::report::{PendingState, Report};
use outrank_rehearse::trace::{TraceOptions, read_trace};
use outrank_rehearse::{Changes, RunOptions, Scenario, input, run};
use serde_json::json;

use random::Random;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn load_all(path: &str) -> Loaded {
    let path = repository(path);
    let files = input::read_inputs([path.as_path()], &mut std::io::empty()).expect("readable");
    let inputs = files
        .iter()
        .map(|file| (file.name.as_str(), file.bytes.as_slice()));
    let options = LoadOptions {
        keep_raw: KeepRaw::All,
        ..LoadOptions::default()
    };
    let loaded = load_with(options, inputs);
    assert!(loaded.errors.is_empty(), "{:?}", loaded.errors);
    loaded
}

fn objects(path: &str) -> Vec<LoadedObject> {
    load_all(path).objects
}

/// Rehearses, and lets the checker look at the outcome.
fn rehearse(scenario: &Scenario) -> Report {
    let report = run(scenario, &RunOptions::default(), &mut |_, _| {}).expect("a rehearsal");
    let options = Options::starting_from(&scenario.pods);
    let placed: BTreeMap<(&str, &str), &str> = report
        .placed
        .iter()
        .map(|pod| {
            (
                (pod.namespace.as_str(), pod.name.as_str()),
                pod.node.as_str(),
            )
        })
        .collect();
    let (mut after, killed_running) = after_kills(scenario, &report);
    let mut found = 0;
    for pod in &mut after {
        let key = (pod.metadata.namespace.as_str(), pod.metadata.name.as_str());
        if let Some(node) = placed.get(&key) {
            assert!(pod.spec.node_name.is_empty(), "{key:?} was placed already");
            Arc::make_mut(&mut pod.spec).node_name = (*node).to_owned();
            found += 1;
        }
    }
    assert_eq!(found, report.placed.len(), "pods are placed once");
    let violations = check(&scenario.nodes, &after, &options);
    assert!(violations.is_empty(), "{violations:#?}");
    let wrongly = wrongly_pending(&scenario.nodes, &after, &options);
    assert!(wrongly.is_empty(), "{wrongly:#?}");
    let summary = &report.summary;
    let counted = summary.running
        + summary.placed
        + summary.pending()
        + summary.other_schedulers
        + summary.finished;
    assert_eq!(
        counted - killed_running,
        after.len(),
        "every pod counts once: {summary:?}"
    );
    report
}

/// The pods once victims are gone and others were made in their place, and how many of the
/// victims ran before.
fn after_kills(scenario: &Scenario, report: &Report) -> (Vec<Pod>, usize) {
    let mut after = scenario.pods.clone();
    let mut killed_running = 0;
    for victim in &report.victims {
        let place = after.iter().position(|pod| pod.key() == victim.key());
        let mut pod = after.remove(place.expect("a victim is there"));
        killed_running += usize::from(!pod.spec.node_name.is_empty());
        assert!(victim.killed_by_priority > victim.priority, "{victim:?}");
        if let Some(new) = &victim.replacement.pod {
            let name = new.split_once('/').expect("namespace and name").1;
            pod.metadata.name = name.to_owned();
            Arc::make_mut(&mut pod.spec).node_name.clear();
            after.push(pod);
        }
    }
    (after, killed_running)
}

#[test]
fn the_gpu_cluster() {
    let scenario =
        Scenario::new(objects("examples/gpu-cluster"), Changes::default()).expect("a scenario");
    let report = rehearse(&scenario);
    assert!(report.summary.placed > 40, "{:?}", report.summary);
    assert!(report.summary.unschedulable > 0, "{:?}", report.summary);
    assert_eq!(report.summary.gated, 1);
    assert!(report.refused.is_empty() && report.kubelet_refusals.is_empty());
}

#[test]
fn changed_clusters() {
    let cluster = || objects("crates/outrank/tests/cli/changes.yaml");
    let drain = |nodes: &[&str]| Changes {
        drain: nodes.iter().map(|node| (*node).to_owned()).collect(),
        ..Changes::default()
    };
    let delete = |name: &str| Changes {
        delete: vec![name.parse().expect("a name")],
        ..Changes::default()
    };
    let taint = |taint: &str| Changes {
        taint: vec![taint.parse().expect("a taint")],
        ..Changes::default()
    };
    for (changes, deleted, placed) in [
        (Changes::default(), 0, 0),
        (drain(&["node-1"]), 3, 2),
        (drain(&["node-1", "node-2"]), 5, 3),
        (delete("node/node-2"), 3, 2),
        (delete("rs/web-6b7f"), 3, 3),
        (delete("deployment/web"), 3, 0),
        (taint("node-2=a:NoExecute"), 3, 2),
    ] {
        let told = format!("{changes:?}");
        let scenario = Scenario::new(cluster(), changes).expect("a scenario");
        let report = rehearse(&scenario);
        assert_eq!(report.deleted.len(), deleted, "{told}");
        assert_eq!(report.summary.placed, placed, "{told}");
        assert!(report.kubelet_refusals.is_empty(), "{told}");
        // Pods that are replaced where they were driven away are no rollout.
        let is_rollout = |warning: &String| warning.contains("rollout");
        assert!(!scenario.warnings.iter().any(is_rollout), "{told}");
    }
}

#[test]
fn the_example_trace_at_once() {
    let directory = repository("examples/trace");
    let options = TraceOptions::default();
    let trace = read_trace(
        &directory.join("nodes.csv"),
        &directory.join("pods.csv"),
        &options,
    )
    .unwrap_or_else(|errors| panic!("{errors}"));
    let pods = trace.pods.into_iter().map(|task| task.pod).collect();
    let scenario = Scenario::of_new_pods(trace.nodes, pods, &trace.priority_classes);
    let report = rehearse(&scenario.expect("a scenario"));
    assert_eq!(report.summary.placed + report.summary.unschedulable, 400);
    assert!(report.summary.placed > 200 && report.summary.unschedulable > 50);
}

/// Three nodes with 4 cores, 8 GiB and 20 pods each; the second has an SSD.
fn three_nodes() -> Vec<LoadedObject> {
    let node = |number: usize| {
        let name = format!("k8s-node0{number}");
        let mut labels = json!({"kubernetes.io/hostname": name});
        if number == 2 {
            labels["disk"] = "ssd".into();
        }
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}},
        }))
        .expect("a node");
        LoadedObject::from(Object::Node(Box::new(node)))
    };
    (1..=3).map(node).collect()
}

/// What becomes of manifests of `tests/seeds` on three nodes.
fn seeds(names: &[&str]) -> Report {
    let all = names
        .iter()
        .flat_map(|name| objects(&format!("tests/seeds/{name}")));
    rehearse(&Scenario::new(three_nodes(), all.collect::<Vec<_>>().into()).expect("a scenario"))
}

fn warnings(name: &str) -> Vec<String> {
    let warnings = load_all(&format!("tests/seeds/{name}")).warnings;
    warnings.iter().map(ToString::to_string).collect()
}

fn nodes_of(report: &Report) -> Vec<&str> {
    report.placed.iter().map(|pod| pod.node.as_str()).collect()
}

#[test]
fn a_misspelt_scheduler_name_leaves_the_pod_to_the_default_scheduler() {
    let report = seeds(&["pod-schedulername.yaml"]);
    assert_eq!(nodes_of(&report), ["k8s-node01"]);
    assert!(report.other_schedulers.is_empty());
    let warnings = warnings("pod-schedulername.yaml");
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("schedulername"), "{warnings:?}");
    assert!(
        warnings[0].contains("did you mean \"schedulerName\"?"),
        "{warnings:?}"
    );
}

#[test]
fn pods_that_name_their_node_count_as_placed() {
    let report = seeds(&["deployment-node-name.yaml"]);
    assert_eq!((report.summary.running, report.summary.placed), (7, 0));
    assert_eq!(report.summary.pending(), 0);
    assert!(report.kubelet_refusals.is_empty());
    let node = report
        .nodes
        .iter()
        .find(|node| node.name == "k8s-node01")
        .expect("there");
    assert_eq!(node.resources["pods"].after, 7);
}

#[test]
fn a_node_selector_holds_pods_to_nodes_with_the_label() {
    let report = seeds(&["deployment-node-selector.yaml"]);
    assert_eq!(nodes_of(&report), ["k8s-node02"; 5]);
    assert_eq!(
        report.placed[0].owner.as_deref().map(|owner| &owner[..17]),
        Some("ReplicaSet/myweb-")
    );
    assert!(warnings("deployment-node-selector.yaml")[0].contains("extensions/v1beta1"));
}

#[test]
fn required_node_affinity_keeps_pods_away() {
    let report = seeds(&["pod-node-affinity-required.yaml"]);
    assert_eq!(nodes_of(&report), ["k8s-node01"]);
    assert_eq!(report.placed[0].feasible_nodes, 2, "all but k8s-node02");
}

#[test]
fn preferred_node_affinity_draws_pods() {
    let report = seeds(&["pod-node-affinity-preferred.yaml"]);
    assert_eq!(nodes_of(&report), ["k8s-node03"]);
    assert_eq!(report.placed[0].feasible_nodes, 3);
}

#[test]
fn required_and_preferred_node_affinity() {
    let report = seeds(&["pod-node-affinity-both.yaml"]);
    assert_eq!(nodes_of(&report), ["k8s-node01"]);
    assert_eq!(
        report.placed[0].feasible_nodes, 2,
        "k8s-node01 and k8s-node02"
    );

    // The preference decides between the two.
    let mut cluster = three_nodes();
    for object in &mut cluster {
        if let Object::Node(node) = &mut object.object
            && node.metadata.name == "k8s-node02"
        {
            node.metadata
                .labels
                .insert("source".into(), "qikqiak".into());
        }
    }
    let changes = objects("tests/seeds/pod-node-affinity-both.yaml");
    let report = rehearse(&Scenario::new(cluster, changes.into()).expect("a scenario"));
    assert_eq!(nodes_of(&report), ["k8s-node02"]);
}

#[test]
fn tolerations_let_a_pod_onto_tainted_nodes_and_others_not() {
    let mut cluster = three_nodes();
    let taints = [
        ("key1", "value1", "NoExecute"),
        ("key2", "any", "NoSchedule"),
        ("key3", "", "NoSchedule"),
    ];
    for (object, (key, value, effect)) in cluster.iter_mut().zip(taints) {
        if let Object::Node(node) = &mut object.object {
            let taint = json!({"key": key, "value": value, "effect": effect});
            node.spec
                .taints
                .push(serde_json::from_value(taint).expect("a taint"));
        }
    }
    let changes = objects("tests/seeds/pod-tolerations.yaml");
    let scenario = Scenario::new(cluster.clone(), changes.into()).expect("a scenario");
    let report = rehearse(&scenario);
    assert_eq!(nodes_of(&report), ["k8s-node01"]);
    assert_eq!(report.placed[0].feasible_nodes, 2, "not k8s-node03");

    let changes = objects("tests/seeds/pod-schedulername.yaml");
    let report = rehearse(&Scenario::new(cluster, changes.into()).expect("a scenario"));
    assert_eq!(
        report.pending[0].filter_message,
        "0/3 nodes are available: 3 node(s) had untolerated taint(s)."
    );
}

#[test]
fn pod_affinity_goes_where_the_other_pod_is() {
    // pod-1 carries the label that pod-affinity.yaml looks for.
    let report = seeds(&["pod-tolerations.yaml", "pod-affinity.yaml"]);
    let nodes = nodes_of(&report);
    assert_eq!(nodes.len(), 2, "{:?}", report.pending);
    assert_eq!(nodes[0], nodes[1]);

    let report = seeds(&["pod-affinity.yaml"]);
    assert_eq!(
        report.pending[0].filter_message,
        "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."
    );
}

#[test]
fn priority_classes_give_pods_their_priority() {
    let report = seeds(&["priority-classes.yaml", "deployment-high-priority.yaml"]);
    assert_eq!(report.summary.placed, 1);
    assert_eq!(report.placed[0].priority, 10000);
    assert_eq!(report.placed[0].priority_class_name, "high");
    let mut all = three_nodes();
    all.extend(objects("tests/seeds/priority-classes.yaml"));
    let changes = objects("tests/seeds/deployment-high-priority.yaml");
    let scenario = Scenario::new(all, changes.into()).expect("a scenario");
    let spec = &scenario.pods[0].spec;
    assert_eq!(spec.priority, Some(10000));
    assert_eq!(spec.preemption_policy.as_deref(), Some("Never"));
    // Limits stand for requests that are not given.
    let requests = &spec.containers[0].resources.requests;
    assert_eq!(requests["cpu"].milli_value(), 500);

    // Without the class, the pod is not created.
    let report = seeds(&["deployment-high-priority.yaml"]);
    assert_eq!((report.summary.placed, report.summary.refused), (0, 1));
    assert_eq!(
        report.refused[0].message,
        "no PriorityClass with name high was found"
    );
}

#[test]
fn what_is_not_about_scheduling_is_left_out() {
    for (file, kind) in [
        ("admission-configuration.yaml", "AdmissionConfiguration"),
        ("policy.json", "Policy"),
    ] {
        let loaded = load_all(&format!("tests/seeds/{file}"));
        assert!(loaded.objects.is_empty(), "{file}");
        assert_eq!(loaded.ignored.len(), 1, "{file}");
        assert_eq!(loaded.ignored[0].kind, kind);
    }
}

fn random_node(number: usize, random: &mut Random) -> Node {
    let mut node = json!({
        "metadata": {"name": format!("n{number}"), "labels": {
            "kubernetes.io/hostname": format!("n{number}"),
            "zone": format!("z{}", random.below(3)),
            "rank": random.below(9).to_string(),
        }},
        "spec": {"unschedulable": random.one_in(10)},
        "status": {"allocatable": {
            "cpu": format!("{}m", random.below(9) * 500),
            "memory": format!("{}Mi", random.below(9) * 900),
            "example.com/gpu": random.below(4).to_string(),
            "pods": random.below(8).to_string(),
        }},
    });
    if random.one_in(3) {
        let effect = ["NoSchedule", "PreferNoSchedule", "NoExecute"][random.below(3)];
        node["spec"]["taints"] = json!([{"key": "dedicated", "value": "a", "effect": effect}]);
    }
    serde_json::from_value(node).expect("a node")
}

fn random_pod(number: usize, random: &mut Random) -> Pod {
    let mut container = json!({"name": "c", "image": "i", "resources": {"requests": {
        "cpu": format!("{}m", random.below(4) * 350),
        "memory": format!("{}Mi", random.below(4) * 400),
    }}});
    if random.one_in(5) {
        container["resources"]["limits"] = json!({"example.com/gpu": "1"});
    }
    if random.one_in(5) {
        container["ports"] = json!([{"containerPort": 80, "hostPort": 80 + random.below(2)}]);
    }
    let mut spec = json!({"containers": [container]});
    if random.one_in(3) {
        spec["tolerations"] = json!([{"key": "dedicated", "operator": "Exists"}]);
    }
    if random.one_in(4) {
        spec["nodeSelector"] = json!({"zone": format!("z{}", random.below(4))});
    }
    if random.one_in(4) {
        let value = random.below(9).to_string();
        let operator = ["Gt", "Lt", "NotIn"][random.below(3)];
        let term = json!({"matchExpressions": [
            {"key": "rank", "operator": operator, "values": [value]}]});
        spec["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}});
    }
    if random.one_in(12) {
        spec["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    }
    if random.one_in(12) {
        spec["schedulerName"] = "another".into();
    }
    if random.one_in(6) {
        spec["nodeName"] = format!("n{}", random.below(12)).into();
    }
    if random.one_in(3) {
        spec["priorityClassName"] =
            ["system-node-critical", "system-cluster-critical"][random.below(2)].into();
    }
    let metadata = json!({"namespace": "default", "name": format!("p{number}")});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a pod")
}

#[test]
fn random_clusters() {
    let mut placed = 0;
    let mut waiting = 0;
    for seed in 0..300 {
        let mut random = Random(seed);
        let count = random.below(12);
        let nodes = (0..count).map(|number| random_node(number, &mut random));
        let nodes: Vec<Node> = nodes.collect();
        let count = random.below(60);
        let pods = (0..count)
            .map(|number| random_pod(number, &mut random))
            .collect();
        let scenario = Scenario::of_new_pods(nodes, pods, &[]).expect("a scenario");
        let report = rehearse(&scenario);
        placed += report.summary.placed;
        waiting += report
            .pending
            .iter()
            .filter(|pod| pod.state == PendingState::Unschedulable)
            .count();
    }
    assert!(
        placed > 500 && waiting > 500,
        "{placed} placed, {waiting} waiting"
    );
}
