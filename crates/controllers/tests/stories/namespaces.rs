//! Namespaces that are deleted: stories.

use outrank_controllers::namespace_deletion::NamespaceController;
use outrank_controllers::replica_set::ReplicaSetController;
use outrank_controllers::{Controllers, Key, Kind};
use serde_json::{Value, json};

use crate::story::Story;

const NAMESPACE: &str = "Namespace default";

fn story() -> Story {
    let mut story = Story::of(Controllers::new(vec![
        Box::new(NamespaceController::new()),
        Box::new(ReplicaSetController::new()),
    ]));
    story.apply("{apiVersion: v1, kind: Namespace, metadata: {name: default}}");
    story
}

fn config_map(story: &mut Story, name: &str, finalizers: Value) -> Key {
    let key = story.cluster.create(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "finalizers": finalizers},
    }));
    story.cluster.settle();
    key
}

#[test]
fn an_empty_namespace_goes_after_five_seconds() {
    let mut story = story();
    assert_eq!(
        story.value(NAMESPACE)["spec"]["finalizers"],
        json!(["kubernetes"])
    );
    story.delete(NAMESPACE);
    assert_eq!(story.status(NAMESPACE)["phase"], "Terminating");
    story.wait(4);
    assert!(story.is_there(NAMESPACE));
    story.wait(1);
    assert!(!story.is_there(NAMESPACE));
}

#[test]
fn pods_go_first_and_the_rest_when_they_have_gone() {
    let mut story = story().pods_take(0, 3);
    let config = config_map(&mut story, "config", json!([]));
    story.apply(
        "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web},
          spec: {replicas: 2, selector: {matchLabels: {app: web}},
            template: {metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 30,
              containers: [{name: c, image: i}]}}}}",
    );
    story.happened();
    story.delete(NAMESPACE).wait(5);
    let told = story.happened();
    assert!(
        told.starts_with("5s deletes Pod web-*\n5s deletes Pod web-*\n"),
        "{told}"
    );
    assert!(
        !told.contains("Created pod"),
        "nothing new comes into it: {told}"
    );
    assert!(!told.contains("FailedCreate"), "{told}");
    // While there are pods nothing is told of what remains.
    assert_eq!(
        story.condition(NAMESPACE, "NamespaceContentRemaining"),
        "False ContentRemoved: All content successfully removed"
    );
    assert_eq!(
        story.condition(NAMESPACE, "NamespaceDeletionContentFailure"),
        "False ContentDeleted: All content successfully deleted, may be waiting on finalization"
    );
    story.wait(10);
    assert_eq!(story.pods(), [""; 0]);
    assert!(
        story.cluster.stored(&config).is_some(),
        "it waits half the grace period"
    );
    story.wait(6);
    assert!(story.cluster.stored(&config).is_none());
    assert!(!story.is_there("ReplicaSet web"));
    assert!(!story.is_there(NAMESPACE));
    assert_eq!(story.seconds(), 21);
}

#[test]
fn finalizers_of_others_hold_a_namespace() {
    let mut story = story();
    let config = config_map(&mut story, "config", json!(["example.com/hold"]));
    story.delete(NAMESPACE).wait(100);
    assert_eq!(
        story.condition(NAMESPACE, "NamespaceFinalizersRemaining"),
        "True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: \
         example.com/hold in 1 resource instances"
    );
    assert_eq!(
        story.condition(NAMESPACE, "NamespaceContentRemaining"),
        "True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances"
    );
    story
        .cluster
        .patch(&config, json!({"metadata": {"finalizers": null}}));
    story.wait(8);
    assert!(!story.is_there(NAMESPACE));
}

#[test]
fn a_namespace_may_have_finalizers_of_its_own() {
    let mut story = story();
    let namespace = Key::new(Kind::of("v1", "Namespace"), "", "default");
    let finalizers = json!({"metadata": {"finalizers": ["example.com/mine"]}});
    story.cluster.patch(&namespace, finalizers);
    story.delete(NAMESPACE).wait(100);
    assert_eq!(story.value(NAMESPACE)["spec"]["finalizers"], json!(null));
    story.change(NAMESPACE, json!({"metadata": {"finalizers": null}}));
    assert!(!story.is_there(NAMESPACE));
}

#[test]
fn what_cannot_be_deleted_is_told_and_tried_again() {
    let mut story = story();
    config_map(&mut story, "config", json!([]));
    story.refuse_deletions();
    story.delete(NAMESPACE).wait(10);
    assert_eq!(
        story.condition(NAMESPACE, "NamespaceDeletionContentFailure"),
        "True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: not now"
    );
    story.refuse_nothing().wait(100);
    assert!(!story.is_there(NAMESPACE));
}
