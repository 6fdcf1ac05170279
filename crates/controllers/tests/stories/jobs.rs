//! Jobs and CronJobs: stories.

use outrank_controllers::{Controllers, workload_controllers};
use serde_json::{Value, json};

use crate::story::{Story, key};

const SUM: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: sum}
spec:
  completions: 3
  parallelism: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: i, args: [-x]}]
";

fn story() -> Story {
    Story::of(Controllers::new(workload_controllers())).pods_take(1, 1)
}

/// `SUM` with other settings in its spec.
fn job(settings: &str) -> String {
    SUM.replace("  completions: 3\n  parallelism: 2\n", settings)
}

/// Ends the first pod that runs.
fn end_one(story: &mut Story, phase: &str) {
    let pods = story.values("Pod");
    let running = pods.iter().find(|pod| pod["status"]["phase"] == "Running");
    let name = running.expect("one runs")["metadata"]["name"].clone();
    story.pod_becomes(name.as_str().expect("a name"), phase);
}

/// Ends the pod with a number, with an exit code.
fn end_index(story: &mut Story, index: &str, phase: &str, exit_code: i64) {
    let pods = story.values("Pod");
    let index_label = "batch.kubernetes.io/job-completion-index";
    let pod = pods.iter().find(|pod| {
        pod["metadata"]["labels"][index_label] == index && pod["status"]["phase"] == "Running"
    });
    let name = pod.expect("it runs")["metadata"]["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let terminated = json!({"exitCode": exit_code});
    let containers = json!([{"name": "c", "state": {"terminated": terminated}}]);
    let status = json!({"status": {"containerStatuses": containers}});
    story.cluster.patch(&key(&format!("Pod {name}")), status);
    story.pod_becomes(&name, phase);
}

fn counts(story: &Story) -> (i64, i64, i64) {
    let status = story.status("Job sum");
    let count = |name: &str| status[name].as_i64().unwrap_or(0);
    (count("active"), count("succeeded"), count("failed"))
}

#[test]
fn a_job_runs_until_enough_have_succeeded() {
    let mut story = story();
    story.apply(SUM).wait(1);
    assert_eq!(story.pods(), ["sum-* Running ready", "sum-* Running ready"]);
    let pod = story.values("Pod").remove(0);
    assert_eq!(
        pod["metadata"]["finalizers"],
        json!(["batch.kubernetes.io/job-tracking"])
    );
    assert_eq!(pod["spec"]["containers"][0]["args"], json!(["-x"]));
    assert_eq!(pod["metadata"]["labels"]["job-name"], "sum");
    assert_eq!(counts(&story), (2, 0, 0));
    end_one(&mut story, "Succeeded");
    story.wait(1);
    assert_eq!(counts(&story), (2, 1, 0));
    end_one(&mut story, "Succeeded");
    assert_eq!(counts(&story), (1, 2, 0));
    end_one(&mut story, "Succeeded");
    assert_eq!(counts(&story), (0, 3, 0));
    assert_eq!(
        story.condition("Job sum", "Complete"),
        "True CompletionsReached: Reached expected number of succeeded pods"
    );
    assert_eq!(
        story.status("Job sum")["completionTime"],
        "2026-01-01T00:00:02Z"
    );
    assert!(
        story
            .happened()
            .contains("Job sum: Completed: Job completed\n")
    );
    let finalizers = |pod: &Value| pod["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
    assert!(story.values("Pod").iter().all(|pod| finalizers(pod) == 0));
}

#[test]
fn failures_are_tried_again_ever_later_up_to_a_limit() {
    let mut story = story();
    story.apply(&job("  backoffLimit: 2\n")).wait(1);
    end_one(&mut story, "Failed");
    assert_eq!(counts(&story), (0, 0, 1));
    story.wait(9);
    assert_eq!(counts(&story).0, 0, "it waits for 10 s");
    story.wait(2);
    assert_eq!(counts(&story), (1, 0, 1));
    end_one(&mut story, "Failed");
    story.wait(19);
    assert_eq!(counts(&story).0, 0, "it waits for 20 s");
    story.wait(2);
    end_one(&mut story, "Failed");
    assert_eq!(counts(&story), (0, 0, 3));
    assert_eq!(
        story.condition("Job sum", "Failed"),
        "True BackoffLimitExceeded: Job has reached the specified backoff limit"
    );
    assert!(
        story
            .happened()
            .contains("Job sum: BackoffLimitExceeded: Job has reached")
    );
}

#[test]
fn a_job_that_fails_takes_its_other_pods_along() {
    let mut story = story();
    story
        .apply(&job(
            "  backoffLimit: 0\n  parallelism: 3\n  completions: 3\n",
        ))
        .wait(1);
    end_one(&mut story, "Failed");
    assert!(
        story
            .condition("Job sum", "FailureTarget")
            .starts_with("True BackoffLimitExceeded")
    );
    assert_eq!(story.condition("Job sum", "Failed"), "", "pods still end");
    story.wait(2);
    assert_eq!(counts(&story), (0, 0, 3));
    assert!(story.condition("Job sum", "Failed").starts_with("True"));
}

#[test]
fn a_deadline_ends_a_job() {
    let mut story = story();
    story.apply(&job("  activeDeadlineSeconds: 30\n")).wait(29);
    assert_eq!(counts(&story), (1, 0, 0));
    story.wait(3);
    assert_eq!(
        story.condition("Job sum", "Failed"),
        "True DeadlineExceeded: Job was active longer than specified deadline"
    );
}

#[test]
fn indexed_pods_have_numbers() {
    let mut story = story();
    story
        .apply(&job(
            "  completions: 4\n  parallelism: 4\n  completionMode: Indexed\n",
        ))
        .wait(1);
    let names = story.pods().join(", ");
    assert!(
        names.starts_with("sum-0-* Running ready, sum-1-* Running ready"),
        "{names}"
    );
    let pod = &story.values("Pod")[3];
    assert_eq!(pod["spec"]["hostname"], "sum-3");
    assert_eq!(
        pod["spec"]["containers"][0]["env"][0]["name"],
        "JOB_COMPLETION_INDEX"
    );
    for index in ["1", "2", "3"] {
        end_index(&mut story, index, "Succeeded", 0);
    }
    assert_eq!(story.status("Job sum")["completedIndexes"], "1-3");
    end_index(&mut story, "0", "Succeeded", 0);
    assert_eq!(story.status("Job sum")["completedIndexes"], "0-3");
    assert!(story.condition("Job sum", "Complete").starts_with("True"));
}

#[test]
fn each_index_may_fail_for_itself() {
    let mut story = story();
    let settings = "  completions: 2\n  parallelism: 2\n  completionMode: Indexed\n  \
        backoffLimitPerIndex: 1\n";
    story.apply(&job(settings)).wait(1);
    end_index(&mut story, "1", "Failed", 1);
    story.wait(12);
    let count = "batch.kubernetes.io/job-index-failure-count";
    let counts_of: Vec<Value> = story
        .values("Pod")
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Running")
        .map(|pod| pod["metadata"]["annotations"][count].clone())
        .collect();
    assert_eq!(counts_of, [json!("0"), json!("1")]);
    end_index(&mut story, "1", "Failed", 1);
    assert_eq!(story.status("Job sum")["failedIndexes"], "1");
    assert_eq!(
        story.condition("Job sum", "Failed"),
        "",
        "the other may still succeed"
    );
    end_index(&mut story, "0", "Succeeded", 0);
    story.wait(1);
    assert_eq!(
        story.condition("Job sum", "Failed"),
        "True FailedIndexes: Job has failed indexes"
    );
}

#[test]
fn a_policy_says_what_a_failure_means() {
    let policy = "  completions: 2\n  parallelism: 2\n  backoffLimit: 0\n  \
        completionMode: Indexed\n  podFailurePolicy:\n    rules:\n    \
        - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}\n    \
        - {action: FailJob, onExitCodes: {operator: In, values: [42]}}\n";
    let mut story = story();
    story.apply(&job(policy)).wait(1);
    let pod = story.pod_names()[0].clone();
    let disrupted = json!([{"type": "DisruptionTarget", "status": "True"}]);
    let pod_key = key(&format!("Pod {pod}"));
    story
        .cluster
        .patch(&pod_key, json!({"status": {"conditions": disrupted}}));
    story.pod_becomes(&pod, "Failed").wait(12);
    assert_eq!(counts(&story), (2, 0, 0), "it does not count");
    end_index(&mut story, "1", "Failed", 42);
    story.wait(2);
    let failed = story.condition("Job sum", "Failed");
    let expected = "True PodFailurePolicy: Container c for pod default/sum-1-";
    assert!(failed.starts_with(expected), "{failed}");
    assert!(
        failed.ends_with("failed with exit code 42 matching FailJob rule at index 1"),
        "{failed}"
    );
}

#[test]
fn some_successes_may_be_enough() {
    let policy = "  completions: 3\n  parallelism: 3\n  completionMode: Indexed\n  \
        successPolicy: {rules: [{succeededIndexes: '0,2', succeededCount: 1}]}\n";
    let mut story = story();
    story.apply(&job(policy)).wait(1);
    end_index(&mut story, "1", "Succeeded", 0);
    assert_eq!(story.condition("Job sum", "SuccessCriteriaMet"), "");
    end_index(&mut story, "2", "Succeeded", 0);
    story.wait(2);
    assert_eq!(
        story.condition("Job sum", "Complete"),
        "True SuccessPolicy: Matched rules at index 0"
    );
    assert_eq!(counts(&story), (0, 2, 0));
}

#[test]
fn a_suspended_job_has_no_pods() {
    let mut story = story();
    story.apply(SUM).wait(1);
    story
        .change("Job sum", json!({"spec": {"suspend": true}}))
        .wait(2);
    assert!(story.pods().is_empty());
    assert_eq!(
        story.condition("Job sum", "Suspended"),
        "True JobSuspended: Job suspended"
    );
    assert_eq!(counts(&story), (0, 0, 0));
    assert_eq!(story.status("Job sum")["startTime"], json!(null));
    story
        .change("Job sum", json!({"spec": {"suspend": false}}))
        .wait(2);
    assert_eq!(counts(&story), (2, 0, 0));
    assert_eq!(
        story.condition("Job sum", "Suspended"),
        "False JobResumed: Job resumed"
    );
    assert_eq!(story.status("Job sum")["startTime"], "2026-01-01T00:00:03Z");
}

#[test]
fn a_pod_that_somebody_deletes_counts_as_failed_and_is_replaced() {
    let mut story = story();
    story.apply(SUM).wait(1);
    let pod = format!("Pod {}", story.pod_names()[0]);
    story.delete(&pod).wait(15);
    assert_eq!(counts(&story), (2, 0, 1));
    // With `Failed`, another is made only when the first has ended.
    let mut story = crate::jobs::story().pods_take(1, 20);
    story
        .apply(&job("  podReplacementPolicy: Failed\n"))
        .wait(1);
    let pod = format!("Pod {}", story.pod_names()[0]);
    story.delete(&pod).wait(15);
    assert_eq!(counts(&story).0, 0);
    assert_eq!(story.status("Job sum")["terminating"], 1);
    story.wait(30);
    assert_eq!(counts(&story).0, 1);
}

#[test]
fn ended_jobs_go_after_a_time_and_pods_of_lost_jobs_are_let_go() {
    let mut story = story();
    story.apply(&job("  ttlSecondsAfterFinished: 60\n")).wait(1);
    end_one(&mut story, "Succeeded");
    story.wait(58);
    assert_ne!(story.value("Job sum"), Value::Null);
    story.wait(3);
    let going = story.value("Job sum")["metadata"]["finalizers"].clone();
    assert_eq!(
        going,
        json!(["foregroundDeletion"]),
        "the garbage collector does the rest"
    );

    let mut story = crate::jobs::story();
    story.apply(SUM).wait(1);
    story.delete("Job sum");
    let pods = story.values("Pod");
    assert!(
        pods.iter()
            .all(|pod| pod["metadata"]["finalizers"] == json!([])),
        "{pods:?}"
    );
}

/// Takes all labels and owners of a pod away.
fn set_free(story: &mut Story, pod: &str, owners: Value) {
    let pod = format!("Pod {pod}");
    let labels = story.value(&pod)["metadata"]["labels"].clone();
    let labels = labels.as_object().expect("labels").keys();
    let none: serde_json::Map<String, Value> =
        labels.map(|name| (name.clone(), Value::Null)).collect();
    let metadata = json!({"labels": none, "ownerReferences": owners});
    story.change(&pod, json!({"metadata": metadata}));
}

#[test]
fn pods_that_no_job_counts_are_let_go() {
    let mut story = story();
    story.apply(SUM).wait(1);
    let pods = story.pod_names();
    story.happened();
    // One that is not the job's any more, and one that the job releases itself.
    set_free(&mut story, &pods[0], json!([]));
    let owners = story.value(&format!("Pod {}", pods[1]))["metadata"]["ownerReferences"].clone();
    set_free(&mut story, &pods[1], owners);
    let told = story.happened();
    assert_eq!(told.matches("patches Pod").count(), 2, "{told}");
    for pod in &pods {
        let metadata = story.value(&format!("Pod {pod}"))["metadata"].clone();
        assert_eq!(metadata["finalizers"], json!([]), "{metadata}");
    }
}

#[test]
fn with_a_policy_of_failures_a_pod_that_is_going_has_not_failed_yet() {
    let policy = "  backoffLimit: 5\n  podReplacementPolicy: TerminatingOrFailed\n  \
        podFailurePolicy: {rules: [{action: Count, onExitCodes: {operator: In, values: [42]}}]}\n";
    let mut story = story().pods_take(1, 20);
    story.apply(&job(policy)).wait(1);
    let pod = format!("Pod {}", story.pod_names()[0]);
    story.delete(&pod).wait(15);
    assert_eq!(counts(&story), (0, 0, 0));
    story.wait(30);
    assert_eq!(counts(&story), (1, 0, 1));
}

#[test]
fn of_several_conditions_the_first_of_the_pod_is_told() {
    let policy = "  podFailurePolicy:\n    rules:\n    - action: FailJob\n      \
        onPodConditions: [{type: A, status: 'True'}, {type: B, status: 'True'}]\n";
    let mut story = story();
    story.apply(&job(policy)).wait(1);
    let pod = story.pod_names()[0].clone();
    let conditions = json!([{"type": "B", "status": "True"}, {"type": "A", "status": "True"}]);
    let status = json!({"status": {"conditions": conditions}});
    story.cluster.patch(&key(&format!("Pod {pod}")), status);
    story.pod_becomes(&pod, "Failed").wait(2);
    assert_eq!(
        story.condition("Job sum", "Failed"),
        format!(
            "True PodFailurePolicy: Pod default/{pod} has condition B matching FailJob rule at index 0"
        )
    );
}

#[test]
fn the_wait_after_a_failure_begins_when_the_last_container_has_ended() {
    let mut story = story();
    story.apply(&job("")).wait(1);
    let pod = story.pod_names()[0].clone();
    // One container does not say when it ended; the pod is not ready since now.
    let ended = |time: Value| json!({"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": time}}});
    let containers = json!([ended(json!("2025-12-31T23:00:00Z")), ended(Value::Null)]);
    let status = json!({"status": {"containerStatuses": containers}});
    story.cluster.patch(&key(&format!("Pod {pod}")), status);
    story.pod_becomes(&pod, "Failed").wait(8);
    assert_eq!(counts(&story), (0, 0, 1), "it waits for 10 s");
    story.wait(4);
    assert_eq!(counts(&story), (1, 0, 1));
}

