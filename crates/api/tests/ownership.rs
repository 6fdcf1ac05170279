//! Who owns which field: what Kubernetes 1.36 recorded, stories, and random writes beside a
//! model that keeps a list of paths for each manager.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use outrank_api::managed_fields::{ANCIENT_CHANGES, UPDATE_ENTRIES_MAX, Write, update};
use outrank_api::request_body::FieldValidation;
use outrank_api::resource_type::{ResourceType, VERBS};
use outrank_api::server_side_apply::{ApplyWrite, apply, apply_body};
use outrank_api::status::Status;
use proptest::prelude::*;
use serde_json::{Value, json};

const RECORDS: &[u8] = include_bytes!("recorded/managed-fields.jsonl.gz");
const NOW: &str = "2026-01-01T00:00:00Z";

fn records(wanted: &[&str]) -> Vec<Value> {
    let mut text = String::new();
    let mut records = flate2::read::GzDecoder::new(RECORDS);
    records.read_to_string(&mut text).expect("gzipped text");
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a record a line"))
        .filter(|record| wanted.iter().any(|wanted| record["type"] == *wanted))
        .collect()
}

fn kind(api_version: &str, kind: &str) -> &'static ResourceType {
    ResourceType::of_kind(api_version, kind).expect("a kind of Kubernetes")
}

fn custom(plural: &str) -> ResourceType {
    ResourceType {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        plural: plural.to_owned(),
        singular: "thing".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        is_namespaced: true,
        verbs: VERBS.map(str::to_owned).to_vec(),
        subresources: vec!["status".to_owned()],
        type_name: None,
        schema: None,
    }
}

fn by(manager: &str) -> ApplyWrite<'_> {
    ApplyWrite {
        manager,
        force: false,
        subresource: "",
        now: NOW,
    }
}

fn forced(manager: &str) -> ApplyWrite<'_> {
    ApplyWrite {
        force: true,
        ..by(manager)
    }
}

fn write(manager: &str) -> Write<'_> {
    Write {
        manager,
        subresource: "",
        now: NOW,
    }
}

fn entries(object: &Value) -> &[Value] {
    let entries = object["metadata"]["managedFields"].as_array();
    entries.map_or(&[], Vec::as_slice)
}

fn fields<'o>(object: &'o Value, manager: &str) -> Option<&'o Value> {
    let mut entries = entries(object).iter();
    Some(&entries.find(|entry| entry["manager"] == manager)?["fieldsV1"])
}

fn without_fields(mut object: Value) -> Value {
    if let Value::Object(metadata) = &mut object["metadata"] {
        metadata.remove("managedFields");
    }
    object
}

// What was recorded.

#[test]
fn recorded_changes_of_pods_have_the_recorded_owners() {
    let mut checked = 0;
    for record in records(&["pods"]) {
        let (live, recorded) = (&record["live"], &record["new"]);
        let is_new = |entry: &&Value| !entries(live).contains(entry);
        let writers: Vec<&Value> = entries(recorded).iter().filter(is_new).collect();
        let [writer] = writers.as_slice() else {
            // Nobody wrote a field (a deletion did), or two writes are one event.
            assert!(writers.len() != 1);
            continue;
        };
        let text = |field: &str| writer[field].as_str().unwrap_or_default();
        let mut new = without_fields(recorded.clone());
        let write = Write {
            manager: text("manager"),
            subresource: text("subresource"),
            now: text("time"),
        };
        update(kind("v1", "Pod"), live, &mut new, write);
        assert_eq!(
            entries(&new),
            entries(recorded),
            "{}",
            live["metadata"]["name"]
        );
        checked += 1;
    }
    assert_eq!(checked, 16);
}

