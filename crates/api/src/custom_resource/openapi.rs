//! What Kubernetes takes of JSON Schema, and what its own extensions demand.
//!
//! Source, Kubernetes 1.36: `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation`.

use serde_json::Value;

use super::prune::prune_value;
use super::schema::Schema;
use super::structural::{flag, list, map, object, text};
use super::validation::validate_at;
use crate::diagnostic::{FieldPath, Here, Segment};
use crate::field_error::FieldError;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What is wrong with a schema, apart from what [`super::structural`] demands.
pub(super) fn errors(schema: &Value, here: &Here<'_>, place: Place, errors: &mut Vec<FieldError>) {
    unsupported(schema, here, place, errors);
    let properties_here = here.field("properties");
    let additional_here = here.field("additionalProperties");
    let has_properties = map(schema, "properties").next().is_some();
    match schema.get("additionalProperties") {
        Some(values) if has_properties && *values != Value::Bool(true) && !values.is_null() => {
            let rule = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(&additional_here, rule));
        }
        _ => {}
    }
    if let Some(values) = object(schema, "additionalProperties") {
        let inner = match place.is_metadata {
            true => {
                place.without_defaults("inside additionalProperties applying to object metadata")
            }
            false => place,
        };
        self::errors(values, &additional_here, inner.below(), errors);
    }
    let is_object = place.is_root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, property) in map(schema, "properties") {
        let mut inner = place.below();
        if is_object && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            inner.is_metadata = true;
            if place.is_root {
                inner = inner.without_defaults(match name.as_str() {
                    "metadata" => "in top-level metadata",
                    "kind" => "in top-level kind",
                    _ => "in top-level apiVersion",
                });
            }
        }
        self::errors(property, &properties_here.key(name), inner, errors);
    }
    for name in ["not", "items"] {
        if let Some(inner) = object(schema, name) {
            self::errors(inner, &here.field(name), place.below(), errors);
        }
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let here = here.field(name);
        for (index, inner) in list(schema, name).iter().enumerate() {
            self::errors(inner, &here.index(index), place.below(), errors);
        }
    }
    extensions(schema, here, errors);
    list_keys(schema, here, errors);
    rules(schema, here, errors);
}

/// Where a schema stands.
#[derive(Clone, Copy)]
pub(super) struct Place {
    is_root: bool,
    /// Whether it is about a field that all objects have.
    is_metadata: bool,
    /// Where defaults must not be, if they must not.
    no_defaults: Option<&'static str>,
}

impl Place {
    pub(super) const ROOT: Self = Self {
        is_root: true,
        is_metadata: false,
        no_defaults: None,
    };

    fn below(self) -> Self {
        Self {
            is_root: false,
            ..self
        }
    }

    fn without_defaults(self, place: &'static str) -> Self {
        Self {
            no_defaults: Some(place),
            ..self
        }
    }
}

fn unsupported(schema: &Value, here: &Here<'_>, place: Place, errors: &mut Vec<FieldError>) {
    let value_type = text(schema, "type");
    let mut forbidden = |name: &str, rule: String| {
        errors.push(FieldError::forbidden(&here.field(name), rule));
    };
    if schema.get("default").is_some_and(|it| !it.is_null())
        && let Some(where_not) = place.no_defaults
    {
        forbidden("default", format!("must not be set {where_not}"));
    }
    for name in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if schema.get(name).is_some_and(|it| !it.is_null()) {
            forbidden(name, format!("{name} is not supported"));
        }
    }
    if value_type == "null" {
        let rule = "type cannot be set to null, use nullable as an alternative";
        forbidden("type", rule.to_owned());
    }
    if !list(schema, "items").is_empty() {
        let rule = "items must be a schema object and not an array";
        forbidden("items", rule.to_owned());
    }
    if place.is_metadata && flag(schema, "x-kubernetes-embedded-resource") {
        let rule = "must not be used inside of resource meta";
        forbidden("x-kubernetes-embedded-resource", rule.to_owned());
    }
    if flag(schema, "uniqueItems") {
        let rule =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        forbidden("uniqueItems", rule.to_owned());
    }
    if !value_type.is_empty() && !TYPES.contains(&value_type) {
        let error = FieldError::not_supported(&here.field("type"), value_type, &TYPES);
        errors.push(error);
    }
}

