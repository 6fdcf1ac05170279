//! Statuses of ResourceQuotas: stories. There is no admission here, which counts what is new.

use outrank_controllers::Controllers;
use outrank_controllers::quota_status::QuotaStatusController;
use serde_json::json;

use crate::story::Story;

fn story() -> Story {
    let controller = QuotaStatusController::new();
    Story::of(Controllers::new(vec![Box::new(controller)])).pods_take(1, 1)
}

fn pod(story: &mut Story, name: &str) {
    story.apply(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c,
           image: i, resources: {{requests: {{cpu: 100m}}}}}}]}}}}"
    ));
}

const QUOTA: &str = "ResourceQuota four";

const FOUR: &str = "{apiVersion: v1, kind: ResourceQuota, metadata: {name: four},
    spec: {hard: {pods: 4, requests.cpu: 1, count/configmaps: 9, count/widgets.example.com: 1}}}";

#[test]
fn a_new_quota_is_counted_at_once_and_again_when_pods_end_or_go() {
    let mut story = story();
    for name in ["a", "b", "c"] {
        pod(&mut story, name);
    }
    story.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: config}}");
    story.apply(FOUR);
    let used = json!({"pods": "3", "requests.cpu": "300m", "count/configmaps": "1"});
    assert_eq!(story.status(QUOTA)["used"], used, "widgets are not known");
    assert_eq!(story.status(QUOTA)["hard"]["pods"], "4");
    pod(&mut story, "d");
    assert_eq!(
        story.status(QUOTA)["used"]["pods"],
        "3",
        "admission would have counted it"
    );
    story.wait(1);
    story.pod_becomes("a", "Succeeded");
    assert_eq!(story.status(QUOTA)["used"]["pods"], "3", "b, c and d");
    story.delete("Pod b").wait(1);
    let used = json!({"pods": "2", "requests.cpu": "200m", "count/configmaps": "1"});
    assert_eq!(story.status(QUOTA)["used"], used);
}

#[test]
fn other_limits_are_in_force_when_they_are_counted() {
    let mut story = story();
    story.apply(FOUR);
    story.change(QUOTA, json!({"spec": {"hard": {"pods": "6"}}}));
    assert_eq!(story.status(QUOTA)["hard"]["pods"], "6");
    assert_eq!(story.status(QUOTA)["used"]["pods"], "0");
}

#[test]
fn all_is_counted_again_every_five_minutes() {
    let mut story = story();
    story.apply(FOUR);
    pod(&mut story, "late");
    story.wait(299);
    assert_eq!(story.status(QUOTA)["used"]["pods"], "0");
    story.wait(1);
    assert_eq!(story.status(QUOTA)["used"]["pods"], "1");
}

#[test]
fn fewer_ports_of_a_service_are_found_by_the_next_count_and_another_type_at_once() {
    let mut story = story();
    story.apply(
        "{apiVersion: v1, kind: Service, metadata: {name: web},
          spec: {type: NodePort, ports: [{name: a, port: 1}, {name: b, port: 2}]}}",
    );
    story.apply(
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: four},
          spec: {hard: {services.nodeports: 9}}}",
    );
    let used = |story: &Story| story.status(QUOTA)["used"]["services.nodeports"].clone();
    assert_eq!(used(&story), "2");
    story.change(
        "Service web",
        json!({"spec": {"ports": [{"name": "a", "port": 1}]}}),
    );
    assert_eq!(used(&story), "2");
    story.wait(300);
    assert_eq!(used(&story), "1");
    story.change("Service web", json!({"spec": {"type": "ClusterIP"}}));
    assert_eq!(used(&story), "0");
}
