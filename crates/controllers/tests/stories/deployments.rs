//! Deployments: stories.

use outrank_controllers::Controllers;
use outrank_controllers::deployment::DeploymentController;
use outrank_controllers::replica_set::ReplicaSetController;
use outrank_controllers::virtual_cluster::PodLife;
use serde_json::json;

use crate::story::Story;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {team: shop}}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: 'nginx:1', env: [{name: A, value: b}]}]
";

fn story() -> Story {
    Story::of(Controllers::new(vec![
        Box::new(DeploymentController),
        Box::new(ReplicaSetController::new()),
    ]))
    .pods_take(2, 1)
}

/// Patches that give the Deployment another image, or environment.
fn image(image: &str) -> serde_json::Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// What happened, of that which is told of the Deployment.
fn scaling(story: &mut Story) -> String {
    let lines = story.happened();
    let lines = lines
        .lines()
        .filter(|line| line.contains("Deployment web: "));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_new_deployment_becomes_available() {
    let mut story = story();
    story.apply(WEB);
    assert_eq!(
        scaling(&mut story),
        "0s Deployment web: ScalingReplicaSet: Scaled up replica set web-1 from 0 to 4\n"
    );
    assert_eq!(
        story.condition("Deployment web", "Available"),
        "False MinimumReplicasUnavailable: Deployment does not have minimum availability."
    );
    assert_eq!(
        story.condition("Deployment web", "Progressing"),
        "True ReplicaSetUpdated: ReplicaSet \"web-1\" is progressing."
    );
    story.wait(3);
    assert_eq!(
        story.status("Deployment web"),
        json!({"observedGeneration": 1, "replicas": 4, "updatedReplicas": 4, "readyReplicas": 4,
            "availableReplicas": 4, "terminatingReplicas": 0,
            "conditions": story.status("Deployment web")["conditions"]})
    );
    assert_eq!(
        story.condition("Deployment web", "Progressing"),
        "True NewReplicaSetAvailable: ReplicaSet \"web-1\" has successfully progressed."
    );
    let set = story.only_replica_set();
    assert_eq!(set["metadata"]["annotations"]["team"], "shop");
    assert_eq!(
        set["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "1"
    );
    assert_eq!(
        set["spec"]["template"]["spec"]["containers"][0]["env"][0]["name"],
        "A"
    );
}

#[test]
fn a_rolling_update_goes_step_by_step() {
    let mut story = story();
    story.apply(WEB).wait(10);
    story.happened();
    story.change("Deployment web", image("nginx:2")).wait(60);
    assert_eq!(
        scaling(&mut story),
        "10s Deployment web: ScalingReplicaSet: Scaled up replica set web-2 from 0 to 1\n\
         10s Deployment web: ScalingReplicaSet: Scaled down replica set web-1 from 4 to 3\n\
         10s Deployment web: ScalingReplicaSet: Scaled up replica set web-2 from 1 to 2\n\
         12s Deployment web: ScalingReplicaSet: Scaled down replica set web-1 from 3 to 1\n\
         12s Deployment web: ScalingReplicaSet: Scaled up replica set web-2 from 2 to 4\n\
         14s Deployment web: ScalingReplicaSet: Scaled down replica set web-1 from 1 to 0\n"
    );
    let status = story.status("Deployment web");
    assert_eq!(
        (&status["updatedReplicas"], &status["replicas"]),
        (&json!(4), &json!(4))
    );
    let annotations = story.value("Deployment web")["metadata"]["annotations"].clone();
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "2");
}

#[test]
fn rolling_back_gives_the_old_replica_set_a_new_number() {
    let mut story = story();
    story.apply(WEB).wait(10);
    story.change("Deployment web", image("nginx:2")).wait(60);
    let env = json!([{"name": "c", "image": "nginx:1", "env": [{"name": "A", "value": "b"}]}]);
    let first = json!({"spec": {"template": {"spec": {"containers": env}}}});
    story.change("Deployment web", first).wait(60);
    let sets = story.values("ReplicaSet");
    assert_eq!(sets.len(), 2, "no third ReplicaSet");
    let first = sets
        .iter()
        .find(|it| it["spec"]["replicas"] == 4)
        .expect("one has all");
    let annotations = &first["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(
        annotations["deployment.kubernetes.io/revision-history"],
        "1"
    );
}

#[test]
fn recreate_lets_all_old_pods_go_before_new_ones_come() {
    let mut story = story();
    story.apply(WEB).wait(10);
    let strategy = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}});
    story.change("Deployment web", strategy);
    story.change("Deployment web", image("nginx:2"));
    assert!(
        story.pods().iter().all(|pod| pod.ends_with("going")),
        "{:?}",
        story.pods()
    );
    story.wait(1);
    assert_eq!(story.pods().len(), 4);
    assert!(story.pods().iter().all(|pod| pod.ends_with("Pending")));
}

