//! What is shown of pods.

use outrank_apiserver::table::{TableOptions, table};
use serde_json::{Value, json};

use super::columns;
use super::every_kind::{NOW, cells};

/// The cells of a pod of which there is no more to say.
pub(super) fn pod_cells(ready: &str, status: &str, restarts: &str) -> Value {
    json!([
        "it", ready, status, restarts, "5m", "<none>", "<none>", "<none>", "<none>"
    ])
}

/// A pod of two containers and as many init containers as there are restart policies.
fn pod(init: &[&str], status: Value) -> Value {
    let init = init.iter().enumerate();
    let init = init.map(|(i, policy)| json!({"name": format!("i{i}"), "restartPolicy": policy}));
    json!({
        "spec": {
            "containers": [{"name": "a"}, {"name": "b"}],
            "initContainers": init.collect::<Value>(),
        },
        "status": status,
    })
}

#[test]
fn the_status_of_a_pod_is_what_tells_most() {
    let running = |ready: bool| json!({"state": {"running": {}}, "ready": ready});
    let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
    let ended = |code: i64, reason: &str| {
        json!({
            "state": {"terminated": {"exitCode": code, "reason": reason}},
        })
    };
    let killed = json!({"state": {"terminated": {"exitCode": 137, "signal": 9}}});
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let containers = |list: Value| json!({"phase": "Running", "containerStatuses": list});
    let gated = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},
    ]});
    let mut done_and_ready = containers(json!([ended(0, "Completed"), running(true)]));
    done_and_ready["conditions"] = ready;
    let cases = [
        (json!({"phase": "Pending"}), "0/2", "Pending"),
        (
            json!({"phase": "Failed", "reason": "Evicted"}),
            "0/2",
            "Evicted",
        ),
        (gated, "0/2", "SchedulingGated"),
        (
            containers(json!([waiting("ContainerCreating")])),
            "0/2",
            "ContainerCreating",
        ),
        (
            containers(json!([running(true), running(false)])),
            "1/2",
            "Running",
        ),
        (
            containers(json!([running(true), running(true)])),
            "2/2",
            "Running",
        ),
        // The first one counts, whatever it says.
        (
            containers(json!([waiting("ErrImagePull"), ended(1, "Error")])),
            "0/2",
            "ErrImagePull",
        ),
        (
            containers(json!([ended(1, "Error"), waiting("ErrImagePull")])),
            "0/2",
            "Error",
        ),
        (containers(json!([ended(3, "")])), "0/2", "ExitCode:3"),
        (containers(json!([killed])), "0/2", "Signal:9"),
        (
            containers(json!([ended(0, "Completed")])),
            "0/2",
            "Completed",
        ),
        (
            containers(json!([ended(0, "Completed"), running(true)])),
            "1/2",
            "NotReady",
        ),
        (done_and_ready, "1/2", "Running"),
        (
            containers(json!([ended(0, "Completed"), ended(137, "OOMKilled")])),
            "0/2",
            "OOMKilled",
        ),
    ];
    for (status, ready, shown) in cases {
        let cells = json!(cells("v1", "Pod", pod(&[], status.clone())));
        assert_eq!(cells, pod_cells(ready, shown, "0"), "{status:#}");
    }
}

