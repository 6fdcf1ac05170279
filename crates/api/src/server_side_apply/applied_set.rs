//! What a configuration says, as a set of fields.

use serde_json::{Map, Value};

use crate::managed_fields::field_set::{FieldSet, node};
use crate::managed_fields::shape::{Form, Shape, unknown};

/// The fields that a value has. Named fields that only lead to others are not in it; keys of
/// maps and elements of lists are, and so is what is empty or `null`.
pub(super) fn fields_of(shape: Shape<'_>, value: &Value) -> FieldSet {
    FieldSet::new(below(shape, value))
}

fn below(shape: Shape<'_>, value: &Value) -> Map<String, Value> {
    let mut set = Map::new();
    match (shape.form(value), value) {
        (Form::Fields(fields), Value::Object(map)) => {
            for (name, value) in map {
                let inner = fields.field(name).unwrap_or_else(unknown);
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                let is_member = is_empty || !fields.is_named(name) || is_leaf(inner, value);
                if let Some(node) = node(is_member, below(inner, value)) {
                    set.insert(format!("f:{name}"), node.into());
                }
            }
        }
        (Form::Elements(elements), Value::Array(list)) => {
            let mut seen_twice = Vec::new();
            for element in list {
                let Ok(identity) = elements.identity(element) else {
                    continue;
                };
                let node = node(true, below(elements.element, element)).unwrap_or_default();
                if set.insert(identity.clone(), node.into()).is_some() {
                    seen_twice.push(identity);
                }
            }
            // Elements that stand twice are owned whole.
            set.extend(seen_twice.into_iter().map(|id| (id, Map::new().into())));
        }
        _ => {}
    }
    set
}

fn is_leaf(shape: Shape<'_>, value: &Value) -> bool {
    matches!(shape.form(value), Form::Scalar(_) | Form::Whole(_))
}
