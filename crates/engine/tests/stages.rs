//! PreFilter without Filter, Filter without PreFilter, and the like: what each plugin does.

use std::collections::BTreeMap;

use outrank_api::decode::{Object, decode_value};
use outrank_api::defaults::default_object;
use outrank_engine::profile::ProfileConfig;
use outrank_engine::{Engine, EngineConfig, Event, Outcome};
use serde_json::{Value, json};

/// An engine with one profile and nodes that differ in their names only, `zone` aside.
fn engine(profile: ProfileConfig, nodes: &[&str]) -> Engine {
    let config = EngineConfig {
        profiles: vec![profile],
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(&config).expect("a valid profile");
    for name in nodes {
        let labels = json!({"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "z"});
        let allocatable = json!({"cpu": "4", "memory": "8Gi", "pods": "10"});
        tell(
            &mut engine,
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": labels},
                "status": {"allocatable": allocatable},
            }),
        );
    }
    engine
}

fn tell(engine: &mut Engine, object: Value) {
    let mut object = decode_value(&object).expect("an object");
    default_object(&mut object);
    let event = match object {
        Object::Node(node) => Event::NodeChanged(*node),
        Object::Pod(pod) => Event::PodChanged(*pod),
        other => Event::of_storage(other).expect("an object of storage"),
    };
    engine.handle(event, 0);
}

/// Decides a pod of this spec: its node, or why it has none.
fn decide(engine: &mut Engine, mut spec: Value) -> String {
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "c", "image": "i"}]);
    }
    let metadata = json!({"namespace": "default", "name": "p"});
    tell(
        engine,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}),
    );
    match engine.next(0).expect("a pod waits").outcome {
        Outcome::Scheduled { node, .. } => engine.cluster().name(node).to_owned(),
        Outcome::Unschedulable(diagnosis) => diagnosis.filter_message(engine.cluster()),
        Outcome::Error(error) => error.to_string(),
    }
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Plugins at PreFilter, and at Filter; nobody scores.
fn filtering(pre_filter: &[&str], filter: &[&str]) -> ProfileConfig {
    ProfileConfig {
        pre_filter: Some(strings(pre_filter)),
        filter: strings(filter),
        score: Vec::new(),
        ..ProfileConfig::default()
    }
}

/// Plugins at PreScore, and at Score; the others as by default.
fn scoring(pre_score: &[&str], score: &[&str]) -> ProfileConfig {
    ProfileConfig {
        pre_score: Some(strings(pre_score)),
        score: score.iter().map(|name| ((*name).to_owned(), 1)).collect(),
        ..ProfileConfig::default()
    }
}

#[test]
fn some_filters_fail_without_pre_filter_and_others_do_not() {
    for (plugin, error) in [
        ("NodeUnschedulable", None),
        ("NodeName", None),
        ("TaintToleration", None),
        ("NodeAffinity", None),
        ("NodeVolumeLimits", None),
        ("VolumeZone", None),
        (
            "NodePorts",
            Some("reading \"PreFilterNodePorts\" from cycleState: not found"),
        ),
        (
            "NodeResourcesFit",
            Some("error reading \"PreFilterNodeResourcesFit\" from cycleState: not found"),
        ),
        (
            "VolumeRestrictions",
            Some("cannot read \"PreFilterVolumeRestrictions\" from cycleState"),
        ),
        ("VolumeBinding", Some("not found")),
        (
            "PodTopologySpread",
            Some("reading \"PreFilterPodTopologySpread\" from cycleState: not found"),
        ),
        (
            "InterPodAffinity",
            Some("error reading \"PreFilterInterPodAffinity\" from cycleState: not found"),
        ),
        ("DynamicResources", Some("not found")),
        (
            "NodeDeclaredFeatures",
            Some("error reading \"PreFilterNodeDeclaredFeatures\" from cycle-state: not found"),
        ),
    ] {
        let expected = match error {
            None => "a".to_owned(),
            Some(error) => format!("running {plugin:?} filter plugin: {error}"),
        };
        let alone = filtering(&[], &[plugin]);
        assert_eq!(decide(&mut engine(alone, &["a", "b"]), json!({})), expected);
        let both = filtering(&[plugin], &[plugin]);
        assert_eq!(decide(&mut engine(both, &["a", "b"]), json!({})), "a");
    }
}

/// A filter that refuses a node before it gets to the one that fails there keeps the error
/// from coming up.
#[test]
fn a_filter_that_fails_is_asked_in_its_turn() {
    let profile = filtering(&[], &["NodeName", "NodePorts"]);
    let message = decide(&mut engine(profile, &["a"]), json!({"nodeName": null}));
    assert!(message.starts_with("running \"NodePorts\""), "{message}");

    let profile = filtering(&[], &["NodeUnschedulable", "NodePorts"]);
    let mut engine = engine(profile, &[]);
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "a"}, "spec": {"unschedulable": true},
    });
    tell(&mut engine, node);
    assert_eq!(
        decide(&mut engine, json!({})),
        "0/1 nodes are available: 1 node(s) were unschedulable."
    );
}

