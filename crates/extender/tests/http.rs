//! Extenders as servers, in this process: what they say, and what they get wrong.

#[path = "../../../tests/extender_server.rs"]
mod extender_server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outrank_api::types::{Container, Node, Pod, PodSpec};
use outrank_config::ExtenderConfig;
use outrank_engine::extender::{Extender, MetaVictims, NodeVictims};
use outrank_engine::extensions::Extensions;
use outrank_engine::{Engine, EngineConfig, Event, Outcome};
use outrank_extender::HttpExtender;
use serde_json::{Value, json};

use extender_server::{Answer, ExtenderServer};

fn config(server: &ExtenderServer, fields: Value) -> ExtenderConfig {
    let mut extender = json!({"urlPrefix": server.url("scheduler/"), "filterVerb": "filter"});
    for (name, value) in fields.as_object().expect("an object") {
        extender[name] = value.clone();
    }
    let document = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender],
    });
    let mut config = outrank_config::read(&document).expect("a configuration");
    config.extenders.remove(0)
}

fn extender(server: &ExtenderServer, fields: Value) -> HttpExtender {
    HttpExtender::new(&config(server, fields)).expect("an extender")
}

fn node(name: &str) -> Node {
    let mut node = Node::default();
    node.metadata.name = name.into();
    let labels = &mut node.metadata.labels;
    labels.insert("rack".into(), format!("rack-of-{name}"));
    for (resource, amount) in [("cpu", "4"), ("memory", "8Gi"), ("pods", "110")] {
        let allocatable = &mut node.status.allocatable;
        allocatable.insert(resource.into(), amount.parse().unwrap());
    }
    node
}

fn pod(resource: &str) -> Pod {
    let mut container = Container::default();
    let requests = &mut container.resources.requests;
    requests.insert(resource.into(), "1".parse().unwrap());
    let mut pod = Pod::default();
    pod.metadata.namespace = "default".into();
    pod.metadata.name = "p".into();
    pod.metadata.uid = "uid-of-p".into();
    pod.metadata
        .annotations
        .insert("why".into(), "because".into());
    pod.spec = Arc::new(PodSpec {
        containers: vec![container],
        ..PodSpec::default()
    });
    pod
}

/// What comes of a pod on nodes a, b and c.
fn decide(extender: HttpExtender, pod: Pod) -> String {
    let extenders: Vec<Arc<dyn Extender>> = vec![Arc::new(extender)];
    let extensions = Extensions {
        extenders,
        ..Extensions::default()
    };
    let mut engine = Engine::with_extensions(&EngineConfig::default(), extensions).unwrap();
    for name in ["a", "b", "c"] {
        engine.handle(Event::NodeChanged(node(name)), 0);
    }
    engine.handle(Event::PodChanged(pod), 0);
    let decision = engine.next(0).expect("a decision");
    let cluster = engine.cluster();
    match decision.outcome {
        Outcome::Scheduled { node, .. } => cluster.name(node).to_owned(),
        Outcome::Unschedulable(diagnosis) => diagnosis.filter_message(cluster),
        Outcome::Error(error) => format!("error: {error}"),
    }
}

/// What comes of a pod if the extender answers every call with this.
fn decide_by(answer: Answer, fields: Value) -> String {
    let server = ExtenderServer::start(move |_, _| answer.clone());
    let told = decide(extender(&server, fields), pod("cpu"));
    told.replace(&server.url(""), "http://SERVER/")
}

#[test]
fn nodes_are_sent_in_full_and_come_back() {
    let server = ExtenderServer::start(|_, args| {
        let nodes = args["Nodes"]["items"].as_array().expect("nodes");
        let kept: Vec<&Value> = nodes
            .iter()
            .filter(|it| it["metadata"]["name"] != "a")
            .collect();
        Answer::json(&json!({"Nodes": {"items": kept}, "FailedNodes": {"a": "is taken"}}))
    });
    assert_eq!(decide(extender(&server, json!({})), pod("cpu")), "b");
    let calls = server.calls();
    let [(path, args)] = calls.as_slice() else {
        panic!("one call, not {calls:?}");
    };
    assert_eq!(path, "/scheduler/filter");
    assert_eq!(args["Pod"]["metadata"]["annotations"]["why"], "because");
    assert_eq!(
        args["Pod"]["spec"]["containers"][0]["resources"]["requests"]["cpu"],
        "1"
    );
    let node = &args["Nodes"]["items"][2];
    assert_eq!(node["metadata"]["labels"]["rack"], "rack-of-c");
    assert_eq!(node["status"]["allocatable"]["memory"], "8Gi");
    assert!(args["NodeNames"].is_null());
}

