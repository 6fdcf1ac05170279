//! Columns of custom resources: what a CustomResourceDefinition says in `additionalPrinterColumns`.
//!
//! Source: `k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor`,
//! Kubernetes 1.36.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

use super::age::since;
use super::cell::{integer, list, text};
use super::column::{AGE, Column};
use super::json_path::JsonPath;

/// A column of a custom resource.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomColumn {
    column: Column,
    path: JsonPath,
}

impl CustomColumn {
    /// The columns of a version, as the CustomResourceDefinition says; the age if it says nothing.
    /// As upstream does, a column whose path cannot be read is left out with all behind it.
    ///
    /// ```
    /// use outrank_apiserver::table::CustomColumn;
    /// use serde_json::json;
    ///
    /// let definition = json!({"spec": {"versions": [{
    ///     "name": "v1",
    ///     "additionalPrinterColumns": [
    ///         {"name": "Ready", "type": "string", "jsonPath": ".status.ready"},
    ///     ],
    /// }]}});
    /// let columns = CustomColumn::of_definition(&definition, "v1");
    /// assert_eq!(columns[0].column().name, "Ready");
    /// ```
    pub fn of_definition(definition: &Value, version: &str) -> Vec<Self> {
        let mut versions = list(&definition["spec"]["versions"]).iter();
        let version = versions.find(|it| text(&it["name"]) == version);
        let columns = version.map_or(&Value::Null, |it| &it["additionalPrinterColumns"]);
        match list(columns) {
            [] => vec![Self::age()],
            columns => columns.iter().map_while(|it| Self::read(it).ok()).collect(),
        }
    }

    /// A column as it stands in `additionalPrinterColumns`. The error says what is wrong with its
    /// path; that the other fields are there is the business of validation.
    pub fn read(definition: &Value) -> Result<Self, String> {
        let path = text(&definition["jsonPath"]);
        let parsed = JsonPath::parse(path)
            .map_err(|error| format!("unrecognized column definition {path:?}: {error}"))?;
        let description = match text(&definition["description"]) {
            "" => format!("Custom resource definition column (in JSONPath format): {path}"),
            description => description.to_owned(),
        };
        let owned = |field: &str| Cow::Owned(text(&definition[field]).to_owned());
        let column = Column {
            name: owned("name"),
            type_: owned("type"),
            format: owned("format"),
            description: description.into(),
            priority: i32::try_from(integer(&definition["priority"])).unwrap_or_default(),
        };
        Ok(Self {
            column,
            path: parsed,
        })
    }

    /// How the column is defined in a table.
    pub fn column(&self) -> &Column {
        &self.column
    }

    /// The cell of an object; null if there is nothing, or nothing of the type of the column.
    pub(super) fn cell(&self, object: &Value, now_nanos: i64) -> Value {
        let Some(value) = self.path.first(object) else {
            return Value::Null;
        };
        let cell = match self.column.type_.as_ref() {
            "string" => Some(shown(value).into()),
            "integer" => whole(value).map(Value::from),
            "number" => value.as_number().cloned().map(Value::from),
            "boolean" => value.as_bool().map(Value::from),
            "date" => value.as_str().map(|time| date(time, now_nanos).into()),
            _ => None,
        };
        cell.unwrap_or_default()
    }

    fn age() -> Self {
        Self {
            column: Column {
                type_: Cow::Borrowed("date"),
                ..AGE.into()
            },
            path: JsonPath::of_fields(&["metadata", "creationTimestamp"]),
        }
    }
}

/// A number without what is behind the point.
fn whole(value: &Value) -> Option<i64> {
    // `as` stays within the range of integers.
    value
        .as_i64()
        .or_else(|| value.as_f64().map(|it| it as i64))
}

fn date(time: &str, now_nanos: i64) -> String {
    match time {
        "" | "null" => "<unknown>".to_owned(),
        _ => match outrank_api::time::unix_nanos(time) {
            Some(_) => since(&time.into(), now_nanos),
            None => "<invalid>".to_owned(),
        },
    }
}