fn named_nodes(lists: &[&[&str]]) -> Value {
    let fields = lists
        .iter()
        .map(|names| json!({"key": "metadata.name", "operator": "In", "values": names}));
    let fields: Vec<Value> = fields.collect();
    let terms = json!({"nodeSelectorTerms": [{"matchFields": fields}]});
    json!({"affinity": {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms},
    }})
}

#[test]
fn node_affinity_restricts_nodes_at_pre_filter_and_matches_them_at_filter() {
    let off = |pre_filter: bool, filter: bool| {
        let names = |on: bool| if on { &["NodeAffinity"][..] } else { &[] };
        engine(
            filtering(names(pre_filter), names(filter)),
            &["a", "b", "c"],
        )
    };
    let to_b = || named_nodes(&[&["b"]]);
    assert_eq!(decide(&mut off(true, true), to_b()), "b");
    assert_eq!(decide(&mut off(true, false), to_b()), "b");
    assert_eq!(decide(&mut off(false, true), to_b()), "b");
    assert_eq!(decide(&mut off(false, false), to_b()), "a");

    // Nodes that are not listed are not looked at, unless PreFilter does not list any.
    let to_none = || named_nodes(&[&["gone"]]);
    let unlisted = "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    assert_eq!(decide(&mut off(true, false), to_none()), unlisted);
    let mismatch = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";
    assert_eq!(decide(&mut off(false, true), to_none()), mismatch);

    // PreFilter also sees that terms contradict each other.
    let nowhere = || named_nodes(&[&["a"], &["b"]]);
    let conflict = "0/3 nodes are available: pod affinity terms conflict.";
    assert_eq!(decide(&mut off(true, true), nowhere()), conflict);
    assert_eq!(decide(&mut off(true, false), nowhere()), conflict);
    assert_eq!(decide(&mut off(false, true), nowhere()), mismatch);
    assert_eq!(decide(&mut off(false, false), nowhere()), "a");
}

fn pod_with_claim() -> Value {
    json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]})
}

#[test]
fn what_pre_filter_says_of_claims_filter_says_of_nodes_or_nobody_does() {
    let missing = "persistentvolumeclaim \"data\" not found";
    let of_pod = format!("0/2 nodes are available: {missing}.");
    let of_nodes = format!("0/2 nodes are available: 2 {missing}.");
    for (pre_filter, filter, expected) in [
        (true, true, of_pod.as_str()),
        (true, false, &of_pod),
        (false, true, &of_nodes),
        (false, false, "a"),
    ] {
        let names = |on: bool| if on { &["VolumeZone"][..] } else { &[] };
        let profile = filtering(names(pre_filter), names(filter));
        let mut engine = engine(profile, &["a", "b"]);
        assert_eq!(decide(&mut engine, pod_with_claim()), expected);
    }
    for plugin in ["VolumeBinding", "VolumeRestrictions"] {
        let mut engine = engine(filtering(&[plugin], &[]), &["a", "b"]);
        assert_eq!(decide(&mut engine, pod_with_claim()), of_pod);
    }
    let limits = filtering(&["NodeVolumeLimits"], &[]);
    let mut engine = engine(limits, &["a", "b"]);
    assert_eq!(decide(&mut engine, pod_with_claim()), "a");
}

#[test]
fn disks_are_looked_at_before_volume_restrictions_fails() {
    let profile = filtering(&[], &["VolumeRestrictions"]);
    let mut engine = engine(profile, &["a"]);
    let volumes = || json!([{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}]);
    let mut there = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": "there"},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
    });
    there["spec"]["volumes"] = volumes();
    tell(&mut engine, there);
    assert_eq!(
        decide(&mut engine, json!({"volumes": volumes()})),
        "0/1 nodes are available: 1 node(s) had no available disk."
    );
}

#[test]
fn some_scores_fail_without_what_prepares_them() {
    let error_of = |plugin: &str, error: &str| {
        format!("running Score plugins: plugin {plugin:?} failed with: {error}")
    };
    for (plugin, error) in [
        ("NodeAffinity", None),
        ("NodeResourcesFit", None),
        ("NodeResourcesBalancedAllocation", None),
        ("VolumeBinding", None),
        ("DynamicResources", None),
        ("ImageLocality", None),
        (
            "TaintToleration",
            Some("failed to read \"PreScoreTaintToleration\" from cycleState: not found"),
        ),
        (
            "PodTopologySpread",
            Some("error reading \"PreScorePodTopologySpread\" from cycleState: not found"),
        ),
        (
            "InterPodAffinity",
            Some("failed to read \"PreScoreInterPodAffinity\" from cycleState: not found"),
        ),
    ] {
        let expected = error.map_or("a".to_owned(), |error| error_of(plugin, error));
        let mut two = engine(scoring(&[], &[plugin]), &["a", "b"]);
        assert_eq!(decide(&mut two, json!({})), expected);
        // A single node is taken without a score.
        let mut one = engine(scoring(&[], &[plugin]), &["a"]);
        assert_eq!(decide(&mut one, json!({})), "a");
        let mut both = engine(scoring(&[plugin], &[plugin]), &["a", "b"]);
        assert_eq!(decide(&mut both, json!({})), "a");
        // PreScore alone rates nobody.
        let mut prepared = engine(scoring(&[plugin], &[]), &["a", "b"]);
        assert_eq!(decide(&mut prepared, json!({})), "a");
    }
    // What DynamicResources reads comes from PreFilter.
    let profile = ProfileConfig {
        pre_filter: Some(Vec::new()),
        filter: Vec::new(),
        ..scoring(&[], &["DynamicResources"])
    };
    assert_eq!(
        decide(&mut engine(profile, &["a", "b"]), json!({})),
        error_of("DynamicResources", "not found")
    );
}

