//! Fields that the schema does not have are taken out of objects.
//!
//! Sources, Kubernetes 1.36: `k8s.io/apiextensions-apiserver/pkg/apiserver/schema`,
//! `pruning/algorithm.go`, `defaulting/prunenulls.go`.

use serde_json::{Map, Value};

use super::schema::{Additional, Schema};
use crate::request_body::may_tell_more;

/// Takes out what the schema does not have, and tells the paths of it, sorted, but of no more than
/// are told of a body. The metadata of the object and of objects inside is not looked at.
pub fn prune(schema: &Schema, object: &mut Value) -> Vec<String> {
    let mut pruning = Pruning {
        path: String::new(),
        unknown: Vec::new(),
    };
    if let Value::Object(fields) = object {
        pruning.fields(Some(schema), true, schema.preserves_unknown_fields, fields);
    }
    pruning.unknown.sort_unstable();
    pruning.unknown
}

/// The same for a value of a field.
pub(crate) fn prune_value(schema: &Schema, value: &mut Value) -> Vec<String> {
    let mut pruning = Pruning {
        path: String::new(),
        unknown: Vec::new(),
    };
    pruning.value(Some(schema), false, value);
    pruning.unknown
}

/// Takes out `null` where it is no value and there is no default: who writes it means nothing.
pub(super) fn prune_nulls(schema: Option<&Schema>, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let inner = schema.and_then(|schema| schema.field(name));
            let is_wrong = |schema: &Schema| !schema.is_nullable && schema.default.is_none();
            if value.is_null() && inner.is_some_and(is_wrong) {
                return false;
            }
            prune_nulls(inner, value);
            true
        }),
        Value::Array(elements) => {
            let items = schema.and_then(|schema| schema.items.as_deref());
            elements.iter_mut().for_each(|it| prune_nulls(items, it));
        }
        _ => {}
    }
}

struct Pruning {
    path: String,
    unknown: Vec<String>,
}

impl Pruning {
    /// `keeps_all`: what is around says that unknown fields stay.
    fn value(&mut self, schema: Option<&Schema>, keeps_all: bool, value: &mut Value) {
        let keeps_all = keeps_all || schema.is_some_and(|schema| schema.preserves_unknown_fields);
        match value {
            Value::Object(fields) => {
                let is_object = schema.is_some_and(|schema| schema.is_embedded_resource);
                self.fields(schema, is_object, keeps_all, fields);
            }
            Value::Array(elements) => {
                let items = schema.and_then(|schema| schema.items.as_deref());
                let length = self.path.len();
                for (index, element) in elements.iter_mut().enumerate() {
                    self.path.push_str(&format!("[{index}]"));
                    self.value(items, keeps_all, element);
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn fields(
        &mut self,
        schema: Option<&Schema>,
        is_object: bool,
        keeps_all: bool,
        fields: &mut Map<String, Value>,
    ) {
        let length = self.path.len();
        fields.retain(|name, value| {
            if is_object && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
            let inner = schema.and_then(|schema| schema.field(name));
            let has_any = schema.is_some_and(|it| it.additional == Additional::Anything);
            let stays = match inner {
                Some(inner) => {
                    self.value(Some(inner), false, value);
                    true
                }
                None if has_any => {
                    // Whatever is in there has no schema.
                    self.value(None, false, value);
                    true
                }
                None => keeps_all,
            };
            if !stays && may_tell_more(&self.unknown) {
                self.unknown.push(self.path.clone());
            }
            self.path.truncate(length);
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_has_no_schema_goes_and_is_told() {
        let schema = Schema::read(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "string"},
                "list": {"type": "array", "items": {"type": "object", "properties": {
                    "x": {"type": "string"}}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                         "properties": {"known": {"type": "object"}}},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "object": {"type": "object", "x-kubernetes-embedded-resource": true,
                           "properties": {"spec": {"type": "object"}}},
            }},
        }}));
        let mut object = json!({
            "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "odd": 1}, "other": 1,
            "spec": {
                "a": "b", "b": 1, "list": [{"x": "y", "z": 1}],
                "free": {"any": {"thing": 1}, "known": {"not": 1}}, "map": {"k": 1},
                "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                           "spec": {"q": 1}, "status": {}},
            },
        });
        let unknown = prune(&schema, &mut object);
        assert_eq!(
            unknown,
            [
                "other",
                "spec.b",
                "spec.free.known.not",
                "spec.list[0].z",
                "spec.object.spec.q",
                "spec.object.status"
            ]
        );
        assert_eq!(
            object,
            json!({
                "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n", "odd": 1},
                "spec": {
                    "a": "b", "list": [{"x": "y"}], "free": {"any": {"thing": 1}, "known": {}},
                    "map": {"k": 1},
                    "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                               "spec": {}},
                },
            })
        );
        assert_eq!(prune(&schema, &mut object), Vec::<String>::new());
    }
}
