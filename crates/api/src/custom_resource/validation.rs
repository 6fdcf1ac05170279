//! Whether a value fits its schema, in upstream's words.
//!
//! Sources, Kubernetes 1.36: `k8s.io/kube-openapi/pkg/validation/{validate,errors}` (checks and
//! texts), `k8s.io/apiextensions-apiserver/pkg/apiserver/validation/{validation,ratcheting}.go`,
//! `pkg/apiserver/schema/listtype/validation.go`. Where upstream walks through fields in no
//! order, names are in theirs here.

use std::collections::HashMap;

use serde_json::{Map, Number, Value, json};

use super::format;
use super::schema::{Limits, ListType, Schema, ValueType};
use crate::diagnostic::{FieldPath, Here, Segment};
use crate::field_error::{FieldError, go_json};
use crate::names::quoted;

/// What is wrong with an object of a custom resource, apart from its metadata, which is that of
/// any object ([`crate::metadata`]). In an update, what has not changed is not looked at, so
/// that a schema can become stricter without old objects getting stuck; `old` is the object as
/// it was.
///
/// CEL rules are not evaluated.
pub fn validate_object(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = validate_at(schema, object, old, "");
    lists(schema, object, &Here::OBJECT, &mut errors);
    errors
}

/// The same for a value that stands under a name.
pub(super) fn validate_at(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &str,
) -> Vec<FieldError> {
    let mut found = Found::default();
    found.merge(check(schema, value, old, path));
    let errors = found.errors.into_iter();
    errors.map(|(_, error)| error).collect()
}

/// What a check found; how much it looked at tells how near a schema is that does not fit.
#[derive(Default)]
struct Found {
    /// With the texts by which they are told apart.
    errors: Vec<(String, FieldError)>,
    matches: usize,
}

impl Found {
    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn merge(&mut self, other: Found) {
        self.matches += other.matches;
        for (text, error) in other.errors {
            self.add(text, error);
        }
    }

    fn add(&mut self, text: String, error: FieldError) {
        if !self.errors.iter().any(|(known, _)| *known == text) {
            self.errors.push((text, error));
        }
    }

    /// A mistake of the value at a path.
    fn invalid(&mut self, path: &str, value: &Value, rule: String) {
        let text = format!("{path} in body {rule}");
        let error = FieldError::invalid(at(path), value, text.as_str());
        self.add(text, error);
    }

    /// A mistake that upstream tells without its place.
    fn composite(&mut self, path: &str, rule: &str) {
        let text = format!("{} {rule}", quoted(path));
        let nowhere = FieldPath::of(vec![Segment::Field("<nil>".to_owned())]);
        let error = FieldError::invalid(nowhere, "", text.as_str());
        self.add(text, error);
    }
}

fn at(path: &str) -> FieldPath {
    // Keys of maps have dots, so the path stays in one piece.
    FieldPath::of(vec![Segment::Field(
        path.trim_start_matches('.').to_owned(),
    )])
}

fn check(schema: &Schema, value: &Value, old: Option<&Value>, path: &str) -> Found {
    let mut found = Found::default();
    if old == Some(value) {
        return found;
    }
    if check_type(schema, value, path, &mut found) && !value.is_null() {
        found.matches += 1;
    }
    if value.is_null() {
        check_enum(schema, value, path, &mut found);
        return found;
    }
    check_alternatives(schema, value, old, path, &mut found);
    match value {
        Value::String(text) => check_text(schema, text, value, path, &mut found),
        Value::Number(number) => check_number(schema, number, value, path, &mut found),
        Value::Array(elements) => check_elements(schema, elements, old, path, &mut found),
        _ => {}
    }
    check_enum(schema, value, path, &mut found);
    if let Value::Object(fields) = value {
        check_fields(schema, fields, old, path, &mut found);
    }
    found.matches += 1;
    found
}

