//! How a value is put together, as ownership and merging see it.
//!
//! A value is one of four things: a scalar; a whole with one owner, whatever is in it; fields,
//! each with owners of its own; a list whose elements have owners, told apart by some of their
//! fields or, if they are scalars, by themselves. What is what stands in the schema: for kinds
//! of Kubernetes in our tables, for custom resources in their definition. Where there is no
//! schema it is deduced from the value: maps are fields, lists are wholes.
//!
//! Source: `sigs.k8s.io/structured-merge-diff`, `typed/helpers.go`, and
//! `k8s.io/kube-openapi/pkg/schemaconv`.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::custom_resource::schema::{Additional, ListType, Schema, ValueType};
use crate::resource_type::ResourceType;
use crate::schema::{self, FieldType, Grain};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape<'s> {
    /// An object of a type of the table.
    Object(&'s str),
    /// A value of a field of the table.
    Table(&'s FieldType, Grain),
    /// An object of a custom resource: what all objects have, and what its schema says.
    CustomObject(Option<&'s Schema>),
    /// A value in an object of a custom resource.
    Custom(&'s Schema),
    /// There is no schema.
    Deduced,
}

/// What a value is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'s> {
    /// One value.
    Scalar(Scalar),
    /// Anything, with one owner.
    Whole(Whole),
    /// Fields of a type, or keys of a map.
    Fields(Shape<'s>),
    /// Elements of a list.
    Elements(Elements<'s>),
}

/// What a scalar may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Number,
    Text,
    Bool,
    /// Any of them.
    Any,
}

/// What something with one owner may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    List,
    Map,
    Any,
}

/// Elements that have owners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Elements<'s> {
    keys: Keys<'s>,
    /// What an element is.
    pub(crate) element: Shape<'s>,
}

/// What tells elements apart.
#[derive(Clone, Copy, Debug)]
enum Keys<'s> {
    /// They themselves.
    Themselves,
    Table(&'static [&'static str]),
    Custom(&'s [String]),
}

static ANY: FieldType = FieldType::Any;

impl<'s> Shape<'s> {
    /// That of the objects of a type of resource.
    pub(crate) fn of(resource: &'s ResourceType) -> Self {
        match resource.type_name {
            Some(type_name) => Self::Object(type_name),
            None => Self::CustomObject(resource.schema.as_deref()),
        }
    }

    /// What a value of this type is; `value` decides where there is no schema.
    pub(crate) fn form(self, value: &Value) -> Form<'s> {
        match self {
            Self::Object(_) | Self::CustomObject(_) => Form::Fields(self),
            Self::Table(field_type, grain) => table_form(field_type, grain),
            Self::Custom(schema) => custom_form(schema, value),
            Self::Deduced => deduced_form(value),
        }
    }

    /// The type of a field or of the value of a key; `None` if there is no such field.
    pub(crate) fn field(self, name: &str) -> Option<Shape<'s>> {
        match self {
            Self::Object(type_name) => field_of(type_name, name),
            Self::Table(FieldType::Object(type_name), _) => field_of(type_name, name),
            Self::Table(FieldType::Map(value_type), _) => Some(of_element(value_type)),
            Self::Table(..) => None,
            Self::CustomObject(schema) => match name {
                "apiVersion" | "kind" => Some(Self::Table(&FieldType::String, Grain::Parts)),
                "metadata" => Some(Self::Object("ObjectMeta")),
                _ => match schema {
                    Some(schema) => custom_field(schema, name),
                    None => Some(Self::Deduced),
                },
            },
            Self::Custom(schema) if schema.is_embedded_resource => match name {
                "apiVersion" | "kind" => Some(Self::Table(&FieldType::String, Grain::Parts)),
                "metadata" => Some(Self::Object("ObjectMeta")),
                _ => custom_field(schema, name),
            },
            Self::Custom(schema) => custom_field(schema, name),
            Self::Deduced => Some(Self::Deduced),
        }
    }

    /// The type of the elements of a list.
    pub(crate) fn element(self) -> Shape<'s> {
        match self {
            Self::Table(FieldType::List(element), _) => of_element(element),
            Self::Custom(Schema {
                items: Some(items), ..
            }) => Self::Custom(items),
            _ => Self::Deduced,
        }
    }

    /// The type of what a path element leads to, and whether that is a named field.
    pub(crate) fn step(self, element: &str) -> (bool, Shape<'s>) {
        let form = match self {
            // A list or map; which one is in the schema.
            Self::Custom(schema) => custom_form(schema, &Value::Null),
            other => other.form(&Value::Null),
        };
        match (form, element.strip_prefix("f:")) {
            (Form::Fields(shape), Some(name)) => (
                shape.is_named(name),
                shape.field(name).unwrap_or(Self::Deduced),
            ),
            (Form::Elements(elements), None) => (false, elements.element),
            _ => (false, Self::Deduced),
        }
    }

    /// Whether it is a field with a name of its own, not a key of a map.
    pub(crate) fn is_named(self, name: &str) -> bool {
        match self {
            Self::Object(_) | Self::Table(FieldType::Object(_), _) => self.field(name).is_some(),
            Self::CustomObject(schema) => {
                matches!(name, "apiVersion" | "kind" | "metadata")
                    || schema.is_some_and(|schema| schema.properties.contains_key(name))
            }
            Self::Custom(schema) => {
                schema.properties.contains_key(name)
                    || (schema.is_embedded_resource
                        && matches!(name, "apiVersion" | "kind" | "metadata"))
            }
            Self::Table(..) | Self::Deduced => false,
        }
    }

    /// The fields that are never absent.
    pub(crate) fn present(self) -> &'static [&'static str] {
        match self {
            Self::Object(type_name) => schema::present_fields(type_name),
            Self::Table(FieldType::Object(type_name), _) => schema::present_fields(type_name),
            _ => &[],
        }
    }

    /// What stands in a field that is never absent if nothing was written there.
    pub(crate) fn zero(self, name: &str) -> Option<&'static Value> {
        if !self.present().contains(&name) {
            return None;
        }
        match self.field(name)? {
            Self::Table(field_type, _) => Some(zero(field_type)),
            _ => None,
        }
    }
}

