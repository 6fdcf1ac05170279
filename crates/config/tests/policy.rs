//! Legacy policies: what they become, in which order they decide, and what is said about
//! mistakes. The answers of kube-scheduler 1.20 itself are in `tests/golden/policy`.

use std::collections::BTreeMap;

use outrank_api::decode::{Object, decode_value};
use outrank_config::policy::{Policy, PolicyError, Reading, Stage, convert, is_policy, read};
use outrank_engine::evaluation::Evaluation;
use outrank_engine::profile::ProfileConfig;
use outrank_engine::{Engine, EngineConfig, Event, Outcome};
use serde_json::{Value, json};

/// The policy of a tutorial, as written there.
const SEED: &str = include_str!("../../../tests/seeds/policy.json");

fn lenient(text: &str) -> Policy {
    read(text, Reading::Lenient).unwrap_or_else(|error| panic!("{error}"))
}

fn profile(policy: &Policy) -> &ProfileConfig {
    &policy.engine.profiles[0]
}

/// A policy with these fields.
fn with(fields: Value) -> String {
    let mut policy = json!({"kind": "Policy", "apiVersion": "v1"});
    for (name, value) in fields.as_object().expect("fields") {
        policy[name] = value.clone();
    }
    policy.to_string()
}

fn refused(fields: Value, reading: Reading) -> PolicyError {
    read(&with(fields), reading).expect_err("something is wrong")
}

fn object(value: Value) -> Object {
    decode_value(&value).expect("an object")
}

fn node(name: &str, changes: Value) -> Value {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
        "spec": {}, "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}});
    for (pointer, value) in changes.as_object().expect("pointers and values") {
        let (parent, field) = pointer.rsplit_once('/').expect("a pointer");
        node.pointer_mut(parent).expect("a field")[field] = value.clone();
    }
    node
}

fn pod(name: &str, node: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name}, "spec": spec});
    pod["spec"]["nodeName"] = node.into();
    pod
}

