//! From JSON to a message, byte for byte as Go writes it: fields by number, entries of maps by
//! key, zeros written unless the field tells absent from zero.
//!
//! Sources, Kubernetes 1.36: those of `decode`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrank_api::quantity::Quantity;
use serde_json::{Map, Value};

use crate::decode::MAX_DEPTH;
use crate::error::Fault;
use crate::table::{Element, Field, Message, MessageId, Presence, Shape, Table};
use crate::time::{PointInTime, Precision};
use crate::wire::{put_bytes_field, put_fixed64_field, put_nested_field, put_varint_field};

/// Writes the message of an object.
pub(crate) fn object(id: MessageId, object: &Value, out: &mut Vec<u8>) -> Result<(), Fault> {
    message(out, id, Some(object), 1)
}

/// Writes the fields of a message, which are those of nothing if the object is not there.
fn message(
    out: &mut Vec<u8>,
    id: MessageId,
    object: Option<&Value>,
    depth: usize,
) -> Result<(), Fault> {
    if depth > MAX_DEPTH {
        let problem = format!("more than {MAX_DEPTH} lists and objects inside of each other");
        return Err(Fault::new(problem));
    }
    let message = Table::get().message(id);
    if message.is_union {
        return union(out, message, object, depth);
    }
    let nothing = Map::new();
    let object = match object {
        None => &nothing,
        Some(Value::Object(object)) => object,
        Some(other) => return Err(must_be("an object", other)),
    };
    fields(out, message, object, depth)
}

fn fields(
    out: &mut Vec<u8>,
    message: &Message,
    object: &Map<String, Value>,
    depth: usize,
) -> Result<(), Fault> {
    for field in &message.fields {
        if let (Presence::Inline, Element::Message(id)) = (field.presence, field.element) {
            // Its fields stand beside those of this message.
            let message = Table::get().message(id);
            put_nested_field(out, field.number, |out| fields(out, message, object, depth))?;
            continue;
        }
        let value = object.get(field.name).filter(|value| !value.is_null());
        put_field(out, field, value, depth).map_err(|fault| fault.in_field(field.name))?;
    }
    Ok(())
}

/// Writes the field of a union that its value belongs to, and Go's zeros of the others.
fn union(
    out: &mut Vec<u8>,
    message: &Message,
    value: Option<&Value>,
    depth: usize,
) -> Result<(), Fault> {
    let mut is_taken = value.is_none();
    for field in &message.fields {
        let own = value.filter(|value| match (field.shape, field.element) {
            (Shape::List, _) => value.is_array(),
            (_, Element::Bool) => value.is_boolean(),
            _ => value.is_object(),
        });
        is_taken |= own.is_some();
        if field.element == Element::Bool {
            // A schema allows what it describes.
            let is_allowed = value.is_some_and(|value| *value != Value::Bool(false));
            put_varint_field(out, field.number, is_allowed.into());
        } else {
            put_field(out, field, own, depth)?;
        }
    }
    match value {
        Some(value) if !is_taken => Err(must_be("one of the forms of its type", value)),
        _ => Ok(()),
    }
}

fn put_field(
    out: &mut Vec<u8>,
    field: &Field,
    value: Option<&Value>,
    depth: usize,
) -> Result<(), Fault> {
    let number = field.number;
    match (field.shape, value) {
        (Shape::One, None) if field.presence.may_be_absent() => Ok(()),
        (Shape::One, None) if field.element == Element::Bytes => Ok(()),
        (Shape::One, value) => put_element(out, number, field.element, value, depth),
        (_, None) => Ok(()),
        (Shape::List, Some(Value::Array(list))) => {
            for (index, value) in list.iter().enumerate() {
                let value = Some(value).filter(|value| !value.is_null());
                put_element(out, number, field.element, value, depth + 1)
                    .map_err(|fault| fault.in_element(index))?;
            }
            Ok(())
        }
        (Shape::Map, Some(Value::Object(map))) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in entries {
                let value = Some(value).filter(|value| !value.is_null());
                put_nested_field(out, number, |out| {
                    put_bytes_field(out, 1, key.as_bytes());
                    put_element(out, 2, field.element, value, depth + 1)
                })
                .map_err(|fault| fault.in_element(key))?;
            }
            Ok(())
        }
        (Shape::List, Some(other)) => Err(must_be("a list", other)),
        (Shape::Map, Some(other)) => Err(must_be("an object", other)),
    }
}

