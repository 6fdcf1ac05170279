//! What is wrong with a field of an object, in the words of the API server.
//!
//! Kubernetes reports every broken rule with the path of the field, the kind of mistake, the
//! value that is wrong and a detail. [`crate::status::Status::invalid`] puts them into an
//! answer; people and programs match on these texts. Source:
//! `k8s.io/apimachinery/pkg/util/validation/field/errors.go`, Kubernetes 1.36.
//!
//! [`crate::diagnostic`] is about the same mistakes in files, in words of our own.
//!
//! ```
//! use outrank_api::field_error::FieldError;
//!
//! let error = FieldError::invalid("spec.replicas", -1, "must be greater than or equal to 0");
//! assert_eq!(
//!     error.to_string(),
//!     "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
//! );
//! ```

use std::fmt;

use serde_json::Value;

use crate::diagnostic::{FieldPath, Finding};
use crate::names::{quoted, quoted_json};
use crate::quantity::Quantity;

/// The kind of a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FieldErrorType {
    /// A value that must be there is not.
    Required,
    /// The value breaks a rule.
    Invalid,
    /// The value is not one of an enumeration.
    NotSupported,
    /// The value would be right elsewhere or at another time.
    Forbidden,
    /// The value must be unique and is not.
    Duplicate,
    /// The value is too long; it is not shown.
    TooLong,
    /// A list or map has too many elements.
    TooMany,
    /// The value is not of the type that a schema demands.
    TypeInvalid,
    /// The value names something that is not there.
    NotFound,
}

impl FieldErrorType {
    /// The name in causes of a Status, such as `FieldValueInvalid`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotFound => "FieldValueNotFound",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::Duplicate => "Duplicate value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
        }
    }
}

/// A value that is wrong, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValue(String);

