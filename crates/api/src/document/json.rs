//! JSON documents, one after the other, maybe with `---` between them.

use std::cell::RefCell;
use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::{
    Document, DuplicateKey, Duplicates, LIST_DOCUMENT, ListType, Location, Receiver, SyntaxError,
    line_breaks,
};
use crate::diagnostic::Here;

/// Reads all documents of a JSON text.
pub(super) fn read(text: &str, receiver: &mut dyn Receiver) -> Result<(), SyntaxError> {
    let reading = RefCell::new(Reading {
        text,
        receiver,
        document: 0,
        duplicates: Duplicates::of(text),
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
    duplicates: Duplicates,
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
        while let Some(key) = map.next_key::<Key>()? {
            let here = Here::OBJECT.field(&key.text);
            report_duplicate(&fields, &key, &here, self.0);
            let value = if key.text == "items" {
                map.next_value_seed(Items {
                    reading: self.0,
                    list: &list,
                    here: &here,
                })?
            } else {
                map.next_value_seed(Any {
                    reading: self.0,
                    in_metadata: key.text == "metadata",
                    here: &here,
                })?
            };
            list.note(&key.text, &value);
            fields.insert(key.text, value);
        }
        Ok(Value::Object(fields))
    }
}

/// The `items` of a document.
struct Items<'a, 'b, 'r, 'l> {
    reading: &'b RefCell<Reading<'a, 'r>>,
    list: &'l ListType,
    here: &'l Here<'l>,
}

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
        let Items {
            reading,
            list,
            here,
        } = self;
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
                here: &here.index(kept.len()),
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
struct Any<'a, 'b, 'r, 'h> {
    reading: &'b RefCell<Reading<'a, 'r>>,
    in_metadata: bool,
    here: &'h Here<'h>,
}

impl<'de> DeserializeSeed<'de> for Any<'_, '_, '_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any<'_, '_, '_, '_> {
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
        loop {
            let inside = Any {
                in_metadata: false,
                here: &self.here.index(values.len()),
                ..self
            };
            match list.next_element_seed(inside)? {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<Key>()? {
            if self.in_metadata && key.text == "managedFields" {
                map.next_value::<IgnoredAny>()?;
                self.reading.borrow_mut().receiver.managed_fields();
                continue;
            }
            let here = self.here.field(&key.text);
            report_duplicate(&fields, &key, &here, self.reading);
            let value = map.next_value_seed(Any {
                in_metadata: key.text == "metadata",
                here: &here,
                ..self
            })?;
            fields.insert(key.text, value);
        }
        Ok(Value::Object(fields))
    }
}

/// A key of an object.
struct Key {
    text: String,
    /// The address of what is written, if that is the key itself. One with an escape is
    /// written otherwise.
    address: Option<usize>,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Key, E> {
                Ok(Key {
                    text: key.to_owned(),
                    address: Some(key.as_ptr() as usize),
                })
            }

            fn visit_str<E: Error>(self, key: &str) -> Result<Key, E> {
                Ok(Key {
                    text: key.to_owned(),
                    address: None,
                })
            }
        }
        json.deserialize_str(KeyVisitor)
    }
}

/// Reports a key that is there already. If it is written with an escape its line is that of
/// what was reported or handed on before, which is the best the JSON reader knows.
fn report_duplicate(
    fields: &Map<String, Value>,
    key: &Key,
    here: &Here<'_>,
    reading: &RefCell<Reading<'_, '_>>,
) {
    if !fields.contains_key(&key.text) {
        return;
    }
    let mut reading = reading.borrow_mut();
    if !reading.duplicates.are_told() {
        return;
    }
    let line = match key.address {
        None => reading.cursor.line,
        Some(address) => {
            let offset = address.saturating_sub(reading.text.as_ptr() as usize);
            reading.cursor.line_of(offset)
        }
    };
    let duplicate = DuplicateKey {
        key: key.text.clone(),
        path: here.path(),
        line,
    };
    let Reading {
        duplicates,
        receiver,
        ..
    } = &mut *reading;
    duplicates.tell(duplicate, &mut **receiver);
}
