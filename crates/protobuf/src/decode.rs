//! From a message to JSON, as Go would write the object that it reads from the message.
//!
//! A field that is not on the wire is zero, and a field may stand on the wire several times:
//! the last scalar counts, messages add up field by field, elements of lists follow each other.
//! So all that stands for a field is collected before a value is made of it.
//! Sources, Kubernetes 1.36: `generated.pb.go` of each group; for the types that are written
//! in their own way, `k8s.io/apimachinery/pkg/{api/resource,util/intstr,runtime,apis/meta/v1}`
//! and `k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/marshal.go`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrank_api::quantity::Quantity;
use serde_json::{Map, Number, Value};

use crate::error::Fault;
use crate::table::{Element, Field, Message, MessageId, Presence, Shape, Table};
use crate::time::{PointInTime, Precision};
use crate::wire::{Reader, WireValue};

/// How many lists and objects of JSON may be inside of each other.
pub(crate) const MAX_DEPTH: usize = 100;

/// How many values an object may have beyond one for each byte of its message. What Go writes
/// has at least two bytes for a value; other clients may leave out zeros.
const SPARE_VALUES: usize = 10_000;

/// How many values an object counts for that is not empty, since it takes so much more memory.
const VALUES_OF_OBJECT: usize = 4;

/// The object that is in the bytes of a message.
pub(crate) fn object(id: MessageId, bytes: &[u8]) -> Result<Map<String, Value>, Fault> {
    let mut decoder = Decoder {
        values_left: SPARE_VALUES.saturating_add(bytes.len()),
    };
    let mut object = Map::new();
    let message = Table::get().message(id);
    decoder.fields_into(message, &[bytes], 1, &mut object)?;
    Ok(object)
}

/// The JSON in bytes, whose lists and objects are no deeper than `max_depth`.
pub(crate) fn json(bytes: &[u8], max_depth: usize) -> Result<Value, Fault> {
    let value = serde_json::from_slice(bytes).map_err(|e| Fault::new(format!("not JSON: {e}")))?;
    if is_deeper(&value, max_depth) {
        return Err(too_deep());
    }
    Ok(value)
}

