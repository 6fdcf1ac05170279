//! Patches: a change to an object instead of the whole object.
//!
//! Three forms, told apart by the content type of the request:
//!
//! * JSON merge patch (RFC 7386): fields replace fields, `null` removes them;
//! * JSON patch (RFC 6902): operations with paths;
//! * strategic merge patch ([`strategic`]): as a merge patch, but lists are merged by the keys
//!   of their elements.
//!
//! Server-side apply is a form of its own ([`crate::server_side_apply`]). Custom resources have no
//! strategic merge patches, since their schemas know no merge keys.
//!
//! The object that comes out is read as strictly as the body of any request
//! ([`crate::request_body`]); if it cannot be read the answer shows it. Sources, Kubernetes 1.36:
//! `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`, `k8s.io/apimachinery/pkg/runtime/converter.go`
//! (what a strategic merge patch may put where), `gopkg.in/evanphx/json-patch.v4` (errors of
//! operations).
//!
//! ```
//! use outrank_api::decode::ObjectKind;
//! use outrank_api::patch::{PatchType, apply};
//! use outrank_api::request_body::FieldValidation;
//! use serde_json::json;
//!
//! let live = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
//!                   "metadata": {"name": "high"}, "value": 7, "description": "old"});
//! let patched = apply(
//!     ObjectKind::PriorityClass.into(), &live, PatchType::Merge, r#"{"description": null}"#,
//!     FieldValidation::Warn,
//! );
//! assert_eq!(patched.unwrap().value.get("description"), None);
//! ```

mod convert;
mod operations;
pub mod strategic;

use serde_json::Value;

use crate::field_error::FieldError;
use crate::names::quoted_json;
use crate::request_body::{
    Body, FieldValidation, duplicates, go_syntax_error, other_kind, read_object, read_sound,
};
use crate::resource_type::ResourceType;
use crate::schema::{self, FieldType};
use crate::status::{Qualified, Status};
pub(crate) use convert::{from_map, go_text};
pub use operations::{COPIED_BYTES_MAX, OPERATIONS_MAX};

/// The form of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PatchType {
    /// JSON patch.
    Json,
    /// JSON merge patch.
    Merge,
    /// Strategic merge patch.
    StrategicMerge,
}

impl PatchType {
    /// The form that a content type stands for; parameters such as `charset` are ignored.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::StrategicMerge),
            _ => None,
        }
    }
}

/// The object after a patch. It is not defaulted.
///
/// # Errors
///
/// If the patch cannot be read or applied, or the outcome is not an object of the kind.
pub fn apply(
    resource: &ResourceType,
    live: &Value,
    patch_type: PatchType,
    patch: &str,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let changes: Value = serde_json::from_str(patch).map_err(|error| match patch_type {
        PatchType::StrategicMerge => Status::bad_request(go_syntax_error(patch, &error)),
        _ => Status::bad_request("invalid JSON patch"),
    })?;
    let mut strange = duplicates(patch);
    if patch_type == PatchType::Json {
        strange
            .iter_mut()
            .for_each(|it| it.insert_str(0, "json patch "));
    }
    match patch_type {
        PatchType::StrategicMerge if resource.type_name.is_none() => {
            Err(Status::unsupported_media_type(&OF_CUSTOM_RESOURCES))
        }
        PatchType::StrategicMerge => apply_strategic(resource, live, changes, strange, validation),
        PatchType::Merge => {
            let merged = merge(live, &changes)?;
            let text = || text_of(resource, &merged, Some(&changes));
            finish(resource, &merged, text, strange, validation)
        }
        PatchType::Json => {
            strange.extend(operations::check_types(&changes, validation)?);
            let patched = operations::apply(live, &changes)?;
            let text = || text_of(resource, &patched, None);
            finish(resource, &patched, text, strange, validation)
        }
    }
}

/// The forms of patches that custom resources know.
const OF_CUSTOM_RESOURCES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    crate::server_side_apply::CONTENT_TYPE,
];

/// The mistake of a patch that makes no object of the kind.
fn no_object(shown: &str, why: impl Into<String>) -> Status {
    let error = FieldError::invalid("patch", shown, why);
    Status::invalid(Qualified::default(), "", &[error])
}

/// Reads what a patch has made as an object. Only mistakes are told by the text of it, which takes
/// long to write.
fn finish(
    resource: &ResourceType,
    patched: &Value,
    text: impl FnOnce() -> String,
    mut strange: Vec<String>,
    validation: FieldValidation,
) -> Result<Body, Status> {
    if let Some(why) = other_kind(resource, patched) {
        return Err(no_object(&text(), why));
    }
    check_custom_kind(resource, patched)?;
    if resource.type_name.is_some() && patched.is_object() && !has_text(patched, "apiVersion") {
        // Kubernetes reads what has no version as its own form of objects, whose fields have no
        // names in JSON: nothing is found, not even who it is.
        let value = Value::Object(serde_json::Map::new());
        let warnings = Vec::new();
        return Ok(Body { value, warnings });
    }
    if strange.is_empty()
        && let Some(value) = read_sound(resource, patched)
    {
        let warnings = Vec::new();
        return Ok(Body { value, warnings });
    }
    let text = &text();
    let read = read_object(resource, text).map_err(|why| no_object(text, why))?;
    strange.extend(read.strict);
    let warnings = validation
        .judge(strange)
        .map_err(|why| no_object(text, why))?;
    let value = read.value;
    Ok(Body { value, warnings })
}

