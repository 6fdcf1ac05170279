//! DaemonSets: stories.

use outrank_controllers::Controllers;
use outrank_controllers::daemon_set::DaemonSetController;
use serde_json::{Value, json};

use crate::story::Story;

const AGENT: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      nodeSelector: {os: linux}
      containers: [{name: c, image: 'agent:1', args: [-x]}]
";

const NODES: &str = "
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {os: linux}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {os: linux}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n3, labels: {os: linux}}}
---
{apiVersion: v1, kind: Node, metadata: {name: other, labels: {os: plan9}}}
";

fn story() -> Story {
    let controller = DaemonSetController::default();
    let mut story = Story::of(Controllers::new(vec![Box::new(controller)])).pods_take(2, 1);
    story.apply(NODES);
    story
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// Node and image of each pod, by node.
fn on_nodes(story: &Story) -> Vec<String> {
    let node = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
        /nodeSelectorTerms/0/matchFields/0/values/0";
    let line = |pod: Value| {
        let node = pod.pointer(node)?.as_str()?;
        Some(format!(
            "{node} {}",
            pod["spec"]["containers"][0]["image"].as_str()?
        ))
    };
    let mut lines: Vec<String> = story.values("Pod").into_iter().filter_map(line).collect();
    lines.sort();
    lines
}

#[test]
fn every_node_that_fits_has_a_pod() {
    let mut story = story();
    story.apply(AGENT).wait(5);
    assert_eq!(on_nodes(&story), ["n1 agent:1", "n2 agent:1", "n3 agent:1"]);
    let pod = story.values("Pod").remove(0);
    assert_eq!(pod["spec"]["containers"][0]["args"], json!(["-x"]));
    assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(6));
    let status = story.status("DaemonSet agent");
    assert_eq!(status["desiredNumberScheduled"], 3);
    assert_eq!(
        (
            &status["numberAvailable"],
            &status["updatedNumberScheduled"]
        ),
        (&json!(3), &json!(3))
    );
    // A node comes, one goes out of the set, one gets a taint that the pod does not tolerate.
    story.apply("{apiVersion: v1, kind: Node, metadata: {name: n4, labels: {os: linux}}}");
    story.change("Node n1", json!({"metadata": {"labels": {"os": "bsd"}}}));
    let taint = json!([{"key": "broken", "effect": "NoSchedule"}]);
    story
        .change("Node n2", json!({"spec": {"taints": taint}}))
        .wait(5);
    assert_eq!(on_nodes(&story), ["n2 agent:1", "n3 agent:1", "n4 agent:1"]);
    let taint = json!([{"key": "broken", "effect": "NoExecute"}]);
    story
        .change("Node n2", json!({"spec": {"taints": taint}}))
        .wait(5);
    assert_eq!(on_nodes(&story), ["n3 agent:1", "n4 agent:1"]);
}

#[test]
fn an_update_replaces_one_node_after_the_other() {
    let mut story = story();
    story.apply(AGENT).wait(5);
    story.change("DaemonSet agent", image("agent:2"));
    let going = |story: &Story| {
        story
            .pods()
            .iter()
            .filter(|pod| pod.ends_with("going"))
            .count()
    };
    assert_eq!(going(&story), 1);
    for _ in 0..12 {
        story.wait(1);
        let status = story.status("DaemonSet agent");
        assert!(status["numberUnavailable"].as_i64() <= Some(1), "{status}");
    }
    assert_eq!(on_nodes(&story), ["n1 agent:2", "n2 agent:2", "n3 agent:2"]);
}

#[test]
fn with_surge_the_new_pod_comes_before_the_old_one_goes() {
    let mut story = story();
    story.apply(AGENT).wait(5);
    let surge = json!({"maxSurge": 1, "maxUnavailable": 0});
    story.change(
        "DaemonSet agent",
        json!({"spec": {"updateStrategy": {"rollingUpdate": surge}}}),
    );
    story.change("DaemonSet agent", image("agent:2"));
    for _ in 0..12 {
        let pods = story.pods();
        let staying = pods.iter().filter(|pod| !pod.ends_with("going")).count();
        assert!((3..=4).contains(&staying), "{pods:?}");
        assert_eq!(
            story.status("DaemonSet agent")["numberUnavailable"],
            json!(null)
        );
        story.wait(1);
    }
    assert_eq!(on_nodes(&story), ["n1 agent:2", "n2 agent:2", "n3 agent:2"]);
}