fn container(cpu: &str, memory: &str) -> Value {
    json!([{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": cpu, "memory": memory}}}])
}

fn engine(config: &EngineConfig, objects: Vec<Value>) -> Engine {
    let mut engine = Engine::new(config).expect("a policy's profile");
    for value in objects {
        match object(value) {
            Object::Node(node) => engine.handle(Event::NodeChanged(*node), 0),
            Object::Pod(pod) => engine.handle(Event::PodChanged(*pod), 0),
            other => panic!("{other:?}"),
        }
    }
    engine
}

fn evaluate(engine: &Engine, pod: &str) -> Evaluation {
    let pod = engine.pod("default", pod).expect("a pod");
    engine.evaluate(pod).expect("a pod")
}

/// Which plugin refused each node, and the first reason.
fn refusals(engine: &Engine, pod: &str) -> BTreeMap<String, (String, String)> {
    let cluster = engine.cluster();
    let refused = evaluate(engine, pod).refused;
    let told = refused.iter().map(|(node, refusal)| {
        let reason = refusal.reasons[0].text(cluster);
        (
            cluster.name(*node).to_owned(),
            (refusal.plugin.to_owned(), reason),
        )
    });
    told.collect()
}

/// Decides a pod, and says where it goes and with which score, or why nowhere.
fn decide(engine: &mut Engine, pod: &str) -> Result<(String, i64), String> {
    let pod = engine.pod("default", pod).expect("a pod");
    match engine.decide_pod(pod, 0).expect("it waits").outcome {
        Outcome::Scheduled {
            node, total_score, ..
        } => Ok((engine.cluster().name(node).to_owned(), total_score)),
        Outcome::Unschedulable(diagnosis) => Err(diagnosis.message(engine.cluster())),
        Outcome::Error(error) => Err(error.to_string()),
    }
}

#[test]
fn the_seed_runs_in_its_own_order() {
    let policy = lenient(SEED);
    let filters = [
        "NodeName",
        "NodePorts",
        "NodeResourcesFit",
        "TaintToleration",
        "VolumeRestrictions",
        "NodeAffinity",
        "NodeUnschedulable",
    ];
    assert_eq!(profile(&policy).filter, filters);
    let scores = [
        ("NodeResourcesBalancedAllocation".to_owned(), 1),
        ("NodeResourcesLeastAllocated".to_owned(), 1),
        ("PodTopologySpread".to_owned(), 1),
    ];
    assert_eq!(profile(&policy).score, scores);
    let warnings: Vec<String> = policy.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "predicates[5].name: PodFitsHost counts as HostName; kube-scheduler 1.20 knows no \
             such predicate",
            "predicates[0].order: predicates run in this order (and 5 more); kube-scheduler 1.20 \
             refuses a policy with such a field, and runs them in an order of its own",
        ]
    );
}

/// On each node two things are wrong; the policy says which is told.
#[test]
fn the_seed_refuses_in_its_own_order() {
    let disk = json!([{"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}}]);
    let taint = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
    let labels = json!({"disk": "ssd"});
    let port = json!([{"name": "c", "image": "i", "ports": [{"containerPort": 80,
        "hostPort": 80}], "resources": {"requests": {"cpu": "3500m"}}}]);
    let cluster = vec![
        node("port-and-cpu", json!({"/metadata/labels": labels})),
        node(
            "cpu-and-taint",
            json!({"/metadata/labels": labels, "/spec/taints": taint,
            "/status/allocatable/cpu": "500m"}),
        ),
        node(
            "taint-and-disk",
            json!({"/metadata/labels": labels, "/spec/taints": taint}),
        ),
        node("disk-and-selector", json!({})),
        node("selector-and-cordon", json!({"/spec/unschedulable": true})),
        node(
            "cordon",
            json!({"/metadata/labels": labels, "/spec/unschedulable": true}),
        ),
        pod("web", "port-and-cpu", json!({"containers": port})),
        pod(
            "one",
            "taint-and-disk",
            json!({"containers": container("1", "1Gi"),
            "volumes": disk}),
        ),
        pod(
            "two",
            "disk-and-selector",
            json!({"containers": container("1", "1Gi"),
            "volumes": disk}),
        ),
        pod(
            "p",
            "",
            json!({"containers": [{"name": "c", "image": "i",
            "ports": [{"containerPort": 80, "hostPort": 80}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
            "nodeSelector": {"disk": "ssd"}, "volumes": disk}),
        ),
    ];
    let plugins = |reading: Reading, text: &str| -> BTreeMap<String, String> {
        let policy = read(text, reading).unwrap_or_else(|error| panic!("{error}"));
        let engine = engine(&policy.engine, cluster.clone());
        let told = refusals(&engine, "p").into_iter();
        told.map(|(node, (plugin, _))| (node, plugin)).collect()
    };
    let expected = |pairs: [(&str, &str); 6]| -> BTreeMap<String, String> {
        let pairs = pairs.into_iter();
        pairs
            .map(|(node, plugin)| (node.into(), plugin.into()))
            .collect()
    };
    assert_eq!(
        plugins(Reading::Lenient, SEED),
        expected([
            ("port-and-cpu", "NodePorts"),
            ("cpu-and-taint", "NodeResourcesFit"),
            ("taint-and-disk", "TaintToleration"),
            ("disk-and-selector", "VolumeRestrictions"),
            ("selector-and-cordon", "NodeAffinity"),
            ("cordon", "NodeUnschedulable"),
        ])
    );
    // The same predicates as 1.20 takes them, which has an order of its own.
    let names = [
        "PodFitsHostPorts",
        "PodFitsResources",
        "NoDiskConflict",
        "MatchNodeSelector",
    ];
    let names = names.map(|name| json!({"name": name}));
    assert_eq!(
        plugins(Reading::V1_20, &with(json!({"predicates": names}))),
        expected([
            ("port-and-cpu", "NodePorts"),
            ("cpu-and-taint", "NodeResourcesFit"),
            ("taint-and-disk", "VolumeRestrictions"),
            ("disk-and-selector", "NodeAffinity"),
            ("selector-and-cordon", "NodeUnschedulable"),
            ("cordon", "NodeUnschedulable"),
        ])
    );
}

/// 1 cpu and 2Gi of 4 cpus and 8Gi leave 75 of 100 of both, evenly: 75 + 100. Of 2 cpus and
/// 8Gi they leave 50 and 75, in the mean 62, and are apart by a quarter: 62 + 75. There is
/// nobody to be spread from: 100 each.
#[test]
fn the_seed_takes_the_emptier_and_more_even_node() {
    let mut engine = engine(
        &lenient(SEED).engine,
        vec![
            node("a", json!({"/status/allocatable/cpu": "2"})),
            node("b", json!({})),
            pod("p", "", json!({"containers": container("1", "2Gi")})),
        ],
    );
    let evaluation = evaluate(&engine, "p");
    let totals: Vec<i64> = evaluation.totals.clone();
    assert_eq!(totals, [62 + 75 + 100, 75 + 100 + 100]);
    assert_eq!(decide(&mut engine, "p"), Ok(("b".into(), 275)));
}

#[test]
fn predicates_without_an_order_come_after_and_ties_are_upstreams() {
    let order = |predicates: Value| {
        profile(&lenient(&with(json!({"predicates": predicates}))))
            .filter
            .clone()
    };
    assert_eq!(
        order(json!([
            {"name": "MatchInterPodAffinity", "order": 7},
            {"name": "NoDiskConflict"},
            {"name": "MatchNodeSelector", "order": 7},
            {"name": "CheckNodeDiskPressure", "order": -1},
            {"name": "GeneralPredicates"},
        ])),
        [
            "CheckNodeDiskPressure",
            "NodeAffinity",
            "InterPodAffinity",
            "NodeUnschedulable",
            "NodeResourcesFit",
            "NodeName",
            "NodePorts",
            "VolumeRestrictions",
            "TaintToleration",
        ]
    );
    // Without any order, all run as upstream has them.
    assert_eq!(
        order(
            json!([{"name": "CheckNodePIDPressure"}, {"name": "EvenPodsSpread"},
            {"name": "CheckNodeCondition"}, {"name": "PodToleratesNodeNoExecuteTaints"}])
        ),
        [
            "CheckNodeCondition",
            "NodeUnschedulable",
            "TaintToleration",
            "PodToleratesNodeNoExecuteTaints",
            "CheckNodePIDPressure",
            "PodTopologySpread",
        ]
    );
}

#[test]
fn conditions_of_nodes_keep_pods_away() {
    let names = [
        "CheckNodeCondition",
        "CheckNodeMemoryPressure",
        "CheckNodeDiskPressure",
        "CheckNodePIDPressure",
        "PodToleratesNodeNoExecuteTaints",
    ];
    let predicates = names.map(|name| json!({"name": name, "order": 1}));
    let policy = lenient(&with(json!({"predicates": predicates})));
    assert_eq!(policy.warnings.len(), 6, "one a name, one for the orders");
    let condition = |kind: &str, status: &str| json!({"/status/conditions": [{"type": kind, "status": status}]});
    let engine = engine(
        &policy.engine,
        vec![
            node("ready", condition("Ready", "True")),
            node("lost", condition("Ready", "Unknown")),
            node("no-network", condition("NetworkUnavailable", "Unknown")),
            node("network", condition("NetworkUnavailable", "False")),
            node("no-disk", condition("OutOfDisk", "True")),
            node("memory", condition("MemoryPressure", "True")),
            node("disk", condition("DiskPressure", "True")),
            node("processes", condition("PIDPressure", "True")),
            node("processes-unknown", condition("PIDPressure", "Unknown")),
            node("cordoned", json!({"/spec/unschedulable": true})),
            node(
                "leaving",
                json!({"/spec/taints": [{"key": "k", "effect": "NoExecute"}]}),
            ),
            pod(
                "best-effort",
                "",
                json!({"containers": [{"name": "c", "image": "i"}]}),
            ),
            pod(
                "burstable",
                "",
                json!({"containers": container("1", "1Gi")}),
            ),
        ],
    );
    let expected = |pairs: &[(&str, &str, &str)]| -> BTreeMap<String, (String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(node, plugin, reason)| ((*node).into(), ((*plugin).into(), (*reason).into())))
            .collect()
    };
    let of_burstable = [
        ("lost", "CheckNodeCondition", "node(s) were not ready"),
        (
            "no-network",
            "CheckNodeCondition",
            "node(s) had unavailable network",
        ),
        (
            "no-disk",
            "CheckNodeCondition",
            "node(s) were out of disk space",
        ),
        ("disk", "CheckNodeDiskPressure", "node(s) had disk pressure"),
        (
            "processes",
            "CheckNodePIDPressure",
            "node(s) had pid pressure",
        ),
        (
            "cordoned",
            "CheckNodeCondition",
            "node(s) were unschedulable",
        ),
        (
            "leaving",
            "PodToleratesNodeNoExecuteTaints",
            "node(s) had taints that the pod didn't tolerate",
        ),
    ];
    assert_eq!(refusals(&engine, "burstable"), expected(&of_burstable));
    let memory = (
        "memory",
        "CheckNodeMemoryPressure",
        "node(s) had memory pressure",
    );
    let of_best_effort: Vec<_> = of_burstable.into_iter().chain([memory]).collect();
    assert_eq!(refusals(&engine, "best-effort"), expected(&of_best_effort));
}

#[test]
fn all_that_is_wrong_with_a_policy_is_told_with_its_place() {
    let error = refused(
        json!({
            "predicates": [{"name": 7}, {"name": "HostName", "ordre": 1}],
            "priorities": [{"name": "LeastRequestedPriority", "weight": "1"}],
        }),
        Reading::Lenient,
    );
    assert_eq!(error.stage, Stage::Decode);
    let problems: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "predicates[0].name: expected a string, found 7",
            "predicates[1].ordre: there is no such field",
            "priorities[0].weight: expected an integer, found \"1\"",
        ]
    );
    for (text, problem) in [
        (
            r#"{"kind": "Policy", "predicates": []}"#,
            "apiVersion: must be v1: without it no field counts",
        ),
        (
            r#"{"kind": "Policy", "apiVersion": "v1",
                "extenders": [{"TLSConfig": {"caData": "a"}}]}"#,
            "extenders[0].TLSConfig.caData: expected base64, found \"a\"",
        ),
    ] {
        let error = read(text, Reading::Lenient).expect_err(text);
        assert_eq!(error.to_string(), problem);
    }
    let error = refused(
        json!({"predicates": [{"name": "NodeName"}]}),
        Reading::Lenient,
    );
    let problem = "predicates[0].name: Predicate type not found for \"NodeName\"";
    assert_eq!(error.to_string(), problem);
    // A name crashes 1.20 that is predefined, and means nothing without others.
    for reading in [Reading::Lenient, Reading::V1_20] {
        let argument = json!({"labelPreference": {"label": "disk", "presence": true}});
        let priority = json!([{"name": "NodeLabel", "weight": 1, "argument": argument}]);
        let error = refused(json!({"priorities": priority}), reading);
        assert_eq!(error.stage, Stage::Map);
        assert!(error.text_of_1_20.contains("crashes"), "{error:?}");
    }
}

#[test]
fn only_the_first_reading_takes_what_1_20_refused() {
    for (text, told) in [
        (
            SEED,
            "invalid policy: predicates[0]: found unknown field: order",
        ),
        (
            "kind: Policy\napiVersion: v1\npredicates: [{name: PodFitsHost}]\n",
            "Invalid configuration: Predicate type not found for \"PodFitsHost\"",
        ),
        (
            "kind: Policy\napiVersion: v1\npredicates: [{name: CheckNodeDiskPressure}]\n",
            "Invalid configuration: Predicate type not found for \"CheckNodeDiskPressure\"",
        ),
        // What begins as JSON is no YAML for 1.20.
        (
            "{kind: Policy, apiVersion: v1}",
            "invalid policy: couldn't get version/kind; json parse error: key must be a string \
             at line 1 column 2",
        ),
    ] {
        lenient(text);
        let error = read(text, Reading::V1_20).expect_err(text);
        assert_eq!(error.text_of_1_20, told);
    }
    for text in [
        "kind: Policy\nkind: Policy\napiVersion: v1",
        "- a",
        "7",
        "kind: Pod",
    ] {
        for reading in [Reading::Lenient, Reading::V1_20] {
            let error = read(text, reading).expect_err(text);
            assert_eq!(error.stage, Stage::Decode, "{text}");
        }
    }
    let two = "kind: Policy\napiVersion: v1\n---\nnonsense: 1\n";
    assert!(
        read(two, Reading::V1_20).is_ok(),
        "it reads the first document"
    );
    assert!(read(two, Reading::Lenient).is_err());
}

#[test]
fn a_policy_says_that_it_is_one() {
    assert!(is_policy(&serde_json::from_str(SEED).unwrap()));
    assert!(!is_policy(&json!({"kind": "KubeSchedulerConfiguration"})));
    assert!(!is_policy(&json!([])));
}

#[test]
fn the_seed_converted_is_accepted_and_keeps_its_order() {
    let converted = convert(&lenient(SEED));
    let [note] = converted.notes.as_slice() else {
        panic!("{:?}", converted.notes)
    };
    assert!(note.starts_with("BalancedResourceAllocation: "), "{note}");
    let config = outrank_config::read(&converted.configuration).expect("a configuration");
    let profile = &config.engine.profiles[0];
    assert_eq!(
        profile.filter,
        [
            "NodeName",
            "NodePorts",
            "NodeResourcesFit",
            "TaintToleration",
            "VolumeRestrictions",
            "NodeAffinity",
            "NodeUnschedulable",
            "DynamicResources",
            "NodeDeclaredFeatures",
        ]
    );
    let scores = [
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
        "PodTopologySpread",
    ];
    let mut names: Vec<&str> = profile
        .score
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    names.retain(|name| *name != "DynamicResources");
    assert_eq!(names, scores);
}

#[test]
fn what_has_no_equal_is_told() {
    let label = |label: &str| json!({"label": label, "presence": true});
    let policy = lenient(&with(json!({
        "predicates": [
            {"name": "Rack", "argument": {"labelsPresence": {"labels": ["rack"], "presence": true}}},
            {"name": "MaxEBSVolumeCount"},
            {"name": "CheckNodeMemoryPressure"},
        ],
        "priorities": [
            {"name": "MostRequestedPriority", "weight": 5},
            {"name": "LeastRequestedPriority", "weight": 1},
            {"name": "NodePreferAvoidPodsPriority", "weight": 10000},
            {"name": "Ssd", "weight": 1, "argument": {"labelPreference": label("ssd")}},
            {"name": "InterPodAffinityPriority", "weight": 2},
        ],
        "hardPodAffinitySymmetricWeight": 10,
        "alwaysCheckAllPredicates": true,
        "extenders": [{"urlPrefix": "http://127.0.0.1:80/", "filterVerb": "filter",
            "httpTimeout": 5000000000i64, "enableHttps": true,
            "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": true}]}],
    })));
    let converted = convert(&policy);
    let subjects: Vec<&str> = converted
        .notes
        .iter()
        .map(|note| note.split(':').next().unwrap_or_default())
        .collect();
    assert_eq!(
        subjects,
        [
            "labelsPresence",
            "MaxEBSVolumeCount",
            "CheckNodeMemoryPressure",
            "LeastRequestedPriority",
            "labelPreference",
            "NodePreferAvoidPodsPriority",
            "alwaysCheckAllPredicates",
        ]
    );
    let mut configuration = converted.configuration;
    assert_eq!(
        configuration["extenders"],
        json!([{"urlPrefix": "http://127.0.0.1:80/", "filterVerb": "filter",
            "httpTimeout": "5s", "enableHTTPS": true, "tlsConfig": {"insecure": true},
            "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": true}]}])
    );
    configuration["extenders"] = Value::Null;
    let config = outrank_config::read(&configuration).expect("a configuration");
    let profile = &config.engine.profiles[0];
    assert_eq!(profile.inter_pod_affinity.hard_pod_affinity_weight, 10);
    assert!(profile.added_affinity.is_some());
    assert!(profile.score.contains(&("NodeResourcesFit".to_owned(), 5)));
    assert!(!profile.filter.iter().any(|name| name == "NodeResourcesFit"));
    assert!(!profile.filter.iter().any(|name| name == "InterPodAffinity"));
    assert!(
        !profile
            .score
            .iter()
            .any(|(name, _)| name == "TaintToleration")
    );
}