#[test]
fn names_are_enough_for_those_who_know_the_nodes() {
    let server = ExtenderServer::start(|_, args| {
        assert!(args["Nodes"].is_null());
        assert_eq!(args["NodeNames"], json!(["a", "b", "c"]));
        Answer::json(&json!({
            "nodenames": ["c"],
            "failedNodes": {"a": "is taken", "b": "is taken"},
        }))
    });
    let extender = extender(&server, json!({"nodeCacheCapable": true}));
    assert_eq!(decide(extender, pod("cpu")), "c");
}

#[test]
fn refusals_are_counted_by_message() {
    let answer = Answer::json(&json!({
        "FailedNodes": {"a": "is taken", "b": "is taken"},
        "FailedAndUnresolvableNodes": {"c": "is broken"},
    }));
    assert_eq!(
        decide_by(answer, json!({})),
        "0/3 nodes are available: 1 is broken, 2 is taken."
    );
}

#[test]
fn ratings_decide_and_their_failure_does_not_matter() {
    let rating = json!({"filterVerb": "", "prioritizeVerb": "rate", "weight": 2});
    let answer = Answer::json(&json!([{"Host": "c", "Score": 5}, {"Host": "nowhere", "Score": 9}]));
    assert_eq!(decide_by(answer, rating.clone()), "c");
    for broken in [
        Answer::json(&json!({"Host": "c"})),
        Answer::json(&json!([{"Host": "c", "Score": 1e30}])),
        Answer::text("not JSON"),
        Answer::status(500),
        Answer::Hang,
    ] {
        let mut rating = rating.clone();
        rating["httpTimeout"] = "200ms".into();
        assert_eq!(decide_by(broken.clone(), rating), "a", "{broken:?}");
    }
}

#[test]
fn an_extender_that_fails_is_an_error_of_its_pod() {
    let url = "http://SERVER/scheduler/filter";
    for (answer, error) in [
        (
            Answer::json(&json!({"Error": "the database is down"})),
            "the database is down".to_owned(),
        ),
        (
            Answer::status(503),
            format!("failed filter with extender at URL {url}, code 503"),
        ),
        // Redirects are not followed.
        (
            Answer::status(307),
            format!("failed filter with extender at URL {url}, code 307"),
        ),
        (
            Answer::text(""),
            format!("Post {url:?}: the answer is empty, JSON was expected"),
        ),
        (
            Answer::text("<html>"),
            format!("Post {url:?}: the answer is not JSON: expected value at line 1 column 1"),
        ),
        (
            Answer::json(&json!([1])),
            "the answer is not a ExtenderFilterResult: expected an object, found [1]".to_owned(),
        ),
    ] {
        assert_eq!(
            decide_by(answer.clone(), json!({})),
            format!("error: {error}"),
            "{answer:?}"
        );
        assert_eq!(decide_by(answer, json!({"ignorable": true})), "a");
    }
}

#[test]
fn an_extender_that_hangs_is_given_up() {
    let told = decide_by(Answer::Hang, json!({"httpTimeout": "200ms"}));
    assert!(
        told.starts_with("error: Post \"http://SERVER/scheduler/filter\": timeout"),
        "{told}"
    );
    let told = decide_by(Answer::HangInBody, json!({"httpTimeout": "200ms"}));
    assert!(told.contains("timeout"), "{told}");
    let ignorable = json!({"httpTimeout": "200ms", "ignorable": true});
    assert_eq!(decide_by(Answer::Hang, ignorable), "a");
}

#[test]
fn an_extender_that_is_not_there_is_an_error() {
    let server = ExtenderServer::start(|_, _| Answer::status(200));
    let config = config(&server, json!({}));
    drop(server);
    let told = decide(HttpExtender::new(&config).expect("an extender"), pod("cpu"));
    assert!(
        told.starts_with("error: Post \"http://127.0.0.1:"),
        "{told}"
    );
}

#[test]
fn what_is_wrong_with_a_url_its_calls_tell() {
    let server = ExtenderServer::start(|_, _| Answer::json(&json!({"NodeNames": ["b"]})));
    let decided = |url_prefix: &str, tls: Value| {
        let fields = json!({
            "urlPrefix": url_prefix,
            "tlsConfig": tls,
            "nodeCacheCapable": true,
        });
        decide(extender(&server, fields), pod("cpu"))
    };
    let url = server.url("");
    let loud = url.replacen("http://", "HTTP://", 1);
    assert_eq!(decided(&loud, json!({})), "b");
    for url_prefix in ["foo", "", "/x", "http:///x"] {
        for tls in [json!({}), json!({"serverName": "scheduler.example"})] {
            let told = decided(url_prefix, tls);
            assert!(told.starts_with("error: Post "), "{told}");
        }
    }
}

