//! Objects that are none: a table fails of no object, and is a table all the same.

use outrank_api::resource_type::ResourceType;
use outrank_apiserver::table::{Columns, CustomColumn, TableOptions, event_table, table};
use serde_json::{Map, Value, json};

/// Numbers by lot (SplitMix64).
struct Lots(u64);

impl Lots {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len() as u64) as usize]
    }

    fn value(&mut self, depth: u32) -> Value {
        match self.below(if depth == 0 { 7 } else { 14 }) {
            0 => Value::Null,
            1 => self.below(2).eq(&0).into(),
            2 => (self.next() as i64).into(),
            3 => self.below(4).into(),
            4 => json!(f64::from_bits(self.next())),
            5 | 6 => self.one(TEXTS).into(),
            7..10 => (0..self.below(6)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object(self.fields(depth - 1)),
        }
    }

    fn fields(&mut self, depth: u32) -> Map<String, Value> {
        let count = self.below(12);
        let fields = (0..count).map(|_| (self.one(FIELDS).to_owned(), self.value(depth)));
        fields.collect()
    }

    /// An object that has at least the outline of one.
    fn object(&mut self) -> Value {
        let mut object = Value::Object(self.fields(6));
        for field in ["metadata", "spec", "status"] {
            if self.below(4) > 0 {
                object[field] = Value::Object(self.fields(6));
            }
        }
        object
    }
}

const TEXTS: &[&str] = &[
    "",
    "a",
    "True",
    "true",
    "Ready",
    "Completed",
    "Always",
    "80%",
    "1Gi",
    "1e999999999",
    "-5",
    "9999-12-31T23:59:59Z",
    "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "Resource",
    "External",
    "Pods",
    "Object",
    "ContainerResource",
    "LoadBalancer",
    "ExternalName",
    "ClusterIP",
    "In",
    "SchedulingGated",
    "PodScheduled",
    "Initialized",
    "Succeeded",
    "Failed",
    "NodeLost",
    "::1",
    "ServiceAccount",
    "Available",
    "apps/v1/x",
    "[{\"type\":\"Pods\",\"pods\":7}]",
    "\u{1f980}<&>",
];

const FIELDS: &[&str] = &[
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
    "controller",
    "kind",
    "apiVersion",
    "type",
    "reason",
    "message",
    "conditions",
    "containers",
    "initContainers",
    "image",
    "restartPolicy",
    "phase",
    "containerStatuses",
    "initContainerStatuses",
    "state",
    "lastState",
    "terminated",
    "waiting",
    "running",
    "ready",
    "started",
    "exitCode",
    "signal",
    "finishedAt",
    "restartCount",
    "podIPs",
    "ip",
    "readinessGates",
    "conditionType",
    "replicas",
    "selector",
    "matchLabels",
    "values",
    "matchExpressions",
    "key",
    "operator",
    "template",
    "completions",
    "parallelism",
    "startTime",
    "completionTime",
    "ports",
    "port",
    "nodePort",
    "protocol",
    "externalIPs",
    "clusterIPs",
    "loadBalancer",
    "ingress",
    "hostname",
    "subsets",
    "addresses",
    "endpoints",
    "rules",
    "host",
    "tls",
    "hard",
    "used",
    "limits.cpu",
    "metrics",
    "currentMetrics",
    "resource",
    "external",
    "object",
    "pods",
    "containerResource",
    "target",
    "current",
    "averageValue",
    "value",
    "limited",
    "averageUtilization",
    "series",
    "count",
    "lastObservedTime",
    "eventTime",
    "firstTimestamp",
    "involvedObject",
    "regarding",
    "roleRef",
    "subjects",
    "capacity",
    "storage",
    "accessModes",
    "claimRef",
    "volumeName",
    "paramRef",
    "paramKind",
    "allocation",
    "reservedFor",
    "service",
    "targetCPUUtilizationPercentage",
    "autoscaling.alpha.kubernetes.io/metrics",
    "nodeInfo",
    "matchingPrecedence",
    "distinguisherMethod",
    "limitResponse",
    "queuing",
    "expirationSeconds",
    "addresses",
    "kubernetes.io/role",
    "node-role.kubernetes.io/x",
    "tokenRequests",
    "audience",
];

const PATHS: &[&str] = &[
    ".spec.replicas",
    "..name",
    "..conditions[0].type",
    ".spec..labels..name",
    ".metadata.labels.*",
    ".status.conditions[?(@.type==\"Ready\")].status",
    ".spec.containers[*].image",
    ".spec.ports[-1:].port",
    ".status.conditions[?(@.reason)].message",
    ".spec.*.*",
];

fn all_columns() -> Vec<Columns> {
    let built_in = ResourceType::built_in().iter();
    let mut all: Vec<Columns> = built_in.map(|it| Columns::of(it, &[])).collect();
    all.push(Columns::of_scale());
    let types = ["string", "integer", "number", "boolean", "date"];
    let columns = PATHS
        .iter()
        .flat_map(|path| types.map(|type_| (path, type_)));
    let columns = columns.map(|(path, type_)| {
        let definition = json!({"name": path, "type": type_, "jsonPath": path});
        CustomColumn::read(&definition).unwrap()
    });
    let columns: Vec<CustomColumn> = columns.collect();
    let mut custom = ResourceType::clone(&ResourceType::built_in()[0]);
    custom.type_name = None;
    all.push(Columns::of(&custom, &columns));
    all
}

fn check(columns: &Columns, object: &Value, now_nanos: i64) {
    let cells = columns.cells(object, now_nanos);
    assert_eq!(cells.len(), columns.definitions().len());
    for cell in cells {
        assert!(!cell.is_array() && !cell.is_object(), "{cell}");
    }
}

#[test]
fn no_object_is_too_strange() {
    let all = all_columns();
    for seed in 0..100 {
        println!("seed {seed}");
        let mut lots = Lots(seed);
        let objects: Vec<Value> = (0..3).map(|_| lots.object()).collect();
        let now_nanos = *lots.one(&[&0, &1_800_000_000_000_000_000, &i64::MIN, &i64::MAX]);
        for columns in &all {
            objects.iter().for_each(|it| check(columns, it, now_nanos));
            let options = TableOptions::default();
            let metadata = &objects[0]["metadata"];
            let made = table(columns, &objects, metadata, &options, now_nanos);
            assert_eq!(made["rows"].as_array().unwrap().len(), objects.len());
        }
    }
}

#[test]
fn values_of_each_type_are_objects_too() {
    let values = [
        json!(null),
        json!(true),
        json!(7),
        json!("text"),
        json!([]),
        json!({}),
        json!([{"metadata": {"name": "a"}}]),
        json!({"metadata": 7, "spec": "x", "status": []}),
    ];
    for columns in all_columns() {
        for value in &values {
            check(&columns, value, 0);
            let made = event_table(&columns, value, true, &TableOptions::default(), 0);
            assert_eq!(made["rows"].as_array().unwrap().len(), 1);
        }
    }
}