#[test]
fn a_paused_deployment_scales_in_proportion_and_changes_no_template() {
    let mut story = story();
    story.apply(WEB).wait(10);
    story.refuse_pods("full");
    story.change("Deployment web", image("nginx:2"));
    story.change("Deployment web", json!({"spec": {"paused": true}}));
    assert_eq!(
        story.condition("Deployment web", "Progressing"),
        "Unknown DeploymentPaused: Deployment is paused"
    );
    story.happened();
    // 3 of the old and 2 of the new, 5 in all, become 10 and the surge.
    story.scale("Deployment web", 10);
    assert_eq!(
        scaling(&mut story),
        "10s Deployment web: ScalingReplicaSet: Scaled up replica set web-1 from 3 to 7\n\
         10s Deployment web: ScalingReplicaSet: Scaled up replica set web-2 from 2 to 4\n"
    );
    story.change("Deployment web", image("nginx:3")).wait(10);
    assert_eq!(story.values("ReplicaSet").len(), 2);
}

#[test]
fn a_rollout_that_does_not_move_is_late() {
    let mut story = story();
    story.apply(WEB).wait(10);
    story.refuse_pods("no quota");
    story.change(
        "Deployment web",
        json!({"spec": {"progressDeadlineSeconds": 30}}),
    );
    story.change("Deployment web", image("nginx:2")).wait(20);
    assert!(
        story
            .condition("Deployment web", "Progressing")
            .starts_with("True ReplicaSetUpdated")
    );
    assert_eq!(
        story.condition("Deployment web", "ReplicaFailure"),
        "True FailedCreate: no quota"
    );
    story.wait(20);
    assert_eq!(
        story.condition("Deployment web", "Progressing"),
        "False ProgressDeadlineExceeded: ReplicaSet \"web-2\" has timed out progressing."
    );
}

#[test]
fn history_is_cut() {
    let mut story = story();
    story.apply(WEB);
    story.change(
        "Deployment web",
        json!({"spec": {"revisionHistoryLimit": 1}}),
    );
    for version in 2..6 {
        story
            .change("Deployment web", image(&format!("nginx:{version}")))
            .wait(60);
    }
    assert_eq!(story.values("ReplicaSet").len(), 2);
}

#[test]
fn a_name_that_is_taken_leads_to_another() {
    let mut first = story();
    first.apply(WEB);
    let taken = first.only_replica_set()["metadata"]["name"].clone();
    let mut story = story();
    let taken = taken.as_str().expect("a name");
    story.apply(&format!(
        "{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: {taken}}}, spec: {{replicas: 0,
           selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}},
           spec: {{containers: [{{name: c, image: i}}]}}}}}}}}"
    ));
    story.apply(WEB).wait(5);
    assert_eq!(story.status("Deployment web")["collisionCount"], 1);
    assert_eq!(story.status("Deployment web")["availableReplicas"], 4);
}

#[test]
fn a_rollout_that_is_stuck_keeps_its_history() {
    let mut story = story();
    story
        .apply(&WEB.replacen("spec:\n", "spec:\n  revisionHistoryLimit: 0\n", 1))
        .wait(10);
    story.cluster.pod_life = PodLife::Pending;
    story.change("Deployment web", image("nginx:2")).wait(10);
    story.change("Deployment web", image("nginx:3")).wait(10);
    // The second has no pods any more, but the third is not there yet.
    assert_eq!(story.values("ReplicaSet").len(), 3);
    story.scale("Deployment web", 6).wait(10);
    assert_eq!(story.values("ReplicaSet").len(), 3);
    for pod in story.pod_names() {
        story.pod_becomes(&pod, "Running");
    }
    story.cluster.pod_life = PodLife::AtOnce;
    story.wait(100);
    for pod in story.pod_names() {
        story.pod_becomes(&pod, "Running");
    }
    story.wait(100);
    assert_eq!(story.values("ReplicaSet").len(), 1);
}

