//! The schema of a custom resource: which fields its objects have, and what may stand in them.
//!
//! It is JSON Schema as OpenAPI v3 has it, cut down so that it says one thing for each field
//! (*structural*), with extensions of Kubernetes' own (`x-kubernetes-...`). Sources, Kubernetes
//! 1.36: `JSONSchemaProps` in `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1`,
//! `pkg/apiserver/schema/{structural,convert}.go`.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};

use super::pattern::Pattern;

/// A schema, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    pub(crate) value_type: Option<ValueType>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Schema>>,
    /// What is written if nothing was.
    pub(crate) default: Option<Value>,
    /// Whether `null` is a value.
    pub(crate) is_nullable: bool,
    pub(crate) is_int_or_string: bool,
    /// Whether it is an object with `apiVersion`, `kind` and `metadata`.
    pub(crate) is_embedded_resource: bool,
    /// Whether fields without a schema stay.
    pub(crate) preserves_unknown_fields: bool,
    pub(crate) list_type: ListType,
    /// Whether a map has one owner.
    pub(crate) is_map_atomic: bool,
    /// Whether there are CEL rules (`x-kubernetes-validations`), here or below. They are not
    /// evaluated.
    pub(crate) has_rules: bool,
    pub(crate) limits: Limits,
    pub(crate) required: Vec<String>,
    /// The only values, if it is not empty.
    pub(crate) allowed: Vec<Value>,
    pub(crate) format: String,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueType {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl ValueType {
    pub(crate) const ALL: [(&'static str, ValueType); 6] = [
        ("array", ValueType::Array),
        ("boolean", ValueType::Boolean),
        ("integer", ValueType::Integer),
        ("number", ValueType::Number),
        ("object", ValueType::Object),
        ("string", ValueType::String),
    ];

    pub(crate) fn name(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }
}

/// What may be in a map beside its properties.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Additional {
    #[default]
    Nothing,
    Anything,
    Values(Box<Schema>),
}

/// What tells the elements of a list apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    /// The list has one owner.
    #[default]
    Atomic,
    /// They themselves.
    Set,
    /// These fields.
    Map(Vec<String>),
}

/// Bounds of values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) maximum: Option<Number>,
    pub(crate) is_maximum_exclusive: bool,
    pub(crate) minimum: Option<Number>,
    pub(crate) is_minimum_exclusive: bool,
    pub(crate) multiple_of: Option<Number>,
    pub(crate) characters_max: Option<i64>,
    pub(crate) characters_min: Option<i64>,
    pub(crate) items_max: Option<i64>,
    pub(crate) items_min: Option<i64>,
    pub(crate) properties_max: Option<i64>,
    pub(crate) properties_min: Option<i64>,
    pub(crate) pattern: Option<Pattern>,
}

impl Schema {
    /// Reads a schema as it stands in a definition (`openAPIV3Schema`). What it does not know is
    /// passed over; whether the definition may say so is another question
    /// ([`super::validate`]). Depth is limited by that of the JSON that it was read from.
    pub fn read(props: &Value) -> Self {
        let empty = Map::new();
        let props = props.as_object().unwrap_or(&empty);
        let flag = |name: &str| props.get(name).and_then(Value::as_bool).unwrap_or(false);
        let text = |name: &str| props.get(name).and_then(Value::as_str).unwrap_or_default();
        let schemas = |name: &str| -> Vec<Schema> {
            let list = props.get(name).and_then(Value::as_array);
            list.into_iter().flatten().map(Schema::read).collect()
        };
        let texts = |name: &str| -> Vec<String> {
            let list = props
                .get(name)
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let inner = |name: &str| {
            props
                .get(name)
                .filter(|it| it.is_object())
                .map(Schema::read)
        };
        let properties = props.get("properties").and_then(Value::as_object);
        let properties = properties.into_iter().flatten();
        let mut schema = Self {
            value_type: value_type(text("type")),
            properties: properties
                .map(|(name, props)| (name.clone(), Schema::read(props)))
                .collect(),
            additional: match props.get("additionalProperties") {
                Some(Value::Bool(true)) => Additional::Anything,
                Some(props @ Value::Object(_)) => Additional::Values(Box::new(Schema::read(props))),
                _ => Additional::Nothing,
            },
            items: inner("items").map(Box::new),
            default: props.get("default").filter(|it| !it.is_null()).cloned(),
            is_nullable: flag("nullable"),
            is_int_or_string: flag("x-kubernetes-int-or-string"),
            is_embedded_resource: flag("x-kubernetes-embedded-resource"),
            preserves_unknown_fields: flag("x-kubernetes-preserve-unknown-fields"),
            list_type: match text("x-kubernetes-list-type") {
                "set" => ListType::Set,
                "map" => ListType::Map(texts("x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
            is_map_atomic: text("x-kubernetes-map-type") == "atomic",
            has_rules: false,
            limits: Limits::read(props),
            required: texts("required"),
            allowed: match props.get("enum") {
                Some(Value::Array(values)) => values.clone(),
                _ => Vec::new(),
            },
            format: text("format").to_owned(),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: inner("not").map(Box::new),
        };
        let rules = props.get("x-kubernetes-validations");
        let has_own = rules
            .and_then(Value::as_array)
            .is_some_and(|it| !it.is_empty());
        schema.has_rules = has_own || schema.parts().any(|part| part.has_rules);
        schema
    }

    /// All schemas right below this one.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Schema> {
        let additional = match &self.additional {
            Additional::Values(values) => Some(&**values),
            _ => None,
        };
        self.properties
            .values()
            .chain(additional)
            .chain(self.items.as_deref())
            .chain(self.not.as_deref())
            .chain(&self.all_of)
            .chain(&self.any_of)
            .chain(&self.one_of)
    }

    /// The schema of a field or of the value of a key.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Values(values)) => Some(values),
            _ => None,
        }
    }
}

impl Limits {
    fn read(props: &Map<String, Value>) -> Self {
        let flag = |name: &str| props.get(name).and_then(Value::as_bool).unwrap_or(false);
        let number = |name: &str| match props.get(name) {
            Some(Value::Number(number)) => Some(number.clone()),
            _ => None,
        };
        let count = |name: &str| props.get(name).and_then(Value::as_i64);
        let pattern = props.get("pattern").and_then(Value::as_str);
        Self {
            maximum: number("maximum"),
            is_maximum_exclusive: flag("exclusiveMaximum"),
            minimum: number("minimum"),
            is_minimum_exclusive: flag("exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            characters_max: count("maxLength"),
            characters_min: count("minLength"),
            items_max: count("maxItems"),
            items_min: count("minItems"),
            properties_max: count("maxProperties"),
            properties_min: count("minProperties"),
            pattern: pattern.filter(|it| !it.is_empty()).map(Pattern::new),
        }
    }
}

fn value_type(name: &str) -> Option<ValueType> {
    let mut all = ValueType::ALL.into_iter();
    all.find(|(known, _)| *known == name).map(|(_, it)| it)
}