fn extensions(schema: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    let value_type = text(schema, "type");
    let keep = "x-kubernetes-preserve-unknown-fields";
    if schema.get(keep) == Some(&Value::Bool(false)) {
        let rule = "must be true or undefined";
        errors.push(FieldError::invalid(&here.field(keep), false, rule));
    }
    for (name, needed, allowed) in [
        (
            "x-kubernetes-map-type",
            "object",
            &["atomic", "granular"][..],
        ),
        (
            "x-kubernetes-list-type",
            "array",
            &["atomic", "set", "map"][..],
        ),
    ] {
        let Some(Value::String(found)) = schema.get(name) else {
            continue;
        };
        let rule = format!("must be {needed} if {name} is specified");
        match value_type {
            "" => errors.push(FieldError::required(&here.field("type"), rule)),
            other if other != needed => {
                errors.push(FieldError::invalid(&here.field("type"), other, rule));
            }
            _ => {}
        }
        if !allowed.contains(&found.as_str()) {
            let error = FieldError::not_supported(&here.field(name), found.as_str(), allowed);
            errors.push(error);
        }
    }
    set_items(schema, here, errors);
}

/// Elements of a set are compared whole, so they must have one owner.
fn set_items(schema: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    let is_set = text(schema, "x-kubernetes-list-type") == "set";
    let Some(items) = object(schema, "items").filter(|_| is_set && text(schema, "type") == "array")
    else {
        return;
    };
    let rule = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let (name, is_wrong) = match text(items, "type") {
        "array" => {
            let name = "x-kubernetes-list-type";
            (name, !matches!(text(items, name), "" | "atomic"))
        }
        "object" => {
            let name = "x-kubernetes-map-type";
            (name, text(items, name) != "atomic")
        }
        _ => return,
    };
    if is_wrong {
        let here = here.field("items");
        let found = items.get("x-kubernetes-list-type").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(&here.field(name), found, rule));
    }
}

fn list_keys(schema: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    let list_type = text(schema, "x-kubernetes-list-type");
    let keys = list(schema, "x-kubernetes-list-map-keys");
    let type_here = here.field("x-kubernetes-list-type");
    let keys_here = here.field("x-kubernetes-list-map-keys");
    let items_here = here.field("items");
    let rule = "must be map if x-kubernetes-list-map-keys is non-empty";
    match list_type {
        "" if !keys.is_empty() => errors.push(FieldError::required(&type_here, rule)),
        other if !keys.is_empty() && other != "map" => {
            errors.push(FieldError::invalid(&type_here, other, rule));
        }
        _ => {}
    }
    if !matches!(list_type, "set" | "map") {
        return;
    }
    if list_type == "map" && keys.is_empty() {
        let rule = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_here, rule));
    }
    let Some(items) = object(schema, "items") else {
        if list_type == "map" {
            let rule = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(&items_here, rule));
        }
        return;
    };
    let item_type = text(items, "type");
    if list_type == "map" && item_type != "object" {
        let rule = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(
            &items_here.field("type"),
            item_type,
            rule,
        ));
    }
    if flag(items, "nullable") {
        let rule = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&items_here.field("nullable"), rule));
    }
    let shown = Value::Array(keys.to_vec());
    for (index, key) in keys.iter().enumerate() {
        if keys[..index].contains(key) {
            let rule = "must not contain duplicate entries";
            errors.push(FieldError::invalid(&keys_here, &shown, rule));
        }
        let name = key.as_str().unwrap_or_default();
        let properties = items_here.field("properties");
        match items.get("properties").and_then(|it| it.get(name)) {
            Some(property) => key_property(items, name, property, &properties.key(name), errors),
            None if item_type == "object" => {
                let rule = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_here, &shown, rule));
            }
            None => {}
        }
    }
}