#[test]
fn a_certificate_without_its_key_is_not_used() {
    let server = ExtenderServer::start(|_, _| Answer::json(&json!({"NodeNames": ["b"]})));
    // "nothing" in base64.
    let tls = json!({"certData": "bm90aGluZw=="});
    let fields = json!({"tlsConfig": tls, "nodeCacheCapable": true});
    assert_eq!(decide(extender(&server, fields), pod("cpu")), "b");
}

#[test]
fn nodes_that_do_not_exist_are_an_error() {
    let answer = Answer::json(&json!({"NodeNames": ["a", "nowhere"]}));
    let told = decide_by(answer, json!({"nodeCacheCapable": true}));
    assert_eq!(
        told,
        "error: extender \"http://SERVER/scheduler/\" claims a filtered node \"nowhere\" which \
         is not found in the input node list"
    );
}

#[test]
fn an_endless_answer_is_cut_off() {
    let server = ExtenderServer::start(|_, _| Answer::Endless);
    let extender = extender(&server, json!({})).with_body_bytes_max(1 << 20);
    let told = decide(extender, pod("cpu"));
    assert!(told.starts_with("error: Post "), "{told}");
    assert!(told.contains("limit"), "{told}");
}

#[test]
fn managed_resources_say_whose_pods_are_whose() {
    let server = ExtenderServer::start(|_, _| Answer::json(&json!({"NodeNames": ["c"]})));
    let managing = || {
        let managed = json!([{"name": "example.com/foo"}]);
        let fields = json!({"nodeCacheCapable": true, "managedResources": managed});
        extender(&server, fields)
    };
    assert_eq!(decide(managing(), pod("cpu")), "a");
    assert_eq!(server.calls().len(), 0);
    // No node has the resource, and the engine looks after it.
    let told = decide(managing(), pod("example.com/foo"));
    assert_eq!(
        told,
        "0/3 nodes are available: 3 Insufficient example.com/foo."
    );
    let limited = {
        let mut container = Container::default();
        let limits = &mut container.resources.limits;
        limits.insert("example.com/foo".into(), "1".parse().unwrap());
        let mut pod = pod("cpu");
        pod.spec = Arc::new(PodSpec {
            init_containers: vec![container],
            ..PodSpec::default()
        });
        pod
    };
    assert!(managing().is_interested(&limited));
}

#[test]
fn a_pod_is_bound_by_its_extender() {
    let server = ExtenderServer::start(|_, args| {
        let is_b = args["Node"] == "b";
        Answer::json(&json!({"Error": if is_b { "" } else { "no such node" }}))
    });
    let extender = extender(&server, json!({"bindVerb": "bind"}));
    assert!(extender.is_binder());
    assert_eq!(extender.bind(&pod("cpu"), "b"), Ok(()));
    assert_eq!(
        server.calls(),
        [(
            "/scheduler/bind".to_owned(),
            json!({"PodName": "p", "PodNamespace": "default", "PodUID": "uid-of-p", "Node": "b"})
        )]
    );
    assert_eq!(extender.bind(&pod("cpu"), "x"), Err("no such node".into()));
}

#[test]
fn victims_are_chosen_together() {
    let server = ExtenderServer::start(|_, _| {
        let victims = json!({"Pods": [{"UID": "u1"}], "NumPDBViolations": 1});
        Answer::json(&json!({"NodeNameToMetaVictims": {"b": victims}}))
    });
    let mut victim = pod("cpu");
    victim.metadata.uid = "u1".into();
    let victims = NodeVictims {
        pods: vec![&victim],
        num_pdb_violations: 1,
    };
    let proposed = BTreeMap::from([
        ("a".to_owned(), NodeVictims::default()),
        ("b".to_owned(), victims),
    ]);
    let chosen = MetaVictims {
        pod_uids: vec!["u1".into()],
        num_pdb_violations: 1,
    };
    for cached in [true, false] {
        let fields = json!({"preemptVerb": "preempt", "nodeCacheCapable": cached});
        let extender = extender(&server, fields);
        assert!(extender.supports_preemption());
        assert_eq!(
            extender.preempt(&pod("cpu"), &proposed),
            Ok(BTreeMap::from([("b".to_owned(), chosen.clone())]))
        );
    }
    let calls = server.calls();
    let meta = &calls[0].1["NodeNameToMetaVictims"];
    assert_eq!(
        meta["b"],
        json!({"Pods": [{"UID": "u1"}], "NumPDBViolations": 1})
    );
    let full = &calls[1].1["NodeNameToVictims"];
    assert_eq!(full["b"]["Pods"][0]["metadata"]["uid"], "u1");
    assert!(calls[1].1["NodeNameToMetaVictims"].is_null());
}