impl BadValue {
    /// A value that is shown as this JSON, with the fields in their order.
    pub(crate) fn json(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for BadValue {
    fn from(text: &str) -> Self {
        Self(quoted(text))
    }
}

impl From<&Quantity> for BadValue {
    fn from(amount: &Quantity) -> Self {
        amount.to_string().as_str().into()
    }
}

impl From<i64> for BadValue {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

impl From<bool> for BadValue {
    fn from(value: bool) -> Self {
        Self(value.to_string())
    }
}

impl From<&Value> for BadValue {
    /// Anything beyond scalars is shown as JSON.
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => text.as_str().into(),
            Value::Array(_) | Value::Object(_) => Self(go_json(value)),
            scalar => Self(scalar.to_string()),
        }
    }
}

/// A value as JSON with the escapes that Go adds for HTML.
pub(crate) fn go_json(value: &Value) -> String {
    match value {
        Value::String(text) => quoted_json(text),
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(go_json).collect();
            format!("[{}]", elements.join(","))
        }
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields =
                fields.map(|(key, value)| format!("{}:{}", quoted_json(key), go_json(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// One thing that is wrong with an object. Displays as `field: text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// What kind of mistake it is.
    pub error_type: FieldErrorType,
    /// The field.
    pub path: FieldPath,
    /// The value, if it is shown.
    value: Option<BadValue>,
    /// What would be right; may be empty.
    detail: String,
}

impl FieldError {
    /// The field must have a value. `detail` may be empty.
    pub fn required(path: impl Into<FieldPath>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorType::Required, path, None, detail)
    }

    /// The value breaks a rule.
    pub fn invalid(
        path: impl Into<FieldPath>,
        value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorType::Invalid, path, Some(value.into()), detail)
    }

    /// The value is none of `supported`.
    pub fn not_supported(
        path: impl Into<FieldPath>,
        value: impl Into<BadValue>,
        supported: &[&str],
    ) -> Self {
        let supported: Vec<String> = supported.iter().map(|value| quoted(value)).collect();
        let detail = match supported.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", supported.join(", ")),
        };
        Self::new(
            FieldErrorType::NotSupported,
            path,
            Some(value.into()),
            detail,
        )
    }

    /// The value is not allowed here or now.
    pub fn forbidden(path: impl Into<FieldPath>, detail: impl Into<String>) -> Self {
        Self::new(FieldErrorType::Forbidden, path, None, detail)
    }

    /// The value stands twice.
    pub fn duplicate(path: impl Into<FieldPath>, value: impl Into<BadValue>) -> Self {
        Self::new(FieldErrorType::Duplicate, path, Some(value.into()), "")
    }

    /// What the value names is not there. `detail` may be empty.
    pub fn not_found(
        path: impl Into<FieldPath>,
        value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(FieldErrorType::NotFound, path, Some(value.into()), detail)
    }

    /// The same with a detail.
    pub(crate) fn because(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The value has more than `bytes_max` bytes.
    pub fn too_long(path: impl Into<FieldPath>, bytes_max: usize) -> Self {
        let bytes = if bytes_max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {bytes_max} {bytes}");
        Self::new(FieldErrorType::TooLong, path, None, detail)
    }

    /// There are `count` elements, more than `count_max`.
    pub fn too_many(path: impl Into<FieldPath>, count: i64, count_max: i64) -> Self {
        let items = if count_max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {count_max} {items}");
        Self::new(FieldErrorType::TooMany, path, Some(count.into()), detail)
    }

    /// The value is not of the type that a schema demands.
    pub fn type_invalid(
        path: impl Into<FieldPath>,
        value: impl Into<BadValue>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(
            FieldErrorType::TypeInvalid,
            path,
            Some(value.into()),
            detail,
        )
    }

    fn new(
        error_type: FieldErrorType,
        path: impl Into<FieldPath>,
        value: Option<BadValue>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            error_type,
            path: path.into(),
            value,
            detail: detail.into(),
        }
    }

    /// The text that is wrong, as it is shown but without quotes; `None` if none is shown.
    pub(crate) fn shown_text(&self) -> Option<&str> {
        let BadValue(value) = self.value.as_ref()?;
        value.strip_prefix('"')?.strip_suffix('"')
    }

    /// What is wrong, without the field.
    pub fn body(&self) -> String {
        let mut body = self.error_type.text().to_owned();
        if let Some(BadValue(value)) = &self.value {
            body = format!("{body}: {value}");
        }
        if !self.detail.is_empty() {
            body = format!("{body}: {}", self.detail);
        }
        body
    }
}

impl From<Finding> for FieldError {
    /// A mistake in words of our own.
    fn from(finding: Finding) -> Self {
        Self::new(FieldErrorType::Invalid, finding.path, None, finding.message)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body())
    }
}

impl std::error::Error for FieldError {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_has_its_words() {
        for (error, text) in [
            (FieldError::required("a", ""), "a: Required value"),
            (
                FieldError::required("a", "for b"),
                "a: Required value: for b",
            ),
            (
                FieldError::invalid("a.b", "x\"", "no"),
                "a.b: Invalid value: \"x\\\"\": no",
            ),
            (
                FieldError::not_supported("a", "c", &["x", "y"]),
                "a: Unsupported value: \"c\": supported values: \"x\", \"y\"",
            ),
            (
                FieldError::forbidden("a", "not now"),
                "a: Forbidden: not now",
            ),
            (FieldError::duplicate("a", "x"), "a: Duplicate value: \"x\""),
            (FieldError::not_found("a", "x", ""), "a: Not found: \"x\""),
            (
                FieldError::too_many("a", 2, 1),
                "a: Too many: 2: must have at most 1 item",
            ),
            (
                FieldError::type_invalid("a", "string", "no"),
                "a: Invalid value: \"string\": no",
            ),
            (
                FieldError::too_long("a", 7),
                "a: Too long: may not be more than 7 bytes",
            ),
            (
                FieldError::invalid("a", &json!({"k": ["<"]}), "no"),
                "a: Invalid value: {\"k\":[\"\\u003c\"]}: no",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
