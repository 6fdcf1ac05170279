//! Random objects of every kind, encoded and decoded again.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::table::{Element, Field, MessageId, Presence, Shape, Table};

#[path = "../../../tests/random.rs"]
mod random;

use random::Random;

/// Objects of each kind.
const ROUNDS: u64 = 25;

/// How deep a message may be inside of others before it has only what it must have.
const FULL_DEPTH: usize = 7;

impl Random {
    /// The fields of an object as JSON shows them.
    fn object_of(&mut self, id: MessageId, depth: usize) -> Map<String, Value> {
        let mut object = Map::new();
        for field in &Table::get().message(id).fields {
            if let (Presence::Inline, Element::Message(id)) = (field.presence, field.element) {
                object.extend(self.object_of(id, depth));
            } else if let Some(value) = self.field(field, depth) {
                object.insert(field.name.to_owned(), value);
            }
        }
        object
    }

    fn field(&mut self, field: &Field, depth: usize) -> Option<Value> {
        let is_left_out = depth > FULL_DEPTH || self.one_in(2);
        let is_scalar = field.shape == Shape::One && field.element != Element::Bytes;
        match field.presence {
            Presence::NotZero if is_left_out => None,
            Presence::NotZero => Some(self.value(field, depth)).filter(|value| !is_zero(value)),
            // Null stands for what is absent, so only what is absent is null.
            Presence::Optional if is_left_out => None,
            Presence::Optional => Some(self.value(field, depth)).filter(|value| !value.is_null()),
            Presence::Nullable if is_left_out => Some(Value::Null),
            Presence::Always if is_left_out && !is_scalar => Some(Value::Null),
            _ => Some(self.value(field, depth)),
        }
    }

    /// A value, which is not empty if it is a list or map.
    fn value(&mut self, field: &Field, depth: usize) -> Value {
        let count = 1 + self.below(3);
        let mut elements = (0..count).map(|_| self.element(field.element, depth));
        match field.shape {
            Shape::One => elements.next().unwrap_or_default(),
            Shape::List => elements.collect(),
            Shape::Map => {
                let elements: Vec<Value> = elements.collect();
                let entries = elements.into_iter().map(|value| (self.text(), value));
                Value::Object(entries.collect())
            }
        }
    }

    fn element(&mut self, element: Element, depth: usize) -> Value {
        match element {
            Element::Bool => json!(self.one_in(2)),
            Element::Bytes => json!(*self.pick(&["", "AA==", "//79", "azhzAA=="])),
            Element::Double => json!(*self.pick(&[0.5, -1e300, 1e-9, 123_456.789])),
            Element::Int32 => json!(*self.pick(&[0, 1, -1, i32::MAX, i32::MIN])),
            Element::Int64 => json!(*self.pick(&[0, 300, -1, i64::MAX, i64::MIN])),
            Element::IntOrString => self.pick(&[json!(0), json!(-7), json!("50%")]).clone(),
            Element::MicroTime => self
                .pick(&[Value::Null, json!("2026-09-21T14:13:20.216987Z")])
                .clone(),
            Element::Quantity => json!(*self.pick(&["0", "100m", "1500Mi", "-1k", "1e30"])),
            Element::Raw => self
                .pick(&[Value::Null, json!({ "a": [1, "b"] }), json!(2.5), json!("")])
                .clone(),
            Element::String => json!(self.text()),
            Element::Time => self
                .pick(&[
                    Value::Null,
                    json!("1970-01-01T00:00:00Z"),
                    json!("9999-12-31T23:59:59Z"),
                    json!("1969-12-31T23:59:59Z"),
                ])
                .clone(),
            Element::Message(id) if Table::get().message(id).is_union => self.union(id, depth),
            Element::Message(id) => Value::Object(self.object_of(id, depth + 1)),
        }
    }

    fn union(&mut self, id: MessageId, depth: usize) -> Value {
        let fields = &Table::get().message(id).fields;
        let field = self.pick(fields);
        let value = self.value(field, depth + 1);
        match value {
            Value::Object(_) if depth > FULL_DEPTH => Value::Null,
            value => value,
        }
    }

    fn text(&mut self) -> String {
        let texts = ["", "a", "nvidia.com/gpu", "ünï\u{0}\u{10ffff}", "high"];
        (*self.pick(&texts)).to_owned()
    }
}

fn is_zero(value: &Value) -> bool {
    ["null", "0", "false", r#""""#].contains(&value.to_string().as_str())
}

#[test]
fn what_is_encoded_is_decoded_as_it_was() {
    let mut names = BTreeSet::new();
    for (api_version, kind) in Table::get().kinds() {
        let api_version = match api_version {
            "*" => "apps/v1",
            version => version,
        };
        names.insert((api_version.to_owned(), kind.to_owned()));
    }
    for (at, (api_version, kind)) in names.iter().enumerate() {
        for round in 0..ROUNDS {
            let seed = at as u64 * ROUNDS + round;
            let id = Table::get().of_kind(api_version, kind).unwrap();
            let mut object = Random(seed).object_of(id, 0);
            object.insert("apiVersion".to_owned(), api_version.as_str().into());
            object.insert("kind".to_owned(), kind.as_str().into());
            let object = Value::Object(object);
            let body = crate::encode(&object).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            let decoded = crate::decode(&body).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert_eq!(decoded.object, object, "seed {seed}");
        }
    }
    assert!(names.len() > 120, "{} kinds", names.len());
}