fn check_type(schema: &Schema, value: &Value, path: &str, found: &mut Found) -> bool {
    let is_whole = |number: &Number| {
        !number.is_f64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
    };
    let fits_type = |expected: ValueType| match (expected, value) {
        (ValueType::Array, Value::Array(_))
        | (ValueType::Boolean, Value::Bool(_))
        | (ValueType::Number, Value::Number(_))
        | (ValueType::Object, Value::Object(_))
        | (ValueType::String, Value::String(_)) => true,
        (ValueType::Integer, Value::Number(number)) => is_whole(number),
        _ => false,
    };
    let (fits, expected) = match schema.value_type {
        _ if schema.is_int_or_string => (
            fits_type(ValueType::Integer) || value.is_string(),
            "integer,string",
        ),
        None => return true,
        Some(expected) => (fits_type(expected), expected.name()),
    };
    if fits || (value.is_null() && schema.is_nullable) {
        return true;
    }
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let text = format!("{path} in body must be of type {expected}: {}", quoted(is));
    let error = FieldError::type_invalid(at(path), is, text.as_str());
    found.add(text, error);
    false
}

fn check_text(schema: &Schema, text: &str, value: &Value, path: &str, found: &mut Found) {
    let Limits {
        characters_max,
        characters_min,
        pattern,
        ..
    } = &schema.limits;
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(max) = characters_max.filter(|max| length > *max) {
        let text = format!("{path} in body should be at most {max} chars long");
        let max = usize::try_from(max).unwrap_or_default();
        found.add(text, FieldError::too_long(at(path), max));
    } else if let Some(min) = characters_min.filter(|min| length < *min) {
        let rule = format!("should be at least {min} chars long");
        found.invalid(path, value, rule);
    } else if let Some(pattern) = pattern.as_ref().filter(|pattern| !pattern.fits(text)) {
        found.invalid(path, value, format!("should match '{}'", pattern.text));
    }
    if !schema.format.is_empty() && format::is_known(schema) && !format::fits(&schema.format, text)
    {
        let rule = format!("must be of type {}: {}", schema.format, quoted(text));
        let text = format!("{path} in body {rule}");
        found.add(
            text.clone(),
            FieldError::type_invalid(at(path), value, text.as_str()),
        );
    }
}

fn check_number(schema: &Schema, number: &Number, value: &Value, path: &str, found: &mut Found) {
    let limits = &schema.limits;
    let as_float = |number: &Number| number.as_f64().unwrap_or_default();
    // Whole numbers are compared as such, and their bounds are cut to whole ones.
    #[expect(clippy::cast_possible_truncation, reason = "as Go converts")]
    let order = |bound: &Number| match number.as_i64() {
        Some(whole) => whole.cmp(&(as_float(bound) as i64)),
        None => as_float(number).total_cmp(&as_float(bound)),
    };
    #[expect(clippy::cast_possible_truncation, reason = "as Go converts")]
    let shown = |bound: &Number| match number.as_i64() {
        Some(_) => (as_float(bound) as i64).to_string(),
        None => as_float(bound).to_string(),
    };
    let (of_32_bits, has_range) = match (schema.value_type, schema.format.as_str()) {
        (Some(ValueType::Integer), "int32") => (i32::MAX, true),
        _ => (0, false),
    };
    if has_range
        && number
            .as_i64()
            .is_none_or(|it| it.unsigned_abs() > of_32_bits.unsigned_abs().into())
        && number.as_i64() != Some(i32::MIN.into())
    {
        let text = format!("Checked value must be of type integer with format int32 in {path}");
        found.add(text.clone(), FieldError::invalid(at(path), value, text));
    }
    if let Some(factor) = &limits.multiple_of {
        let factor_value = as_float(factor);
        let quotient = as_float(number) / factor_value;
        if factor_value > 0.0 && (quotient - quotient.round()).abs() > 1e-9 {
            let rule = format!("should be a multiple of {}", shown(factor));
            found.invalid(path, value, rule);
        }
    }
    if let Some(min) = &limits.minimum {
        let is_less = order(min).is_lt();
        if limits.is_minimum_exclusive && order(min).is_le() {
            found.invalid(
                path,
                value,
                format!("should be greater than {}", shown(min)),
            );
        } else if is_less {
            let rule = format!("should be greater than or equal to {}", shown(min));
            found.invalid(path, value, rule);
        }
    }
    if let Some(max) = &limits.maximum {
        let is_more = order(max).is_gt();
        if limits.is_maximum_exclusive && order(max).is_ge() {
            found.invalid(path, value, format!("should be less than {}", shown(max)));
        } else if is_more {
            let rule = format!("should be less than or equal to {}", shown(max));
            found.invalid(path, value, rule);
        }
    }
    found.matches += 1;
}