/// A text, in which each byte that is not of UTF-8 is replaced, as Go's JSON does.
pub(crate) fn text(bytes: &[u8]) -> String {
    if let Ok(text) = str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

struct Decoder {
    values_left: usize,
}

impl Decoder {
    /// Puts the fields of a message into an object. The message is what all the parts say.
    fn fields_into(
        &mut self,
        message: &Message,
        parts: &[&[u8]],
        depth: usize,
        object: &mut Map<String, Value>,
    ) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        let found = Found::in_parts(&message.fields, parts)?;
        for (index, field) in message.fields.iter().enumerate() {
            let values = found.of_field(index);
            if let (Presence::Inline, Element::Message(id)) = (field.presence, field.element) {
                let message = Table::get().message(id);
                self.fields_into(message, &bytes_of(values)?, depth, object)?;
                continue;
            }
            let value = self.field(field, values, depth);
            if let Some(value) = value.map_err(|fault| fault.in_field(field.name))? {
                object.insert(field.name.to_owned(), value);
            }
        }
        Ok(())
    }

    /// What JSON shows of a field; `None` for nothing.
    fn field(
        &mut self,
        field: &Field,
        values: &[Occurrence<'_>],
        depth: usize,
    ) -> Result<Option<Value>, Fault> {
        let is_scalar = field.shape == Shape::One && field.element != Element::Bytes;
        if values.is_empty() {
            return Ok(match field.presence {
                Presence::NotZero | Presence::Optional | Presence::Inline => None,
                Presence::Always if is_scalar => Some(self.element(field.element, &[], depth)?),
                Presence::Always | Presence::Nullable => {
                    self.count(1)?;
                    Some(Value::Null)
                }
            });
        }
        let value = match field.shape {
            Shape::One => self.element(field.element, values, depth)?,
            Shape::List => self.list(field.element, values, depth + 1)?,
            Shape::Map => self.map(field.element, values, depth + 1)?,
        };
        let is_shown = field.presence != Presence::NotZero || !is_zero(&value);
        Ok(is_shown.then_some(value))
    }

    fn list(
        &mut self,
        element: Element,
        values: &[Occurrence<'_>],
        depth: usize,
    ) -> Result<Value, Fault> {
        self.count(1)?;
        let mut list = Vec::new();
        for value in values {
            let index = list.len();
            let done = match (element, value.value) {
                // Numbers may stand together, as the bytes of one field.
                (Element::Int32 | Element::Int64 | Element::Bool, WireValue::Bytes(packed)) => {
                    self.packed(element, packed, &mut list)
                }
                _ => {
                    let value = self.element(element, &[*value], depth);
                    value.map(|value| list.push(value))
                }
            };
            done.map_err(|fault| fault.in_element(index))?;
        }
        Ok(Value::Array(list))
    }

    fn packed(
        &mut self,
        element: Element,
        bytes: &[u8],
        list: &mut Vec<Value>,
    ) -> Result<(), Fault> {
        let mut reader = Reader(bytes);
        while !reader.0.is_empty() {
            let number = reader.varint().map_err(Fault::new)?;
            let value = WireValue::Varint(number);
            list.push(self.element(element, &[Occurrence { field: 0, value }], 0)?);
        }
        Ok(())
    }

    /// A map, whose entries are messages of a key (1) and a value (2).
    fn map(
        &mut self,
        element: Element,
        entries: &[Occurrence<'_>],
        depth: usize,
    ) -> Result<Value, Fault> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        self.count(VALUES_OF_OBJECT)?;
        let mut map = Map::new();
        for entry in bytes_of(entries)? {
            let found = Found::of_numbers(&[1, 2], &[entry])?;
            let key = text(last_bytes(found.of_field(0))?.unwrap_or_default());
            let value = self
                .element(element, found.of_field(1), depth)
                .map_err(|fault| fault.in_element(shortened(&key)))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }

    /// A value of what stands on the wire; of nothing, it is zero.
    fn element(
        &mut self,
        element: Element,
        values: &[Occurrence<'_>],
        depth: usize,
    ) -> Result<Value, Fault> {
        self.count(1)?;
        Ok(match element {
            Element::Bool => Value::Bool(last_varint(values)? != 0),
            // Go keeps the lower bits of a number that is too large.
            Element::Int32 => Value::from(last_varint(values)? as i32),
            Element::Int64 => Value::from(last_varint(values)? as i64),
            Element::Double => double(values)?,
            Element::String => Value::String(text(last_bytes(values)?.unwrap_or_default())),
            Element::Bytes => Value::String(STANDARD.encode(last_bytes(values)?.unwrap_or(&[]))),
            Element::Time => time(values, Precision::Seconds)?,
            Element::MicroTime => time(values, Precision::Micros)?,
            Element::Quantity => quantity(values)?,
            Element::IntOrString => int_or_string(values)?,
            Element::Raw => raw(values, MAX_DEPTH.saturating_sub(depth))?,
            Element::Message(id) => self.message(id, values, depth + 1)?,
        })
    }

    fn message(
        &mut self,
        id: MessageId,
        values: &[Occurrence<'_>],
        depth: usize,
    ) -> Result<Value, Fault> {
        let message = Table::get().message(id);
        let mut object = Map::new();
        self.fields_into(message, &bytes_of(values)?, depth, &mut object)?;
        if message.is_union {
            let names = message.fields.iter().rev().map(|field| field.name);
            let mut there = names.filter_map(|name| object.remove(name));
            return Ok(there.next().unwrap_or_default());
        }
        if !object.is_empty() {
            self.count(VALUES_OF_OBJECT)?;
        }
        Ok(Value::Object(object))
    }

    /// Counts values, so that few bytes cannot make many of them.
    fn count(&mut self, values: usize) -> Result<(), Fault> {
        let left = self.values_left.checked_sub(values);
        self.values_left = left.ok_or_else(|| Fault::new("too many values for so few bytes"))?;
        Ok(())
    }
}

/// What stands on the wire for a field, which is known by its place among the fields.
#[derive(Clone, Copy)]
struct Occurrence<'a> {
    field: usize,
    value: WireValue<'a>,
}

/// What stands on the wire for all fields of a message, field by field.
struct Found<'a>(Vec<Occurrence<'a>>);

impl<'a> Found<'a> {
    fn in_parts(fields: &[Field], parts: &[&'a [u8]]) -> Result<Found<'a>, Fault> {
        let place = |number: u64| {
            let found = fields.binary_search_by_key(&number, |field| field.number.into());
            found.ok()
        };
        Found::collect(place, parts)
    }

    fn of_numbers(numbers: &[u64], parts: &[&'a [u8]]) -> Result<Found<'a>, Fault> {
        Found::collect(|number| numbers.iter().position(|it| *it == number), parts)
    }

    /// Collects the fields that have a place; the others are not known and passed over.
    fn collect(
        place: impl Fn(u64) -> Option<usize>,
        parts: &[&'a [u8]],
    ) -> Result<Found<'a>, Fault> {
        let mut found = Vec::new();
        for part in parts {
            let mut reader = Reader(part);
            while let Some((number, value)) = reader.next_field().map_err(Fault::new)? {
                if let Some(field) = place(number) {
                    found.push(Occurrence { field, value });
                }
            }
        }
        // What stands for one field keeps its order.
        found.sort_by_key(|occurrence| occurrence.field);
        Ok(Found(found))
    }

    fn of_field(&self, field: usize) -> &[Occurrence<'a>] {
        let start = self.0.partition_point(|it| it.field < field);
        let len = self.0[start..].partition_point(|it| it.field == field);
        &self.0[start..start + len]
    }
}

fn bytes_of<'a>(values: &[Occurrence<'a>]) -> Result<Vec<&'a [u8]>, Fault> {
    values.iter().map(|it| bytes(it.value)).collect()
}

fn bytes(value: WireValue<'_>) -> Result<&[u8], Fault> {
    match value {
        WireValue::Bytes(bytes) => Ok(bytes),
        other => Err(wrong_type("bytes", other)),
    }
}

fn last_bytes<'a>(values: &[Occurrence<'a>]) -> Result<Option<&'a [u8]>, Fault> {
    values.last().map(|it| bytes(it.value)).transpose()
}

fn last_varint(values: &[Occurrence<'_>]) -> Result<u64, Fault> {
    match values.last().map(|it| it.value) {
        None => Ok(0),
        Some(WireValue::Varint(number)) => Ok(number),
        Some(other) => Err(wrong_type("a varint", other)),
    }
}

fn wrong_type(expected: &str, found: WireValue<'_>) -> Fault {
    let found = match found {
        WireValue::Varint(_) => "a varint",
        WireValue::Fixed32(_) => "four bytes",
        WireValue::Fixed64(_) => "eight bytes",
        WireValue::Bytes(_) => "bytes",
        WireValue::Group => "a group",
    };
    Fault::new(format!(
        "wrong wire type: expected {expected}, found {found}"
    ))
}

fn double(values: &[Occurrence<'_>]) -> Result<Value, Fault> {
    let number = match values.last().map(|it| it.value) {
        None => 0.0,
        Some(WireValue::Fixed64(bits)) => f64::from_bits(bits),
        Some(other) => return Err(wrong_type("eight bytes", other)),
    };
    // Go writes whole numbers without a point. Below 2^53 all of them are exact.
    if number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0 {
        return Ok(Value::from(number as i64));
    }
    let finite = Number::from_f64(number).map(Value::Number);
    finite.ok_or_else(|| Fault::new(format!("{number} cannot be written in JSON")))
}

/// Seconds (1) and nanoseconds (2); nothing at all is no time.
fn time(values: &[Occurrence<'_>], precision: Precision) -> Result<Value, Fault> {
    let bytes = last_bytes(values)?.unwrap_or_default();
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let found = Found::of_numbers(&[1, 2], &[bytes])?;
    let time = PointInTime {
        seconds: last_varint(found.of_field(0))? as i64,
        nanos: last_varint(found.of_field(1))? as i32,
    };
    if time.rounded(precision) == Some(PointInTime::ZERO) {
        return Ok(Value::Null);
    }
    let text = time.text(precision).ok_or_else(|| {
        let PointInTime { seconds, nanos } = time;
        Fault::new(format!(
            "{seconds} s and {nanos} ns since 1970 are in no year from 0 to 9999"
        ))
    })?;
    Ok(Value::String(text))
}

/// A text (1), canonical in JSON whatever it is on the wire.
fn quantity(values: &[Occurrence<'_>]) -> Result<Value, Fault> {
    let found = Found::of_numbers(&[1], &bytes_of(values)?)?;
    let Some(bytes) = last_bytes(found.of_field(0))? else {
        return Ok(Value::from("0"));
    };
    let text = text(bytes);
    let quantity: Quantity = text.parse().map_err(|error| {
        let text = shortened(&text);
        Fault::new(format!("{text:?} is no quantity: {error}"))
    })?;
    Ok(Value::String(quantity.to_string()))
}

/// Which of both (1), the number (2) and the text (3).
fn int_or_string(values: &[Occurrence<'_>]) -> Result<Value, Fault> {
    let found = Found::of_numbers(&[1, 2, 3], &bytes_of(values)?)?;
    Ok(match last_varint(found.of_field(0))? {
        0 => Value::from(last_varint(found.of_field(1))? as i32),
        1 => Value::String(text(last_bytes(found.of_field(2))?.unwrap_or_default())),
        other => {
            let problem = format!("the type must be 0 (a number) or 1 (a text), not {other}");
            return Err(Fault::new(problem));
        }
    })
}

/// JSON (1).
fn raw(values: &[Occurrence<'_>], max_depth: usize) -> Result<Value, Fault> {
    let found = Found::of_numbers(&[1], &bytes_of(values)?)?;
    match last_bytes(found.of_field(0))? {
        None | Some([]) => Ok(Value::Null),
        Some(bytes) => json(bytes, max_depth),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

fn is_deeper(value: &Value, max_depth: usize) -> bool {
    // The parser of JSON has a limit of its own, so this recursion has one.
    let mut inside: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(list) => Box::new(list.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => return false,
    };
    max_depth == 0 || inside.any(|value| is_deeper(value, max_depth - 1))
}

fn too_deep() -> Fault {
    Fault::new(format!(
        "more than {MAX_DEPTH} lists and objects inside of each other"
    ))
}

/// A text for people, who do not read more than its beginning.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}
