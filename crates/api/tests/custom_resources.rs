//! Custom resources from their definition to the writes of their objects.

use outrank_api::custom_resource::{
    Definition, default_definition, default_object, validate, validate_object, with_status,
};
use outrank_api::field_error::FieldError;
use outrank_api::managed_fields::{Write, update};
use outrank_api::patch::{self, PatchType};
use outrank_api::request_body::{FieldValidation, read};
use outrank_api::resource_type::ResourceType;
use outrank_api::server_side_apply::{ApplyWrite, apply};
use serde_json::{Value, json};

fn shirts() -> ResourceType {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shirts.stable.example.com"},
        "spec": {
            "group": "stable.example.com", "scope": "Namespaced",
            "names": {"plural": "shirts", "kind": "Shirt"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "required": ["size"], "properties": {
                        "size": {"type": "string", "enum": ["S", "M", "L"]},
                        "color": {"type": "string", "default": "white"},
                        "buttons": {
                            "type": "array", "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name", "side"],
                            "items": {"type": "object", "required": ["name"], "properties": {
                                "name": {"type": "string"},
                                "side": {"type": "string", "default": "front"},
                                "holes": {"type": "integer"}}}},
                        "tags": {"type": "array", "x-kubernetes-list-type": "set",
                                 "items": {"type": "string"}},
                        "wash": {"type": "object", "x-kubernetes-map-type": "atomic",
                                 "properties": {"celsius": {"type": "integer"}}},
                        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    }},
                    "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                }}},
            }],
        },
    });
    default_definition(&mut crd);
    assert_eq!(validate(&crd), []);
    let served = with_status(&crd, [], "2026-01-01T00:00:00Z").expect("a change");
    let mut types = Definition::read(&served).resource_types();
    types.pop().expect("a version")
}

fn shirt(spec: Value) -> Value {
    json!({"apiVersion": "stable.example.com/v1", "kind": "Shirt",
           "metadata": {"name": "a", "namespace": "b"}, "spec": spec})
}

fn by(manager: &str) -> ApplyWrite<'_> {
    ApplyWrite {
        manager,
        force: false,
        subresource: "",
        now: "2026-01-01T00:00:00Z",
    }
}

fn fields<'o>(object: &'o Value, manager: &str) -> Option<&'o Value> {
    let mut entries = object["metadata"]["managedFields"].as_array()?.iter();
    Some(&entries.find(|entry| entry["manager"] == manager)?["fieldsV1"])
}

