//! Workloads: what runs pods.

use serde_json::{Value, json};

use super::{Cases, NOW};

/// The spec of something with a pod template, with more fields.
fn templated(mut spec: Value) -> Value {
    let containers = json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]);
    let pod_spec = json!({"containers": containers, "nodeSelector": {"disk": "ssd"}});
    spec["template"] = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod_spec});
    spec
}

pub(super) fn check(cases: &mut Cases) {
    let selector = json!({
        "matchLabels": {"b": "2", "a": "1"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "d", "operator": "DoesNotExist"},
        ],
    });
    let status = json!({"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2});
    let spec = templated(json!({"replicas": 3, "selector": selector}));
    let object = json!({"spec": spec, "status": status});
    let selected = "a=1,b=2,c in (x,y),!d";
    cases.check(
        "apps/v1",
        "ReplicaSet",
        object.clone(),
        json!(["it", 3, 2, 1, "5m", "a,b", "a:1,b:2", selected]),
    );
    cases.check(
        "apps/v1",
        "Deployment",
        object.clone(),
        json!(["it", "1/3", 2, 0, "5m", "a,b", "a:1,b:2", selected]),
    );
    cases.check(
        "apps/v1",
        "StatefulSet",
        object,
        json!(["it", "1/3", "5m", "a,b", "a:1,b:2"]),
    );
    let nothing = json!({});
    cases.check(
        "apps/v1",
        "ReplicaSet",
        nothing.clone(),
        json!(["it", 0, 0, 0, "5m", "", "", "<none>"]),
    );
    cases.check(
        "apps/v1",
        "Deployment",
        nothing,
        json!(["it", "0/0", 0, 0, "5m", "", "", ""]),
    );
    let wrong =
        json!({"spec": {"selector": {"matchExpressions": [{"key": "c", "operator": "On"}]}}});
    cases.check(
        "apps/v1",
        "ReplicaSet",
        wrong.clone(),
        json!(["it", 0, 0, 0, "5m", "", "", "<error>"]),
    );
    cases.check(
        "apps/v1",
        "Deployment",
        wrong,
        json!(["it", "0/0", 0, 0, "5m", "", "", "<invalid>"]),
    );
    cases.check(
        "v1",
        "ReplicationController",
        // Pairs are in order, not keys: `-` comes before `=`.
        json!({"spec": templated(json!({"replicas": 1, "selector": {"a": "1", "a-b": "2"}}))}),
        json!(["it", 1, 0, 0, "5m", "a,b", "a:1,b:2", "a-b=2,a=1"]),
    );
    cases.check(
        "v1",
        "PodTemplate",
        templated(json!({})),
        json!(["it", "a,b", "a:1,b:2", "app=a"]),
    );
    cases.check(
        "apps/v1",
        "DaemonSet",
        json!({
            "spec": templated(json!({"selector": {"matchLabels": {"app": "a"}}})),
            "status": {
                "desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
                "updatedNumberScheduled": 2, "numberAvailable": 1,
            },
        }),
        json!([
            "it", 5, 4, 3, 2, 1, "disk=ssd", "5m", "a,b", "a:1,b:2", "app=a"
        ]),
    );
    let owner = |api_version: &str, controller| {
        json!({
            "metadata": {"ownerReferences": [{
                "apiVersion": api_version, "kind": "StatefulSet", "name": "db", "controller": controller,
            }]},
            "revision": 4,
        })
    };
    let revision = ("apps/v1", "ControllerRevision");
    cases.check(
        revision.0,
        revision.1,
        owner("apps/v1", true),
        json!(["it", "statefulset.apps/db", 4, "5m"]),
    );
    cases.check(
        revision.0,
        revision.1,
        owner("v1", true),
        json!(["it", "statefulset/db", 4, "5m"]),
    );
    cases.check(
        revision.0,
        revision.1,
        owner("v1", false),
        json!(["it", "<none>", 4, "5m"]),
    );
    batch(cases);
    cases.check(
        "v1",
        "Pod",
        json!({}),
        crate::pods::pod_cells("0/0", "", "0"),
    );
}

fn batch(cases: &mut Cases) {
    let job = |spec: Value, status: Value| json!({"spec": spec, "status": status});
    let cells = |status: &str, completions: &str, duration: &str| {
        json!(["it", status, completions, duration, "5m", "", "", "<none>"])
    };
    let condition = |type_| json!({"conditions": [{"type": type_, "status": "True"}]});
    let started = json!({"startTime": "2026-01-01T00:05:30Z", "succeeded": 1});
    let ended = json!({
        "startTime": "2026-01-01T00:05:30Z", "completionTime": "2026-01-01T00:06:00Z",
        "succeeded": 2, "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True"},
            {"type": "Complete", "status": "True"},
        ],
    });
    let three = json!({"completions": 3});
    let batch = [
        (
            job(three.clone(), started),
            cells("Running", "1/3", "4m30s"),
        ),
        (job(three, ended), cells("Complete", "2/3", "30s")),
        (
            job(json!({}), condition("Suspended")),
            cells("Suspended", "0/1", ""),
        ),
        (
            job(json!({"parallelism": 4}), condition("Failed")),
            cells("Failed", "0/1 of 4", ""),
        ),
        (
            job(json!({}), condition("FailureTarget")),
            cells("FailureTarget", "0/1", ""),
        ),
    ];
    for (job, expected) in batch {
        cases.check("batch/v1", "Job", job, expected);
    }
    let deleted = json!({"metadata": {"deletionTimestamp": NOW}});
    cases.check("batch/v1", "Job", deleted, cells("Terminating", "0/1", ""));
    cases.check(
        "batch/v1",
        "CronJob",
        json!({
            "spec": {
                "schedule": "0 * * * *", "timeZone": "Asia/Shanghai", "suspend": false,
                "jobTemplate": {"spec": templated(json!({}))},
            },
            "status": {"active": [{}, {}], "lastScheduleTime": "2026-01-01T00:09:00Z"},
        }),
        json!([
            "it",
            "0 * * * *",
            "Asia/Shanghai",
            "False",
            2,
            "60s",
            "5m",
            "a,b",
            "a:1,b:2",
            "<none>",
        ]),
    );
    cases.check(
        "batch/v1",
        "CronJob",
        json!({}),
        json!([
            "it", "", "<none>", "<unset>", 0, "<none>", "5m", "", "", "<none>"
        ]),
    );
}
