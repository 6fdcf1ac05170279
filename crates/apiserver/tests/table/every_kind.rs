//! The cells of each built-in kind.

mod autoscaling;
mod control_plane;
mod network;
mod policy;
mod storage;
mod workloads;

use std::collections::BTreeSet;

use outrank_api::resource_type::ResourceType;
use outrank_apiserver::table::{TableOptions, table};
use serde_json::{Value, json};

use super::{columns, nanos};

pub(super) const NOW: &str = "2026-01-01T00:10:00Z";
/// Five minutes ago.
const CREATED: &str = "2026-01-01T00:05:00Z";

/// Kinds with nothing but name and time of creation.
const WITHOUT_COLUMNS: [&str; 4] = [
    "ClusterRole",
    "CustomResourceDefinition",
    "LimitRange",
    "Role",
];

/// Kinds, objects, and the cells that should come of these, apart from the name, which is `it`.
/// Objects are created five minutes before.
struct Cases {
    seen: BTreeSet<(String, String)>,
}

impl Cases {
    fn check(&mut self, api_version: &str, kind: &str, object: Value, expected: Value) {
        self.seen.insert((api_version.to_owned(), kind.to_owned()));
        let cells = cells(api_version, kind, object.clone());
        let expected = expected.as_array().unwrap();
        assert_eq!(&cells, expected, "{kind} {object:#}");
    }
}

pub(super) fn cells(api_version: &str, kind: &str, object: Value) -> Vec<Value> {
    let columns = columns(api_version, kind);
    let cells = columns.cells(&completed(object), nanos(NOW));
    assert_eq!(cells.len(), columns.definitions().len());
    cells
}

fn completed(mut object: Value) -> Value {
    let metadata = object.as_object_mut().unwrap().entry("metadata");
    let metadata = metadata.or_insert_with(|| json!({}));
    metadata["name"] = "it".into();
    metadata["creationTimestamp"] = CREATED.into();
    object
}

#[test]
fn every_kind_has_its_cells() {
    let mut cases = Cases {
        seen: BTreeSet::new(),
    };
    core(&mut cases);
    events(&mut cases);
    workloads::check(&mut cases);
    network::check(&mut cases);
    storage::check(&mut cases);
    policy::check(&mut cases);
    autoscaling::check(&mut cases);
    control_plane::check(&mut cases);
    let without_columns = ["2026-01-01T00:05:00Z"].map(Value::from);
    for resource_type in ResourceType::built_in()
        .iter()
        .filter(|it| it.has_verb("list"))
    {
        let (api_version, kind) = (resource_type.api_version(), resource_type.kind.clone());
        if WITHOUT_COLUMNS.contains(&kind.as_str()) {
            let cells = cells(&api_version, &kind, json!({}));
            assert_eq!(cells[1..], without_columns, "{kind}");
        } else {
            assert!(
                cases.seen.contains(&(api_version, kind.clone())),
                "no case of {kind}"
            );
        }
    }
}

