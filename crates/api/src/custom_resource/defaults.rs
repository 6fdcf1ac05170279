//! What is written into objects where nothing was written.
//!
//! Source, Kubernetes 1.36:
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting/algorithm.go`.

use serde_json::Value;

use super::prune::prune_nulls;
use super::schema::{Additional, Schema};

/// Writes the defaults of the schema into an object; `null` where it is no value is replaced by
/// the default, or taken out if there is none.
pub fn default_object(schema: &Schema, object: &mut Value) {
    prune_nulls(Some(schema), object);
    default_value(schema, object);
}

fn default_value(schema: &Schema, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                match fields.get_mut(name) {
                    None => {
                        fields.insert(name.clone(), default.clone());
                    }
                    Some(value) => default_null(property, value),
                }
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    default_value(property, value);
                } else if let Additional::Values(values) = &schema.additional {
                    default_null(values, value);
                    default_value(values, value);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(items) = &schema.items {
                for element in elements {
                    default_null(items, element);
                    default_value(items, element);
                }
            }
        }
        _ => {}
    }
}

fn default_null(schema: &Schema, value: &mut Value) {
    if let (Value::Null, false, Some(default)) = (&*value, schema.is_nullable, &schema.default) {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_come_where_nothing_was_written() {
        let schema = Schema::read(&json!({"type": "object", "properties": {"spec": {
        "type": "object", "default": {}, "properties": {
            "a": {"type": "string", "default": "x"},
            "b": {"type": "string", "default": "y", "nullable": true},
            "c": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {
                "d": {"type": "integer", "default": 1}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {
                "d": {"type": "integer", "default": 2}}}},
        }}}}));
        let mut empty = json!({"metadata": {}});
        default_object(&schema, &mut empty);
        assert_eq!(empty["spec"], json!({"a": "x", "b": "y"}));
        let mut given = json!({"spec": {"a": null, "b": null, "c": null, "list": [{}],
                                        "map": {"k": {}, "l": {"d": 3}}}});
        default_object(&schema, &mut given);
        assert_eq!(
            given["spec"],
            json!({"a": "x", "b": null, "list": [{"d": 1}], "map": {"k": {"d": 2}, "l": {"d": 3}}})
        );
        let before = given.clone();
        default_object(&schema, &mut given);
        assert_eq!(given, before);
    }
}