#[test]
fn bodies_are_read_by_the_schema() {
    let shirts = shirts();
    let body = |text: &str| read(&shirts, text, FieldValidation::Warn);
    let found = body(
        r#"{"apiVersion": "stable.example.com/v1", "kind": "Shirt",
            "metadata": {"name": "a", "nmae": "b"},
            "spec": {"size": "M", "siez": "L", "size": "S", "extra": {"any": {"thing": 1}}}}"#,
    )
    .expect("read");
    assert_eq!(
        found.warnings,
        [
            "unknown field \"metadata.nmae\"",
            "duplicate field \"spec.size\"",
            "unknown field \"spec.siez\"",
        ]
    );
    assert_eq!(
        found.value["spec"],
        json!({"size": "S", "extra": {"any": {"thing": 1}}})
    );
    let refused = body(
        r#"{"apiVersion": "stable.example.com/v1", "kind": "Skirt",
                           "metadata": {"name": "a"}}"#,
    );
    assert_eq!(
        refused.expect_err("refused").message,
        "Shirt.stable.example.com \"a\" is invalid: kind: Invalid value: \"Skirt\": must be Shirt"
    );
    let refused = body(r#"{"apiVersion": "stable.example.com/v2", "kind": "Shirt"}"#);
    assert_eq!(
        refused.expect_err("refused").message,
        "the API version in the data (stable.example.com/v2) does not match the expected API version \
         (stable.example.com/v1)"
    );
    let refused = body(r#"{"metadata": {"labels": {"a": 1}}}"#).expect_err("refused");
    assert_eq!(refused.code, 400);
    let refused = body("[]").expect_err("refused");
    assert_eq!(refused.code, 400);
}

#[test]
fn objects_are_defaulted_and_validated() {
    let shirts = shirts();
    let schema = shirts.schema.as_deref().expect("a schema");
    let mut object = shirt(json!({"size": "XXL", "buttons": [{"name": "top"}]}));
    default_object(schema, &mut object);
    assert_eq!(object["spec"]["color"], "white");
    assert_eq!(object["spec"]["buttons"][0]["side"], "front");
    let errors = validate_object(schema, &object, None);
    let errors: Vec<String> = errors.iter().map(FieldError::to_string).collect();
    assert_eq!(
        errors,
        ["spec.size: Unsupported value: \"XXL\": supported values: \"S\", \"M\", \"L\""]
    );
}

#[test]
fn patches_are_those_without_merge_keys() {
    let (shirts, live) = (shirts(), shirt(json!({"size": "M"})));
    let patched = |patch_type, patch: Value| {
        let validation = FieldValidation::Warn;
        patch::apply(&shirts, &live, patch_type, &patch.to_string(), validation)
    };
    let merged = patched(PatchType::Merge, json!({"spec": {"size": "L", "x": 1}})).expect("merged");
    assert_eq!(merged.value["spec"], json!({"size": "L"}));
    assert_eq!(merged.warnings, ["unknown field \"spec.x\""]);
    let operation = json!([{"op": "add", "path": "/spec/color", "value": "red"}]);
    let patched_object = patched(PatchType::Json, operation).expect("patched");
    assert_eq!(patched_object.value["spec"]["color"], "red");
    let refused = patched(PatchType::StrategicMerge, json!({})).expect_err("refused");
    assert_eq!(refused.code, 415);
    assert_eq!(
        refused.message,
        "the body of the request was in an unknown format - accepted media types include: \
         application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    );
}

#[test]
fn fields_have_owners_by_the_schema() {
    let shirts = shirts();
    let first = shirt(json!({
        "size": "M", "tags": ["x"], "wash": {"celsius": 30},
        "buttons": [{"name": "top", "holes": 4}],
        "extra": {"a": {"b": 1}, "list": [1]},
    }));
    let live = apply(&shirts, None, first, by("one")).expect("made");
    assert_eq!(
        fields(&live, "one"),
        Some(&json!({"f:spec": {
            "f:buttons": {"k:{\"name\":\"top\",\"side\":\"front\"}": {
                ".": {}, "f:holes": {}, "f:name": {}}},
            "f:extra": {"f:a": {".": {}, "f:b": {}}, "f:list": {}},
            "f:size": {}, "f:tags": {"v:\"x\"": {}}, "f:wash": {},
        }}))
    );
    let second = shirt(json!({
        "size": "M", "tags": ["y"], "wash": {"celsius": 60},
        "buttons": [{"name": "top", "side": "back"}],
    }));
    let refused = apply(&shirts, Some(&live), second.clone(), by("two")).expect_err("refused");
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"one\": .spec.wash"
    );
    let force = ApplyWrite {
        force: true,
        ..by("two")
    };
    let live = apply(&shirts, Some(&live), second, force).expect("forced");
    assert_eq!(live["spec"]["tags"], json!(["x", "y"]));
    assert_eq!(live["spec"]["buttons"].as_array().map(Vec::len), Some(2));
    let live = apply(&shirts, Some(&live), shirt(json!({"size": "M"})), by("one")).expect("less");
    assert_eq!(
        live["spec"],
        json!({"size": "M", "tags": ["y"], "wash": {"celsius": 60},
               "buttons": [{"name": "top", "side": "back"}]})
    );
    let unknown = shirt(json!({"size": "M", "cut": "slim"}));
    let refused = apply(&shirts, Some(&live), unknown, by("one")).expect_err("refused");
    assert_eq!(
        refused.message,
        "failed to create typed patch object (b/a; stable.example.com/v1, Kind=Shirt): .spec.cut: field \
         not declared in schema"
    );
    let mut new = live.clone();
    new["status"] = json!({"phase": "Worn"});
    let write = Write {
        manager: "controller",
        subresource: "status",
        now: "2026-01-01T00:00:00Z",
    };
    update(&shirts, &live, &mut new, write);
    assert_eq!(
        fields(&new, "controller"),
        Some(&json!({"f:status": {".": {}, "f:phase": {}}}))
    );
}