fn check_elements(
    schema: &Schema,
    elements: &[Value],
    old: Option<&Value>,
    path: &str,
    found: &mut Found,
) {
    if let Some(items) = &schema.items {
        let before = by_keys(schema, old);
        for (index, element) in elements.iter().enumerate() {
            let old = keys_of(schema, element).and_then(|keys| before.get(&keys).copied());
            found.merge(check(items, element, old, &format!("{path}[{index}]")));
        }
    }
    let count = i64::try_from(elements.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.limits.items_min.filter(|min| count < *min) {
        let rule = format!("should have at least {min} items");
        found.invalid(path, &json!(count), rule);
    }
    if let Some(max) = schema.limits.items_max.filter(|max| count > *max) {
        let text = format!("{path} in body should have at most {max} items");
        found.add(text, FieldError::too_many(at(path), count, max));
    }
    found.matches += 1;
}

/// The elements of a list as it was, by what tells them apart; those of other lists have no
/// identity.
fn by_keys<'v>(schema: &Schema, old: Option<&'v Value>) -> HashMap<String, &'v Value> {
    let elements = old.and_then(Value::as_array).into_iter().flatten();
    let with_keys = elements.filter_map(|element| Some((keys_of(schema, element)?, element)));
    with_keys.collect()
}

fn keys_of(schema: &Schema, element: &Value) -> Option<String> {
    let ListType::Map(keys) = &schema.list_type else {
        return None;
    };
    let keys = keys.iter().map(|key| element.get(key).cloned());
    Some(json!(keys.collect::<Vec<_>>()).to_string())
}

