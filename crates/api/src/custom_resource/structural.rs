//! Whether a schema is structural: it says once, and outside of alternatives, which fields there
//! are and of what type.
//!
//! Objects of a custom resource are pruned, defaulted and merged by the structural part alone;
//! `allOf`, `anyOf`, `oneOf` and `not` only add conditions on values. Sources, Kubernetes 1.36:
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{validation,complete}.go`, KEP-1 of
//! sig-api-machinery ("Vanilla OpenAPI Subset: Structural Schema").

use serde_json::{Map, Value, json};

use super::pattern::Pattern;
use crate::diagnostic::Here;
use crate::field_error::FieldError;

/// The alternatives by which a schema is about numbers and strings.
const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// What is wrong with a schema, sorted.
pub(super) fn errors(schema: &Value, here: &Here<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, here, &mut errors);
    let path = here.path().to_string();
    conditions(schema, Some(schema), here, &path, &mut errors);
    errors.sort_by_cached_key(FieldError::to_string);
    errors
}

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Items,
    Field,
}

pub(super) fn text<'v>(schema: &'v Value, name: &str) -> &'v str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn list<'v>(schema: &'v Value, name: &str) -> &'v [Value] {
    let list = schema.get(name).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

pub(super) fn map<'v>(
    schema: &'v Value,
    name: &str,
) -> impl Iterator<Item = (&'v String, &'v Value)> {
    let map = schema.get(name).and_then(Value::as_object);
    map.into_iter().flatten()
}

pub(super) fn object<'v>(schema: &'v Value, name: &str) -> Option<&'v Value> {
    schema.get(name).filter(|value| value.is_object())
}

fn invariants(schema: &Value, level: Level, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    let value_type = text(schema, "type");
    if value_type == "array" && object(schema, "items").is_none() {
        errors.push(FieldError::required(
            &here.field("items"),
            "must be specified",
        ));
    }
    if let Some(items) = object(schema, "items") {
        invariants(items, Level::Items, &here.field("items"), errors);
    }
    for (name, property) in map(schema, "properties") {
        let (properties, level) = (here.field("properties"), Level::Field);
        invariants(property, level, &properties.key(name), errors);
    }
    additional(schema, level, here, errors);
    extensions(schema, here, errors);
    let skips = (
        is_int_or_string(schema, "anyOf"),
        starts_int_or_string(schema),
    );
    values(schema, skips, here, errors);
    types(schema, level, here, errors);
    metadata(schema, level, here, errors);
}

fn additional(schema: &Value, level: Level, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    let here = here.field("additionalProperties");
    match schema.get("additionalProperties") {
        None | Some(Value::Null) => return,
        Some(values @ Value::Object(_)) => invariants(values, Level::Field, &here, errors),
        Some(_) => {}
    }
    if level == Level::Root {
        errors.push(FieldError::forbidden(&here, "must not be used at the root"));
    }
    if flag(schema, "x-kubernetes-embedded-resource") {
        let rule = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&here, rule));
    }
}

fn extensions(schema: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    for name in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if flag(schema, "x-kubernetes-int-or-string") && flag(schema, name) {
            let rule = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&here.field(name), true, rule));
        }
    }
}

fn types(schema: &Value, level: Level, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    let value_type = text(schema, "type");
    let is_object = flag(schema, "x-kubernetes-embedded-resource");
    let may_be_without = flag(schema, "x-kubernetes-int-or-string")
        || flag(schema, "x-kubernetes-preserve-unknown-fields");
    let here_type = here.field("type");
    let rule = "must be object if x-kubernetes-embedded-resource is true";
    match value_type {
        "" if is_object => errors.push(FieldError::required(&here_type, rule)),
        other if is_object && other != "object" => {
            errors.push(FieldError::invalid(&here_type, other, rule));
        }
        "" if !may_be_without => {
            let rule = match level {
                Level::Root => "must not be empty at the root",
                Level::Items => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            };
            errors.push(FieldError::required(&here_type, rule));
        }
        _ => {}
    }
    if level == Level::Root && !matches!(value_type, "" | "object") {
        let rule = "must be object at the root";
        errors.push(FieldError::invalid(&here_type, value_type, rule));
    }
}

/// What a schema may say of the fields that every object has.
fn metadata(schema: &Value, level: Level, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    let is_object = flag(schema, "x-kubernetes-embedded-resource");
    let properties = here.field("properties");
    let property = |name: &str| schema.get("properties")?.get(name);
    if level == Level::Root || is_object {
        for name in ["kind", "apiVersion"] {
            if let Some(found) = property(name).map(|it| text(it, "type"))
                && found != "string"
            {
                let key = properties.key(name);
                errors.push(FieldError::invalid(
                    &key.field("type"),
                    found,
                    "must be string",
                ));
            }
        }
    }
    if let Some(metadata) = property("metadata") {
        let key = properties.key("metadata");
        let found = text(metadata, "type");
        if (level == Level::Root || is_object) && found != "object" {
            errors.push(FieldError::invalid(
                &key.field("type"),
                found,
                "must be object",
            ));
        }
        if level == Level::Root && !is_about_names(metadata) {
            let rule = "must not specify anything other than name and generateName, but metadata is \
                        implicitly specified";
            errors.push(FieldError::forbidden(&key, rule));
        }
    }
    let has_properties = map(schema, "properties").next().is_some();
    if is_object && !flag(schema, "x-kubernetes-preserve-unknown-fields") && !has_properties {
        let rule = "must not be empty if x-kubernetes-embedded-resource is true without \
                    x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&properties, rule));
    }
}

fn is_about_names(metadata: &Value) -> bool {
    let fields = metadata.as_object().into_iter().flatten();
    let is_expected = |(name, value): (&String, &Value)| match name.as_str() {
        "type" | "default" => true,
        "properties" => map(metadata, "properties")
            .all(|(name, _)| matches!(name.as_str(), "name" | "generateName")),
        _ => value.is_null(),
    };
    fields.into_iter().all(is_expected)
}

/// Whether the alternatives of a schema are exactly a number and a string.
fn is_int_or_string(schema: &Value, name: &str) -> bool {
    schema.get(name) == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn starts_int_or_string(schema: &Value) -> bool {
    let first = list(schema, "allOf").first();
    first.is_some_and(|first| is_int_or_string(first, "anyOf"))
}

/// Conditions on values; `skips` says whether `anyOf`, and that of the first of `allOf`, is the
/// pattern of numbers and strings, which may name types.
fn values(schema: &Value, skips: (bool, bool), here: &Here<'_>, errors: &mut Vec<FieldError>) {
    for name in ALTERNATIVES {
        if name == "anyOf" && skips.0 {
            continue;
        }
        for (index, part) in list(schema, name).iter().enumerate() {
            let skips_any = name == "allOf" && index == 0 && skips.1;
            let here = here.field(name);
            nested(part, skips_any, &here.index(index), errors);
        }
    }
    if let Some(not) = object(schema, "not") {
        nested(not, false, &here.field("not"), errors);
    }
    let pattern = text(schema, "pattern");
    if !pattern.is_empty()
        && let Some(why) = Pattern::new(pattern).error()
    {
        let rule = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(&here.field("pattern"), pattern, rule));
    }
}

/// A schema that is only a condition on values.
fn nested(schema: &Value, skips_any: bool, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    const FORBIDDEN: [(&str, &str); 13] = [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-embedded-resource",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-int-or-string",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-list-map-keys",
            "must be empty to be structural",
        ),
        (
            "x-kubernetes-list-type",
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-map-type",
            "must be undefined to be structural",
        ),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ];
    values(schema, (skips_any, false), here, errors);
    if let Some(items) = object(schema, "items") {
        nested(items, false, &here.field("items"), errors);
    }
    let properties = here.field("properties");
    for (name, property) in map(schema, "properties") {
        nested(property, false, &properties.key(name), errors);
    }
    for (name, rule) in FORBIDDEN {
        if schema.get(name).is_some_and(says_something) {
            errors.push(FieldError::forbidden(&here.field(name), rule));
        }
    }
    if schema.pointer("/properties/metadata").is_some() {
        let rule = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(&properties.key("metadata"), rule));
    }
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => true,
    }
}

/// Fields that conditions are about must be in the structural part.
fn conditions(
    schema: &Value,
    structure: Option<&Value>,
    here: &Here<'_>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for name in ALTERNATIVES {
        for (index, part) in list(schema, name).iter().enumerate() {
            let path = format!("{path}.{name}[{index}]");
            condition(part, structure, here, &path, errors);
        }
    }
    if let Some(not) = object(schema, "not") {
        condition(not, structure, here, &format!("{path}.not"), errors);
    }
}

fn condition(
    schema: &Value,
    structure: Option<&Value>,
    here: &Here<'_>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let missing = |here: &Here<'_>, path: &str| {
        FieldError::required(here, format!("because it is defined in {path}"))
    };
    let Some(structure) = structure else {
        errors.push(missing(here, path));
        return;
    };
    conditions(schema, Some(structure), here, path, errors);
    if let Some(items) = object(schema, "items") {
        let path = format!("{path}.items");
        condition(
            items,
            object(structure, "items"),
            &here.field("items"),
            &path,
            errors,
        );
    }
    let properties = here.field("properties");
    let empty = Map::new();
    let known = structure.get("properties").and_then(Value::as_object);
    let known = known.unwrap_or(&empty);
    for (name, property) in map(schema, "properties") {
        let (here, path) = (properties.key(name), format!("{path}.properties[{name}]"));
        match known.get(name) {
            Some(structure) => condition(property, Some(structure), &here, &path, errors),
            None => errors.push(missing(&here, &path)),
        }
    }
}
