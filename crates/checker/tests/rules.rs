//! Each rule accepts what it should and refuses what it should.

use outrank_api::types::{Node, Pod};
use outrank_checker::{Breach, Options, check, wrongly_pending};
use serde_json::{Value, json};

fn node(name: &str, rest: Value) -> Node {
    let mut node = json!({
        "metadata": { "name": name },
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } },
    });
    merge(&mut node, rest);
    serde_json::from_value(node).unwrap()
}

/// A pod in the namespace `default`; on no node if `node` is empty.
fn pod(name: &str, node: &str, spec: Value) -> Pod {
    let mut pod = json!({
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "nodeName": node },
    });
    merge(&mut pod["spec"], spec);
    serde_json::from_value(pod).unwrap()
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn requests(requests: Value) -> Value {
    json!({ "containers": [{ "name": "c", "resources": { "requests": requests } }] })
}

fn ports(ports: Value) -> Value {
    json!({ "containers": [{ "name": "c", "ports": ports }] })
}

fn found(nodes: &[Node], pods: &[Pod], options: &Options) -> Vec<String> {
    check(nodes, pods, options)
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// One requirement of a node selector term, in a list.
fn requirements(key: &str, operator: &str, values: &[&str]) -> Value {
    json!([{ "key": key, "operator": operator, "values": values }])
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "matchExpressions": requirements(key, operator, values) })
}

/// Whether a pod with this spec may be on the node, which both directions must agree on.
fn accepted(node: &Node, others: &[Pod], spec: Value) -> bool {
    let options = Options::starting_from(others);
    let with = |pod| [others, &[pod]].concat();
    let nodes = std::slice::from_ref(node);
    let placed = with(pod("new", &node.metadata.name, spec.clone()));
    let waiting = with(pod("new", "", spec));
    let accepted = check(nodes, &placed, &options).is_empty();
    let waits_wrongly = !wrongly_pending(nodes, &waiting, &options).is_empty();
    assert_eq!(accepted, waits_wrongly, "the two directions differ");
    accepted
}

#[test]
fn nodes_must_exist() {
    let nodes = [node("n", json!({}))];
    let pods = [
        pod("a", "n", json!({})),
        pod("b", "m", json!({})),
        pod("c", "", json!({})),
    ];
    assert_eq!(
        found(&nodes, &pods, &Options::default()),
        ["pod default/b on node m: there is no such node"]
    );
}

#[test]
fn a_pod_is_there_once() {
    let nodes = [node("n", json!({}))];
    let twice = [pod("a", "n", json!({})), pod("a", "n", json!({}))];
    assert_eq!(
        found(&nodes, &twice, &Options::default()),
        ["pod default/a on node n: the pod is there twice"]
    );
}