#[test]
fn recorded_applications_have_the_recorded_outcome() {
    let deployments = kind("apps/v1", "Deployment");
    let mut live: Option<Value> = None;
    let mut steps = 0;
    for record in records(&["apply", "scale", "stored"]) {
        steps += 1;
        if record["type"] == "stored" {
            let stored = record["object"].clone();
            let live = live.as_ref().expect("applied before");
            assert_eq!(fields(live, "kubectl"), fields(&stored, "kubectl"));
            continue;
        }
        if record["type"] == "scale" {
            let before = live.take().expect("applied before");
            let patch: Value =
                serde_json::from_str(record["body"].as_str().unwrap_or_default()).expect("a patch");
            let mut new = without_fields(before.clone());
            new["spec"]["replicas"] = patch["spec"]["replicas"].clone();
            let scale = Write {
                subresource: "scale",
                ..write("kubectl")
            };
            update(deployments, &before, &mut new, scale);
            live = Some(new);
            continue;
        }
        let query = record["query"].as_str().unwrap_or_default();
        let parameter = |name: &str| {
            let mut parameters = query.split('&').filter_map(|it| it.split_once('='));
            parameters.find(|(it, _)| *it == name).map_or("", |it| it.1)
        };
        if record["status"] == 201 {
            live = None;
        }
        let write = ApplyWrite {
            force: parameter("force") == "true",
            ..by(parameter("fieldManager"))
        };
        let body = record["body"].as_str().unwrap_or_default();
        let validation = FieldValidation::Strict;
        match apply_body(deployments, live.as_ref(), body, validation, write) {
            Ok(applied) => {
                assert!(
                    matches!(record["status"].as_u64(), Some(200 | 201)),
                    "{query}"
                );
                if parameter("dryRun").is_empty() {
                    live = Some(applied.value);
                }
            }
            Err(status) => {
                assert_eq!(Some(u64::from(status.code)), record["status"].as_u64());
                let told = record["stderr"].as_str().unwrap_or_default();
                // In the second recording both mistakes were found, in no order.
                let expected = match status.code {
                    409 => told.trim_start_matches("error: ").trim(),
                    _ => {
                        assert!(told.contains(".spec.repliicas: field not declared in schema"));
                        "failed to create typed patch object (default/app; apps/v1, \
                         Kind=Deployment): .spec.repliicas: field not declared in schema"
                    }
                };
                assert_eq!(status.message, expected);
            }
        }
    }
    assert_eq!(steps, 16);
}

// Stories.

fn deployment(replicas: u32, containers: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                         "spec": {"containers": containers}},
        },
    })
}

fn container(name: &str, image: &str) -> Value {
    json!({"name": name, "image": image})
}