const NIGHTLY: &str = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '*/10 * * * *'
  jobTemplate:
    metadata: {labels: {app: nightly}}
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: i, args: [-x]}]
";

fn names(story: &Story, kind: &str) -> Vec<String> {
    let values = story.values(kind).into_iter();
    let name = |value: Value| value["metadata"]["name"].as_str().map(str::to_owned);
    values.filter_map(name).collect()
}

#[test]
fn a_cron_job_makes_a_job_each_time() {
    let mut story = story();
    story.apply(NIGHTLY).wait(599);
    assert!(names(&story, "Job").is_empty());
    story.wait(2);
    // The name ends with the minute since 1970.
    assert_eq!(names(&story, "Job"), ["nightly-29453770"]);
    let job = story.values("Job").remove(0);
    assert_eq!(job["metadata"]["labels"]["app"], "nightly");
    let annotations = &job["metadata"]["annotations"];
    assert_eq!(
        annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-01-01T00:10:00Z"
    );
    assert_eq!(
        story.values("Pod")[0]["spec"]["containers"][0]["args"],
        json!(["-x"])
    );
    let status = story.status("CronJob nightly");
    assert_eq!(status["active"][0]["name"], "nightly-29453770");
    assert_eq!(status["lastScheduleTime"], "2026-01-01T00:10:00Z");
    story.wait(1);
    end_one(&mut story, "Succeeded");
    let status = story.status("CronJob nightly");
    assert_eq!(status["active"], json!(null));
    assert_eq!(status["lastSuccessfulTime"], "2026-01-01T00:10:02Z");
    let told = "SawCompletedJob: Saw completed job: nightly-29453770, condition: Complete";
    assert!(story.happened().contains(told));
}