#[test]
fn extenders_without_roots_trust_every_certificate() {
    let tls_of = |more: &str| {
        let text = format!(
            r#"{{"kind": "Policy", "apiVersion": "v1", "extenders": [{{"urlPrefix":
                "https://127.0.0.1", "filterVerb": "f", "weight": 1{more}}}]}}"#
        );
        let policy = read(&text, Reading::V1_20).expect("a policy");
        policy.extenders[0].tls.as_ref().map(|tls| tls.insecure)
    };
    assert_eq!(tls_of(""), None);
    assert_eq!(tls_of(r#", "enableHttps": true"#), Some(true));
    let named = r#", "enableHttps": true, "tlsConfig": {"serverName": "x"}"#;
    assert_eq!(tls_of(named), Some(true));
    let rooted = r#", "enableHttps": true, "tlsConfig": {"caFile": "ca.pem"}"#;
    assert_eq!(tls_of(rooted), Some(false));
}

#[test]
fn extenders_that_nobody_asks_are_not_converted() {
    let text = r#"{"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [],
        "extenders": [{"urlPrefix": "", "weight": 1}]}"#;
    let converted = convert(&lenient(text));
    assert_eq!(converted.configuration["extenders"], Value::Null);
    assert!(
        converted.notes[0].contains("it has no verb"),
        "{:?}",
        converted.notes
    );
    outrank_config::read(&converted.configuration).expect("a configuration");
}

