//! From the map that a strategic merge patch makes to an object, with the errors of upstream's
//! converter, which knows Go's types and no places.

use serde_json::{Map, Value};

use crate::base64_bytes;
use crate::names::quoted;
use crate::quantity::Quantity;
use crate::request_body::{Read, may_tell_more};
use crate::schema::{self, FieldType};

/// The object; fields that do not exist are taken out and told, sorted.
///
/// # Errors
///
/// The first value of a wrong type.
pub(crate) fn from_map(type_name: &str, map: Map<String, Value>) -> Result<Read, String> {
    let mut conversion = Conversion::default();
    let object_type = FieldType::Object(type_name.to_owned());
    let value = conversion.convert(Value::Object(map), &object_type)?;
    conversion.unknown.sort_unstable();
    let strict = conversion.unknown.into_iter();
    let strict = strict.map(|path| format!("unknown field {}", quoted(&path)));
    Ok(Read {
        value,
        strict: strict.collect(),
    })
}

#[derive(Default)]
struct Conversion {
    /// Where it is.
    path: String,
    /// Paths of fields that do not exist, as many as are told.
    unknown: Vec<String>,
}

impl Conversion {
    fn convert(&mut self, value: Value, expected: &FieldType) -> Result<Value, String> {
        match (expected, value) {
            (_, Value::Null) => Ok(Value::Null),
            (FieldType::Object(type_name), Value::Object(fields)) => self.fields(type_name, fields),
            (FieldType::Map(value_type), Value::Object(fields)) => {
                let fields = fields.into_iter().map(|(key, value)| {
                    let value = self.convert(value, value_type)?;
                    Ok((key, or_zero(value, value_type)))
                });
                let fields = fields.collect::<Result<Map<_, _>, String>>();
                fields.map(Value::Object)
            }
            (FieldType::List(element_type), Value::Array(elements)) => {
                let length = self.path.len();
                let elements = elements.into_iter().enumerate().map(|(index, element)| {
                    self.path.push_str(&format!("[{index}]"));
                    let element = self.convert(element, element_type)?;
                    self.path.truncate(length);
                    Ok(or_zero(element, element_type))
                });
                let elements = elements.collect::<Result<Vec<_>, String>>();
                elements.map(Value::Array)
            }
            (expected, other) => convert_scalar(other, expected),
        }
    }

    fn fields(&mut self, type_name: &str, fields: Map<String, Value>) -> Result<Value, String> {
        let mut converted = Map::new();
        let length = self.path.len();
        for (name, value) in fields {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            if let Some(field) = schema::field(type_name, &name) {
                let value = self.convert(value, &field.field_type)?;
                if !value.is_null() {
                    converted.insert(name, value);
                }
            } else if may_tell_more(&self.unknown) {
                self.unknown.push(self.path.clone());
            }
            self.path.truncate(length);
        }
        Ok(Value::Object(converted))
    }
}

/// What stands in the place of `null` in a list or map.
fn or_zero(value: Value, value_type: &FieldType) -> Value {
    match value {
        Value::Null => value_type.zero(),
        other => other,
    }
}

/// What has no parts, or not those that it should have.
fn convert_scalar(value: Value, expected: &FieldType) -> Result<Value, String> {
    let is_number = value.is_number();
    let is_whole = value.as_i64().is_some() || value.as_f64().is_some_and(|it| it.fract() == 0.0);
    match (expected, value) {
        (FieldType::Object(_), other) => {
            Err(format!("cannot restore struct from: {}", go_kind(&other)))
        }
        (FieldType::Map(_), other) => Err(format!("cannot restore map from {}", go_kind(&other))),
        (FieldType::List(_), other) => {
            Err(format!("cannot restore slice from {}", go_kind(&other)))
        }
        (FieldType::Quantity, other) => {
            let text = match &other {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            text.parse::<Quantity>()
                .map_err(|error| error.to_string())?;
            Ok(other)
        }
        (FieldType::Any | FieldType::Time, other) => Ok(other),
        (FieldType::IntOrString, other) if is_number || other.is_string() => Ok(other),
        (FieldType::Bool, other @ Value::Bool(_)) => Ok(other),
        (FieldType::String, other @ Value::String(_)) => Ok(other),
        (FieldType::Bytes, Value::String(text)) => match base64_bytes::rewritten(&text) {
            Ok(text) => Ok(text.into()),
            Err(why) => Err(format!("error decoding from json: {why}")),
        },
        (FieldType::Double, other @ Value::Number(_)) => Ok(other),
        (FieldType::Int32 | FieldType::Int64, Value::Number(number)) if is_whole => {
            Ok(wrapped(expected, &number))
        }
        (FieldType::Int32 | FieldType::Int64, Value::Number(_)) => {
            Err(format!("cannot convert float64 to {}", go_name(expected)))
        }
        (FieldType::String, Value::Number(number)) if !number.is_f64() => {
            Err("cannot convert int64 to string".to_owned())
        }
        (expected, _) => Err(format!("unrecognized type: {}", go_name(expected))),
    }
}

/// A whole number in the type of the field: too large ones lose their upper bits, as in Go.
fn wrapped(expected: &FieldType, number: &serde_json::Number) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "as Go converts")]
    let number = number
        .as_i64()
        .unwrap_or_else(|| number.as_f64().unwrap_or_default() as i64);
    #[expect(clippy::cast_possible_truncation, reason = "as Go converts")]
    match expected {
        FieldType::Int32 => (number as i32).into(),
        _ => number.into(),
    }
}

fn go_name(field_type: &FieldType) -> &'static str {
    match field_type {
        FieldType::Bool => "bool",
        FieldType::Double => "float64",
        FieldType::Int32 => "int32",
        FieldType::Int64 => "int64",
        _ => "string",
    }
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

/// A value as Go prints it (`%+v`).
pub(crate) fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(go_text).collect();
            format!("[{}]", elements.join(" "))
        }
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| format!("{key}:{}", go_text(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        scalar => scalar.to_string(),
    }
}
