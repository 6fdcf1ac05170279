//! Rehearsals, looked at by the checker: nothing is where it may not be, nothing waits that
//! has room; and what becomes of each manifest in `tests/seeds`.

#[path = "../../../tests/random.rs"]
mod random;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outrank_api::decode::{KeepRaw, LoadOptions, Loaded, LoadedObject, Object, load_with};
use outrank_api::types::{Node, Pod, PodDisruptionBudget, PriorityClass};
use outrank_checker::{
    Before, Fault, Kill, Options, Preemption, PreemptionRules, check, check_kills,
    check_preemption, wrongly_pending,
};
use outrank_engine::Event;
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
    let (mut after, kills, killed_running) = after_kills(scenario, &report);
    // Who is refused by the kubelet has failed and uses nothing.
    let is_refused = |pod: &Pod| {
        let mut refusals = report.kubelet_refusals.iter();
        refusals.any(|it| it.pod == pod.key() && it.reason != "NodeNotFound")
    };
    let refused = after.iter().filter(|pod| is_refused(pod));
    // Their controllers make others.
    let made_again = refused
        .filter(|pod| pod.metadata.controller().is_some())
        .count();
    after.retain(|pod| !is_refused(pod));
    let wrong = check_kills(&kills, &classes(scenario), &PreemptionRules::default());
    assert!(wrong.is_empty(), "{wrong:#?}");
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
        after.len() + made_again,
        "every pod counts once: {summary:?}"
    );
    report
}

/// The pods once victims are gone and others were made in their place, who was killed, and how
/// many of the victims ran before.
fn after_kills(scenario: &Scenario, report: &Report) -> (Vec<Pod>, Vec<Kill>, usize) {
    let mut after = scenario.pods.clone();
    let mut kills = Vec::new();
    let mut killed_running = 0;
    for (number, victim) in report.victims.iter().enumerate() {
        let place = after.iter().position(|pod| pod.key() == victim.key());
        let mut pod = after.remove(place.expect("a victim is there"));
        // Kubelets act before anything is counted.
        killed_running += usize::from(!pod.spec.node_name.is_empty() && !victim.by_kubelet);
        let mut killed = pod.clone();
        Arc::make_mut(&mut killed.spec).node_name = victim.node.clone();
        kills.push(Kill {
            at_nanos: scenario.as_of_nanos.unsigned_abs(),
            victim: killed,
            preemptor: victim.killed_by.clone(),
            preemptor_priority: victim.killed_by_priority,
            decision: number,
        });
        if let Some(new) = &victim.replacement.pod {
            let name = new.split_once('/').expect("namespace and name").1;
            pod.metadata.name = name.to_owned();
            Arc::make_mut(&mut pod.spec).node_name.clear();
            after.push(pod);
        }
    }
    (after, kills, killed_running)
}

fn classes(scenario: &Scenario) -> Vec<PriorityClass> {
    let classes = scenario
        .surroundings
        .iter()
        .filter_map(|event| match event {
            Event::PriorityClassChanged(class) => Some(class.clone()),
            _ => None,
        });
    classes.collect()
}

/// What the checker says of the kills of a rehearsal in which one pod arrived; and the
/// preemption itself.
fn judge(scenario: &Scenario, report: &Report) -> Option<(Preemption, Vec<Fault>)> {
    let first = report.victims.first()?;
    let keys = |only_violating: bool| {
        let victims = report.victims.iter();
        let victims = victims.filter(|it| it.pdb_violated || !only_violating);
        victims.map(|it| it.key()).collect()
    };
    let preemption = Preemption {
        preemptor: first.killed_by.clone(),
        node: first.node.clone(),
        victims: keys(false),
        violating: keys(true),
    };
    let found = faults(scenario, &preemption);
    Some((preemption, found))
}

fn faults(scenario: &Scenario, preemption: &Preemption) -> Vec<Fault> {
    let before = Before {
        nodes: &scenario.nodes,
        pods: &scenario.pods,
        budgets: &scenario.budgets,
        priority_classes: &classes(scenario),
        kills: &[],
        kills_counted: &BTreeMap::new(),
        now_nanos: scenario.as_of_nanos.unsigned_abs(),
    };
    let options = Options::starting_from(&scenario.pods);
    let wrong = check_preemption(&before, preemption, &PreemptionRules::default(), &options);
    wrong.into_iter().map(|wrong| wrong.fault).collect()
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

/// A full cluster: pods of several priorities that run, budgets that allow few of them to go, a
/// class that is not preemptible, and one pod that arrives.
fn random_full_cluster(random: &mut Random) -> Scenario {
    let mut objects = Vec::new();
    let policy = json!({"scheduling.outrank.dev/preemption-policy": "NonPreemptible"});
    for (name, value, annotations) in [
        ("low", 10, json!({})),
        ("precious", 15, policy),
        ("middle", 20, json!({})),
        ("high", 30, json!({})),
    ] {
        let class = json!({"metadata": {"name": name, "annotations": annotations},
            "value": value});
        let class: PriorityClass = serde_json::from_value(class).expect("a class");
        objects.push(Object::PriorityClass(Box::new(class)));
    }
    let nodes = 1 + random.below(6);
    for number in 0..nodes {
        let node = json!({"metadata": {"name": format!("n{number}")},
            "spec": {"unschedulable": random.one_in(12)},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "6"}}});
        let node: Node = serde_json::from_value(node).expect("a node");
        objects.push(Object::Node(Box::new(node)));
        let mut free_cpu = 4;
        while free_cpu > 0 {
            let cpu = 1 + random.below(free_cpu.min(3));
            free_cpu -= cpu;
            let name = format!("p{}", objects.len());
            let mut pod = pod_of_class(&name, cpu, random);
            Arc::make_mut(&mut pod.spec).node_name = format!("n{number}");
            pod.status.phase = "Running".to_owned();
            let started = (!random.one_in(6)).then(|| random.below(5));
            pod.status.start_time = started.map(|hour| format!("2026-01-01T0{hour}:00:00Z"));
            objects.push(Object::Pod(Box::new(pod)));
        }
    }
    for number in 0..random.below(3) {
        let app = ["a", "b"][number];
        let budget = json!({"metadata": {"name": app, "namespace": "default", "generation": 1},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"observedGeneration": 1, "disruptionsAllowed": random.below(3)}});
        let budget: PodDisruptionBudget = serde_json::from_value(budget).expect("a budget");
        objects.push(Object::PodDisruptionBudget(Box::new(budget)));
    }
    let arriving = pod_of_class("arriving", 1 + random.below(4), random);
    objects.push(Object::Pod(Box::new(arriving)));
    let objects = objects.into_iter().map(LoadedObject::from).collect();
    Scenario::new(objects, Changes::default()).expect("a scenario")
}