#[test]
fn old_runs_are_deleted() {
    let mut story = story();
    story.apply(NIGHTLY);
    for _ in 0..6 {
        story.wait(602);
        end_one(&mut story, "Succeeded");
    }
    assert_eq!(names(&story, "Job").len(), 3);
}

#[test]
fn runs_may_overlap_wait_or_replace_each_other() {
    let with = |policy: &str| {
        let mut story = story();
        let settings = format!("spec:\n  concurrencyPolicy: {policy}\n  schedule");
        story
            .apply(&NIGHTLY.replacen("spec:\n  schedule", &settings, 1))
            .wait(1802);
        names(&story, "Job").len()
    };
    assert_eq!((with("Allow"), with("Forbid"), with("Replace")), (3, 1, 1));
}

/// A cluster with `NIGHTLY` under a policy, and a run that somebody has made by hand.
fn with_run_by_hand(policy: &str) -> Story {
    let mut story = story();
    let settings = format!("spec:\n  concurrencyPolicy: {policy}\n  schedule");
    story.apply(&NIGHTLY.replacen("spec:\n  schedule", &settings, 1));
    let owner = json!([{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly",
        "uid": story.value("CronJob nightly")["metadata"]["uid"], "controller": true}]);
    story.apply(&job("").replace("name: sum", "name: by-hand"));
    story.change(
        "Job by-hand",
        json!({"metadata": {"ownerReferences": owner}}),
    );
    story
}