fn has_text(object: &Value, field: &str) -> bool {
    let text = object.get(field).and_then(Value::as_str);
    text.is_some_and(|it| !it.is_empty())
}

/// A custom resource keeps its kind, which is told as any other mistake of the object.
fn check_custom_kind(resource: &ResourceType, patched: &Value) -> Result<(), Status> {
    let text = |pointer: &str| patched.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or(&resource.kind);
    if resource.type_name.is_some() || kind == resource.kind {
        return Ok(());
    }
    let error = FieldError::invalid("kind", kind, format!("must be {}", resource.kind));
    let name = text("/metadata/name").unwrap_or_default();
    Err(Status::invalid(resource.qualified(), name, &[error]))
}

fn merge(live: &Value, changes: &Value) -> Result<Value, Status> {
    if !changes.is_object() {
        let found = match changes {
            Value::Array(_) => "array",
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Bool(_) => "bool",
            _ => return Err(Status::bad_request("Invalid JSON Patch")),
        };
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go value of type \
             map[string]interface {{}}"
        )));
    }
    let mut merged = live.clone();
    json_patch::merge(&mut merged, changes);
    Ok(merged)
}

fn apply_strategic(
    resource: &ResourceType,
    live: &Value,
    changes: Value,
    mut strange: Vec<String>,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let type_name = resource.type_name.unwrap_or_default();
    let Value::Object(changes) = changes else {
        return Err(Status::bad_request(
            "json: cannot unmarshal into Go value of type map[string]interface {}",
        ));
    };
    let shown = convert::go_text(&Value::Object(changes.clone()));
    let merged = strategic::merge(type_name, live, changes)?;
    let converted = convert::from_map(type_name, merged).map_err(|why| no_object(&shown, why))?;
    strange.extend(converted.strict);
    let warnings = validation
        .judge(strange)
        .map_err(|why| no_object(&shown, why))?;
    let value = converted.value;
    Ok(Body { value, warnings })
}

/// An object as the API server writes it after a patch. What the patch went through has its
/// fields sorted, as has the object itself; all else is in the order of its type.
fn text_of(resource: &ResourceType, value: &Value, patch: Option<&Value>) -> String {
    let type_name = resource.type_name.unwrap_or_default();
    let object_type = FieldType::Object(type_name.to_owned());
    let whole = Value::Object(serde_json::Map::new());
    text(value, &object_type, Some(patch.unwrap_or(&whole)))
}