fn containers(object: &Value) -> Vec<&str> {
    let list = object["spec"]["template"]["spec"]["containers"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(|container| container["name"].as_str())
        .collect()
}

fn causes(status: &Status) -> Vec<(String, String, String)> {
    let details = status.details.as_ref().expect("details");
    let causes = details.causes.iter();
    causes
        .map(|cause| {
            (
                cause.reason.clone(),
                cause.message.clone(),
                cause.field.clone(),
            )
        })
        .collect()
}

#[test]
fn what_is_left_out_goes_unless_another_owns_it() {
    let deployments = kind("apps/v1", "Deployment");
    let both = json!([container("a", "1"), container("b", "1")]);
    let live = apply(deployments, None, deployment(1, both.clone()), by("one")).expect("made");
    let live = apply(deployments, Some(&live), deployment(1, both), by("two")).expect("shared");
    let only_a = deployment(1, json!([container("a", "1")]));
    let live = apply(deployments, Some(&live), only_a.clone(), by("one")).expect("applied");
    assert_eq!(containers(&live), ["a", "b"], "the other still owns it");
    let live = apply(deployments, Some(&live), only_a, by("two")).expect("applied");
    assert_eq!(containers(&live), ["a"]);
}

#[test]
fn an_element_goes_whole_with_the_last_who_applies_it() {
    let deployments = kind("apps/v1", "Deployment");
    let both = json!([container("a", "1"), container("b", "1")]);
    let live = apply(deployments, None, deployment(1, both), by("one")).expect("made");
    let mut edited = live.clone();
    edited["spec"]["template"]["spec"]["containers"][1]["command"] = json!(["run"]);
    update(deployments, &live, &mut edited, write("editor"));
    let only_a = deployment(1, json!([container("a", "1")]));
    let live = apply(deployments, Some(&edited), only_a, by("one")).expect("applied");
    // Who owns a field of the element does not own the element.
    assert_eq!(containers(&live), ["a"]);
    assert_eq!(fields(&live, "editor"), None);
}

#[test]
fn conflicts_name_every_manager_and_field() {
    let deployments = kind("apps/v1", "Deployment");
    let one = deployment(1, json!([container("a", "1")]));
    let live = apply(deployments, None, one, by("one")).expect("made");
    let mut scaled = live.clone();
    scaled["spec"]["replicas"] = json!(2);
    update(deployments, &live, &mut scaled, write("editor"));
    let other = deployment(3, json!([container("a", "2")]));
    let refused = apply(deployments, Some(&scaled), other.clone(), by("two")).expect_err("refused");
    assert_eq!(refused.code, 409);
    assert_eq!(
        refused.message,
        "Apply failed with 2 conflicts: conflicts with \"editor\" using apps/v1:\n\
         - .spec.replicas\n\
         conflicts with \"one\":\n\
         - .spec.template.spec.containers[name=\"a\"].image"
    );
    let cause = |message: &str, field: &str| {
        (
            "FieldManagerConflict".to_owned(),
            message.to_owned(),
            field.to_owned(),
        )
    };
    assert_eq!(
        causes(&refused),
        [
            cause("conflict with \"editor\" using apps/v1", ".spec.replicas"),
            cause(
                "conflict with \"one\"",
                ".spec.template.spec.containers[name=\"a\"].image"
            ),
        ]
    );
    let taken = apply(deployments, Some(&scaled), other, forced("two")).expect("forced");
    assert_eq!(taken["spec"]["replicas"], 3);
    assert_eq!(fields(&taken, "editor"), None);
    let of_one = fields(&taken, "one").expect("the rest");
    let image = "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"a\"}/f:image";
    assert_eq!(of_one.pointer(image), None);
}

#[test]
fn ports_are_told_apart_with_the_default_protocol() {
    let services = kind("v1", "Service");
    let service = |ports: Value| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
               "spec": {"ports": ports}})
    };
    let live = apply(services, None, service(json!([{"port": 80}])), by("one")).expect("made");
    let one = fields(&live, "one").expect("owned");
    assert_eq!(
        one["f:spec"]["f:ports"],
        json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}})
    );
    let udp = service(json!([{"port": 80, "protocol": "UDP"}, {"port": 80, "name": "web"}]));
    let live = apply(services, Some(&live), udp, by("two")).expect("another port");
    assert_eq!(
        live["spec"]["ports"],
        json!([{"port": 80, "protocol": "UDP"}, {"port": 80, "name": "web"}])
    );
    let twice = service(json!([{"port": 80}, {"port": 80, "protocol": "TCP"}]));
    let refused = apply(services, Some(&live), twice, by("two")).expect_err("refused");
    assert_eq!(
        refused.message,
        "failed to create typed patch object (/s; /v1, Kind=Service): .spec.ports: duplicate entries \
         for key [port=80,protocol=\"TCP\"]"
    );
}

#[test]
fn sets_and_wholes_are_owned_so() {
    let pods = kind("v1", "Pod");
    let pod = |finalizers: Value, selector: Value| {
        json!({"apiVersion": "v1", "kind": "Pod",
               "metadata": {"name": "p", "finalizers": finalizers},
               "spec": {"nodeSelector": selector, "containers": [container("c", "i")]}})
    };
    let first = pod(json!(["a/x", "a/y"]), json!({"a": "1"}));
    let live = apply(pods, None, first, by("one")).expect("made");
    let second = pod(json!(["a/z"]), json!({"a": "1"}));
    let live = apply(pods, Some(&live), second, by("two")).expect("applied");
    assert_eq!(live["metadata"]["finalizers"], json!(["a/x", "a/y", "a/z"]));
    let third = pod(json!(["a/y"]), json!({"a": "1", "b": "2"}));
    let refused = apply(pods, Some(&live), third.clone(), by("one")).expect_err("a conflict");
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"two\": .spec.nodeSelector"
    );
    let live = apply(pods, Some(&live), third, forced("one")).expect("forced");
    assert_eq!(live["metadata"]["finalizers"], json!(["a/y", "a/z"]));
    assert_eq!(live["spec"]["nodeSelector"], json!({"a": "1", "b": "2"}));
    let of_two = fields(&live, "two").expect("owned");
    assert_eq!(
        of_two["f:metadata"]["f:finalizers"],
        json!({"v:\"a/z\"": {}})
    );
}