#[test]
fn bound_pods_stay() {
    let nodes = [node("n", json!({})), node("m", json!({}))];
    let options = Options::starting_from(&[pod("a", "n", json!({}))]);
    assert_eq!(
        found(&nodes, &[pod("a", "n", json!({}))], &options),
        [""; 0]
    );
    assert_eq!(
        found(&nodes, &[pod("a", "m", json!({}))], &options),
        [r#"pod default/a on node m: was on node "n" before and may not move"#]
    );
    assert_eq!(
        found(&nodes, &[pod("a", "", json!({}))], &options),
        [r#"pod default/a: was on node "n" before and may not move"#]
    );
}

#[test]
fn other_schedulers_place_their_own_pods() {
    let nodes = [node("n", json!({}))];
    let theirs = json!({ "schedulerName": "theirs" });
    assert!(!accepted(&nodes[0], &[], theirs.clone()));
    let names = ["theirs".to_owned()].into();
    let options = Options {
        scheduler_names: names,
        ..Options::default()
    };
    assert_eq!(found(&nodes, &[pod("a", "n", theirs)], &options), [""; 0]);
    let ours = pod("a", "n", json!({ "schedulerName": "default-scheduler" }));
    assert_eq!(check(&nodes, &[ours], &options).len(), 1);
}

#[test]
fn gated_pods_wait() {
    let gated = json!({ "schedulingGates": [{ "name": "example.com/quota" }] });
    let node = node("n", json!({}));
    assert!(!accepted(&node, &[], gated.clone()));
    let pods = [pod("a", "n", gated)];
    assert_eq!(
        found(&[node], &pods, &Options::default()),
        ["pod default/a on node n: is held by the scheduling gates example.com/quota"]
    );
}

#[test]
fn cordoned_nodes_take_nothing_new() {
    let cordoned = node("n", json!({ "spec": { "unschedulable": true } }));
    let toleration = |effect: &str| {
        let key = "node.kubernetes.io/unschedulable";
        json!({ "tolerations": [{ "key": key, "operator": "Exists", "effect": effect }] })
    };
    assert!(!accepted(&cordoned, &[], json!({})));
    assert!(!accepted(&cordoned, &[], toleration("NoExecute")));
    assert!(accepted(&cordoned, &[], toleration("NoSchedule")));
    let pods = [pod("a", "n", json!({}))];
    assert_eq!(
        found(&[cordoned], &pods, &Options::starting_from(&pods)),
        [""; 0]
    );
}

#[test]
fn hard_taints_must_be_tolerated() {
    let tainted = |effect: &str| {
        let taint = json!({ "key": "gpu", "value": "yes", "effect": effect });
        node("n", json!({ "spec": { "taints": [taint] } }))
    };
    let tolerant = json!({ "tolerations": [{ "key": "gpu", "value": "yes" }] });
    for effect in ["NoSchedule", "NoExecute"] {
        assert!(!accepted(&tainted(effect), &[], json!({})), "{effect}");
        assert!(
            accepted(&tainted(effect), &[], tolerant.clone()),
            "{effect}"
        );
    }
    assert!(accepted(&tainted("PreferNoSchedule"), &[], json!({})));
    let pods = [pod("a", "n", json!({}))];
    assert_eq!(
        found(&[tainted("NoSchedule")], &pods, &Options::default()),
        ["pod default/a on node n: does not tolerate the taint gpu=yes:NoSchedule"]
    );
}

#[test]
fn comparing_tolerations_need_their_gate() {
    let taint = json!({ "key": "tier", "value": "3", "effect": "NoSchedule" });
    let nodes = [node("n", json!({ "spec": { "taints": [taint] } }))];
    let toleration = json!({ "key": "tier", "operator": "Gt", "value": "2" });
    let pods = [pod("a", "n", json!({ "tolerations": [toleration] }))];
    assert_eq!(check(&nodes, &pods, &Options::default()).len(), 1);
    let options = Options {
        taint_comparison_operators: true,
        ..Options::default()
    };
    assert_eq!(found(&nodes, &pods, &options), [""; 0]);
}

#[test]
fn node_selector_holds() {
    let labelled = node("n", json!({ "metadata": { "labels": { "disk": "ssd" } } }));
    assert!(accepted(
        &labelled,
        &[],
        json!({ "nodeSelector": { "disk": "ssd" } })
    ));
    assert!(!accepted(
        &labelled,
        &[],
        json!({ "nodeSelector": { "disk": "ssd", "a": "b" } })
    ));
    let pods = [pod("a", "n", json!({ "nodeSelector": { "disk": "hdd" } }))];
    assert_eq!(
        found(&[labelled], &pods, &Options::default()),
        [r#"pod default/a on node n: wants the node label disk=hdd, which is "ssd""#]
    );
}

#[test]
fn required_node_affinity_holds() {
    let zoned = node(
        "n",
        json!({ "metadata": { "labels": { "zone": "a", "size": "8" } } }),
    );
    let affinity = |terms: Value| {
        let required = json!({ "nodeSelectorTerms": terms });
        json!({ "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required } } })
    };
    let name_is =
        |name: &str| json!({ "matchFields": requirements("metadata.name", "In", &[name]) });
    for (term, holds) in [
        (expression("zone", "In", &["a", "b"]), true),
        (expression("zone", "In", &["b"]), false),
        (expression("zone", "NotIn", &["b"]), true),
        (expression("zone", "Exists", &[]), true),
        (expression("zone", "DoesNotExist", &[]), false),
        (expression("size", "Gt", &["7"]), true),
        (expression("size", "Lt", &["7"]), false),
        (name_is("n"), true),
        (name_is("m"), false),
        (json!({}), false),
    ] {
        assert_eq!(
            accepted(&zoned, &[], affinity(json!([term]))),
            holds,
            "{term}"
        );
    }
    let one_of_two = json!([
        expression("zone", "In", &["b"]),
        expression("size", "Exists", &[])
    ]);
    assert!(accepted(&zoned, &[], affinity(one_of_two)));
    assert!(!accepted(&zoned, &[], affinity(json!([]))));
}

#[test]
fn host_ports_do_not_clash() {
    let node = node("n", json!({}));
    let on_node = |port: Value| [pod("old", "n", ports(json!([port])))];
    let tcp = json!({ "hostPort": 80, "hostIP": "10.0.0.1" });
    for (port, fits) in [
        (
            json!({ "hostPort": 80, "hostIP": "10.0.0.1", "protocol": "TCP" }),
            false,
        ),
        (json!({ "hostPort": 80 }), false),
        (json!({ "hostPort": 80, "hostIP": "0.0.0.0" }), false),
        (json!({ "hostPort": 80, "hostIP": "10.0.0.2" }), true),
        (
            json!({ "hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP" }),
            true,
        ),
        (json!({ "hostPort": 81, "hostIP": "10.0.0.1" }), true),
        (json!({ "containerPort": 80 }), true),
    ] {
        assert_eq!(
            accepted(&node, &on_node(tcp.clone()), ports(json!([port]))),
            fits,
            "{port}"
        );
        let reversed = accepted(&node, &on_node(port.clone()), ports(json!([tcp])));
        assert_eq!(reversed, fits, "{port}, reversed");
    }
    let same_twice = json!([{ "hostPort": 80 }, { "hostPort": 80 }]);
    assert!(
        accepted(&node, &[], ports(same_twice)),
        "a pod does not clash with itself"
    );
    let pods = [
        pod("a", "n", ports(json!([{ "hostPort": 80 }]))),
        on_node(tcp)[0].clone(),
    ];
    assert_eq!(
        found(&[node], &pods, &Options::starting_from(&pods[1..])),
        ["pod default/a on node n: wants host port TCP 0.0.0.0:80, \
          but pod default/old has TCP 10.0.0.1:80"]
    );
}

#[test]
fn sidecars_have_host_ports_and_init_containers_do_not() {
    let node = node("n", json!({}));
    let old = [pod("old", "n", ports(json!([{ "hostPort": 80 }])))];
    let init = |policy: Value| {
        json!({ "initContainers": [{
            "name": "i", "restartPolicy": policy, "ports": [{ "hostPort": 80 }] }] })
    };
    assert!(accepted(&node, &old, init(json!(null))));
    assert!(!accepted(&node, &old, init(json!("Always"))));
}

#[test]
fn resources_suffice_exactly() {
    let node = node(
        "n",
        json!({ "status": { "allocatable": { "example.com/gpu": "2" } } }),
    );
    let old = [pod(
        "old",
        "n",
        requests(json!({ "cpu": "2500m", "example.com/gpu": "1" })),
    )];
    assert!(accepted(&node, &old, requests(json!({ "cpu": "1500m" }))));
    assert!(!accepted(&node, &old, requests(json!({ "cpu": "1501m" }))));
    assert!(accepted(&node, &old, requests(json!({ "memory": "8Gi" }))));
    assert!(accepted(
        &node,
        &old,
        requests(json!({ "example.com/gpu": "1" }))
    ));
    assert!(!accepted(
        &node,
        &old,
        requests(json!({ "example.com/gpu": "2" }))
    ));
    assert!(!accepted(
        &node,
        &old,
        requests(json!({ "example.com/unheard-of": "1" }))
    ));
    assert!(accepted(
        &node,
        &old,
        requests(json!({ "example.com/unheard-of": "0" }))
    ));
    let pods = [pod("a", "n", requests(json!({ "memory": "9Gi" })))];
    let violations = check(&[node], &pods, &Options::default());
    assert_eq!(
        violations[0].breach,
        Breach::Insufficient {
            resource: "memory".to_owned(),
            asked: 9 << 30,
            held_by_others: 0,
            allocatable: 8 << 30,
        }
    );
    assert_eq!(
        violations[0].to_string(),
        "pod default/a on node n: requests 9Gi memory, but the others hold 0 of 8Gi"
    );
}

#[test]
fn pods_are_counted() {
    let small = node("n", json!({ "status": { "allocatable": { "pods": "2" } } }));
    let old = |count: usize| -> Vec<Pod> {
        (0..count)
            .map(|i| pod(&format!("old-{i}"), "n", json!({})))
            .collect()
    };
    assert!(accepted(&small, &old(1), json!({})));
    assert!(!accepted(&small, &old(2), json!({})));
    let no_pods: Node = serde_json::from_value(json!({ "metadata": { "name": "n" } })).unwrap();
    assert!(
        !accepted(&no_pods, &[], json!({})),
        "a node must say how many pods it takes"
    );
}

#[test]
fn overcommitted_nodes_take_nothing_more_of_it() {
    let nodes = [node("n", json!({}))];
    let old = [pod("old", "n", requests(json!({ "cpu": "5" })))];
    assert_eq!(found(&nodes, &old, &Options::starting_from(&old)), [""; 0]);
    assert_eq!(
        found(&nodes, &old, &Options::default()),
        ["pod default/old on node n: requests 5 cpu, but the others hold 0 of 4"]
    );
    assert!(!accepted(&nodes[0], &old, requests(json!({ "cpu": "1m" }))));
    assert!(accepted(
        &nodes[0],
        &old,
        requests(json!({ "memory": "1Gi" }))
    ));
}

#[test]
fn finished_pods_use_nothing() {
    let node = node("n", json!({}));
    let mut old = pod("old", "n", requests(json!({ "cpu": "4" })));
    for (phase, fits) in [("Running", false), ("Succeeded", true), ("Failed", true)] {
        old.status.phase = phase.to_owned();
        let old = std::slice::from_ref(&old);
        assert_eq!(
            accepted(&node, old, requests(json!({ "cpu": "4" }))),
            fits,
            "{phase}"
        );
    }
}

#[test]
fn waiting_without_need_is_found() {
    let full = node(
        "full",
        json!({ "status": { "allocatable": { "pods": "0" } } }),
    );
    let nodes = [full, node("m", json!({})), node("n", json!({}))];
    let mut deleted = pod("deleted", "", json!({}));
    deleted.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    let pods = [
        pod("fits", "", requests(json!({ "cpu": "4" }))),
        pod("too-big", "", requests(json!({ "cpu": "5" }))),
        deleted,
        pod("on-m", "m", requests(json!({ "cpu": "1" }))),
        pod("small", "", requests(json!({ "cpu": "1" }))),
    ];
    let found: Vec<String> = wrongly_pending(&nodes, &pods, &Options::default())
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found,
        [
            "pod default/fits waits although it fits on node n",
            "pod default/small waits although it fits on 2 nodes, the first of which is m",
        ]
    );
}

#[test]
fn room_that_was_made_for_a_pod_is_kept_for_it() {
    let nodes = [node(
        "n",
        json!({ "status": { "allocatable": { "pods": "2" } } }),
    )];
    let with_priority = |name: &str, priority: i32| pod(name, "", json!({ "priority": priority }));
    let mut nominated = with_priority("nominated", 10);
    nominated.status.nominated_node_name = "n".to_owned();
    let found = |nominated: &Pod| -> Vec<String> {
        let pods = [
            with_priority("low", 10),
            with_priority("high", 11),
            nominated.clone(),
        ];
        let found = wrongly_pending(&nodes, &pods, &Options::default());
        found.into_iter().map(|wrong| wrong.pod).collect()
    };
    assert_eq!(found(&nominated), ["default/high", "default/nominated"]);
    nominated.status.nominated_node_name.clear();
    assert_eq!(
        found(&nominated),
        ["default/low", "default/high", "default/nominated"]
    );
}

#[test]
fn constraints_that_are_not_checked_may_hold_pods_back() {
    let nodes = [node("n", json!({}))];
    let term = json!([{ "topologyKey": "zone", "labelSelector": {} }]);
    let affinity = |kind: &str| {
        let terms = json!({ "requiredDuringSchedulingIgnoredDuringExecution": term });
        json!({ "affinity": { kind: terms } })
    };
    let spread = |action: &str| {
        let constraint = json!({ "maxSkew": 1, "whenUnsatisfiable": action });
        json!({ "topologySpreadConstraints": [constraint] })
    };
    let claim = json!({ "name": "v", "persistentVolumeClaim": { "claimName": "c" } });
    let disk = json!({ "name": "v", "gcePersistentDisk": { "pdName": "d" } });
    for (spec, judged) in [
        (affinity("podAffinity"), false),
        (affinity("podAntiAffinity"), false),
        (spread("DoNotSchedule"), false),
        (spread("ScheduleAnyway"), true),
        (json!({ "volumes": [claim] }), false),
        (json!({ "volumes": [disk] }), false),
        (
            json!({ "volumes": [{ "name": "v", "ephemeral": {} }] }),
            false,
        ),
        (
            json!({ "volumes": [{ "name": "v", "emptyDir": {} }] }),
            true,
        ),
        (json!({ "resourceClaims": [{ "name": "gpu" }] }), false),
        (json!({}), true),
    ] {
        let pods = [pod("a", "", spec.clone())];
        let found = wrongly_pending(&nodes, &pods, &Options::default());
        assert_eq!(!found.is_empty(), judged, "{spec}");
    }
    let pods = [
        pod("a", "", json!({})),
        pod("b", "n", affinity("podAntiAffinity")),
    ];
    assert_eq!(wrongly_pending(&nodes, &pods, &Options::default()), []);
}