fn pod_of_class(name: &str, cpu: usize, random: &mut Random) -> Pod {
    let (class, priority) =
        *random.pick(&[("low", 10), ("precious", 15), ("middle", 20), ("high", 30)]);
    let app = ["a", "b", "c"][random.below(3)];
    let pod = json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {"priorityClassName": class, "priority": priority, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu.to_string()}}}]}});
    serde_json::from_value(pod).expect("a pod")
}

/// The same preemption done wrong, and what the checker must say of it.
fn mutations(scenario: &Scenario, right: &Preemption) -> Vec<(Preemption, &'static str)> {
    let mut mutations = Vec::new();
    let mut wrong = |victims: Vec<String>, violating: Vec<String>, node: &str, why| {
        let wrong = Preemption {
            preemptor: right.preemptor.clone(),
            node: node.to_owned(),
            victims,
            violating,
        };
        mutations.push((wrong, why));
    };
    let with = |more: &Pod| [right.victims.as_slice(), &[more.key()]].concat();
    let priority = |pod: &Pod| pod.spec.priority.unwrap_or(0);
    let mut pods = scenario.pods.iter();
    let preemptor = pods.find(|pod| pod.key() == right.preemptor);
    let limit = preemptor.map_or(0, priority);
    let on = |node: &str| {
        let pods = scenario.pods.iter();
        let here = pods.filter(|pod| pod.spec.node_name == node);
        here.filter(|pod| !right.victims.contains(&pod.key()))
            .collect::<Vec<_>>()
    };
    for pod in on(&right.node) {
        let is_lower = priority(pod) < limit;
        let is_protected = pod.spec.priority_class_name == "precious";
        let why = match (is_lower, is_protected) {
            (false, _) => "is not below",
            (true, true) => "is protected",
            (true, false) => "could stay",
        };
        wrong(with(pod), right.violating.clone(), &right.node, why);
    }
    let mut fewer = right.victims.clone();
    fewer.pop();
    let why = match fewer.len() {
        0 => "nobody is killed",
        _ => "does not fit",
    };
    wrong(fewer, Vec::new(), &right.node, why);
    if right.violating.is_empty() {
        let all = right.victims.clone();
        wrong(
            right.victims.clone(),
            all,
            &right.node,
            "no victim violates a budget",
        );
    } else {
        wrong(
            right.victims.clone(),
            Vec::new(),
            &right.node,
            "violate a budget",
        );
    }
    let nodes = scenario.nodes.iter();
    for node in nodes.filter(|node| node.metadata.name != right.node) {
        let name = &node.metadata.name;
        let here = on(name);
        // Whoever goes there: it is not what should, or it costs more.
        for chosen in 1..1_usize << here.len() {
            let goes = |index: usize| chosen >> index & 1 == 1;
            let pods = here.iter().enumerate().filter(|(index, _)| goes(*index));
            let keys = pods.map(|(_, pod)| pod.key()).collect();
            wrong(keys, Vec::new(), name, "");
        }
        wrong(
            right.victims.clone(),
            right.violating.clone(),
            name,
            "is on node",
        );
    }
    mutations
}

/// Who is killed in a rehearsal had to be, and was the least that could be lost.
#[test]
fn random_clusters_that_preempt() {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut preemptions = 0;
    for seed in 0..2_000 {
        let scenario = random_full_cluster(&mut Random(seed));
        let report = rehearse(&scenario);
        let Some((preemption, found)) = judge(&scenario, &report) else {
            continue;
        };
        assert!(found.is_empty(), "seed {seed}: {preemption:?}: {found:#?}");
        let node = report.placed.first().map(|pod| pod.node.as_str());
        assert_eq!(node, Some(preemption.node.as_str()), "seed {seed}");
        preemptions += 1;
        for (wrong, why) in mutations(&scenario, &preemption) {
            let found = faults(&scenario, &wrong);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            let is_refused = found.iter().any(|fault| fault.contains(why));
            // At times another node is as good.
            let is_as_good = why.is_empty() && found.is_empty();
            assert!(
                is_refused || is_as_good,
                "seed {seed}: {why:?}: {wrong:?}: {found:?}"
            );
            for fault in found {
                let kind = ["costs less", "could stay", "is protected", "is not below"];
                let kind = kind.into_iter().find(|kind| fault.contains(kind));
                *kinds.entry(kind.unwrap_or("other")).or_default() += 1;
            }
        }
    }
    assert!(preemptions > 500, "{preemptions} preemptions");
    assert!(
        kinds.len() == 5 && kinds.values().all(|count| *count > 50),
        "{kinds:?}"
    );
}
