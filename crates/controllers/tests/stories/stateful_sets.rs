//! StatefulSets: stories.

use outrank_controllers::Controllers;
use outrank_controllers::stateful_set::StatefulSetController;
use serde_json::{Value, json};

use crate::story::Story;

const DB: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: c, image: 'db:1', args: [-x]}]
      volumes: [{name: tmp, emptyDir: {}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

fn story() -> Story {
    Story::of(Controllers::new(vec![Box::new(
        StatefulSetController::default(),
    )]))
    .pods_take(2, 1)
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// Images by pod.
fn images(story: &Story) -> Vec<String> {
    let pods = story.values("Pod").into_iter();
    let image = |pod: Value| {
        pod["spec"]["containers"][0]["image"]
            .as_str()
            .map(str::to_owned)
    };
    pods.filter_map(image).collect()
}

#[test]
fn pods_come_one_after_the_other_each_with_its_claim() {
    let mut story = story();
    story.apply(DB).wait(10);
    let told = story.happened();
    let told = told.split_once('\n').expect("first a revision").1;
    assert_eq!(
        told,
        "0s creates PersistentVolumeClaim data-db-0\n\
         0s StatefulSet db: SuccessfulCreate: Create Claim data-db-0 Pod db-0 in StatefulSet db success\n\
         0s creates Pod db-0\n\
         0s StatefulSet db: SuccessfulCreate: Create Pod db-0 in StatefulSet db successful\n\
         2s creates PersistentVolumeClaim data-db-1\n\
         2s StatefulSet db: SuccessfulCreate: Create Claim data-db-1 Pod db-1 in StatefulSet db success\n\
         2s creates Pod db-1\n\
         2s StatefulSet db: SuccessfulCreate: Create Pod db-1 in StatefulSet db successful\n\
         4s creates PersistentVolumeClaim data-db-2\n\
         4s StatefulSet db: SuccessfulCreate: Create Claim data-db-2 Pod db-2 in StatefulSet db success\n\
         4s creates Pod db-2\n\
         4s StatefulSet db: SuccessfulCreate: Create Pod db-2 in StatefulSet db successful\n"
    );
    let pod = story.value("Pod db-1");
    assert_eq!(pod["spec"]["hostname"], "db-1");
    assert_eq!(pod["spec"]["subdomain"], "db");
    assert_eq!(pod["spec"]["containers"][0]["args"], json!(["-x"]));
    assert_eq!(
        pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "data-db-1"
    );
    assert_eq!(
        pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"],
        "1"
    );
    let status = story.status("StatefulSet db");
    assert_eq!(status["availableReplicas"], 3);
    assert_eq!(status["currentRevision"], status["updateRevision"]);
}

#[test]
fn scaling_down_takes_the_highest_first_and_keeps_claims() {
    let mut story = story();
    story.apply(DB).wait(10);
    story.scale("StatefulSet db", 1);
    assert_eq!(
        story.pods(),
        [
            "db-0 Running ready",
            "db-1 Running ready",
            "db-2 Running ready going"
        ]
    );
    story.wait(5);
    assert_eq!(story.pods(), ["db-0 Running ready"]);
    assert_eq!(story.values("PersistentVolumeClaim").len(), 3);
}

#[test]
fn an_update_goes_from_the_highest_down_to_the_partition() {
    let mut story = story();
    story.apply(DB).wait(10);
    let partition = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 1}}}});
    story.change("StatefulSet db", partition);
    story.change("StatefulSet db", image("db:2")).wait(1);
    // The highest is gone and comes again.
    assert_eq!(
        story.pods(),
        ["db-0 Running ready", "db-1 Running ready", "db-2 Pending"]
    );
    story.wait(20);
    assert_eq!(images(&story), ["db:1", "db:2", "db:2"]);
    // A pod below the partition comes back as it was, with all that was not typed.
    story.delete("Pod db-0").wait(10);
    assert_eq!(images(&story), ["db:1", "db:2", "db:2"]);
    assert_eq!(
        story.value("Pod db-0")["spec"]["containers"][0]["args"],
        json!(["-x"])
    );
    let partition = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
    story.change("StatefulSet db", partition).wait(20);
    assert_eq!(images(&story), ["db:2", "db:2", "db:2"]);
    let status = story.status("StatefulSet db");
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    assert_eq!(status["currentReplicas"], 3);
}

