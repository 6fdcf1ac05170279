//! Whether a configuration fits the schema, in upstream's words.
//!
//! Source: `sigs.k8s.io/structured-merge-diff`, `typed/{validate,helpers}.go`. Where upstream
//! walks through fields in no order, names are in theirs here.

use std::collections::HashSet;

use serde_json::Value;

use crate::managed_fields::field_set::element_text;
use crate::managed_fields::shape::{Form, Scalar, Shape, Whole};
use crate::patch::go_text;

/// What is wrong with a configuration.
///
/// # Errors
///
/// All of it, as one text.
pub(super) fn check(shape: Shape<'_>, applied: &Value) -> Result<(), String> {
    let mut check = Check::default();
    check.value(shape, applied);
    match check.errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("errors:\n  {}", several.join("\n  "))),
    }
}

/// How many bytes of errors are told. Each comes with its path, so that telling all would take
/// memory out of proportion to the configuration.
const ERROR_BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
struct Check {
    path: Vec<String>,
    errors: Vec<String>,
    /// Of all errors.
    error_bytes: usize,
}

impl Check {
    fn value(&mut self, shape: Shape<'_>, value: &Value) {
        if value.is_null() {
            return;
        }
        match (shape.form(value), value) {
            (Form::Scalar(scalar), _) => self.scalar(scalar, value),
            (Form::Whole(Whole::Any), _) => {}
            (Form::Fields(shape), Value::Object(fields)) => self.fields(shape, fields),
            (Form::Whole(Whole::Map), Value::Object(fields)) => self.fields(shape, fields),
            (Form::Elements(_), Value::Array(list)) => self.elements(shape, list),
            (Form::Whole(Whole::List), Value::Array(list)) => {
                for (index, element) in list.iter().enumerate() {
                    self.inside(format!("[{index}]"), shape.element(), element);
                }
            }
            (Form::Fields(_) | Form::Whole(Whole::Map), _) => {
                self.error(format!("expected map, got &{{{}}}", go_text(value)));
            }
            (Form::Elements(_) | Form::Whole(Whole::List), _) => {
                self.error(format!("expected list, got &{{{}}}", go_text(value)));
            }
        }
    }

    fn fields(&mut self, shape: Shape<'_>, fields: &serde_json::Map<String, Value>) {
        for (name, value) in fields {
            match shape.field(name) {
                Some(inner) => self.inside(format!(".{name}"), inner, value),
                None => {
                    self.path.push(format!(".{name}"));
                    self.error("field not declared in schema");
                    self.path.pop();
                    return;
                }
            }
        }
    }

    fn elements(&mut self, shape: Shape<'_>, list: &[Value]) {
        let Form::Elements(elements) = shape.form(&Value::Array(Vec::new())) else {
            return;
        };
        let mut seen = HashSet::new();
        for (index, element) in list.iter().enumerate() {
            let identity = match elements.identity(element) {
                Ok(identity) => identity,
                Err(why) => return self.error(format!("element {index}: {why}")),
            };
            let shown = element_text(&identity);
            if !seen.insert(identity) {
                self.error(format!("duplicate entries for key {shown}"));
            }
            self.inside(shown, elements.element, element);
        }
    }

    fn inside(&mut self, step: String, shape: Shape<'_>, value: &Value) {
        self.path.push(step);
        self.value(shape, value);
        self.path.pop();
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let fits = match scalar {
            Scalar::Number => value.is_number(),
            Scalar::Text => value.is_string(),
            Scalar::Bool => value.is_boolean(),
            Scalar::Any => !value.is_array() && !value.is_object(),
        };
        if fits {
            return;
        }
        self.error(match scalar {
            Scalar::Number => format!("expected numeric (int or float), got {}", go_type(value)),
            Scalar::Text => {
                let shown = go_syntax(value);
                format!("expected string, got &value.valueUnstructured{{Value:{shown}}}")
            }
            Scalar::Bool => format!("expected boolean, got &{{{}}}", go_text(value)),
            Scalar::Any => format!("expected any scalar, got &{{{}}}", go_text(value)),
        });
    }

    fn error(&mut self, message: impl Into<String>) {
        if self.error_bytes > ERROR_BYTES_MAX {
            return;
        }
        let (path, message) = (self.path.concat(), message.into());
        let error = match path.as_str() {
            "" => message,
            path => format!("{path}: {message}"),
        };
        self.error_bytes += error.len();
        self.errors.push(error);
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go writes it in a program (`%#v`).
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => crate::names::quoted(text),
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", elements.join(", "))
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| {
                format!("{}:{}", crate::names::quoted(name), go_syntax(value))
            });
            let fields: Vec<String> = fields.collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        scalar => scalar.to_string(),
    }
}