impl Elements<'_> {
    /// The path element of an element.
    ///
    /// # Errors
    ///
    /// Why there is none, in upstream's words.
    pub(crate) fn identity(self, element: &Value) -> Result<String, String> {
        match self.keys {
            Keys::Themselves => match element {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => {
                    Err("not supported: associative list with lists as elements".into())
                }
                Value::Null => Err(
                    "associative list without keys has an element that's an explicit null".into(),
                ),
                scalar => Ok(format!("v:{scalar}")),
            },
            Keys::Table(keys) => self.keyed(element, keys.iter().copied()),
            Keys::Custom(keys) => self.keyed(element, keys.iter().map(String::as_str)),
        }
    }

    fn keyed<'k>(
        self,
        element: &Value,
        keys: impl Iterator<Item = &'k str> + Clone,
    ) -> Result<String, String> {
        let fields = match element {
            Value::Object(fields) => fields,
            Value::Null => {
                return Err("associative list with keys may not have a null element".into());
            }
            _ => return Err("associative list with keys may not have non-map elements".into()),
        };
        let found = keys.clone().filter_map(|key| {
            let value = fields.get(key).or_else(|| self.default_of(key))?;
            Some((key, value))
        });
        let mut found: Vec<(&str, &Value)> = found.collect();
        if found.is_empty() {
            let keys: Vec<String> = keys.map(crate::names::quoted).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and \
                 doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        found.sort_by_key(|(key, _)| *key);
        let mut text = String::from("k:{");
        for (index, (key, value)) in found.into_iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push('"');
            text.push_str(key);
            text.push_str("\":");
            text.push_str(&value.to_string());
        }
        text.push('}');
        Ok(text)
    }

    /// What a key is if it was not written.
    fn default_of(&self, key: &str) -> Option<&Value> {
        static TCP: LazyLock<Value> = LazyLock::new(|| "TCP".into());
        match self.element {
            Shape::Table(FieldType::Object(type_name), _) => {
                let is_port = matches!(type_name.as_str(), "ContainerPort" | "ServicePort");
                (is_port && key == "protocol").then(|| &*TCP)
            }
            Shape::Custom(schema) => schema.properties.get(key)?.default.as_ref(),
            _ => None,
        }
    }
}

fn field_of<'s>(type_name: &str, name: &str) -> Option<Shape<'s>> {
    let field = schema::field(type_name, name)?;
    Some(Shape::Table(&field.field_type, field.grain()))
}