#[test]
fn runs_by_hand_are_in_nobodys_way() {
    for policy in ["Forbid", "Replace"] {
        let mut story = with_run_by_hand(policy);
        story.wait(602);
        assert_eq!(
            names(&story, "Job"),
            ["by-hand", "nightly-29453770"],
            "{policy}"
        );
        assert!(
            story
                .happened()
                .contains("UnexpectedJob: Saw a job that the controller did not")
        );
    }
}

#[test]
fn a_run_that_is_replaced_is_not_missed() {
    let mut story = story();
    let settings = "spec:\n  concurrencyPolicy: Replace\n  schedule";
    story
        .apply(&NIGHTLY.replacen("spec:\n  schedule", settings, 1))
        .wait(1210);
    let told = story.happened();
    assert!(
        told.contains("SuccessfulDelete: Deleted job nightly-29453770\n"),
        "{told}"
    );
    assert!(!told.contains("MissingJob"), "{told}");
    assert_eq!(
        story.status("CronJob nightly")["active"][0]["name"],
        "nightly-29453780"
    );
}

#[test]
fn what_is_wrong_with_a_schedule_is_told() {
    let mut story = story();
    let told = |story: &mut Story, schedule: &str| {
        let changes = json!({"spec": {"schedule": schedule}});
        story.change("CronJob nightly", changes).wait(1);
        story.happened()
    };
    story.apply(NIGHTLY);
    let error = "UnparseableSchedule: unparseable schedule: \"x\" : expected exactly 5 fields, \
        found 1: [x]\n";
    assert!(told(&mut story, "x").contains(error));
    let error = "InvalidSchedule: invalid schedule: 0 0 31 2 * : time difference between two \
        schedules is less than 1 second\n";
    assert!(told(&mut story, "0 0 31 2 *").contains(error));
}