/// Weights of resources in a policy with these, converted, and what is noted of them.
fn converted_weights(weights: &[i64]) -> (Vec<i64>, Vec<String>) {
    let resource = |(index, weight): (usize, &i64)| json!({"name": format!("example.com/r{index}"), "weight": weight});
    let resources: Vec<Value> = weights.iter().enumerate().map(resource).collect();
    let shape = json!([{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]);
    let argument = json!({"shape": shape, "resources": resources});
    let priority = json!({
        "name": "Ratio",
        "weight": 1,
        "argument": {"requestedToCapacityRatioArguments": argument},
    });
    let converted = convert(&lenient(&with(
        json!({"predicates": [], "priorities": [priority]}),
    )));
    let read = outrank_config::read(&converted.configuration).expect("a configuration");
    let strategy = &read.engine.profiles[0].node_resources_fit.scoring_strategy;
    let resources = strategy.resources().iter();
    (
        resources.map(|resource| resource.weight).collect(),
        converted.notes,
    )
}

#[test]
fn weights_of_resources_are_scaled_into_todays_range() {
    for (weights, expected, is_exact) in [
        (&[1, 100][..], &[1, 100][..], true),
        (&[101], &[1], true),
        (&[300, 200], &[3, 2], true),
        (&[10_000, 100, 500], &[100, 1, 5], true),
        (&[1000, 1], &[100, 1], false),
        (&[201, 67, 100], &[100, 33, 50], false),
        (&[i64::MAX, 1, i64::MAX - 1], &[100, 1, 100], false),
    ] {
        let (weights, notes) = converted_weights(weights);
        assert_eq!(weights, expected);
        let rounds = notes
            .iter()
            .any(|note| note.contains("scaled down and rounded"));
        assert_eq!(rounds, !is_exact, "{notes:?}");
    }
}

#[test]
fn extenders_that_cannot_be_called_are_converted_as_they_are() {
    let text = r#"{"kind": "Policy", "apiVersion": "v1", "predicates": [], "priorities": [],
        "extenders": [{"urlPrefix": "foo", "filterVerb": "f", "weight": 1,
            "tlsConfig": {"certFile": "a.pem"}}]}"#;
    let converted = convert(&lenient(text)).configuration;
    assert_eq!(converted["extenders"][0]["urlPrefix"], "foo");
    let read = outrank_config::read(&converted).expect("a configuration");
    assert_eq!(read.warnings.len(), 2, "{:?}", read.warnings);
}

#[test]
fn a_key_must_not_be_there_twice() {
    let yaml = "kind: Policy\napiVersion: v1\npredicates:\n- name: a\n  name: b\n";
    let json = "{\"kind\": \"Policy\",\n\"apiVersion\": \"v1\",\n\"predicates\": [\n\
                {\"name\": \"a\",\n\"name\": \"b\"}]}";
    let message = "line 5: predicates[0].name: key \"name\" already set in map";
    for text in [yaml, json] {
        for reading in [Reading::Lenient, Reading::V1_20] {
            let error = read(text, reading).expect_err("a name too many");
            assert_eq!(error.to_string(), message);
        }
    }
}

#[test]
fn a_policy_need_not_say_its_kind() {
    use outrank_config::policy::is_policy;
    assert!(is_policy(&json!({"kind": "Policy"})));
    assert!(is_policy(&json!({"apiVersion": "v1", "predicates": []})));
    assert!(is_policy(&json!({"predicates": []})));
    assert!(!is_policy(
        &json!({"apiVersion": "kubescheduler.config.k8s.io/v1"})
    ));
    assert!(!is_policy(
        &json!({"kind": "KubeSchedulerConfiguration", "predicates": []})
    ));
}
