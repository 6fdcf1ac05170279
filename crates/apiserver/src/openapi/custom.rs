//! Schemas of custom resources, as their definitions have them.

use outrank_api::resource_type::ResourceType;
use serde_json::{Map, Value, json};

use super::{descriptions, schemas};

/// What the definition of a custom resource says of the objects of one of its versions.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomSchema {
    /// The group, such as `batch.example.com`.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The kind, such as `Training`.
    pub kind: String,
    /// The `openAPIV3Schema`, which goes into the document as it is; what is no object counts as
    /// none.
    pub schema: Value,
}

/// The name of the schema of a custom kind: the group backwards, version and kind, such as
/// `com.example.batch.v1.Training` (`apiextensions-apiserver/pkg/controller/openapi/builder`,
/// Kubernetes 1.36).
pub(super) fn name(it: &ResourceType) -> String {
    let mut parts: Vec<&str> = it.group.split('.').collect();
    parts.reverse();
    parts.push(&it.version);
    parts.push(&it.kind);
    parts.join(".")
}

/// The schema of the objects of a custom type, with what all objects have.
pub(super) fn object(it: &ResourceType, own: Option<&Value>) -> Value {
    let mut schema = match own {
        Some(Value::Object(own)) => own.clone(),
        _ => {
            let mut any = Map::new();
            any.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
            any
        }
    };
    schema.insert("type".into(), "object".into());
    schema.insert(schemas::GROUP_VERSION_KIND.into(), schemas::kind_of(it, ""));
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    for name in ["apiVersion", "kind"] {
        let text = descriptions::of_any_object(name);
        properties[name] = json!({ "type": "string", "description": text });
    }
    properties["metadata"] =
        schemas::described_reference("ObjectMeta", descriptions::of_any_object("metadata"));
    Value::Object(schema)
}