/// Writes a value under a number; the zero of its type if it is not there.
fn put_element(
    out: &mut Vec<u8>,
    number: u32,
    element: Element,
    value: Option<&Value>,
    depth: usize,
) -> Result<(), Fault> {
    match element {
        Element::Bool => {
            let value = read(value, "true or false", Value::as_bool)?;
            put_varint_field(out, number, value.into());
        }
        Element::Int32 => {
            let value = read(value, "a whole number of 32 bits", int32)?;
            // Negative numbers have ten bytes, whatever their type.
            put_varint_field(out, number, i64::from(value) as u64);
        }
        Element::Int64 => {
            let value = read(value, "a whole number of 64 bits", Value::as_i64)?;
            put_varint_field(out, number, value as u64);
        }
        Element::Double => {
            let value = read(value, "a number", Value::as_f64)?;
            put_fixed64_field(out, number, value.to_bits());
        }
        Element::String => {
            let value = read(value, "a text", Value::as_str)?;
            put_bytes_field(out, number, value.as_bytes());
        }
        Element::Bytes => {
            let value = read(value, "a text in base64", base64)?;
            put_bytes_field(out, number, &value);
        }
        Element::Time => put_time(out, number, value, Precision::Seconds)?,
        Element::MicroTime => put_time(out, number, value, Precision::Micros)?,
        Element::Quantity => {
            let value = read(value, "a quantity", quantity)?;
            let text = if value.is_empty() { "0" } else { &value };
            return put_nested_field(out, number, |out| {
                put_bytes_field(out, 1, text.as_bytes());
                Ok(())
            });
        }
        Element::IntOrString => put_int_or_string(out, number, value)?,
        Element::Raw => {
            return put_nested_field(out, number, |out| {
                if let Some(value) = value {
                    put_bytes_field(out, 1, value.to_string().as_bytes());
                }
                Ok(())
            });
        }
        Element::Message(id) => {
            return put_nested_field(out, number, |out| message(out, id, value, depth + 1));
        }
    }
    Ok(())
}

fn put_time(
    out: &mut Vec<u8>,
    number: u32,
    value: Option<&Value>,
    precision: Precision,
) -> Result<(), Fault> {
    let parse = |value: &Value| PointInTime::parse(value.as_str()?)?.rounded(precision);
    let time = value.map(|value| parse(value).ok_or_else(|| must_be("a time of RFC 3339", value)));
    let time = time.transpose()?;
    put_nested_field(out, number, |out| {
        if let Some(time) = time.filter(|time| *time != PointInTime::ZERO) {
            put_varint_field(out, 1, time.seconds as u64);
            put_varint_field(out, 2, i64::from(time.nanos) as u64);
        }
        Ok(())
    })
}

fn put_int_or_string(out: &mut Vec<u8>, number: u32, value: Option<&Value>) -> Result<(), Fault> {
    let text = value.and_then(Value::as_str);
    let int = match text {
        Some(_) => 0,
        None => read(value, "a whole number of 32 bits, or a text", int32)?,
    };
    put_nested_field(out, number, |out| {
        put_varint_field(out, 1, text.is_some().into());
        put_varint_field(out, 2, i64::from(int) as u64);
        put_bytes_field(out, 3, text.unwrap_or_default().as_bytes());
        Ok(())
    })
}

/// What a value says, if it is there, or zero.
fn read<'v, T: Default>(
    value: Option<&'v Value>,
    expected: &str,
    as_type: impl FnOnce(&'v Value) -> Option<T>,
) -> Result<T, Fault> {
    value.map_or_else(
        || Ok(T::default()),
        |value| as_type(value).ok_or_else(|| must_be(expected, value)),
    )
}

fn int32(value: &Value) -> Option<i32> {
    value.as_i64()?.try_into().ok()
}

fn base64(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

fn quantity(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let quantity: Quantity = text.parse().ok()?;
    Some(quantity.to_string())
}

fn must_be(expected: &str, found: &Value) -> Fault {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Fault::new(format!("must be {expected}, and is {found}"))
}
