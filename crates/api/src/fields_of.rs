//! Reading objects that are JSON, field by field.
//!
//! What is absent, `null` or of another type reads as nothing: no text, 0, `false`, no elements.
//! That is how the API server reads bodies once their types are known to be right
//! ([`crate::request_body`]), and so nothing here fails.

use serde_json::{Map, Value};

use crate::quantity::Quantity;

/// An object, read by the names of its fields.
pub(crate) trait FieldsOf {
    /// A field, unless it is absent or `null`.
    fn part(&self, name: &str) -> Option<&Value>;

    /// A text; empty if there is none.
    fn text(&self, name: &str) -> &str;

    /// A text, if there is one; it may be empty.
    fn some_text(&self, name: &str) -> Option<&str>;

    /// A number, if there is one.
    fn number(&self, name: &str) -> Option<i64>;

    /// Whether a flag is set.
    fn flag(&self, name: &str) -> bool;

    /// A flag, if it is there.
    fn some_flag(&self, name: &str) -> Option<bool>;

    /// The elements of a list.
    fn list(&self, name: &str) -> &[Value];

    /// The texts in a list.
    fn texts(&self, name: &str) -> impl Iterator<Item = &str>;

    /// The entries of a map or an object, in the order of their keys.
    fn entries(&self, name: &str) -> impl Iterator<Item = (&str, &Value)>;

    /// The amounts in a map; what cannot be read is left out.
    fn amounts(&self, name: &str) -> impl Iterator<Item = (&str, Quantity)>;
}

impl FieldsOf for Value {
    fn part(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> &str {
        self.some_text(name).unwrap_or_default()
    }

    fn some_text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    fn flag(&self, name: &str) -> bool {
        self.some_flag(name).unwrap_or_default()
    }

    fn some_flag(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Value::as_bool)
    }

    fn list(&self, name: &str) -> &[Value] {
        let elements = self.get(name).and_then(Value::as_array);
        elements.map(Vec::as_slice).unwrap_or_default()
    }

    fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.list(name).iter().filter_map(Value::as_str)
    }

    fn entries(&self, name: &str) -> impl Iterator<Item = (&str, &Value)> {
        let entries = self.get(name).and_then(Value::as_object);
        let entries = entries.into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), value))
    }

    fn amounts(&self, name: &str) -> impl Iterator<Item = (&str, Quantity)> {
        let entries = self.entries(name);
        entries.filter_map(|(key, amount)| Some((key, quantity_of(amount)?)))
    }
}

/// The amount that a value stands for, be it written as a text or as a number.
pub(crate) fn quantity_of(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// A field of an object that is an object itself, made if it is not there; `None` if something
/// else stands in its place.
pub(crate) fn object_in<'m>(
    map: &'m mut Map<String, Value>,
    name: &str,
) -> Option<&'m mut Map<String, Value>> {
    let field = map.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if field.is_null() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absent_reads_as_nothing() {
        let object = json!({"a": null, "b": 7, "c": {"cpu": 0.5, "memory": "x"}});
        assert_eq!(object.part("a"), None);
        assert_eq!(object.text("b"), "");
        assert_eq!(object.number("b"), Some(7));
        assert!(!object.flag("b") && object.list("b").is_empty());
        let amounts: Vec<String> = object
            .amounts("c")
            .map(|(name, amount)| format!("{name}={amount}"))
            .collect();
        assert_eq!(amounts, ["cpu=500m"]);
        assert_eq!(Value::Null.text("a"), "");
    }
}