fn core(cases: &mut Cases) {
    let health = |status| {
        json!({"conditions": [
            {"type": "Healthy", "status": status, "message": "m", "error": "e"},
        ]})
    };
    cases.check(
        "v1",
        "ComponentStatus",
        health("True"),
        json!(["it", "Healthy", "m", "e"]),
    );
    cases.check(
        "v1",
        "ComponentStatus",
        health("False"),
        json!(["it", "Unhealthy", "m", "e"]),
    );
    cases.check(
        "v1",
        "ComponentStatus",
        json!({}),
        json!(["it", "Unknown", "", ""]),
    );
    cases.check(
        "v1",
        "ConfigMap",
        json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}}),
        json!(["it", 3, "5m"]),
    );
    cases.check(
        "v1",
        "Namespace",
        json!({"status": {"phase": "Terminating"}}),
        json!(["it", "Terminating", "5m"]),
    );
    cases.check(
        "v1",
        "Secret",
        json!({"type": "Opaque", "data": {"a": "AA=="}}),
        json!(["it", "Opaque", 1, "5m"]),
    );
    cases.check("v1", "ServiceAccount", json!({}), json!(["it", "5m"]));
    cases.check(
        "v1",
        "Node",
        json!({
            "metadata": {"labels": {
                "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "",
                "node-role.kubernetes.io/": "", "kubernetes.io/role": "gpu",
            }},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "Unknown"}],
                "addresses": [
                    {"type": "Hostname", "address": "it"},
                    {"type": "InternalIP", "address": "10.0.0.1"},
                    {"type": "InternalIP", "address": "fd00::1"},
                ],
                "nodeInfo": {"kubeletVersion": "v1.36.2", "architecture": "arm64"},
            },
        }),
        json!([
            "it",
            "NotReady,SchedulingDisabled",
            "control-plane,gpu,worker",
            "5m",
            "v1.36.2",
            "10.0.0.1",
            "<none>",
            "<unknown>",
            "<unknown> (arm64)",
            "<unknown>",
        ]),
    );
    cases.check(
        "v1",
        "Node",
        json!({}),
        json!([
            "it",
            "Unknown",
            "<none>",
            "5m",
            "",
            "<none>",
            "<none>",
            "<unknown>",
            "<unknown>",
            "<unknown>",
        ]),
    );
}

fn events(cases: &mut Cases) {
    cases.check(
        "v1",
        "Event",
        json!({
            "type": "Warning", "reason": "FailedScheduling", "message": " no room\n",
            "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{app}"},
            "source": {"component": "kubelet", "host": "node-1"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:09:50Z",
            "count": 7,
        }),
        json!([
            "10s",
            "Warning",
            "FailedScheduling",
            "pod/web",
            "spec.containers{app}",
            "kubelet, node-1",
            "no room",
            "10m",
            7,
            "it",
        ]),
    );
    // As new clients write it.
    let series = json!({"count": 3, "lastObservedTime": "2026-01-01T00:09:59.500000Z"});
    let core = json!({
        "eventTime": "2026-01-01T00:08:00.900000Z", "series": series,
        "involvedObject": {"kind": "Node"}, "reportingComponent": "scheduler",
        "reportingInstance": "s-1", "type": "Normal", "reason": "R", "message": "m",
    });
    let expected = json!([
        "0s",
        "Normal",
        "R",
        "node",
        "",
        "scheduler, s-1",
        "m",
        "119s",
        3,
        "it",
    ]);
    cases.check("v1", "Event", core, expected.clone());
    let new = json!({
        "eventTime": "2026-01-01T00:08:00.900000Z", "series": series,
        "regarding": {"kind": "Node"}, "reportingController": "scheduler",
        "reportingInstance": "s-1", "type": "Normal", "reason": "R", "note": "m",
    });
    cases.check("events.k8s.io/v1", "Event", new, expected);
    cases.check(
        "v1",
        "Event",
        json!({"eventTime": "2026-01-01T00:09:00Z"}),
        json!(["60s", "", "", "", "", "", "", "60s", 1, "it"]),
    );
    cases.check(
        "events.k8s.io/v1",
        "Event",
        json!({"deprecatedCount": 2, "deprecatedSource": {"component": "c"}}),
        json!(["<unknown>", "", "", "", "", "c", "", "<unknown>", 2, "it"]),
    );
}

#[test]
fn flow_schemas_are_in_the_order_in_which_they_are_tried() {
    let columns = columns("flowcontrol.apiserver.k8s.io/v1", "FlowSchema");
    let schema = |name: &str, precedence: i64| {
        json!({
            "metadata": {"name": name}, "spec": {"matchingPrecedence": precedence},
        })
    };
    let schemas = [schema("c", 2), schema("b", 1), schema("a", 2)];
    let made = table(&columns, &schemas, &json!({}), &TableOptions::default(), 0);
    let names = [0, 1, 2].map(|i| made["rows"][i]["cells"][0].clone());
    assert_eq!(names, ["b", "a", "c"]);
}