fn text(value: &Value, field_type: &FieldType, patch: Option<&Value>) -> String {
    match value {
        Value::Object(fields) => {
            let type_name = field_type.object().unwrap_or_default();
            let is_sorted = patch.is_some_and(Value::is_object);
            let order = match is_sorted {
                true => &[],
                false => schema::field_order(type_name),
            };
            let place =
                |name: &String| order.iter().position(|it| it == name).unwrap_or(usize::MAX);
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_by_key(|name| (place(name), *name));
            let parts = names.into_iter().map(|name| {
                let inner = match field_type {
                    FieldType::Map(value_type) => value_type.as_ref(),
                    _ => {
                        schema::field(type_name, name).map_or(&FieldType::Any, |it| &it.field_type)
                    }
                };
                let patch = patch.and_then(|patch| patch.get(name));
                format!(
                    "{}:{}",
                    quoted_json(name),
                    text(&fields[name], inner, patch)
                )
            });
            format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
        }
        Value::Array(elements) => {
            let inner = match field_type {
                FieldType::List(element_type) => element_type.as_ref(),
                _ => &FieldType::Any,
            };
            let parts: Vec<String> = elements.iter().map(|it| text(it, inner, None)).collect();
            format!("[{}]", parts.join(","))
        }
        Value::String(text) => quoted_json(text),
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode::ObjectKind;

    fn class() -> Value {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "high", "uid": "u", "labels": {"a": "<"}},
            "value": 7, "preemptionPolicy": "Never",
        })
    }

    fn patched(patch_type: PatchType, patch: Value) -> Result<Body, Status> {
        let (kind, patch) = (ObjectKind::PriorityClass, patch.to_string());
        apply(
            kind.into(),
            &class(),
            patch_type,
            &patch,
            FieldValidation::Warn,
        )
    }

    #[test]
    fn every_form_changes_an_object() {
        let patches = [
            (PatchType::Merge, json!({"value": 8, "nosuch": 1})),
            (PatchType::StrategicMerge, json!({"value": 8, "nosuch": 1})),
            (
                PatchType::Json,
                json!([{"op": "replace", "path": "/value", "value": 8},
                       {"op": "add", "path": "/nosuch", "value": 1}]),
            ),
        ];
        for (patch_type, patch) in patches {
            let body = patched(patch_type, patch).expect("applied");
            assert_eq!(body.value["value"], 8);
            assert_eq!(body.value["preemptionPolicy"], "Never");
            assert_eq!(body.warnings, ["unknown field \"nosuch\""]);
        }
    }

    #[test]
    fn what_comes_out_must_be_an_object_of_the_kind() {
        let refused = patched(PatchType::Merge, json!({"value": "7"})).expect_err("refused");
        assert_eq!(
            refused.message,
            r#" "" is invalid: patch: Invalid value: "{\"apiVersion\":\"scheduling.k8s.io/v1\",\"kind\":\"PriorityClass\",\"metadata\":{\"name\":\"high\",\"uid\":\"u\",\"labels\":{\"a\":\"\\u003c\"}},\"preemptionPolicy\":\"Never\",\"value\":\"7\"}": json: cannot unmarshal string into Go struct field PriorityClass.value of type int32"#
        );
        let refused = patched(
            PatchType::StrategicMerge,
            json!({"value": "7", "description": "d"}),
        );
        assert_eq!(
            refused.expect_err("refused").message,
            " \"\" is invalid: patch: Invalid value: \"map[description:d value:7]\": unrecognized \
             type: int32"
        );
    }

    #[test]
    fn an_operation_that_cannot_be_carried_out_ends_the_patch() {
        for (operation, message) in [
            (
                json!({"op": "test", "path": "/value", "value": 8}),
                "testing value /value failed: test failed",
            ),
            (
                json!({"op": "remove", "path": "/description"}),
                "error in remove for path: '/description': Unable to remove nonexistent key: \
                 description: missing value",
            ),
            (
                json!({"op": "add", "path": "/spec/a", "value": 1}),
                "add operation does not apply: doc is missing path: \"/spec/a\": missing value",
            ),
        ] {
            let refused = patched(PatchType::Json, json!([operation])).expect_err("refused");
            assert_eq!((refused.code, refused.message.as_str()), (422, message));
        }
    }

    #[test]
    fn no_patch_makes_another_kind_of_an_object() {
        let known = "converting (v1.Pod) to (scheduling.PriorityClass): unknown conversion";
        let unknown = "no kind \"Whale\" is registered for version \"v1\" in scheme \
                       \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"";
        for (kind, why) in [("Pod", known), ("Whale", unknown)] {
            let merge = json!({"apiVersion": "v1", "kind": kind});
            let operations = json!([{"op": "replace", "path": "/kind", "value": kind},
                                    {"op": "replace", "path": "/apiVersion", "value": "v1"}]);
            for (patch_type, patch) in [(PatchType::Merge, &merge), (PatchType::Json, &operations)]
            {
                let refused = patched(patch_type, patch.clone()).expect_err("refused");
                assert_eq!(refused.code, 422);
                let start = " \"\" is invalid: patch: Invalid value: \"{";
                assert!(refused.message.starts_with(start), "{refused}");
                let end = format!("}}\": {why}");
                assert!(refused.message.ends_with(&end), "{refused}");
            }
            // What is merged by the types of fields goes by the type of the object.
            assert!(patched(PatchType::StrategicMerge, merge).is_ok());
        }
        // The kind alone may be missing, the version may not.
        let body = patched(PatchType::Merge, json!({"kind": null})).expect("applied");
        assert_eq!(body.value["metadata"]["name"], "high");
        let body = patched(PatchType::Merge, json!({"apiVersion": null})).expect("applied");
        assert_eq!(body.value, json!({}));
    }

    #[test]
    fn patched_bytes_are_base64() {
        let secrets = ResourceType::of_kind("v1", "Secret").expect("a type");
        let live = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}});
        let why = "illegal base64 data at input byte 0";
        let merge = json!({"data": {"a": "%%%"}});
        for (patch_type, patch, why) in [
            (PatchType::Merge, &merge, why.to_owned()),
            (
                PatchType::StrategicMerge,
                &merge,
                format!("error decoding from json: {why}"),
            ),
            (
                PatchType::Json,
                &json!([{"op": "add", "path": "/data", "value": {"a": "%%%"}}]),
                why.to_owned(),
            ),
        ] {
            let patch = patch.to_string();
            let refused = apply(secrets, &live, patch_type, &patch, FieldValidation::Warn);
            let refused = refused.expect_err("refused");
            assert_eq!(refused.code, 422);
            assert!(refused.message.ends_with(&format!(": {why}")), "{refused}");
        }
    }
}