/// Who goes for a pod of priority 9 that finds nodes a and b full of pods of priority 1, `on-a`
/// and `on-b`; or why nobody does.
fn preempt_by(answer: Answer, fields: Value) -> String {
    let server = ExtenderServer::start(move |_, _| answer.clone());
    let mut fields = fields;
    fields["filterVerb"] = "".into();
    fields["preemptVerb"] = "preempt".into();
    let extenders: Vec<Arc<dyn Extender>> = vec![Arc::new(extender(&server, fields))];
    let extensions = Extensions {
        extenders,
        ..Extensions::default()
    };
    let mut engine = Engine::with_extensions(&EngineConfig::default(), extensions).unwrap();
    for name in ["a", "b"] {
        engine.handle(Event::NodeChanged(node(name)), 0);
        engine.handle(Event::PodChanged(full(&format!("on-{name}"), name, 1)), 0);
    }
    engine.handle(Event::PodChanged(full("p", "", 9)), 0);
    let decision = engine.next(0).expect("a decision");
    let told = match (&decision.preemption, &decision.outcome) {
        (Some(preemption), _) => {
            let victims = preemption.victims.pods.iter();
            let names = victims.filter_map(|pod| engine.pod_name(*pod));
            names.map(|(_, name)| name).collect::<Vec<_>>().join(" ")
        }
        (None, Outcome::Unschedulable(diagnosis)) => {
            let last = diagnosis.post_filter.last().expect("a reason");
            last.text(engine.cluster())
        }
        (None, outcome) => format!("{outcome:?}"),
    };
    told.replace(&server.url(""), "http://SERVER/")
}

/// A pod that takes all CPUs of a node.
fn full(name: &str, node: &str, priority: i32) -> Pod {
    let mut pod = pod("cpu");
    pod.metadata.name = name.into();
    pod.metadata.uid = format!("uid-of-{name}");
    let spec = Arc::make_mut(&mut pod.spec);
    spec.node_name = node.into();
    spec.priority = Some(priority);
    let requests = &mut spec.containers[0].resources.requests;
    requests.insert("cpu".into(), "4".parse().unwrap());
    pod
}

#[test]
fn an_extender_says_who_is_preempted() {
    let chosen = |node: &str, uid: &str| {
        let victims = json!({"Pods": [{"UID": uid}], "NumPDBViolations": 0});
        Answer::json(&json!({"NodeNameToMetaVictims": {node: victims}}))
    };
    for cached in [true, false] {
        let fields = json!({"nodeCacheCapable": cached});
        assert_eq!(preempt_by(chosen("b", "uid-of-on-b"), fields), "on-b");
    }
    assert_eq!(
        preempt_by(chosen("b", "uid-of-on-a"), json!({})),
        "preemption: extender: http://SERVER/scheduler/ claims to preempt pod (UID: &{uid-of-on-a}) \
         on node: b, but the pod is not found on that node"
    );
    assert_eq!(
        preempt_by(Answer::json(&json!({})), json!({})),
        "preemption: no candidate node for preemption"
    );
    assert_eq!(
        preempt_by(Answer::status(500), json!({})),
        "preemption: failed preempt with extender at URL http://SERVER/scheduler/preempt, code 500"
    );
    assert_eq!(
        preempt_by(Answer::status(500), json!({"ignorable": true})),
        "on-a"
    );
}

#[test]
fn files_of_certificates_are_read_at_once() {
    let server = ExtenderServer::start(|_, _| Answer::status(200));
    let error = |tls: Value| {
        let config = config(&server, json!({"tlsConfig": tls}));
        HttpExtender::new(&config).expect_err("wrong")
    };
    let told = error(json!({"caFile": "no-such-file.pem"}));
    assert!(
        told.contains("caFile: cannot read no-such-file.pem"),
        "{told}"
    );
    // "nothing" in base64.
    let told = error(json!({"caData": "bm90aGluZw=="}));
    assert!(
        told.contains("there is no certificate in the roots"),
        "{told}"
    );
}

#[test]
fn a_certificate_for_another_name_is_asked_for_at_the_same_address() {
    let server = ExtenderServer::start(|_, _| Answer::json(&json!({"NodeNames": ["b"]})));
    let tls = json!({"serverName": "scheduler.example"});
    let fields = json!({"tlsConfig": tls, "nodeCacheCapable": true});
    // Nobody knows that name; the request arrives all the same.
    assert_eq!(decide(extender(&server, fields), pod("cpu")), "b");
    assert_eq!(server.calls()[0].0, "/scheduler/filter");
}

#[test]
fn timeouts_are_as_configured() {
    let server = ExtenderServer::start(|_, _| Answer::status(200));
    assert_eq!(
        config(&server, json!({})).http_timeout,
        Duration::from_secs(5)
    );
}