#[test]
fn init_containers_go_first() {
    let done = json!({"name": "i0", "state": {"terminated": {"exitCode": 0}}, "restartCount": 1});
    let at_work = json!({"name": "i1", "state": {"running": {}}, "restartCount": 2});
    let failed = json!({
        "name": "i1", "state": {"terminated": {"exitCode": 1, "reason": "Error"}},
    });
    let failed_silently = json!({"name": "i1", "state": {"terminated": {"exitCode": 2}}});
    let pulling = json!({"name": "i1", "state": {"waiting": {"reason": "ErrImagePull"}}});
    let next = json!({"name": "i1", "state": {"waiting": {"reason": "PodInitializing"}}});
    let main = json!([{
        "state": {"waiting": {"reason": "PodInitializing"}}, "restartCount": 5,
    }]);
    let status = |init: Value| {
        json!({
            "phase": "Pending", "initContainerStatuses": init, "containerStatuses": main,
        })
    };
    let cases = [
        (status(json!([done, at_work])), "Init:1/2", "3"),
        (status(json!([done, next])), "Init:1/2", "1"),
        (status(json!([done, failed])), "Init:Error", "1"),
        (
            status(json!([done, failed_silently])),
            "Init:ExitCode:2",
            "1",
        ),
        (status(json!([done, pulling])), "Init:ErrImagePull", "1"),
        // All done: the containers proper count, and those that are done no more.
        (
            status(json!([done, {"state": {"terminated": {"exitCode": 0}}}])),
            "PodInitializing",
            "5",
        ),
    ];
    for (status, shown, restarts) in cases {
        let cells = json!(cells("v1", "Pod", pod(&["", ""], status.clone())));
        assert_eq!(cells, pod_cells("0/2", shown, restarts), "{status:#}");
    }
    // Restarted after all had begun: the pod is still initialized.
    let mut again = status(json!([done, at_work]));
    again["conditions"] = json!([{"type": "Initialized", "status": "True"}]);
    again["containerStatuses"] = json!([{"state": {"running": {}}, "ready": true}]);
    let cells = json!(cells("v1", "Pod", pod(&["", ""], again)));
    assert_eq!(cells, pod_cells("1/2", "Init:1/2", "0"));
}

#[test]
fn sidecars_count_among_the_containers() {
    let sidecar = |started: bool, ready: bool| {
        json!({
            "name": "i0", "started": started, "ready": ready, "state": {"running": {}},
            "restartCount": 2,
            "lastState": {"terminated": {"finishedAt": "2026-01-01T00:09:00Z"}},
        })
    };
    let running = json!({
        "state": {"running": {}}, "ready": true, "restartCount": 1,
        "lastState": {"terminated": {"finishedAt": "2026-01-01T00:06:00Z"}},
    });
    let status = |sidecar: Value| {
        json!({
            "phase": "Running", "initContainerStatuses": [sidecar], "containerStatuses": [running],
        })
    };
    let cells = |status| json!(cells("v1", "Pod", pod(&["Always"], status)));
    let expected = pod_cells("2/3", "Running", "3 (60s ago)");
    assert_eq!(cells(status(sidecar(true, true))), expected);
    let expected = pod_cells("1/3", "Running", "3 (60s ago)");
    assert_eq!(cells(status(sidecar(true, false))), expected);
    let expected = pod_cells("0/3", "Init:0/1", "2 (60s ago)");
    assert_eq!(cells(status(sidecar(false, false))), expected);
}

#[test]
fn deletion_shows_unless_the_pod_has_ended() {
    let deleted = |status: Value| {
        let mut pod = pod(&[], status);
        pod["metadata"] = json!({"deletionTimestamp": NOW});
        cells("v1", "Pod", pod)[2].clone()
    };
    assert_eq!(deleted(json!({"phase": "Running"})), "Terminating");
    assert_eq!(deleted(json!({"phase": "Succeeded"})), "Succeeded");
    assert_eq!(
        deleted(json!({"phase": "Failed", "reason": "Evicted"})),
        "Evicted"
    );
    assert_eq!(
        deleted(json!({"phase": "Running", "reason": "NodeLost"})),
        "Unknown"
    );
}

#[test]
fn wide_columns_of_a_pod() {
    let object = json!({
        "spec": {
            "nodeName": "n",
            "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}],
        },
        "status": {
            "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd::1"}],
            "nominatedNodeName": "m", "conditions": [
                {"type": "a", "status": "True"}, {"type": "b", "status": "False"},
            ],
        },
    });
    let cells = cells("v1", "Pod", object);
    assert_eq!(cells[5..], ["10.0.0.1", "n", "m", "1/3"].map(Value::from));
}

#[test]
fn rows_of_pods_that_have_ended_say_so() {
    let columns = columns("v1", "Pod");
    let pods = ["Running", "Succeeded", "Failed"].map(|it| pod(&[], json!({"phase": it})));
    let made = table(&columns, &pods, &json!({}), &TableOptions::default(), 0);
    assert_eq!(made["rows"][0].get("conditions"), None);
    let condition = &made["rows"][1]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["reason"]),
        (&json!("Completed"), &json!("Succeeded"))
    );
    assert_eq!(made["rows"][2]["conditions"][0]["reason"], "Failed");
}