/// Two may be missing at a time.
fn two_at_a_time() -> Value {
    json!({"spec": {"podManagementPolicy": "Parallel",
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}})
}

#[test]
fn one_is_replaced_at_a_time_even_if_several_may_be_missing() {
    let mut story = story();
    story.apply(DB).wait(10);
    story.change("StatefulSet db", two_at_a_time());
    story.change("StatefulSet db", image("db:2"));
    let going = |it: &&String| it.ends_with("going");
    assert_eq!(story.pods().iter().filter(going).count(), 1);
    story.wait(30);
    assert_eq!(images(&story), ["db:2", "db:2", "db:2"]);
}

#[test]
fn several_are_replaced_at_a_time_if_that_is_switched_on() {
    let controller = StatefulSetController::default().with_max_unavailable();
    let mut story = Story::of(Controllers::new(vec![Box::new(controller)])).pods_take(2, 1);
    story.apply(DB).wait(10);
    story.change("StatefulSet db", two_at_a_time());
    story.change("StatefulSet db", image("db:2"));
    assert_eq!(
        story.pods(),
        [
            "db-0 Running ready",
            "db-1 Running ready going",
            "db-2 Running ready going"
        ]
    );
    story.wait(20);
    assert_eq!(images(&story), ["db:2", "db:2", "db:2"]);
}

#[test]
fn on_delete_waits_for_a_person() {
    let mut story = story();
    story.apply(DB).wait(10);
    let strategy = json!({"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}});
    story.change("StatefulSet db", strategy);
    story.change("StatefulSet db", image("db:2")).wait(20);
    assert_eq!(images(&story), ["db:1", "db:1", "db:1"]);
    story.delete("Pod db-1").wait(10);
    assert_eq!(images(&story), ["db:1", "db:2", "db:1"]);
}

#[test]
fn a_pod_that_failed_comes_again_under_its_name() {
    let mut story = story();
    story.apply(DB).wait(10);
    let old = story.value("Pod db-1")["metadata"]["uid"].clone();
    story.pod_becomes("db-1", "Failed").wait(5);
    assert_ne!(story.value("Pod db-1")["metadata"]["uid"], old);
    assert_eq!(story.pods().len(), 3);
}

#[test]
fn claims_may_go_with_the_set_or_with_surplus_pods() {
    let mut story = story();
    story.apply(DB).wait(10);
    let owner = |story: &Story, claim: &str| {
        let claim = story.value(&format!("PersistentVolumeClaim {claim}"));
        claim["metadata"]["ownerReferences"][0]["kind"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(owner(&story, "data-db-0"), None);
    let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    let policy = json!({"spec": {"persistentVolumeClaimRetentionPolicy": policy}});
    story.change("StatefulSet db", policy);
    assert_eq!(owner(&story, "data-db-2").as_deref(), Some("StatefulSet"));
    story.scale("StatefulSet db", 2);
    assert_eq!(owner(&story, "data-db-2").as_deref(), Some("Pod"));
    assert_eq!(owner(&story, "data-db-1").as_deref(), Some("StatefulSet"));
}

#[test]
fn numbers_may_start_elsewhere_and_old_revisions_are_dropped() {
    let mut story = story();
    story.apply(&DB.replace(
        "serviceName",
        "ordinals: {start: 5}\n  revisionHistoryLimit: 1\n  serviceName",
    ));
    story.wait(10);
    assert_eq!(story.pod_names(), ["db-5", "db-6", "db-7"]);
    for version in 2..6 {
        story
            .change("StatefulSet db", image(&format!("db:{version}")))
            .wait(30);
    }
    assert_eq!(images(&story), ["db:5", "db:5", "db:5"]);
    assert_eq!(story.values("ControllerRevision").len(), 2);
}

#[test]
fn a_pod_whose_name_is_not_the_sets_is_let_go() {
    let mut story = story();
    story.apply(DB).wait(10);
    let set = &story.value("StatefulSet db")["metadata"];
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db",
        "uid": set["uid"], "controller": true}]);
    story.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: stranger, labels: {app: db}},
          spec: {containers: [{name: c, image: i}]}}",
    );
    story.change(
        "Pod stranger",
        json!({"metadata": {"ownerReferences": owner}}),
    );
    let owners = story.value("Pod stranger")["metadata"]["ownerReferences"].clone();
    assert_eq!(owners, json!([]));
    assert_eq!(story.status("StatefulSet db")["replicas"], 3);
}