/// A value as Go prints it: texts and numbers as they are, lists and objects as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(boolean) => boolean.to_string(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => integer.to_string(),
            (None, Some(float)) => go_float(float),
            (None, None) => number.to_string(),
        },
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => go_json(value),
    }
}

/// A floating-point number as Go's `%v` has it: with an exponent below 1e-4 and from 1e6 on.
fn go_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// JSON as Go's encoder writes it.
fn go_json(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, GoFormatter);
    // Writing JSON to memory does not fail, and JSON is UTF-8.
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8(bytes).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

/// What Go's encoder does differently: it escapes what could be taken for HTML or ends lines, and
/// writes whole numbers without a point (`encoding/json`).
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let magnitude = value.abs();
        if magnitude == 0.0 || (1e-6..1e21).contains(&magnitude) {
            return write!(writer, "{value}");
        }
        let plus = if magnitude < 1.0 { "e" } else { "e+" };
        writer.write_all(format!("{value:e}").replace('e', plus).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        let is_escaped = |c| matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
        while let Some(at) = rest.find(is_escaped) {
            let (plain, behind) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut chars = behind.chars();
            if let Some(c) = chars.next() {
                write!(writer, "\\u{:04x}", u32::from(c))?;
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 100_000_000_000;

    fn cell(type_: &str, value: Value) -> Value {
        let definition = json!({"name": "C", "type": type_, "jsonPath": ".spec.c"});
        let column = CustomColumn::read(&definition).unwrap();
        column.cell(&json!({"spec": {"c": value}}), NOW)
    }

    #[test]
    fn cells_have_the_type_of_their_column() {
        let cases = [
            ("string", json!("a"), json!("a")),
            ("string", json!(7), json!("7")),
            ("string", json!(1.5), json!("1.5")),
            ("string", json!(123456.5), json!("123456.5")),
            ("string", json!(1e6), json!("1e+06")),
            ("string", json!(1.25e25), json!("1.25e+25")),
            (
                "string",
                json!([1e6, 1e25, 1e-7]),
                json!("[1000000,1e+25,1e-7]"),
            ),
            ("string", json!(0.00001), json!("1e-05")),
            ("string", json!(true), json!("true")),
            ("string", json!(null), json!("<no value>")),
            (
                "string",
                json!(["<b>", 2.0]),
                json!("[\"\\u003cb\\u003e\",2]"),
            ),
            (
                "string",
                json!({"b": 1, "a": "x"}),
                json!("{\"a\":\"x\",\"b\":1}"),
            ),
            ("integer", json!(7), json!(7)),
            ("integer", json!(7.9), json!(7)),
            ("integer", json!(-1e300), json!(i64::MIN)),
            ("integer", json!("7"), json!(null)),
            ("number", json!(7), json!(7)),
            ("number", json!(7.5), json!(7.5)),
            ("number", json!(false), json!(null)),
            ("boolean", json!(false), json!(false)),
            ("boolean", json!("false"), json!(null)),
            ("date", json!("1970-01-01T00:00:00Z"), json!("100s")),
            ("date", json!(""), json!("<unknown>")),
            ("date", json!("yesterday"), json!("<invalid>")),
            ("date", json!(7), json!(null)),
            ("colour", json!("red"), json!(null)),
        ];
        for (type_, value, expected) in cases {
            assert_eq!(cell(type_, value.clone()), expected, "{type_} of {value}");
        }
    }

    #[test]
    fn columns_are_read_up_to_a_wrong_one() {
        let column = |path: &str| json!({"name": path, "type": "string", "jsonPath": path});
        let columns = [column(".a"), column(".b["), column(".c")];
        let definition = json!({"spec": {"versions": [
            {"name": "v1", "additionalPrinterColumns": columns},
            {"name": "v2"},
        ]}});
        let of_version = |version| {
            let columns = CustomColumn::of_definition(&definition, version);
            let names = columns
                .iter()
                .map(|it| it.column().name.clone().into_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(of_version("v1"), [".a"]);
        assert_eq!(of_version("v2"), ["Age"]);
        let error = CustomColumn::read(&column(".b[")).unwrap_err();
        assert_eq!(
            error,
            "unrecognized column definition \".b[\": unterminated array"
        );
    }
}