#[test]
fn on_delete_waits_for_a_person() {
    let mut story = story();
    story.apply(AGENT).wait(5);
    let strategy = json!({"type": "OnDelete", "rollingUpdate": null});
    story.change(
        "DaemonSet agent",
        json!({"spec": {"updateStrategy": strategy}}),
    );
    story.change("DaemonSet agent", image("agent:2")).wait(5);
    assert_eq!(on_nodes(&story), ["n1 agent:1", "n2 agent:1", "n3 agent:1"]);
    let pod = format!("Pod {}", story.pod_names()[0]);
    story.delete(&pod).wait(5);
    assert_eq!(story.status("DaemonSet agent")["updatedNumberScheduled"], 1);
}

#[test]
fn failed_pods_are_replaced_ever_more_slowly() {
    let mut story = story();
    story.apply(AGENT).wait(5);
    let node = json!({"metadata": {"labels": {"os": "bsd"}}});
    story
        .change("Node n1", node.clone())
        .change("Node n2", node)
        .wait(5);
    let fail = |story: &mut Story| {
        let name = story.pod_names().remove(0);
        story.pod_becomes(&name, "Failed");
        story.pod_names().remove(0) != name
    };
    assert!(fail(&mut story), "the first is replaced at once");
    assert!(!fail(&mut story), "the second waits");
    story.wait(2);
    assert_eq!(story.pods(), ["agent-* Pending"]);
    assert!(story.happened().contains("Found failed daemon pod"));
}

#[test]
fn revisions_in_use_count_against_the_limit_of_history() {
    let mut story = story();
    let settings =
        "spec:\n  revisionHistoryLimit: 1\n  updateStrategy: {type: OnDelete}\n  selector";
    story
        .apply(&AGENT.replacen("spec:\n  selector", settings, 1))
        .wait(5);
    story.change("DaemonSet agent", image("agent:2"));
    let pod = format!("Pod {}", story.pod_names()[0]);
    story.delete(&pod).wait(5);
    // The first two are in use, the third is not.
    story.change("DaemonSet agent", image("agent:3"));
    story.change("DaemonSet agent", image("agent:4")).wait(5);
    let images: Vec<Value> = story
        .values("ControllerRevision")
        .iter()
        .map(|it| it["data"]["spec"]["template"]["spec"]["containers"][0]["image"].clone())
        .collect();
    assert_eq!(images.len(), 3, "{images:?}");
    assert!(!images.contains(&json!("agent:3")), "{images:?}");
}

/// `AGENT` with one more pod on a node while pods are replaced.
fn surging() -> String {
    let strategy = "updateStrategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}";
    AGENT.replacen("spec:\n", &format!("spec:\n  {strategy}\n"), 1)
}

#[test]
fn with_surge_a_pod_that_ends_is_replaced_before_it_has_gone() {
    let mut story = story();
    story.apply(&surging()).wait(5);
    let pod = format!("Pod {}", story.pod_names()[0]);
    story.delete(&pod);
    assert_eq!(story.pods().len(), 4, "{:?}", story.pods());
    story.wait(5);
    assert_eq!(story.pods().len(), 3);
}

#[test]
fn with_surge_pods_leave_nodes_that_are_not_theirs_any_more() {
    let mut story = story();
    story.apply(&surging()).wait(5);
    let taint = json!([{"key": "broken", "effect": "NoSchedule"}]);
    story.change("Node n1", json!({"spec": {"taints": taint}}));
    assert_eq!(on_nodes(&story).len(), 3, "the pod may stay");
    story.change("DaemonSet agent", image("agent:2")).wait(15);
    assert_eq!(on_nodes(&story), ["n2 agent:2", "n3 agent:2"]);
}

#[test]
fn with_surge_an_old_pod_that_is_ready_stays_until_the_new_one_is_available() {
    let mut story = story();
    story
        .apply(&surging().replacen("spec:\n", "spec:\n  minReadySeconds: 20\n", 1))
        .wait(5);
    // Old pods are ready, but not for long enough.
    story.change("DaemonSet agent", image("agent:2")).wait(3);
    let is_old = |pod: &&String| pod.ends_with("agent:1");
    assert_eq!(on_nodes(&story).iter().filter(is_old).count(), 3);
}

#[test]
fn a_pod_without_a_node_is_adopted_too() {
    let mut story = story();
    story.apply(AGENT).wait(5);
    story.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: alone, labels: {app: agent}},
          spec: {containers: [{name: c, image: i}]}}",
    );
    let owner = story.value("Pod alone")["metadata"]["ownerReferences"][0]["name"].clone();
    assert_eq!(owner, "agent");
    assert_eq!(
        story.pods().len(),
        4,
        "it is on no node, so nothing is done about it"
    );
}