/// Scores without PreScore are the same, but for those of plugins that PreScore would skip:
/// they are there, and 0.
#[test]
fn scores_without_pre_score_are_the_same_or_zero() {
    let scores = |profile: ProfileConfig, spec: Value| {
        let mut engine = engine(profile, &["a", "b"]);
        decide(&mut engine, spec);
        let pod = engine.pod("default", "p").expect("a pod");
        let evaluation = engine.evaluate(pod).expect("a pod");
        let scores = evaluation.scores.into_iter();
        let scores = scores.map(|scores| (scores.plugin, scores.weighted));
        scores.collect::<BTreeMap<_, _>>()
    };
    let plugins = [
        "NodeAffinity",
        "NodeResourcesFit",
        "VolumeBinding",
        "NodeResourcesBalancedAllocation",
    ];
    let best_effort = || json!({});
    let prepared = scores(scoring(&plugins, &plugins), best_effort());
    assert_eq!(
        prepared.keys().copied().collect::<Vec<_>>(),
        ["NodeResourcesFit"]
    );
    let alone = scores(scoring(&[], &plugins), best_effort());
    assert_eq!(alone["NodeResourcesFit"], prepared["NodeResourcesFit"]);
    for skipped in [
        "NodeAffinity",
        "VolumeBinding",
        "NodeResourcesBalancedAllocation",
    ] {
        assert_eq!(alone[skipped], [0, 0], "{skipped}");
    }

    let requests = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    let preference = json!({"matchExpressions":
        [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]});
    let preferred = json!([{"weight": 7, "preference": preference}]);
    let picky = || {
        json!({
            "containers": [{"name": "c", "image": "i", "resources": requests}],
            "affinity": {"nodeAffinity":
                {"preferredDuringSchedulingIgnoredDuringExecution": preferred}},
        })
    };
    let mut alone = scores(scoring(&[], &plugins), picky());
    assert_eq!(alone["NodeAffinity"], [0, 100]);
    alone.remove("VolumeBinding");
    assert_eq!(alone, scores(scoring(&plugins, &plugins), picky()));
}

#[test]
fn pre_score_may_fail_for_a_plugin_that_does_not_score() {
    let preference = json!({"matchExpressions":
        [{"key": "zone", "operator": "Gt", "values": ["not a number"]}]});
    let preferred = json!([{"weight": 7, "preference": preference}]);
    let spec = || {
        json!({"affinity": {"nodeAffinity":
            {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}})
    };
    let decided = |pre_score: &[&str], score: &[&str]| {
        decide(&mut engine(scoring(pre_score, score), &["a", "b"]), spec())
    };
    let prepared = decided(&["NodeAffinity"], &["ImageLocality"]);
    let (before, error) = prepared.split_once(": ").expect("an error");
    assert_eq!(before, "running PreScore plugin \"NodeAffinity\"");
    assert_eq!(
        decided(&[], &["NodeAffinity"]),
        format!("running Score plugins: plugin \"NodeAffinity\" failed with: {error}")
    );
    // PreScore comes before Score, and is not reached if nobody scores.
    let scores_fail = decided(&["NodeAffinity"], &["TaintToleration"]);
    assert_eq!(scores_fail, prepared);
    assert_eq!(decided(&["NodeAffinity"], &[]), "a");
}

#[test]
fn reserve_fails_without_pre_filter() {
    for plugin in ["VolumeBinding", "DynamicResources"] {
        let with_reserve = |reserve: &[&str]| ProfileConfig {
            reserve: Some(strings(reserve)),
            ..filtering(&[], &[])
        };
        let mut fails = engine(with_reserve(&[plugin]), &["a"]);
        let error = format!("running Reserve plugin {plugin:?}: not found");
        assert_eq!(decide(&mut fails, json!({})), error);
        let mut succeeds = engine(with_reserve(&[]), &["a"]);
        assert_eq!(decide(&mut succeeds, json!({})), "a");
    }
}
