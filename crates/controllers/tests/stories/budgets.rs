//! PodDisruptionBudgets: stories.

use outrank_controllers::Controllers;
use outrank_controllers::disruption::DisruptionController;
use outrank_controllers::replica_set::ReplicaSetController;
use serde_json::json;

use crate::story::Story;

const WEB: &str = "
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i}]}
";

fn story() -> Story {
    Story::of(Controllers::new(vec![
        Box::new(ReplicaSetController::new()),
        Box::new(DisruptionController::new()),
    ]))
}

fn budget(spec: &str) -> String {
    format!(
        "{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: web}},
           spec: {{{spec}, selector: {{matchLabels: {{app: web}}}}}}}}"
    )
}

const PDB: &str = "PodDisruptionBudget web";

#[test]
fn a_budget_counts_the_pods_as_they_come() {
    let mut story = story().pods_take(2, 1);
    story.apply(&budget("minAvailable: 3"));
    assert_eq!(
        story.happened(),
        "0s PodDisruptionBudget web: NoPods: No matching pods found\n".repeat(2)
    );
    let condition = |status: &str, reason: &str, second: &str| {
        json!([{"type": "DisruptionAllowed", "status": status, "reason": reason, "message": "",
            "observedGeneration": 1, "lastTransitionTime": format!("2026-01-01T00:00:{second}Z")}])
    };
    assert_eq!(
        story.status(PDB),
        json!({"observedGeneration": 1, "desiredHealthy": 3,
            "conditions": condition("False", "InsufficientPods", "00")})
    );
    story.apply(WEB).wait(1);
    assert_eq!(story.status(PDB)["expectedPods"], 4);
    assert_eq!(
        story.status(PDB)["currentHealthy"],
        json!(null),
        "as it was"
    );
    story.wait(1);
    assert_eq!(
        story.status(PDB),
        json!({"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 4,
            "desiredHealthy": 3, "expectedPods": 4,
            "conditions": condition("True", "SufficientPods", "02")})
    );
}

#[test]
fn shares_are_of_the_replicas_that_are_asked_for() {
    let mut story = story();
    story.apply(WEB).apply(&budget("maxUnavailable: 30%"));
    // 1.2 of 4, rounded up.
    assert_eq!(story.status(PDB)["desiredHealthy"], 2);
    assert_eq!(story.status(PDB)["disruptionsAllowed"], 2);
}

#[test]
fn pods_that_nobody_manages_are_no_share() {
    let mut story = story();
    story.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: alone, labels: {app: web}},
          spec: {containers: [{name: c, image: i}]}}",
    );
    story.apply(&budget("maxUnavailable: 1"));
    for number in ["disruptionsAllowed", "expectedPods"] {
        assert_eq!(story.status(PDB)[number].as_i64().unwrap_or(0), 0);
    }
    let selector = "&LabelSelector{MatchLabels:map[string]string{app: web,},\
                    MatchExpressions:[]LabelSelectorRequirement{},}";
    let told = story.happened();
    assert!(told.contains("UnmanagedPods"), "{told}");
    assert!(told.contains(selector), "{told}");
}

#[test]
fn nothing_is_allowed_if_it_is_not_known_what_should_be() {
    let mut story = story();
    story.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: lost, labels: {app: web}, ownerReferences:
          [{apiVersion: apps/v1, kind: ReplicaSet, name: gone, uid: u, controller: true}]},
          spec: {containers: [{name: c, image: i}]}}",
    );
    story.apply(&budget("maxUnavailable: 1"));
    assert_eq!(
        story.condition(PDB, "DisruptionAllowed"),
        "False SyncFailed: found no controllers for pod \"lost\""
    );
    let told = story.happened();
    let text = "CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: \
                found no controllers for pod \"lost\"";
    assert!(told.contains(text), "{told}");
}

#[test]
fn a_pod_that_was_to_go_and_did_not_counts_again_after_two_minutes() {
    let mut story = story();
    story.apply(WEB).apply(&budget("minAvailable: 3"));
    let pod = story.pod_names()[0].clone();
    let now = story.now();
    story.wait(10);
    story.change(
        PDB,
        json!({"status": {"disruptedPods": {&pod: now, "not-there": now}}}),
    );
    assert_eq!(story.status(PDB)["disruptedPods"], json!({&pod: now}));
    assert_eq!(story.status(PDB)["disruptionsAllowed"], 0);
    story.happened();
    story.wait(109);
    assert_eq!(story.status(PDB)["currentHealthy"], 3);
    story.wait(1);
    assert_eq!(story.status(PDB)["currentHealthy"], 4);
    assert_eq!(story.status(PDB)["disruptedPods"], json!(null));
    let told = story.happened();
    let text = "NotDeleted: Pod was expected by PDB default/default to be deleted but it wasn't";
    assert!(told.contains(text), "{told}");
}

#[test]
fn a_disruption_that_did_not_come_is_taken_back() {
    let mut story = story();
    story.apply(WEB);
    let pod = format!("Pod {}", story.pod_names()[0]);
    let mut status = story.status(&pod);
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting", "lastTransitionTime": story.now()});
    status["conditions"]
        .as_array_mut()
        .expect("conditions")
        .push(condition);
    story.change(&pod, json!({"status": status}));
    story.wait(119);
    assert!(
        story
            .condition(&pod, "DisruptionTarget")
            .starts_with("True")
    );
    story.wait(1);
    assert_eq!(story.condition(&pod, "DisruptionTarget"), "False : ");
}

#[test]
fn a_replica_set_whose_deployment_has_gone_asks_for_its_own_replicas() {
    let mut story = story();
    let owner = "ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: gone, uid: u, \
                 controller: true}]";
    story.apply(&WEB.replace("{name: web}", &format!("{{name: web, {owner}}}")));
    story.apply(&budget("maxUnavailable: 1"));
    assert_eq!(story.status(PDB)["expectedPods"], 4);
    assert_eq!(story.status(PDB)["disruptionsAllowed"], 1);
}

#[test]
fn pods_of_what_has_no_scale_are_no_share_even_if_it_has_gone() {
    let mut story = story();
    story.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: batch, labels: {app: web}, ownerReferences:
          [{apiVersion: batch/v1, kind: Job, name: gone, uid: u, controller: true}]},
          spec: {containers: [{name: c, image: i}]}}",
    );
    story.apply(&budget("maxUnavailable: 1"));
    assert_eq!(
        story.condition(PDB, "DisruptionAllowed"),
        "False SyncFailed: jobs.batch does not implement the scale subresource"
    );
}

#[test]
fn it_is_told_if_several_budgets_select_a_pod() {
    let mut story = story();
    let second = budget("minAvailable: 1").replace("{name: web}", "{name: also}");
    story.apply(&budget("minAvailable: 1")).apply(&second);
    story.happened();
    story.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}},
          spec: {containers: [{name: c, image: i}]}}",
    );
    let told = story.happened();
    let text = "Pod web: MultiplePodDisruptionBudgets: Pod \"default\"/\"web\" matches multiple \
                PodDisruptionBudgets.  Chose \"also\" arbitrarily.\n";
    assert!(told.contains(text), "{told}");
}
