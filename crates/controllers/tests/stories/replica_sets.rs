//! ReplicaSets and ReplicationControllers: stories.

use outrank_controllers::Controllers;
use outrank_controllers::replica_set::ReplicaSetController;
use serde_json::json;

use crate::story::Story;

const WEB: &str = "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, uid: u1}
spec:
  replicas: 3
  minReadySeconds: 10
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: nginx, env: [{name: A, value: b}]}]
";

fn story() -> Story {
    Story::of(Controllers::new(vec![
        Box::new(ReplicaSetController::new()),
        Box::new(ReplicaSetController::of_replication_controllers()),
    ]))
}

#[test]
fn a_replica_set_makes_pods_and_counts_them() {
    let mut story = story().pods_take(2, 1);
    story.apply(WEB);
    assert_eq!(
        story.happened(),
        "0s creates Pod web-*\n\
         0s ReplicaSet web: SuccessfulCreate: Created pod: web-*\n\
         0s creates Pod web-*\n\
         0s creates Pod web-*\n\
         0s ReplicaSet web: SuccessfulCreate: Created pod: web-*\n\
         0s ReplicaSet web: SuccessfulCreate: Created pod: web-*\n"
    );
    assert_eq!(
        story.status("ReplicaSet web"),
        json!({"replicas": 3, "fullyLabeledReplicas": 3, "terminatingReplicas": 0,
            "observedGeneration": 1})
    );
    story.wait(2);
    assert_eq!(story.status("ReplicaSet web")["readyReplicas"], 3);
    assert_eq!(
        story.status("ReplicaSet web")["availableReplicas"],
        json!(null)
    );
    story.wait(10);
    assert_eq!(story.status("ReplicaSet web")["availableReplicas"], 3);
    let pod = format!("Pod {}", story.pod_names()[0]);
    assert_eq!(
        story.value(&pod)["spec"]["containers"][0]["env"][0]["value"],
        "b"
    );
}

#[test]
fn what_cannot_be_made_is_told_and_tried_again() {
    let mut story = story();
    story.refuse_pods("pods \"web-\" is forbidden: exceeded quota: small");
    story.apply(WEB);
    let error = "pods \"web-\" is forbidden: exceeded quota: small";
    assert_eq!(
        story.condition("ReplicaSet web", "ReplicaFailure"),
        format!("True FailedCreate: {error}")
    );
    let told = format!("0s ReplicaSet web: FailedCreate: Error creating: {error}\n");
    assert!(story.happened().contains(&told));
    story.refuse_nothing().wait(60);
    assert_eq!(story.pods().len(), 3);
    assert_eq!(story.condition("ReplicaSet web", "ReplicaFailure"), "");
}

#[test]
fn orphans_are_adopted_and_strangers_released() {
    let mut story = story();
    story.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: alone, labels: {app: web}},
          spec: {containers: [{name: c, image: i}]}}",
    );
    story.apply(WEB);
    assert_eq!(story.pods().len(), 3);
    let owner = story.value("Pod alone")["metadata"]["ownerReferences"][0].clone();
    assert_eq!(owner["name"], "web");
    assert_eq!(owner["controller"], true);
    story.change(
        "Pod alone",
        json!({"metadata": {"labels": {"app": "other"}}}),
    );
    assert_eq!(
        story.value("Pod alone")["metadata"]["ownerReferences"],
        json!([])
    );
    assert_eq!(story.pods().len(), 4);
}

#[test]
fn surplus_pods_go_and_dead_ones_are_replaced() {
    let mut story = story().pods_take(2, 1);
    story.apply(WEB).wait(20);
    let victim = story.pod_names()[1].clone();
    story.pod_becomes(&victim, "Failed");
    assert_eq!(story.pods().len(), 4);
    story.happened();
    // The new one is not ready yet: it goes first.
    story.scale("ReplicaSet web", 2);
    assert_eq!(
        story.happened(),
        "20s deletes Pod web-*\n20s ReplicaSet web: SuccessfulDelete: Deleted pod: web-*\n"
    );
    story.wait(30);
    assert_eq!(
        story.pods(),
        ["web-* Running ready", "web-* Failed", "web-* Running ready"]
    );
}

#[test]
fn a_replication_controller_does_the_same() {
    let mut story = story();
    story.apply(
        "{apiVersion: v1, kind: ReplicationController, metadata: {name: old},
          spec: {replicas: 2, selector: {app: old}, template: {metadata: {labels: {app: old}},
            spec: {containers: [{name: c, image: i}]}}}}",
    );
    assert_eq!(story.pods(), ["old-* Running ready", "old-* Running ready"]);
    let status = story.status("ReplicationController old");
    assert_eq!(status["availableReplicas"], 2);
}

#[test]
fn a_set_without_owner_does_not_mind_where_its_pods_are_crowded() {
    let mut story = story();
    story.apply(&WEB.replace("replicas: 3", "replicas: 2"));
    let place = |story: &mut Story, pod: &str, node: &str| {
        story.change(&format!("Pod {pod}"), json!({"spec": {"nodeName": node}}));
    };
    let old = story.pod_names();
    old.iter().for_each(|pod| place(&mut story, pod, "n1"));
    story.wait(100).scale("ReplicaSet web", 3);
    let young = story.pod_names();
    let young = young
        .iter()
        .find(|pod| !old.contains(pod))
        .expect("a third");
    place(&mut story, young, "n2");
    story.wait(10).scale("ReplicaSet web", 2);
    assert_eq!(story.pod_names(), old, "the youngest goes");
}

#[test]
fn what_cannot_be_deleted_is_told() {
    let mut story = story();
    story.apply(WEB).refuse_deletions();
    story.scale("ReplicaSet web", 2);
    assert_eq!(
        story.condition("ReplicaSet web", "ReplicaFailure"),
        "True FailedDelete: unable to delete pods: not now"
    );
    assert!(
        story
            .happened()
            .contains("FailedDelete: Error deleting: not now\n")
    );
}

#[test]
fn a_pod_that_does_not_say_since_when_it_is_ready_never_becomes_available() {
    let mut story = story().pods_wait();
    story.apply(&WEB.replace("replicas: 3", "replicas: 1"));
    let pod = format!("Pod {}", story.pod_names()[0]);
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let status = json!({"status": {"phase": "Running", "conditions": ready}});
    story.change(&pod, status).wait(100);
    let status = story.status("ReplicaSet web");
    assert_eq!(
        (&status["readyReplicas"], &status["availableReplicas"]),
        (&json!(1), &json!(null))
    );
}

#[test]
fn pods_that_have_ended_are_neither_adopted_nor_released() {
    let mut story = story();
    story.apply(WEB);
    let ended = story.pod_names()[0].clone();
    story.pod_becomes(&ended, "Failed");
    let object = format!("Pod {ended}");
    story.change(&object, json!({"metadata": {"labels": {"app": "other"}}}));
    let owner = story.value(&object)["metadata"]["ownerReferences"][0]["name"].clone();
    assert_eq!(owner, "web");
}