#[test]
fn nothing_applied_gives_up_everything() {
    let classes = kind("scheduling.k8s.io/v1", "PriorityClass");
    let identity = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                          "metadata": {"name": "c"}});
    let mut class = identity.clone();
    class["value"] = json!(7);
    class["description"] = json!("d");
    let live = apply(classes, None, class, by("one")).expect("made");
    let live = apply(classes, Some(&live), identity, by("one")).expect("applied");
    assert_eq!(live.get("description"), None);
    assert_eq!(live["metadata"].get("managedFields"), None);
}

#[test]
fn an_application_that_changes_nothing_leaves_the_time() {
    let deployments = kind("apps/v1", "Deployment");
    let one = deployment(1, json!([container("a", "1")]));
    let live = apply(deployments, None, one.clone(), by("one")).expect("made");
    let later = ApplyWrite {
        now: "2027-01-01T00:00:00Z",
        ..by("one")
    };
    let again = apply(deployments, Some(&live), one, later).expect("applied");
    assert_eq!(again, live);
}

#[test]
fn an_object_without_owners_gets_one_for_what_it_was() {
    let classes = kind("scheduling.k8s.io/v1", "PriorityClass");
    let live = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                      "metadata": {"name": "c", "uid": "u"}, "value": 7});
    let mut edited = live.clone();
    edited["description"] = json!("d");
    update(classes, &live, &mut edited, write("editor"));
    assert_eq!(
        entries(&edited).len(),
        0,
        "nobody kept account, so nobody does"
    );
    let mut applied = without_fields(live.clone());
    applied["metadata"] = json!({"name": "c"});
    applied["value"] = json!(8);
    let refused = apply(classes, Some(&edited), applied.clone(), by("one")).expect_err("refused");
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using \
         scheduling.k8s.io/v1: .value"
    );
    let live = apply(classes, Some(&edited), applied, forced("one")).expect("forced");
    assert_eq!(
        fields(&live, "before-first-apply"),
        Some(&json!({"f:description": {}}))
    );
}

#[test]
fn kubectl_takes_over_what_it_wrote_from_the_clients_side() {
    let deployments = kind("apps/v1", "Deployment");
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let old = deployment(1, json!([container("a", "1")]));
    let mut live = old.clone();
    live["metadata"]["annotations"] = json!({annotation: old.to_string()});
    update(
        deployments,
        &Value::Null,
        &mut live,
        write("kubectl-client-side-apply"),
    );
    let new = deployment(1, json!([container("a", "2")]));
    let refused = apply(deployments, Some(&live), new.clone(), by("other")).expect_err("refused");
    assert_eq!(refused.code, 409);
    let applied = apply(deployments, Some(&live), new.clone(), by("kubectl")).expect("taken over");
    let image = "/spec/template/spec/containers/0/image";
    assert_eq!(applied.pointer(image), Some(&json!("2")));
    let kept = applied["metadata"]["annotations"][annotation]
        .as_str()
        .unwrap_or_default();
    assert_eq!(serde_json::from_str::<Value>(kept).ok(), Some(new.clone()));
    assert!(kept.ends_with('\n'));
    // Somebody else changed it since: a conflict again.
    let mut edited = live.clone();
    edited["spec"]["replicas"] = json!(5);
    update(deployments, &live, &mut edited, write("editor"));
    let refused = apply(deployments, Some(&edited), new, by("kubectl")).expect_err("refused");
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"editor\" using apps/v1: .spec.replicas"
    );
}