fn check_fields(
    schema: &Schema,
    fields: &Map<String, Value>,
    old: Option<&Value>,
    path: &str,
    found: &mut Found,
) {
    let count = i64::try_from(fields.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.limits.properties_min.filter(|min| count < *min) {
        let rule = format!("should have at least {min} properties");
        found.invalid(path, &json!(count), rule);
    }
    if let Some(max) = schema.limits.properties_max.filter(|max| count > *max) {
        let text = format!("{path} in body should have at most {max} properties");
        found.add(text, FieldError::too_many(at(path), count, max));
    }
    let (known, others): (Vec<_>, Vec<_>) = fields
        .iter()
        .partition(|(name, _)| schema.properties.contains_key(*name));
    for (name, value) in others.into_iter().chain(known) {
        if let Some(inner) = schema.field(name) {
            let old = old.and_then(|old| old.get(name));
            let path = match (path, schema.properties.contains_key(name)) {
                ("", true) => name.clone(),
                _ => format!("{path}.{name}"),
            };
            found.merge(check(inner, value, old, &path));
        }
    }
    for name in &schema.required {
        if !fields.contains_key(name) {
            let path = format!("{path}.{name}");
            let text = format!("{path} in body is required");
            found.add(text, FieldError::required(at(&path), ""));
        }
    }
}

fn check_enum(schema: &Schema, value: &Value, path: &str, found: &mut Found) {
    let is_allowed = |allowed: &Value| crate::managed_fields::compare::is_same(allowed, value);
    if schema.allowed.is_empty() || schema.allowed.iter().any(is_allowed) {
        return;
    }
    let allowed: Vec<String> = schema
        .allowed
        .iter()
        .map(|allowed| match allowed {
            Value::String(text) => text.clone(),
            other => go_json(other),
        })
        .collect();
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    let text = format!("{path} in body should be one of {}", allowed.join(" "));
    // Upstream shows nothing as an empty text.
    let empty = Value::String(String::new());
    let shown = if value.is_null() { &empty } else { value };
    found.add(text, FieldError::not_supported(at(path), shown, &allowed));
}

/// `anyOf`, `oneOf`, `allOf` and `not`. Of alternatives that do not fit, the mistakes of the
/// one are told that is nearest.
fn check_alternatives(
    schema: &Schema,
    value: &Value,
    old: Option<&Value>,
    path: &str,
    found: &mut Found,
) {
    let check_all = |schemas: &[Schema]| -> Vec<Found> {
        schemas
            .iter()
            .map(|it| check(it, value, old, path))
            .collect()
    };
    let nearest = |outcomes: Vec<Found>| {
        // The first of equals.
        outcomes
            .into_iter()
            .reduce(|best, other| match other.matches > best.matches {
                true => other,
                false => best,
            })
    };
    // The pattern of numbers or strings is in the type already.
    if !schema.any_of.is_empty() {
        let outcomes = check_all(&schema.any_of);
        match outcomes.iter().position(Found::is_valid) {
            Some(first) => found.matches += outcomes[first].matches,
            None => {
                found.composite(path, "must validate at least one schema (anyOf)");
                nearest(outcomes).into_iter().for_each(|it| found.merge(it));
            }
        }
    }
    if !schema.one_of.is_empty() {
        let outcomes = check_all(&schema.one_of);
        match outcomes.iter().filter(|it| it.is_valid()).count() {
            1 => {
                let fitting = outcomes.iter().find(|it| it.is_valid());
                found.matches += fitting.map_or(0, |it| it.matches);
            }
            0 => {
                found.composite(
                    path,
                    "must validate one and only one schema (oneOf). Found none valid",
                );
                nearest(outcomes).into_iter().for_each(|it| found.merge(it));
            }
            count => {
                let rule = format!(
                    "must validate one and only one schema (oneOf). Found {count} valid alternatives"
                );
                found.composite(path, &rule);
            }
        }
    }
    if !schema.all_of.is_empty() {
        let outcomes = check_all(&schema.all_of);
        let fitting = outcomes.iter().filter(|it| it.is_valid()).count();
        let is_one_wrong = fitting != outcomes.len();
        outcomes.into_iter().for_each(|it| found.merge(it));
        if is_one_wrong {
            let none = if fitting == 0 { ". None validated" } else { "" };
            found.composite(
                path,
                &format!("must validate all the schemas (allOf){none}"),
            );
        }
    }
    if let Some(not) = &schema.not
        && check(not, value, old, path).is_valid()
    {
        found.composite(path, "must not validate the schema (not)");
    }
    found.matches += 1;
}

/// Elements of sets, and keys of elements told apart by them, may not stand twice.
fn lists(schema: &Schema, value: &Value, here: &Here<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    lists(property, value, &here.field(name), errors);
                } else if let Some(values) = schema.field(name) {
                    lists(values, value, &here.key(name), errors);
                }
            }
        }
        Value::Array(elements) => {
            let identities: Option<Vec<Value>> = match &schema.list_type {
                ListType::Atomic => None,
                ListType::Set => Some(elements.clone()),
                ListType::Map(keys) => {
                    let wrong = elements
                        .iter()
                        .position(|it| !it.is_object() && !it.is_null());
                    if let Some(index) = wrong {
                        let rule = "must be an object for an array of list-type map";
                        let element = &elements[index];
                        errors.push(FieldError::invalid(&here.index(index), element, rule));
                        return;
                    }
                    Some(elements.iter().map(|it| identity(keys, it)).collect())
                }
            };
            let mut counts: HashMap<String, usize> = HashMap::new();
            for (index, identity) in identities.iter().flatten().enumerate() {
                let count = counts.entry(identity.to_string()).or_default();
                *count += 1;
                if *count == 2 {
                    errors.push(FieldError::duplicate(&here.index(index), identity));
                }
            }
            if let Some(items) = &schema.items {
                for (index, element) in elements.iter().enumerate() {
                    lists(items, element, &here.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn identity(keys: &[String], element: &Value) -> Value {
    let keys = keys
        .iter()
        .filter_map(|key| Some((key.clone(), element.get(key)?.clone())));
    Value::Object(keys.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(schema: Value, value: Value) -> Vec<String> {
        let errors = validate_object(&Schema::read(&schema), &value, None);
        errors.iter().map(FieldError::to_string).collect()
    }

    fn spec(properties: Value) -> Value {
        json!({"type": "object", "required": ["spec"], "properties": {
            "spec": {"type": "object", "properties": properties}}})
    }

    #[test]
    fn mistakes_are_told_as_upstream_tells_them() {
        for (properties, value, errors) in [
            (
                json!({"replicas": {"type": "integer", "maximum": 10, "minimum": 1}}),
                json!({"spec": {"replicas": 11}}),
                vec![
                    "spec.replicas: Invalid value: 11: spec.replicas in body should be less than or \
                      equal to 10",
                ],
            ),
            (
                json!({"replicas": {"type": "integer"}}),
                json!({"spec": {"replicas": "one"}}),
                vec![
                    "spec.replicas: Invalid value: \"string\": spec.replicas in body must be of type \
                      integer: \"string\"",
                ],
            ),
            (json!({}), json!({}), vec!["spec: Required value"]),
            (
                json!({"cron": {"type": "string", "pattern": "^a+$"}}),
                json!({"spec": {"cron": "b"}}),
                vec!["spec.cron: Invalid value: \"b\": spec.cron in body should match '^a+$'"],
            ),
            (
                json!({"mode": {"type": "string", "enum": ["on", "off"]}}),
                json!({"spec": {"mode": "half"}}),
                vec!["spec.mode: Unsupported value: \"half\": supported values: \"on\", \"off\""],
            ),
            (
                json!({"a": {"type": "string", "maxLength": 2}}),
                json!({"spec": {"a": "abc"}}),
                vec!["spec.a: Too long: may not be more than 2 bytes"],
            ),
            (
                json!({"a": {"type": "array", "maxItems": 1, "items": {"type": "string"}}}),
                json!({"spec": {"a": ["x", 1]}}),
                vec![
                    "spec.a[1]: Invalid value: \"integer\": spec.a[1] in body must be of type string: \
                      \"integer\"",
                    "spec.a: Too many: 2: must have at most 1 item",
                ],
            ),
            (
                json!({"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}),
                json!({"spec": {"a": null, "b": null}}),
                vec![
                    "spec.b: Invalid value: \"null\": spec.b in body must be of type string: \"null\"",
                ],
            ),
            (
                json!({"port": {"x-kubernetes-int-or-string": true}}),
                json!({"spec": {"port": true}}),
                vec![
                    "spec.port: Invalid value: \"boolean\": spec.port in body must be of type \
                      integer,string: \"boolean\"",
                ],
            ),
            (
                json!({"a": {"type": "string", "format": "ipv4"}}),
                json!({"spec": {"a": "x"}}),
                vec!["spec.a: Invalid value: \"x\": spec.a in body must be of type ipv4: \"x\""],
            ),
            (
                json!({"a": {"type": "array", "x-kubernetes-list-type": "set",
                             "items": {"type": "string"}},
                       "b": {"type": "array", "x-kubernetes-list-type": "map",
                             "x-kubernetes-list-map-keys": ["k"],
                             "items": {"type": "object", "properties": {"k": {"type": "string"}}}}}),
                json!({"spec": {"a": ["x", "x", "x"], "b": [{"k": "1"}, {"k": "1"}]}}),
                vec![
                    "spec.a[1]: Duplicate value: \"x\"",
                    "spec.b[1]: Duplicate value: {\"k\":\"1\"}",
                ],
            ),
        ] {
            assert_eq!(texts(spec(properties), value), errors);
        }
    }

    #[test]
    fn alternatives_tell_the_nearest() {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        }}});
        assert_eq!(
            texts(schema.clone(), json!({"spec": {"a": "1"}})),
            Vec::<String>::new()
        );
        assert_eq!(
            texts(schema.clone(), json!({"spec": {"a": "1", "b": "1"}})),
            [
                "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). \
              Found 2 valid alternatives"
            ]
        );
        assert_eq!(
            texts(schema, json!({"spec": {}})),
            [
                "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). \
              Found none valid",
                "spec.a: Required value"
            ]
        );
    }

    #[test]
    fn what_has_not_changed_is_not_looked_at() {
        let schema = Schema::read(&spec(json!({
            "a": {"type": "string", "maxLength": 1}, "b": {"type": "string"},
            "list": {"type": "array", "x-kubernetes-list-type": "map",
                     "x-kubernetes-list-map-keys": ["k"],
                     "items": {"type": "object", "properties": {
                         "k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}}},
        })));
        let old = json!({"spec": {"a": "long", "b": "x", "list": [{"k": "1", "v": "long"}]}});
        let mut new = json!({"spec": {"a": "long", "b": "y",
                                      "list": [{"k": "0"}, {"k": "1", "v": "long"}]}});
        assert_eq!(validate_object(&schema, &new, Some(&old)).len(), 0);
        assert_eq!(validate_object(&schema, &new, None).len(), 2);
        new["spec"]["a"] = json!("longer");
        assert_eq!(validate_object(&schema, &new, Some(&old)).len(), 1);
    }
}