/// A field that tells elements apart.
fn key_property(
    items: &Value,
    name: &str,
    property: &Value,
    here: &Here<'_>,
    errors: &mut Vec<FieldError>,
) {
    if matches!(text(property, "type"), "array" | "object") {
        let rule = "must be a scalar type if parent array's x-kubernetes-list-type is map";
        let found = text(items, "type");
        errors.push(FieldError::invalid(&here.field("type"), found, rule));
    }
    let is_required = list(items, "required").iter().any(|it| it == name);
    if !is_required && property.get("default").is_none_or(Value::is_null) {
        let rule = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                    required property";
        errors.push(FieldError::required(&here.field("default"), rule));
    }
    if flag(property, "nullable") {
        let rule = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
        errors.push(FieldError::forbidden(&here.field("nullable"), rule));
    }
}

/// CEL rules, as far as they can be told wrong without being read.
fn rules(schema: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    const REASONS: [&str; 4] = [
        "FieldValueDuplicate",
        "FieldValueForbidden",
        "FieldValueInvalid",
        "FieldValueRequired",
    ];
    let rules_here = here.field("x-kubernetes-validations");
    for (index, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        let here = rules_here.index(index);
        let (expression, message) = (text(rule, "rule"), text(rule, "message"));
        let (trimmed, told) = (expression.trim(), message.trim());
        let has_lines = |text: &str| text.contains(['\n', '\r']);
        let message_here = here.field("message");
        if trimmed.is_empty() {
            errors.push(FieldError::required(
                &here.field("rule"),
                "rule is not specified",
            ));
        } else if !message.is_empty() && told.is_empty() {
            let rule = "must be non-empty if specified";
            errors.push(FieldError::invalid(&message_here, message, rule));
        } else if has_lines(told) {
            let rule = "must not contain line breaks";
            errors.push(FieldError::invalid(&message_here, message, rule));
        } else if has_lines(trimmed) && told.is_empty() {
            let rule = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(&message_here, rule));
        }
        let reason = text(rule, "reason");
        if !reason.is_empty() && !REASONS.contains(&reason) {
            let error = FieldError::not_supported(&here.field("reason"), reason, &REASONS);
            errors.push(error);
        }
    }
}

/// Defaults that do not fit their own schema, sorted by where they are.
pub(super) fn default_errors(schema: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.get("default").filter(|it| !it.is_null()) {
        let (read, here) = (Schema::read(schema), here.field("default"));
        let mut pruned = default.clone();
        if !prune_value(&read, &mut pruned).is_empty() {
            let rule = "must not have unknown fields";
            errors.push(FieldError::invalid(&here, default, rule));
        }
        errors.extend(
            validate_at(&read, default, None, "")
                .into_iter()
                .map(|mut error| {
                    let inner = error
                        .path
                        .segments()
                        .iter()
                        .filter(|segment| match segment {
                            Segment::Field(name) => !name.is_empty() && name != "<nil>",
                            _ => true,
                        });
                    let path = here
                        .path()
                        .segments()
                        .iter()
                        .chain(inner)
                        .cloned()
                        .collect();
                    error.path = FieldPath::of(path);
                    error
                }),
        );
    }
    if let Some(items) = object(schema, "items") {
        default_errors(items, &here.field("items"), errors);
    }
    let properties = here.field("properties");
    for (name, property) in map(schema, "properties") {
        default_errors(property, &properties.key(name), errors);
    }
    if let Some(values) = object(schema, "additionalProperties") {
        default_errors(values, &here.field("additionalProperties"), errors);
    }
}