#[test]
fn bodies_that_cannot_be_applied_are_refused_in_upstreams_words() {
    let deployments = kind("apps/v1", "Deployment");
    let attempt = |body: &str, manager: &str, validation: FieldValidation| {
        apply_body(deployments, None, body, validation, by(manager))
    };
    let start = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: b}\n";
    for (body, manager, code, message) in [
        (
            "apiVersion: v1\nkind: Pod",
            "m",
            400,
            "invalid object type: /v1, Kind=Pod".to_owned(),
        ),
        ("{}", "m", 400, "invalid object type: /, Kind=".to_owned()),
        (
            "[1]",
            "m",
            400,
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal \
             array into Go value of type map[string]interface {}"
                .to_owned(),
        ),
        (
            start,
            "",
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for \
             apply patch"
                .to_owned(),
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {managedFields: []}",
            "m",
            400,
            "metadata.managedFields must be nil".to_owned(),
        ),
        (
            &format!("{start}spec: {{replicas: many}}"),
            "m",
            500,
            "failed to create typed patch object (b/a; apps/v1, Kind=Deployment): .spec.replicas: \
             expected numeric (int or float), got string"
                .to_owned(),
        ),
        (
            &format!("{start}spec: {{template: {{spec: {{containers: {{name: a}}}}}}}}"),
            "m",
            500,
            "failed to create typed patch object (b/a; apps/v1, Kind=Deployment): \
             .spec.template.spec.containers: expected list, got &{map[name:a]}"
                .to_owned(),
        ),
        (
            &format!("{start}spec: {{template: {{spec: {{containers: [{{image: a}}]}}}}}}"),
            "m",
            500,
            "failed to create typed patch object (b/a; apps/v1, Kind=Deployment): \
             .spec.template.spec.containers: element 0: associative list with keys has an element that \
             omits all key fields [\"name\"] (and doesn't have default values for any key fields)"
                .to_owned(),
        ),
        (
            &format!(
                "{start}spec: {{template: {{spec: {{containers: [{{name: a, env: [{{name: A, value: 1}}]}}]}}}}}}"
            ),
            "m",
            500,
            "failed to create typed patch object (b/a; apps/v1, Kind=Deployment): \
             .spec.template.spec.containers[name=\"a\"].env[name=\"A\"].value: expected string, got \
             &value.valueUnstructured{Value:1}"
                .to_owned(),
        ),
    ] {
        let refused = attempt(body, manager, FieldValidation::Warn).expect_err(body);
        assert_eq!((refused.code, refused.message), (code, message), "{body}");
    }
    let twice = format!("{start}spec:\n  replicas: 1\n  replicas: 2\n");
    let told = "error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \"replicas\" \
                already set in map";
    let body = attempt(&twice, "m", FieldValidation::Warn).expect("a warning");
    assert_eq!(body.warnings, [told]);
    let refused = attempt(&twice, "m", FieldValidation::Strict).expect_err("refused");
    assert_eq!(
        refused.message,
        format!("error strict decoding patch: {told}")
    );
}

#[test]
fn nulls_mean_nothing() {
    let deployments = kind("apps/v1", "Deployment");
    let mut one = deployment(1, json!([container("a", "1")]));
    one["metadata"]["creationTimestamp"] = Value::Null;
    one["spec"]["strategy"] = Value::Null;
    let live = apply(deployments, None, one, by("one")).expect("made");
    assert_eq!(live["metadata"].get("creationTimestamp"), None);
    assert_eq!(live["spec"].get("strategy"), None);
}

#[test]
fn the_status_belongs_to_requests_to_the_status() {
    let things = custom("things");
    let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing",
                       "metadata": {"name": "t", "labels": {"a": "b"}},
                       "spec": {"x": {"y": 1}, "list": [1, 2]}, "status": {"phase": "New"}});
    let live = apply(&things, None, thing.clone(), by("one")).expect("made");
    assert_eq!(
        fields(&live, "one"),
        Some(&json!({"f:metadata": {"f:labels": {"f:a": {}}},
                     "f:spec": {".": {}, "f:list": {}, "f:x": {".": {}, "f:y": {}}}}))
    );
    let mut new = live.clone();
    new["status"] = json!({"phase": "Running"});
    new["spec"]["x"] = json!({"y": 2});
    let status = Write {
        subresource: "status",
        ..write("controller")
    };
    update(&things, &live, &mut new, status);
    assert_eq!(
        fields(&new, "controller"),
        Some(&json!({"f:status": {"f:phase": {}}}))
    );
    let through_status = ApplyWrite {
        subresource: "status",
        ..by("one")
    };
    let refused = apply(&things, Some(&new), thing, through_status).expect_err("refused");
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"controller\" with subresource \"status\" using \
         example.com/v1: .status.phase"
    );
}