/// Sets what the ReplicaSet of a revision says of its pods: all are available.
fn set_available(story: &mut Story, revision: &str, pods: i32) {
    let sets = story.values("ReplicaSet").into_iter();
    let name = sets
        .filter(|it| it["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision)
        .find_map(|it| it["metadata"]["name"].as_str().map(str::to_owned));
    let counts = json!({"replicas": pods, "readyReplicas": pods, "availableReplicas": pods,
        "observedGeneration": 1});
    let set = format!("ReplicaSet {}", name.expect("it is there"));
    story.change(&set, json!({"status": counts}));
}

#[test]
fn pods_that_are_to_go_do_not_count_as_available() {
    let mut story = Story::of(Controllers::new(vec![Box::new(DeploymentController)]));
    let settings = WEB.replace("replicas: 4", "replicas: 10").replace(
        "maxSurge: 1, maxUnavailable: 1",
        "maxSurge: 3, maxUnavailable: 2",
    );
    story.apply(&settings);
    set_available(&mut story, "1", 10);
    story.change("Deployment web", image("nginx:2"));
    set_available(&mut story, "2", 3);
    story.happened();
    // The first has 8 by now, and says that 10 are available: nothing can be told from that.
    set_available(&mut story, "2", 5);
    assert_eq!(scaling(&mut story), "");
    set_available(&mut story, "1", 8);
    assert_eq!(
        scaling(&mut story),
        "0s Deployment web: ScalingReplicaSet: Scaled down replica set web-1 from 8 to 3\n\
         0s Deployment web: ScalingReplicaSet: Scaled up replica set web-2 from 5 to 10\n"
    );
}

#[test]
fn a_replica_set_that_was_just_made_has_no_pods_that_end() {
    let mut story = Story::of(Controllers::new(vec![Box::new(DeploymentController)]));
    story.apply(WEB);
    assert_eq!(story.status("Deployment web")["terminatingReplicas"], 0);
}

#[test]
fn an_annotation_asks_for_an_earlier_revision() {
    let mut story = story();
    story.apply(WEB).wait(10);
    story.change("Deployment web", image("nginx:2")).wait(60);
    let rollback = "deprecated.deployment.rollback.to";
    let ask =
        |revision: &str| json!({"metadata": {"annotations": {rollback: revision, "team": "x"}}});
    story.happened();
    story.change("Deployment web", ask("7"));
    let told = "DeploymentRollbackRevisionNotFound: Unable to find the revision to rollback to.\n";
    assert!(scaling(&mut story).contains(told));
    story.change("Deployment web", ask("2"));
    let told = "DeploymentRollbackTemplateUnchanged: The rollback revision contains the same \
        template as current deployment \"web\"\n";
    assert!(scaling(&mut story).contains(told));
    // 0 is the last one before the current.
    story.change("Deployment web", ask("0")).wait(60);
    let told = "DeploymentRollback: Rolled back deployment \"web\" to revision 1\n";
    let happened = scaling(&mut story);
    assert!(happened.contains(told), "{happened}");
    let deployment = story.value("Deployment web");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["env"][0]["name"]),
        (&json!("nginx:1"), &json!("A"))
    );
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels, &json!({"app": "web"}));
    let annotations = &deployment["metadata"]["annotations"];
    assert_eq!(
        (&annotations[rollback], &annotations["team"]),
        (&json!(null), &json!("shop"))
    );
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
}

#[test]
fn the_list_of_earlier_revisions_does_not_grow_for_ever() {
    let mut story = story();
    story.apply(WEB).wait(10);
    story.change("Deployment web", image("nginx:2")).wait(60);
    let first = story
        .values("ReplicaSet")
        .into_iter()
        .find(|it| it["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1");
    let name = first.expect("the first")["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let set = format!("ReplicaSet {name}");
    let history = "deployment.kubernetes.io/revision-history";
    let long = vec!["1234"; 400].join(",");
    story.change(&set, json!({"metadata": {"annotations": {history: long}}}));
    let env = json!([{"name": "c", "image": "nginx:1", "env": [{"name": "A", "value": "b"}]}]);
    let first = json!({"spec": {"template": {"spec": {"containers": env}}}});
    story.change("Deployment web", first).wait(60);
    let kept = story.value(&set)["metadata"]["annotations"][history].clone();
    assert_eq!(kept, format!("{},1", vec!["1234"; 399].join(",")));
}