#[test]
fn broken_pods_are_replaced_by_those_of_a_better_template() {
    let mut story = story();
    story.apply(&DB.replacen("spec:\n", "spec:\n  podManagementPolicy: Parallel\n", 1));
    story.wait(10);
    for pod in ["db-0", "db-1", "db-2"] {
        let unready = json!([{"type": "Ready", "status": "False"}]);
        story.change(
            &format!("Pod {pod}"),
            json!({"status": {"conditions": unready}}),
        );
    }
    story.change("StatefulSet db", image("db:2")).wait(30);
    assert_eq!(images(&story), ["db:2", "db:2", "db:2"]);
}

#[test]
fn a_pod_waits_for_its_old_claim_to_go() {
    let mut story = story();
    story.apply(DB).wait(10);
    let held = json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}});
    story.change("PersistentVolumeClaim data-db-2", held);
    story.delete("PersistentVolumeClaim data-db-2");
    story.happened();
    story.delete("Pod db-2").wait(10);
    assert_eq!(story.pod_names(), ["db-0", "db-1"]);
    let told = "StatefulSet db: FailedCreate: Create Pod db-2 in StatefulSet db failed error: pvc \
        data-db-2 is being deleted\n";
    assert!(story.happened().contains(told));
    let free = json!({"metadata": {"finalizers": []}});
    story
        .change("PersistentVolumeClaim data-db-2", free)
        .wait(10);
    assert_eq!(story.pod_names(), ["db-0", "db-1", "db-2"]);
}

#[test]
fn a_claim_that_stays_may_belong_to_a_pod_that_has_gone() {
    let mut story = story();
    story.apply(DB).wait(10);
    let owner = json!([{"apiVersion": "v1", "kind": "Pod", "name": "db-2", "uid": "another"}]);
    let owned = json!({"metadata": {"ownerReferences": owner}});
    story.change("PersistentVolumeClaim data-db-2", owned);
    story.delete("Pod db-2").wait(10);
    assert_eq!(story.pod_names(), ["db-0", "db-1", "db-2"]);
}

#[test]
fn a_pod_gets_the_label_with_its_name_back() {
    let mut story = story();
    story.apply(DB).wait(10);
    story.happened();
    let without = |label: &str| json!({"metadata": {"labels": {label: null}}});
    let number = "apps.kubernetes.io/pod-index";
    story.change("Pod db-1", without(number));
    assert_eq!(story.happened(), "", "a number is not missed");
    story.change("Pod db-1", without("statefulset.kubernetes.io/pod-name"));
    let told = "StatefulSet db: SuccessfulUpdate: Update Pod db-1 in StatefulSet db successful\n";
    assert!(story.happened().contains(told));
    assert_eq!(story.value("Pod db-1")["metadata"]["labels"][number], "1");
}

#[test]
fn a_claim_whose_owner_somebody_takes_gets_it_back() {
    let mut story = story();
    let policy = "spec:\n  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}\n";
    story.apply(&DB.replacen("spec:\n", policy, 1)).wait(10);
    let owner = |story: &Story| {
        let claim = story.value("PersistentVolumeClaim data-db-1");
        claim["metadata"]["ownerReferences"][0]["kind"].clone()
    };
    assert_eq!(owner(&story), "StatefulSet");
    let nobody = json!({"metadata": {"ownerReferences": []}});
    story.change("PersistentVolumeClaim data-db-1", nobody);
    // At the next look at the set, whatever it is for.
    story.change(
        "StatefulSet db",
        json!({"metadata": {"labels": {"a": "b"}}}),
    );
    assert_eq!(owner(&story), "StatefulSet");
}

#[test]
fn a_claim_that_a_waiting_pod_lacks_is_made_again() {
    for policy in ["OrderedReady", "Parallel"] {
        let mut story = story().pods_wait();
        let policy = format!("spec:\n  podManagementPolicy: {policy}\n");
        story.apply(&DB.replacen("spec:\n", &policy, 1));
        let claim = "PersistentVolumeClaim data-db-0";
        let first = story.value(claim)["metadata"]["uid"].clone();
        story.delete(claim);
        assert!(story.is_there(claim), "{policy}");
        assert_ne!(story.value(claim)["metadata"]["uid"], first, "{policy}");
    }
}