#[test]
fn owners_can_be_reset_and_given() {
    let classes = kind("scheduling.k8s.io/v1", "PriorityClass");
    let mut live = json!({"metadata": {"name": "c"}, "value": 7});
    update(classes, &Value::Null, &mut live, write("one"));
    assert_eq!(entries(&live).len(), 1);
    for reset in [json!([]), json!([{}])] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = reset;
        update(classes, &live, &mut new, write("two"));
        assert_eq!(entries(&new).len(), 0);
    }
    let mut given = live.clone();
    given["metadata"]["managedFields"] = json!([{
        "manager": "three", "operation": "Apply", "apiVersion": "scheduling.k8s.io/v1",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:value": {}},
    }]);
    update(classes, &live, &mut given, write("two"));
    assert_eq!(fields(&given, "three"), Some(&json!({"f:value": {}})));
    // What is no list of entries, and what comes through a subresource, counts for nothing.
    for (wrong, subresource) in [
        (json!([{"manager": "x", "operation": "Burn"}]), ""),
        (
            json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1",
                 "fieldsType": "FieldsV1", "fieldsV1": {"value": 1}}]),
            "",
        ),
        (json!([]), "status"),
    ] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = wrong;
        update(
            classes,
            &live,
            &mut new,
            Write {
                subresource,
                ..write("two")
            },
        );
        assert_eq!(entries(&new), entries(&live));
    }
}

#[test]
fn old_updates_are_put_together() {
    let things = custom("things");
    let mut live = json!({"metadata": {"name": "t", "labels": {"a": "b"}}});
    update(&things, &Value::Null, &mut live, write("first"));
    for number in 0..30 {
        let mut new = live.clone();
        new["spec"][format!("k{number}")] = json!(number);
        let (manager, now) = (
            format!("m{number}"),
            format!("2026-01-01T00:00:{number:02}Z"),
        );
        let write = Write {
            now: &now,
            ..write(&manager)
        };
        update(&things, &live, &mut new, write);
        live = new;
        assert!(entries(&live).len() <= UPDATE_ENTRIES_MAX);
    }
    let ancient = fields(&live, ANCIENT_CHANGES).expect("the oldest");
    let kept = ancient["f:spec"]
        .as_object()
        .map_or(0, |fields| fields.len());
    assert_eq!(
        kept,
        30 - UPDATE_ENTRIES_MAX + 1 + 1,
        "with the spec itself"
    );
    let newest = fields(&live, "m29").expect("the newest");
    assert_eq!(newest, &json!({"f:spec": {"f:k29": {}}}));
}

// Random writes.

#[derive(Clone, Debug)]
enum Step {
    Apply(usize, BTreeMap<u8, u8>, bool),
    Update(usize, BTreeMap<u8, u8>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let fields = || prop::collection::btree_map(0u8..6, 0u8..3, 0..6);
    let step = prop_oneof![
        (0usize..3, fields(), any::<bool>()).prop_map(|(m, f, force)| Step::Apply(m, f, force)),
        (0usize..3, fields()).prop_map(|(m, f)| Step::Update(m, f)),
    ];
    prop::collection::vec(step, 1..12)
}

/// The same by definition: for each manager the names that it owns.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    fields: BTreeMap<u8, u8>,
    owners: BTreeMap<(bool, usize), BTreeSet<u8>>,
}