/// What the elements of a list or the values of a map are.
fn of_element(field_type: &FieldType) -> Shape<'_> {
    let is_whole = field_type.object().is_some_and(schema::is_whole);
    let grain = if is_whole { Grain::Whole } else { Grain::Parts };
    Shape::Table(field_type, grain)
}

fn table_form<'s>(field_type: &'s FieldType, grain: Grain) -> Form<'s> {
    let scalar = |scalar| Form::Scalar(scalar);
    match field_type {
        FieldType::Any => Form::Whole(Whole::Any),
        FieldType::Bool => scalar(Scalar::Bool),
        FieldType::Bytes | FieldType::String => scalar(Scalar::Text),
        FieldType::Double | FieldType::Int32 | FieldType::Int64 => scalar(Scalar::Number),
        FieldType::IntOrString | FieldType::Quantity | FieldType::Time => scalar(Scalar::Any),
        FieldType::List(element) => {
            let keys = match grain {
                Grain::Whole => return Form::Whole(Whole::List),
                Grain::Parts => Keys::Themselves,
                Grain::Keys(keys) => Keys::Table(keys),
            };
            let element = of_element(element);
            Form::Elements(Elements { keys, element })
        }
        FieldType::Map(_) | FieldType::Object(_) if grain == Grain::Whole => {
            Form::Whole(Whole::Map)
        }
        FieldType::Map(_) | FieldType::Object(_) => Form::Fields(Shape::Table(field_type, grain)),
    }
}

fn custom_form<'s>(schema: &'s Schema, value: &Value) -> Form<'s> {
    match schema.value_type {
        _ if schema.is_int_or_string => Form::Scalar(Scalar::Any),
        Some(ValueType::Boolean) => Form::Scalar(Scalar::Bool),
        Some(ValueType::Integer | ValueType::Number) => Form::Scalar(Scalar::Number),
        Some(ValueType::String) => Form::Scalar(Scalar::Text),
        Some(ValueType::Object) if schema.is_map_atomic => Form::Whole(Whole::Map),
        Some(ValueType::Object) => Form::Fields(Shape::Custom(schema)),
        Some(ValueType::Array) => {
            let keys = match &schema.list_type {
                ListType::Atomic => return Form::Whole(Whole::List),
                ListType::Set => Keys::Themselves,
                ListType::Map(keys) => Keys::Custom(keys),
            };
            let element = match &schema.items {
                Some(items) => Shape::Custom(items),
                None => Shape::Deduced,
            };
            Form::Elements(Elements { keys, element })
        }
        None => deduced_form(value),
    }
}

fn custom_field<'s>(schema: &'s Schema, name: &str) -> Option<Shape<'s>> {
    if let Some(property) = schema.properties.get(name) {
        return Some(Shape::Custom(property));
    }
    match &schema.additional {
        Additional::Values(values) => Some(Shape::Custom(values)),
        Additional::Anything => Some(Shape::Deduced),
        Additional::Nothing => schema.preserves_unknown_fields.then_some(Shape::Deduced),
    }
}

fn deduced_form<'s>(value: &Value) -> Form<'s> {
    match value {
        Value::Object(_) | Value::Null => Form::Fields(Shape::Deduced),
        Value::Array(_) => Form::Whole(Whole::List),
        _ => Form::Scalar(Scalar::Any),
    }
}

/// A field whose name the schema does not know has one owner.
pub(crate) fn unknown<'s>() -> Shape<'s> {
    Shape::Table(&ANY, Grain::Whole)
}

fn zero(field_type: &FieldType) -> &'static Value {
    static FALSE: Value = Value::Bool(false);
    static NULL: Value = Value::Null;
    static EMPTY: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
    static NUMBER: LazyLock<Value> = LazyLock::new(|| 0.into());
    static QUANTITY: LazyLock<Value> = LazyLock::new(|| "0".into());
    static TEXT: LazyLock<Value> = LazyLock::new(|| "".into());
    match field_type {
        FieldType::Bool => &FALSE,
        FieldType::Double | FieldType::Int32 | FieldType::Int64 | FieldType::IntOrString => &NUMBER,
        FieldType::Object(_) => &EMPTY,
        FieldType::Quantity => &QUANTITY,
        FieldType::Bytes | FieldType::String => &TEXT,
        FieldType::Any | FieldType::List(_) | FieldType::Map(_) | FieldType::Time => &NULL,
    }
}
