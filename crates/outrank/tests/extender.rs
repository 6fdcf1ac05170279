//! Rehearsals with an extender: it is really called.

#[path = "../../../tests/extender_server.rs"]
mod extender_server;

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};

use extender_server::{Answer, ExtenderServer};

const CLUSTER: &str = "
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Node
metadata: {name: b}
status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {team: shop}}
spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Pod
metadata: {name: fpga, annotations: {team: shop}}
spec:
  containers:
  - name: fpga
    image: nginx
    resources: {requests: {example.com/fpga: 1}, limits: {example.com/fpga: 1}}
";

fn rehearse(server: &ExtenderServer, extender: Value) -> Output {
    let mut extender = extender;
    extender["urlPrefix"] = server.url("").into();
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [extender],
    });
    let directory = tempfile::tempdir().expect("a directory");
    let cluster = directory.path().join("cluster.yaml");
    let config_path = directory.path().join("config.json");
    fs::write(&cluster, CLUSTER).expect("written");
    fs::write(&config_path, config.to_string()).expect("written");
    Command::new(env!("CARGO_BIN_EXE_outrank"))
        .args(["rehearse", "-o", "json", "-f"])
        .arg(cluster)
        .arg("--config")
        .arg(config_path)
        .output()
        .expect("run")
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn an_extender_refuses_and_never_binds() {
    let server = ExtenderServer::start(|path, args| {
        assert_eq!(path, "/filter");
        assert_eq!(args["Pod"]["metadata"]["annotations"]["team"], "shop");
        Answer::json(&json!({"NodeNames": ["b"], "FailedNodes": {"a": "no licence"}}))
    });
    let extender = json!({"filterVerb": "filter", "bindVerb": "bind", "nodeCacheCapable": true});
    let output = rehearse(&server, extender);
    let report = report(&output);
    assert_eq!(report["placed"][0]["node"], "b", "{report}");
    assert_eq!(server.calls().len(), 1);
}

/// No node has the resource, and NodeResourcesFit does not look.
#[test]
fn a_resource_can_be_left_to_its_extender() {
    let server = ExtenderServer::start(|_, args| {
        let requests = &args["Pod"]["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(requests["example.com/fpga"], "1");
        Answer::json(&json!({"NodeNames": ["b"]}))
    });
    let extender = |ignored: bool| {
        json!({
            "filterVerb": "filter",
            "nodeCacheCapable": true,
            "managedResources": [{"name": "example.com/fpga", "ignoredByScheduler": ignored}],
        })
    };
    let output = rehearse(&server, extender(true));
    let report_of_both = report(&output);
    let node = |name: &str| {
        let mut placed = report_of_both["placed"].as_array().into_iter().flatten();
        let pod = placed.find(|pod| pod["name"] == name);
        pod.map(|pod| pod["node"].clone())
    };
    assert_eq!(node("fpga"), Some(json!("b")));
    // The other pod is none of its business.
    assert_eq!(node("web"), Some(json!("a")));
    assert_eq!(server.calls().len(), 1);
    let output = rehearse(&server, extender(false));
    let pending = report(&output)["pending"].clone();
    assert_eq!(
        pending[0]["filterMessage"],
        "0/2 nodes are available: 2 Insufficient example.com/fpga."
    );
    assert_eq!(server.calls().len(), 1);
}

#[test]
fn what_an_extender_says_is_in_the_report() {
    let server = ExtenderServer::start(|_, _| {
        Answer::json(&json!({"FailedNodes": {"a": "no licence", "b": "no licence"}}))
    });
    let output = rehearse(&server, json!({"filterVerb": "filter"}));
    let report = report(&output);
    let pending = &report["pending"][0];
    assert_eq!(
        pending["filterMessage"],
        "0/2 nodes are available: 2 no licence."
    );
    assert_eq!(pending["reasons"][0]["plugin"], "Extender");
}

#[test]
fn an_extender_that_fails_fails_its_pods_only() {
    let server = ExtenderServer::start(|_, _| Answer::status(500));
    let output = rehearse(&server, json!({"filterVerb": "filter"}));
    assert!(output.status.success(), "{output:?}");
    let report = report(&output);
    assert_eq!(report["pending"][0]["state"], "Error", "{report}");
    let told = report["pending"][0]["message"].as_str().expect("a message");
    assert!(told.ends_with("code 500"), "{told}");
}