#[test]
fn a_new_schedule_is_for_the_time_to_come() {
    let mut story = story();
    story
        .apply(&NIGHTLY.replace("*/10 * * * *", "0 12 * * *"))
        .wait(3605);
    story.change(
        "CronJob nightly",
        json!({"spec": {"schedule": "*/10 * * * *"}}),
    );
    assert!(
        names(&story, "Job").is_empty(),
        "no run of the hour that is over"
    );
    story.wait(600);
    assert_eq!(names(&story, "Job"), ["nightly-29453830"]);
}

#[test]
fn runs_at_intervals_keep_to_their_beat() {
    let mut story = story();
    story
        .apply(&NIGHTLY.replace("*/10 * * * *", "@every 10m"))
        .wait(300);
    // Anything that happens to it must not put the next run off.
    story.change(
        "CronJob nightly",
        json!({"metadata": {"labels": {"a": "b"}}}),
    );
    story.wait(301);
    assert_eq!(names(&story, "Job"), ["nightly-29453770"]);
    // Several are missed; the latest is made up for, in the beat.
    story
        .change("CronJob nightly", json!({"spec": {"suspend": true}}))
        .wait(3000);
    story.change("CronJob nightly", json!({"spec": {"suspend": false}}));
    assert_eq!(
        names(&story, "Job"),
        ["nightly-29453770", "nightly-29453820"]
    );
}

#[test]
fn a_suspended_cron_job_catches_up_if_it_is_not_too_late() {
    let run = |deadline: &str, wait: i64| {
        let mut story = story();
        let settings = format!("spec:\n  suspend: true\n{deadline}  schedule");
        story
            .apply(&NIGHTLY.replacen("spec:\n  schedule", &settings, 1))
            .wait(wait);
        story.change("CronJob nightly", json!({"spec": {"suspend": false}}));
        names(&story, "Job")
    };
    assert_eq!(
        run("", 1300),
        ["nightly-29453780"],
        "the latest of two that were missed"
    );
    assert!(run("  startingDeadlineSeconds: 60\n", 1300).is_empty());
    assert_eq!(
        run("  startingDeadlineSeconds: 60\n", 1230),
        ["nightly-29453780"]
    );
}

#[test]
fn schedules_are_read_in_their_zone() {
    let mut story = story();
    let zoned = NIGHTLY.replace("'*/10 * * * *'", "'30 2 * * *'\n  timeZone: Asia/Tokyo");
    story.apply(&zoned).wait(17 * 3600 + 31 * 60);
    let job = story.values("Job").remove(0);
    assert_eq!(
        job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-01-02T02:30:00+09:00"
    );
}