impl Model {
    fn apply(&mut self, manager: usize, applied: &BTreeMap<u8, u8>, force: bool) -> bool {
        let me = (true, manager);
        let changes = |name: &u8| self.fields.get(name) != applied.get(name);
        let changed: BTreeSet<u8> = applied.keys().copied().filter(|it| changes(it)).collect();
        let others = self.owners.iter().filter(|(owner, _)| **owner != me);
        let is_conflict = others
            .clone()
            .any(|(_, names)| !names.is_disjoint(&changed));
        if is_conflict && !force {
            return false;
        }
        let owned: BTreeSet<u8> = others.flat_map(|(_, names)| names.clone()).collect();
        let last = self.owners.remove(&me).unwrap_or_default();
        for names in self.owners.values_mut() {
            names.retain(|name| !changed.contains(name));
        }
        for name in last {
            if !applied.contains_key(&name) && !owned.contains(&name) {
                self.fields.remove(&name);
            }
        }
        self.fields.extend(applied.clone());
        self.owners.insert(me, applied.keys().copied().collect());
        true
    }

    fn update(&mut self, manager: usize, new: &BTreeMap<u8, u8>) {
        let old = std::mem::replace(&mut self.fields, new.clone());
        let names: BTreeSet<u8> = old.keys().chain(new.keys()).copied().collect();
        let changed: BTreeSet<u8> = names
            .into_iter()
            .filter(|name| old.get(name) != new.get(name))
            .collect();
        for owned in self.owners.values_mut() {
            owned.retain(|name| !changed.contains(name));
        }
        let mine = self.owners.entry((false, manager)).or_default();
        mine.extend(changed.into_iter().filter(|name| new.contains_key(name)));
    }
}

const MANAGERS: [&str; 3] = ["a", "b", "c"];

fn spec_of(fields: &BTreeMap<u8, u8>) -> Value {
    let fields = fields.iter();
    fields
        .map(|(name, value)| (format!("k{name}"), json!(value)))
        .collect()
}

/// What the object says of names and owners.
fn read_back(object: &Value) -> Model {
    let mut model = Model::default();
    let number = |name: &str| name.trim_start_matches(['f', ':', 'k']).parse::<u8>().ok();
    for (name, value) in object["spec"].as_object().into_iter().flatten() {
        let value = value.as_u64().and_then(|value| u8::try_from(value).ok());
        model.fields.extend(number(name).zip(value));
    }
    for entry in entries(object) {
        let Some(manager) = MANAGERS.iter().position(|name| entry["manager"] == *name) else {
            continue;
        };
        let owned = entry["fieldsV1"]["f:spec"]
            .as_object()
            .into_iter()
            .flatten();
        let owned = owned.filter_map(|(name, _)| number(name)).collect();
        model
            .owners
            .insert((entry["operation"] == "Apply", manager), owned);
    }
    model
}

proptest! {
    #[test]
    fn random_writes_end_as_the_model_does(steps in steps()) {
        let things = custom("things");
        let mut live = json!({"apiVersion": "example.com/v1", "kind": "Thing",
                              "metadata": {"name": "t", "labels": {"x": "y"}}, "spec": {}});
        update(&things, &Value::Null, &mut live, write("root"));
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Apply(manager, fields, force) => {
                    let applied = json!({
                        "apiVersion": "example.com/v1", "kind": "Thing",
                        "metadata": {"name": "t"}, "spec": spec_of(&fields),
                    });
                    let write = ApplyWrite { force, ..by(MANAGERS[manager]) };
                    let expected = model.apply(manager, &fields, force);
                    match apply(&things, Some(&live), applied.clone(), write) {
                        Ok(new) => {
                            prop_assert!(expected);
                            let again = apply(&things, Some(&new), applied, write);
                            prop_assert_eq!(again.as_ref().ok(), Some(&new));
                            live = new;
                        }
                        Err(status) => {
                            prop_assert_eq!(status.code, 409);
                            prop_assert!(!expected, "{}", status.message);
                        }
                    }
                }
                Step::Update(manager, fields) => {
                    let mut new = without_fields(live.clone());
                    new["spec"] = spec_of(&fields);
                    update(&things, &live, &mut new, write(MANAGERS[manager]));
                    live = new;
                    model.update(manager, &fields);
                }
            }
            let mut expected = model.clone();
            expected.owners.retain(|_, owned| !owned.is_empty());
            let mut found = read_back(&live);
            found.owners.retain(|_, owned| !owned.is_empty());
            prop_assert_eq!(found, expected);
        }
    }
}
