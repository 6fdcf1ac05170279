//! JSON documents, one after the other, maybe with `---` between them.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::{
    Document, DuplicateKey, LIST_DOCUMENT, ListType, Location, Receiver, SyntaxError, line_breaks,
};

/// Reads all documents of a JSON text.
pub(super) fn read(text: &str, receiver: &mut dyn Receiver) -> Result<(), SyntaxError> {
    let reading = RefCell::new(Reading {
        text,
        receiver,
        document: 0,
        cursor: LineCursor {
            text,
            offset: 0,
            line: 1,
        },
    });
    let mut offset = 0;
    while let Some(start) = next_document(text, offset) {
        let line = reading.borrow_mut().cursor.line_of(start);
        let rest = text.get(start..).unwrap_or_default();
        let mut json = serde_json::Deserializer::from_str(rest);
        let value = Top(&reading)
            .deserialize(&mut json)
            .map_err(|error| located(error, line))?;
        offset = start + json.into_iter::<IgnoredAny>().byte_offset();
        let mut reading = reading.borrow_mut();
        let location = Location {
            document: reading.document,
            item: None,
            line,
        };
        reading.document += 1;
        if !value.is_null() {
            reading.receiver.document(Document { value, location });
        }
    }
    Ok(())
}

/// Where the next document starts.
pub(super) fn next_document(text: &str, mut offset: usize) -> Option<usize> {
    loop {
        let rest = text.get(offset..)?;
        let trimmed = rest.trim_start();
        offset += rest.len() - trimmed.len();
        if !trimmed.starts_with("---") {
            return (!trimmed.is_empty()).then_some(offset);
        }
        offset += trimmed.find('\n').unwrap_or(trimmed.len());
    }
}

/// An error of the JSON reader, whose lines count from the start of the document.
fn located(error: serde_json::Error, first_line: usize) -> SyntaxError {
    let text = error.to_string();
    let message = match text.rfind(" at line ") {
        Some(end) => text.get(..end).unwrap_or(&text).to_owned(),
        None => text,
    };
    SyntaxError {
        line: first_line + error.line().saturating_sub(1),
        message,
    }
}

struct Reading<'a, 'r> {
    text: &'a str,
    receiver: &'r mut dyn Receiver,
    document: usize,
    cursor: LineCursor<'a>,
}

impl Reading<'_, '_> {
    fn offset_of(&self, part: &str) -> usize {
        (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize)
    }
}

/// Counts lines along the text; going back is answered with the line reached before.
struct LineCursor<'a> {
    text: &'a str,
    offset: usize,
    line: usize,
}

impl LineCursor<'_> {
    fn line_of(&mut self, offset: usize) -> usize {
        let passed = self.text.as_bytes().get(self.offset..offset);
        if let Some(passed) = passed {
            self.line += line_breaks(passed);
            self.offset = offset;
        }
        self.line
    }
}

/// A whole document: its `items` are handed on one by one.
struct Top<'a, 'b, 'r>(&'b RefCell<Reading<'a, 'r>>);

impl<'de, 'a: 'de> DeserializeSeed<'de> for Top<'a, '_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, 'a: 'de> Visitor<'de> for Top<'a, '_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Value, A::Error> {
        Err(A::Error::custom(LIST_DOCUMENT))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        let mut list = ListType::default();
        while let Some(key) = map.next_key::<String>()? {
            let value = if key == "items" {
                map.next_value_seed(Items(self.0, &list))?
            } else {
                map.next_value_seed(Any {
                    reading: self.0,
                    in_metadata: key == "metadata",
                })?
            };
            list.note(&key, &value);
            insert(&mut fields, key, value, self.0);
        }
        Ok(Value::Object(fields))
    }
}

/// The `items` of a document.
struct Items<'a, 'b, 'r, 'l>(&'b RefCell<Reading<'a, 'r>>, &'l ListType);

impl<'de, 'a: 'de> DeserializeSeed<'de> for Items<'a, '_, '_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de, 'a: 'de> Visitor<'de> for Items<'a, '_, '_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let Items(reading, list) = self;
        let mut kept = Vec::new();
        while let Some(raw) = items.next_element::<&RawValue>()? {
            let line = {
                let mut reading = reading.borrow_mut();
                let offset = reading.offset_of(raw.get());
                reading.cursor.line_of(offset)
            };
            let seed = Any {
                reading,
                in_metadata: false,
            };
            let mut value = seed
                .deserialize(&mut serde_json::Deserializer::from_str(raw.get()))
                .map_err(|error| A::Error::custom(located(error, line).message))?;
            if list.claim(&mut value) {
                let mut reading = reading.borrow_mut();
                let document = reading.document;
                let location = Location {
                    document,
                    item: Some(kept.len()),
                    line,
                };
                reading.receiver.document(Document { value, location });
                value = Value::Null;
            }
            kept.push(value);
        }
        Ok(Value::Array(kept))
    }
}

/// Any value; knows whether it is the value of a key `metadata`.
#[derive(Clone, Copy)]
struct Any<'a, 'b, 'r> {
    reading: &'b RefCell<Reading<'a, 'r>>,
    in_metadata: bool,
}

impl<'de> DeserializeSeed<'de> for Any<'_, '_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any<'_, '_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        let inside = Any {
            in_metadata: false,
            ..self
        };
        while let Some(value) = list.next_element_seed(inside)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if self.in_metadata && key == "managedFields" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value_seed(Any {
                in_metadata: key == "metadata",
                ..self
            })?;
            insert(&mut fields, key, value, self.reading);
        }
        Ok(Value::Object(fields))
    }
}

/// Puts a field in; reports it if it is there already, with the line of the object that
/// it stands in, which is the best the JSON reader knows.
fn insert(
    fields: &mut Map<String, Value>,
    key: String,
    value: Value,
    reading: &RefCell<Reading<'_, '_>>,
) {
    if fields.contains_key(&key) {
        let mut reading = reading.borrow_mut();
        let line = reading.cursor.line;
        reading.receiver.duplicate_key(DuplicateKey {
            key: key.clone(),
            line,
        });
    }
    fields.insert(key, value);
}
