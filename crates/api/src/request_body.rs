//! The body of a request, read as strictly as the API server reads it.
//!
//! A field of the wrong type ends a request; a field that does not exist, or that stands twice,
//! does not unless the client asks for it (`fieldValidation=Strict`), and is otherwise told in a
//! warning. The texts are those of the Go decoder that the API server uses. Sources, Kubernetes
//! 1.36: `k8s.io/apiserver/pkg/endpoints/handlers/{create,rest}.go`, `sigs.k8s.io/json`.
//!
//! Of an object of a custom resource only the metadata has a type; fields that its schema does
//! not have are taken out as well, and told. Whether the rest fits the schema is a matter of
//! validation ([`crate::custom_resource`]).
//!
//! ```
//! use outrank_api::decode::ObjectKind;
//! use outrank_api::request_body::{FieldValidation, read};
//!
//! let body = r#"{"metadata": {"name": "high"}, "value": 10, "valeu": 9}"#;
//! let body = read(ObjectKind::PriorityClass.into(), body, FieldValidation::Warn).unwrap();
//! assert_eq!(body.value["value"], 10);
//! assert_eq!(body.warnings, [r#"unknown field "valeu""#]);
//! ```

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::base64_bytes;
use crate::custom_resource;
use crate::field_error::FieldError;
use crate::names::quoted;
use crate::quantity::Quantity;
use crate::resource_type::ResourceType;
use crate::schema::{self, FieldType};
use crate::status::Status;

/// How many fields that do not exist or stand twice are told of a body; upstream's limit. Each is
/// told with its path, so that telling all would take memory out of proportion to the body.
const FINDINGS_MAX: usize = 100;

/// After how many bytes of them no more are told.
const FINDINGS_BYTES_MAX: usize = 256 * 1024;

/// Whether one more may be told of a body, beside those that were found.
pub(crate) fn may_tell_more(found: &[String]) -> bool {
    found.len() < FINDINGS_MAX && found.iter().map(String::len).sum::<usize>() < FINDINGS_BYTES_MAX
}

/// What becomes of fields that do not exist or stand twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Nothing is said.
    Ignore,
    /// The client is warned.
    #[default]
    Warn,
    /// The request is refused.
    Strict,
}

impl FieldValidation {
    /// What the parameter `fieldValidation` of a request says; empty is `Warn`.
    pub fn parse(parameter: &str) -> Option<Self> {
        match parameter {
            "" | "Warn" => Some(Self::Warn),
            "Ignore" => Some(Self::Ignore),
            "Strict" => Some(Self::Strict),
            _ => None,
        }
    }

    /// Sorts what strictness found into warnings and an error.
    ///
    /// # Errors
    ///
    /// The text of all of it, if it is an error and there is any.
    pub(crate) fn judge(self, found: Vec<String>) -> Result<Vec<String>, String> {
        match self {
            Self::Ignore => Ok(Vec::new()),
            Self::Warn => Ok(found),
            Self::Strict if found.is_empty() => Ok(found),
            Self::Strict => Err(format!("strict decoding error: {}", found.join(", "))),
        }
    }
}

/// A body that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Body {
    /// The object, with its `apiVersion` and `kind`; without fields that do not exist.
    pub value: Value,
    /// What the client is warned of, for Warning headers.
    pub warnings: Vec<String>,
}

/// Reads the body of a request for an object of a kind.
///
/// # Errors
///
/// If it is not JSON, is of another kind, or has fields of the wrong type.
pub fn read(
    resource: &ResourceType,
    body: &str,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let tree = Json::parse(body).map_err(|error| {
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; \
             json parse error: {error} ({})",
            resource.kind,
            summary(body)
        ))
    })?;
    check_identity(resource, &tree)?;
    let cannot = |why: String| {
        let (name, version) = (&resource.kind, &resource.version);
        Status::bad_request(format!(
            "{name} in version {version:?} cannot be handled as a {name}: {why}"
        ))
    };
    let Read { mut value, strict } = read_tree(resource, body, &tree).map_err(cannot)?;
    let warnings = validation.judge(strict).map_err(cannot)?;
    if let Value::Object(fields) = &mut value {
        fields.insert("apiVersion".to_owned(), resource.api_version().into());
        fields.insert("kind".to_owned(), resource.kind.as_str().into());
    }
    Ok(Body { value, warnings })
}

/// Reads the body of a request that says how something is to be done, such as `DeleteOptions`, whose
/// name is that of its type. Fields that do not exist are passed over; `null` and nothing are no
/// options at all.
///
/// # Errors
///
/// If it is not JSON, is of another kind, or has fields of the wrong type.
pub fn read_options(type_name: &str, body: &str) -> Result<Value, Status> {
    let no_kind = |why: String| {
        Status::bad_request(format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    };
    let tree = Json::parse(body).map_err(|error| no_kind(go_syntax_error(body, &error)))?;
    let reader = Reader::new(body);
    let found = reader.found(&tree, &FieldType::Any);
    if !matches!(tree, Json::Object(_) | Json::Null) {
        return Err(no_kind(format!(
            "json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    for name in ["apiVersion", "kind"] {
        match tree.get(name) {
            None | Some(Json::Null | Json::String(_)) => {}
            Some(other) => {
                let found = reader.found(other, &FieldType::Any);
                return Err(no_kind(format!(
                    "json: cannot unmarshal {found} into Go struct field .{name} of type string"
                )));
            }
        }
    }
    if let Some(Json::String(kind)) = tree.get("kind")
        && !kind.is_empty()
        && kind != type_name
    {
        let version = match tree.get("apiVersion") {
            Some(Json::String(version)) => version.as_str(),
            _ => "v1",
        };
        return Err(Status::bad_request(no_kind_registered(
            kind,
            version,
            "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27",
        )));
    }
    let mut reader = Reader::new(body);
    let field_type = FieldType::Object(type_name.to_owned());
    let value = reader.read(&tree, &field_type, None);
    match reader.error {
        Some(error) => Err(Status::bad_request(error)),
        None => Ok(value.unwrap_or_default()),
    }
}

/// What Kubernetes says of a kind that it does not know. Source: `NewNotRegisteredErrForKind`,
/// `k8s.io/apimachinery/pkg/runtime/error.go`.
fn no_kind_registered(kind: &str, api_version: &str, scheme: &str) -> String {
    let (kind, api_version) = (quoted(kind), quoted(api_version));
    format!("no kind {kind} is registered for version {api_version} in scheme {scheme:?}")
}

/// Where Kubernetes keeps the types of its own API, as its errors say.
const LEGACY_SCHEME: &str = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30";

/// Why an object that a patch has made is none of the kind, if what it says of its kind is not what
/// it was.
///
/// Sources: `DecodeInto` of `k8s.io/apimachinery/pkg/runtime/codec.go`,
/// `serializer/versioning/versioning.go`; `crConverter` of `k8s.io/apiextensions-apiserver`.
pub(crate) fn other_kind(resource: &ResourceType, patched: &Value) -> Option<String> {
    let text = |field: &str| patched.get(field).and_then(Value::as_str);
    let (expected, api_version) = (resource.api_version(), text("apiVersion"));
    let api_version = api_version.filter(|it| !it.is_empty()).unwrap_or(&expected);
    let kind = text("kind").filter(|it| !it.is_empty());
    let kind = kind.unwrap_or(&resource.kind);
    if (api_version, kind) == (expected.as_str(), resource.kind.as_str()) {
        return None;
    }
    if resource.type_name.is_none() {
        let why = format!("request to convert CR from an invalid group/version: {api_version}");
        return (api_version != expected).then_some(why);
    }
    if !schema::is_known(api_version, kind) {
        return Some(no_kind_registered(kind, api_version, LEGACY_SCHEME));
    }
    let (source, target) = (
        internal_type(api_version, kind),
        internal_type(&expected, &resource.kind),
    );
    // Other versions of a kind are the same inside.
    let version = api_version.rsplit('/').next().unwrap_or(api_version);
    (source != target)
        .then(|| format!("converting ({version}.{kind}) to ({target}): unknown conversion"))
}

/// The type of Go that all versions of a kind have inside of Kubernetes, such as `core.Pod`.
fn internal_type(api_version: &str, kind: &str) -> String {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let package = match group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or(group),
    };
    format!("{package}.{kind}")
}

/// What Go's `encoding/json` says of text that is not JSON.
pub(crate) fn go_syntax_error(text: &str, error: &serde_json::Error) -> String {
    let line = text.lines().nth(error.line().saturating_sub(1));
    let found = line.and_then(|line| line.chars().nth(error.column().saturating_sub(1)));
    let told = error.to_string();
    let places = [
        (
            "key must be a string",
            "looking for beginning of object key string",
        ),
        ("expected `:`", "after object key"),
        ("expected `,` or `}`", "after object key:value pair"),
        ("expected `,` or `]`", "after array element"),
        ("trailing characters", "after top-level value"),
    ];
    let place = places.iter().find(|(ours, _)| told.starts_with(ours));
    let place = place.map_or("looking for beginning of value", |(_, place)| place);
    match found {
        Some(found) if !error.is_eof() => format!("invalid character '{found}' {place}"),
        _ => "unexpected end of JSON input".to_owned(),
    }
}

/// An object that was read, and what strictness would say of it.
pub(crate) struct Read {
    pub(crate) value: Value,
    pub(crate) strict: Vec<String>,
}

/// Reads an object from text, whatever it says of its kind.
///
/// # Errors
///
/// The first wrong type, in the words of the Go decoder.
pub(crate) fn read_object(resource: &ResourceType, text: &str) -> Result<Read, String> {
    let tree = Json::parse(text).map_err(|error| error.to_string())?;
    read_tree(resource, text, &tree)
}

/// Reads an object from JSON that was read before. `None` if there is anything to be said of it,
/// which is said of its text ([`read_object`]).
pub(crate) fn read_sound(resource: &ResourceType, value: &Value) -> Option<Value> {
    let tree = Any(&Cell::new(0)).deserialize(value).ok()?;
    let read = read_tree(resource, "", &tree).ok()?;
    read.strict.is_empty().then_some(read.value)
}

/// Fields that stand twice in a text, wherever they are.
pub(crate) fn duplicates(text: &str) -> Vec<String> {
    let tree = Json::parse(text).unwrap_or(Json::Null);
    let mut reader = Reader::new(text);
    reader.note_duplicates(&tree);
    reader.strict
}

fn read_tree(resource: &ResourceType, text: &str, tree: &Json) -> Result<Read, String> {
    let mut reader = Reader::new(text);
    let Some(type_name) = resource.type_name else {
        return read_custom(resource, reader, tree);
    };
    let field_type = FieldType::Object(type_name.to_owned());
    let value = reader.read(tree, &field_type, None).unwrap_or_default();
    match reader.error {
        Some(error) => Err(error),
        None => Ok(Read {
            value,
            strict: reader.strict,
        }),
    }
}

/// Reads an object of a custom resource: its metadata, and anything else that its schema has.
fn read_custom(
    resource: &ResourceType,
    mut reader: Reader<'_>,
    tree: &Json,
) -> Result<Read, String> {
    let Json::Object(fields) = tree else {
        let found = reader.found(tree, &FieldType::Any);
        return Err(format!(
            "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        ));
    };
    let mut read = Map::new();
    let metadata_type = FieldType::Object("ObjectMeta".to_owned());
    for (name, json) in fields {
        reader.path.push(Step::Field(name.clone()));
        if read.contains_key(name) {
            reader.note_strange("duplicate");
        }
        let value = if name == "metadata" {
            let place = Place {
                type_name: "ObjectMeta",
                field: name,
            };
            reader
                .read(json, &metadata_type, Some(place))
                .unwrap_or_default()
        } else {
            reader.note_duplicates(json);
            json.to_value()
        };
        read.insert(name.clone(), value);
        reader.path.pop();
    }
    if let Some(error) = reader.error {
        return Err(error);
    }
    let (mut value, mut strict) = (Value::Object(read), reader.strict);
    if let Some(schema) = &resource.schema {
        let unknown = custom_resource::prune(schema, &mut value).into_iter();
        strict.extend(unknown.map(|path| format!("unknown field {}", quoted(&path))));
        strict.truncate(FINDINGS_MAX);
    }
    Ok(Read { value, strict })
}

/// The beginning of a body that cannot be read.
fn summary(body: &str) -> String {
    const BYTES_MAX: usize = 30;
    if body.is_empty() {
        return "<empty>".to_owned();
    }
    let bytes = body.as_bytes();
    let start = bytes.get(..BYTES_MAX).unwrap_or(bytes);
    let more = if bytes.len() > BYTES_MAX { " ..." } else { "" };
    let start = match bytes.starts_with(b"{") {
        true => String::from_utf8_lossy(start).into_owned(),
        false => start.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    format!("{start}{more}")
}

/// What a body says of its kind must be the kind of the request; what it leaves out is.
fn check_identity(resource: &ResourceType, tree: &Json) -> Result<(), Status> {
    let text = |field: &str| match tree {
        Json::Object(fields) => {
            let mut named = fields.iter().rev().filter(|(name, _)| name == field);
            named.find_map(|(_, value)| match value {
                Json::String(text) if !text.is_empty() => Some(text.as_str()),
                _ => None,
            })
        }
        _ => None,
    };
    let expected = resource.api_version();
    let api_version = text("apiVersion").unwrap_or(&expected);
    let name = text("kind").unwrap_or(&resource.kind);
    if (api_version, name) == (expected.as_str(), resource.kind.as_str()) {
        return Ok(());
    }
    if resource.type_name.is_none() && api_version == expected {
        let rule = format!("must be {}", resource.kind);
        let error = FieldError::invalid("kind", name, rule);
        return Err(Status::invalid(
            resource.qualified(),
            tree.object_name(),
            &[error],
        ));
    }
    Err(Status::bad_request(
        if resource.type_name.is_some() && !schema::is_known(api_version, name) {
            let version = api_version.rsplit('/').next().unwrap_or(api_version);
            format!(
                "{name} in version {version:?} cannot be handled as a {}: {}",
                resource.kind,
                no_kind_registered(name, api_version, LEGACY_SCHEME)
            )
        } else if api_version != expected {
            format!(
                "the API version in the data ({api_version}) does not match the expected API version \
             ({expected})"
            )
        } else {
            format!(
                "{name} in version {api_version:?} cannot be handled as a {}",
                resource.kind
            )
        },
    ))
}

/// JSON as it was written: fields in their order, also those that stand twice.
enum Json {
    Null,
    Bool(bool),
    /// A number, and which of all numbers of the text it is, from 0.
    Number(Number, usize),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads a text.
    fn parse(text: &str) -> serde_json::Result<Self> {
        let numbers = Cell::new(0);
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let json = Any(&numbers).deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(json)
    }
}

/// Any JSON; counts the numbers that it has read.
#[derive(Clone, Copy)]
struct Any<'n>(&'n Cell<usize>);

impl Any<'_> {
    fn number(self, number: impl Into<Number>) -> Json {
        let index = self.0.replace(self.0.get() + 1);
        Json::Number(number.into(), index)
    }
}

impl<'de> DeserializeSeed<'de> for Any<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Any<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(self.number(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(self.number(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        // The parser knows no numbers that are not finite.
        Ok(Number::from_f64(number).map_or(Json::Null, |it| self.number(it)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element_seed(self)? {
            elements.push(element);
        }
        Ok(Json::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = map.next_key()? {
            fields.push((name, map.next_value_seed(self)?));
        }
        Ok(Json::Object(fields))
    }
}

impl Json {
    /// The name in the metadata; empty if there is none.
    fn object_name(&self) -> &str {
        self.get("metadata")
            .and_then(|metadata| match metadata.get("name")? {
                Json::String(name) => Some(name.as_str()),
                _ => None,
            })
            .unwrap_or_default()
    }

    fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields
                .iter()
                .rev()
                .find(|(it, _)| it == name)
                .map(|(_, it)| it),
            _ => None,
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Json::Null => Value::Null,
            Json::Bool(value) => (*value).into(),
            Json::Number(number, _) => number.clone().into(),
            Json::String(text) => text.as_str().into(),
            Json::Array(elements) => elements.iter().map(Json::to_value).collect(),
            Json::Object(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, value)| (name.clone(), value.to_value()));
                Value::Object(fields.collect())
            }
        }
    }
}

/// A step into a document.
#[derive(Clone)]
enum Step {
    Field(String),
    Index(usize),
}

/// Where a value stands: in which field of which type.
#[derive(Clone, Copy)]
struct Place<'p> {
    type_name: &'p str,
    field: &'p str,
}

struct Reader<'t> {
    text: &'t str,
    /// The numbers of the text as they are written, once somebody asks.
    numbers: OnceCell<Vec<&'t str>>,
    /// What strictness would say, up to [`FINDINGS_MAX`].
    strict: Vec<String>,
    /// The first wrong type.
    error: Option<String>,
    path: Vec<Step>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            text,
            numbers: OnceCell::new(),
            strict: Vec::new(),
            error: None,
            path: Vec::new(),
        }
    }

    /// The value, tidied; `None` if there is nothing to keep.
    fn read(
        &mut self,
        json: &Json,
        expected: &FieldType,
        place: Option<Place<'_>>,
    ) -> Option<Value> {
        match (expected, json) {
            (_, Json::Null) => None,
            (FieldType::Object(type_name), Json::Object(fields)) => {
                Some(self.read_fields(type_name, fields))
            }
            (FieldType::Map(value_type), Json::Object(fields)) => {
                Some(self.read_map(value_type, fields, place))
            }
            (FieldType::List(element_type), Json::Array(elements)) => {
                let mut read = Vec::with_capacity(elements.len());
                for (index, element) in elements.iter().enumerate() {
                    self.path.push(Step::Index(index));
                    let element = self.read(element, element_type, place);
                    read.push(element.unwrap_or_else(|| element_type.zero()));
                    self.path.pop();
                }
                Some(Value::Array(read))
            }
            (FieldType::Quantity | FieldType::IntOrString | FieldType::Time, json) => {
                self.read_special(json, expected)
            }
            (FieldType::Bytes, Json::String(text)) => match base64_bytes::rewritten(text) {
                Ok(text) => Some(text.into()),
                Err(error) => {
                    self.error.get_or_insert(error);
                    None
                }
            },
            (FieldType::Any, json)
            | (FieldType::Bool, json @ Json::Bool(_))
            | (FieldType::String, json @ Json::String(_))
            | (FieldType::Double, json @ Json::Number(..)) => Some(json.to_value()),
            (FieldType::Int32 | FieldType::Int64, Json::Number(number, _))
                if fits(expected, number) =>
            {
                Some(number.clone().into())
            }
            (expected, json) => {
                let found = self.found(json, expected);
                self.mismatch(&found, expected, place);
                None
            }
        }
    }

    fn read_fields(&mut self, type_name: &str, fields: &[(String, Json)]) -> Value {
        let mut read = Map::new();
        let mut seen = BTreeSet::new();
        for (name, json) in fields {
            self.path.push(Step::Field(name.clone()));
            if let Some(field) = schema::field(type_name, name) {
                if !seen.insert(name) {
                    self.note_strange("duplicate");
                }
                let place = Place {
                    type_name,
                    field: name,
                };
                if let Some(value) = self.read(json, &field.field_type, Some(place)) {
                    read.insert(name.clone(), value);
                }
            } else {
                self.note_strange("unknown");
            }
            self.path.pop();
        }
        Value::Object(read)
    }

    fn read_map(
        &mut self,
        value_type: &FieldType,
        fields: &[(String, Json)],
        place: Option<Place<'_>>,
    ) -> Value {
        let mut read = Map::new();
        for (key, json) in fields {
            self.path.push(Step::Field(key.clone()));
            if read.contains_key(key) {
                self.note_strange("duplicate");
            }
            let value = self.read(json, value_type, place);
            read.insert(key.clone(), value.unwrap_or_else(|| value_type.zero()));
            self.path.pop();
        }
        Value::Object(read)
    }

    fn note_duplicates(&mut self, json: &Json) {
        match json {
            Json::Object(fields) => {
                let mut seen = BTreeSet::new();
                for (name, value) in fields {
                    self.path.push(Step::Field(name.clone()));
                    if !seen.insert(name) {
                        self.note_strange("duplicate");
                    }
                    self.note_duplicates(value);
                    self.path.pop();
                }
            }
            Json::Array(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    self.path.push(Step::Index(index));
                    self.note_duplicates(element);
                    self.path.pop();
                }
            }
            _ => {}
        }
    }

    fn note_strange(&mut self, what: &str) {
        if !may_tell_more(&self.strict) {
            return;
        }
        let path = quoted(&self.path_text(true));
        self.strict.push(format!("{what} field {path}"));
    }

    /// Types that read themselves, and whose errors do not say where they are.
    fn read_special(&mut self, json: &Json, expected: &FieldType) -> Option<Value> {
        let error = match (expected, json) {
            (FieldType::Quantity, Json::String(text)) => text.parse::<Quantity>().err(),
            (FieldType::Quantity, _) => self.literal(json).parse::<Quantity>().err(),
            (FieldType::IntOrString, Json::String(_)) => return Some(json.to_value()),
            (FieldType::IntOrString, Json::Number(number, _))
                if fits(&FieldType::Int32, number) =>
            {
                return Some(json.to_value());
            }
            (FieldType::Time, Json::String(text)) => {
                let error = go_time_error(text);
                return self.keep_unless(error, json);
            }
            (other, json) => {
                let found = self.found(json, other);
                let go_type = if *other == FieldType::Time {
                    "string"
                } else {
                    "int32"
                };
                let error =
                    format!("json: cannot unmarshal {found} into Go value of type {go_type}");
                return self.keep_unless(Some(error), json);
            }
        };
        self.keep_unless(error.map(|error| error.to_string()), json)
    }

    fn keep_unless(&mut self, error: Option<String>, json: &Json) -> Option<Value> {
        match error {
            None => Some(json.to_value()),
            Some(error) => {
                self.error.get_or_insert(error);
                None
            }
        }
    }

    fn mismatch(&mut self, found: &str, expected: &FieldType, place: Option<Place<'_>>) {
        if self.error.is_some() {
            return;
        }
        let go_type = go_type(expected, place);
        let text = match place {
            Some(place) => format!(
                "json: cannot unmarshal {found} into Go struct field {}.{} of type {go_type}",
                place.type_name.rsplit('.').next().unwrap_or_default(),
                self.path_text(false)
            ),
            None => format!("json: cannot unmarshal {found} into Go value of type {go_type}"),
        };
        self.error = Some(text);
    }

    /// What a value is called. Numbers are shown where a number of another kind is expected.
    fn found(&self, json: &Json, expected: &FieldType) -> String {
        let name = match json {
            Json::Null => "null",
            Json::Bool(_) => "bool",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
            Json::Number(..) => "number",
        };
        let wants_number = matches!(
            expected,
            FieldType::Int32 | FieldType::Int64 | FieldType::Double | FieldType::IntOrString
        );
        match json {
            Json::Number(..) if wants_number => format!("number {}", self.literal(json)),
            _ => name.to_owned(),
        }
    }

    /// The path to where the reader is: with indices, or as errors of types have it.
    fn path_text(&self, with_indices: bool) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Field(name) if text.is_empty() => text.push_str(name),
                Step::Field(name) => {
                    text.push('.');
                    text.push_str(name);
                }
                Step::Index(index) if with_indices => text.push_str(&format!("[{index}]")),
                Step::Index(_) => {}
            }
        }
        text
    }

    /// The value as it was written, to be shown or to be read by a type of its own.
    fn literal(&self, json: &Json) -> String {
        match json {
            Json::Number(number, index) if number.is_f64() => {
                let numbers = self.numbers.get_or_init(|| numbers_of(self.text));
                let written = numbers.get(*index).copied();
                written.map_or_else(|| number.to_string(), str::to_owned)
            }
            other => other.to_value().to_string(),
        }
    }
}

/// The numbers of a JSON text, as they are written.
fn numbers_of(text: &str) -> Vec<&str> {
    let mut numbers = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = rest.get(start..).unwrap_or_default();
        if let Some(string) = rest.strip_prefix('"') {
            let mut is_escaped = false;
            let end = string.find(|c| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            rest = end.and_then(|end| string.get(end + 1..)).unwrap_or("");
        } else {
            let is_of_number = |c: char| matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E');
            let end = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
            let (number, behind) = rest.split_at(end);
            numbers.push(number);
            rest = behind;
        }
    }
    numbers
}

fn fits(expected: &FieldType, number: &Number) -> bool {
    number.as_i64().is_some_and(|number| match expected {
        FieldType::Int32 => i32::try_from(number).is_ok(),
        _ => true,
    })
}

/// The name of a type in Go.
fn go_type(field_type: &FieldType, place: Option<Place<'_>>) -> String {
    let named = place.and_then(|place| schema::field(place.type_name, place.field)?.go_type);
    match field_type {
        FieldType::Any => "interface {}".to_owned(),
        FieldType::Bool => "bool".to_owned(),
        FieldType::Bytes => "[]uint8".to_owned(),
        FieldType::Double => "float64".to_owned(),
        FieldType::Int32 => "int32".to_owned(),
        FieldType::Int64 => "int64".to_owned(),
        FieldType::String => named.unwrap_or("string").to_owned(),
        FieldType::IntOrString => "intstr.IntOrString".to_owned(),
        FieldType::Quantity => "resource.Quantity".to_owned(),
        FieldType::Time => "v1.Time".to_owned(),
        FieldType::List(element) => format!("[]{}", go_type(element, place)),
        FieldType::Map(value) if **value == FieldType::Quantity => "v1.ResourceList".to_owned(),
        FieldType::Map(value) => format!("map[string]{}", go_type(value, None)),
        FieldType::Object(name) => match name.rsplit_once('.') {
            Some((package, name)) => {
                let version = package.rsplit('.').next().unwrap_or(package);
                format!("{version}.{name}")
            }
            None => format!("v1.{name}"),
        },
    }
}

/// Why Go does not read a time, if it does not.
fn go_time_error(text: &str) -> Option<String> {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    const PARTS: [&str; 12] = [
        "2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05", "Z07:00",
    ];
    if text.is_empty() || text.parse::<jiff::Timestamp>().is_ok() {
        return None;
    }
    let mut rest = text;
    for part in PARTS {
        let is_number = part.starts_with(|c: char| c.is_ascii_digit());
        let head = rest.get(..part.len()).filter(|head| match is_number {
            true => head.bytes().all(|byte| byte.is_ascii_digit()),
            false => *head == part,
        });
        match head {
            Some(head) => rest = rest.get(head.len()..).unwrap_or_default(),
            None => {
                let (text, rest) = (quoted(text), quoted(rest));
                return Some(format!(
                    "parsing time {text} as \"{LAYOUT}\": cannot parse {rest} as \"{part}\""
                ));
            }
        }
    }
    Some(format!("parsing time {}: out of range", quoted(text)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode::ObjectKind;

    fn refusal(kind: ObjectKind, body: &str) -> String {
        let refused = read(kind.into(), body, FieldValidation::Warn).expect_err("refused");
        assert_eq!(refused.code, 400);
        refused.message
    }

    #[test]
    fn wrong_types_are_told_as_go_does() {
        let start = "PriorityClass in version \"v1\" cannot be handled as a PriorityClass: json: \
                     cannot unmarshal ";
        for (body, end) in [
            (
                r#"{"value": "12"}"#,
                "string into Go struct field PriorityClass.value of type int32",
            ),
            (
                r#"{"value": 1.50}"#,
                "number 1.50 into Go struct field PriorityClass.value of type int32",
            ),
            (
                r#"{"value": 2147483648}"#,
                "number 2147483648 into Go struct field PriorityClass.value of type int32",
            ),
            (
                r#"{"preemptionPolicy": 1}"#,
                "number into Go struct field PriorityClass.preemptionPolicy of type \
                 v1.PreemptionPolicy",
            ),
            (
                r#"{"metadata": {"labels": {"a": true}}}"#,
                "bool into Go struct field ObjectMeta.metadata.labels.a of type string",
            ),
        ] {
            let message = refusal(ObjectKind::PriorityClass, body);
            assert_eq!(message, format!("{start}{end}"), "{body}");
        }
        let body = r#"{"spec": {"containers": [{"env": [{"name": "A", "value": 1}]}]}}"#;
        assert_eq!(
            refusal(ObjectKind::Pod, body),
            "Pod in version \"v1\" cannot be handled as a Pod: json: cannot unmarshal number into \
             Go struct field EnvVar.spec.containers.env.value of type string"
        );
    }

    #[test]
    fn bytes_are_base64_wherever_they_stand() {
        let of_kind = |api_version, kind| ResourceType::of_kind(api_version, kind).expect("a type");
        let (secrets, maps) = (of_kind("v1", "Secret"), of_kind("v1", "ConfigMap"));
        let webhooks = of_kind(
            "admissionregistration.k8s.io/v1",
            "ValidatingWebhookConfiguration",
        );
        for (resource, body) in [
            (secrets, json!({"data": {"a": "%%%"}})),
            (maps, json!({"binaryData": {"a": "%%%"}})),
            (
                webhooks,
                json!({"webhooks": [{"clientConfig": {"caBundle": "%%%"}}]}),
            ),
        ] {
            let refused = read(resource, &body.to_string(), FieldValidation::Ignore);
            let refused = refused.expect_err("refused");
            let (kind, why) = (&resource.kind, "illegal base64 data at input byte 0");
            let message = format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}");
            assert_eq!((refused.code, refused.message), (400, message));
            assert_eq!(read_sound(resource, &body), None);
        }
        let body = json!({"data": {"a": "AQ\nID"}, "stringData": {"b": "%%%"}});
        let read = read(secrets, &body.to_string(), FieldValidation::Strict).expect("read");
        assert_eq!(read.value["data"]["a"], "AQID");
        assert_eq!(read.value["stringData"]["b"], "%%%");
    }

    #[test]
    fn options_are_read_leniently_but_for_their_types() {
        let read = |body: &str| read_options("DeleteOptions", body).map_err(|it| it.message);
        assert_eq!(read("null"), Ok(Value::Null));
        let options = r#"{"kind": "DeleteOptions", "apiVersion": "apps/v1", "dryRun": ["All"],
            "nosuch": 1, "propagationPolicy": null}"#;
        let expected = json!({"kind": "DeleteOptions", "apiVersion": "apps/v1", "dryRun": ["All"]});
        assert_eq!(read(options), Ok(expected));
        for (body, message) in [
            (
                r#"{"dryRun": "All"}"#,
                "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type \
                 []string",
            ),
            (
                r#"{"gracePeriodSeconds": "1"}"#,
                "json: cannot unmarshal string into Go struct field \
                 DeleteOptions.gracePeriodSeconds of type int64",
            ),
            (
                r#"{"orphanDependents": "yes"}"#,
                "json: cannot unmarshal string into Go struct field \
                 DeleteOptions.orphanDependents of type bool",
            ),
            (
                r#"{"kind": "Pod", "apiVersion": "v1"}"#,
                "no kind \"Pod\" is registered for version \"v1\" in scheme \
                 \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
            ),
            (
                "{",
                "couldn't get version/kind; json parse error: unexpected end of JSON input",
            ),
            (
                "[]",
                "couldn't get version/kind; json parse error: json: cannot unmarshal array into \
                 Go value of type struct { APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" }",
            ),
        ] {
            assert_eq!(read(body), Err(message.to_owned()), "{body}");
        }
    }

    #[test]
    fn what_is_read_from_values_is_what_is_read_from_text() {
        let pods: &ResourceType = crate::decode::ObjectKind::Pod.into();
        let metadata = json!({"name": "p", "creationTimestamp": null, "generation": 2});
        let specs = [
            json!({"containers": [{"name": "c", "image": "i"}], "priority": -5}),
            json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": 1.5}}}]}),
            json!({"containers": [{"name": "c", "ports": [{"containerPort": 1e2}]}]}),
            json!({"containers": [{"name": "c", "readinessProbe": {"httpGet": {"port": 80}}}]}),
            json!({"containers": null, "nodeSelector": {"a": null}}),
            json!({"containers": [{"name": "c", "imag": "i"}]}),
            json!({"containers": {"name": "c"}}),
            json!({"priority": 1_u64 << 40}),
            json!(7),
        ];
        for spec in specs {
            let pod =
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
            let of_text = read_object(pods, &pod.to_string()).ok();
            let of_text = of_text.filter(|it| it.strict.is_empty()).map(|it| it.value);
            assert_eq!(read_sound(pods, &pod), of_text, "{pod}");
        }
    }

    #[test]
    fn numbers_are_shown_as_they_are_written() {
        let text = r#"{"a-1": [-1.50, 2], "b\\": 1e2, "\"3": "4", "c": 0.10}"#;
        assert_eq!(numbers_of(text), ["-1.50", "2", "1e2", "0.10"]);
        let body = r#"{"metadata": {"name": "1.0"}, "spec": {"x": 7.70, "containers": [
            {"resources": {"limits": {"cpu": 1.50, "memory": 1e3}}, "stdin": 1.20}]}}"#;
        let refused = refusal(ObjectKind::Pod, body);
        assert!(
            refused.contains("cannot unmarshal number into Go struct field"),
            "{refused}"
        );
        let body = r#"{"value": 1, "x": 5.50, "value": 2.250}"#;
        let refused = refusal(ObjectKind::PriorityClass, body);
        assert!(refused.contains("number 2.250 into"), "{refused}");
    }

    #[test]
    fn what_is_told_of_a_body_is_in_proportion_to_it() {
        let fields = "\"x\": 1,".repeat(200_000);
        let body = format!(r#"{{"{}": {{{fields} "x": 1}}}}"#, "k".repeat(1 << 20));
        let found = duplicates(&body);
        assert_eq!(found.len(), 1);
        let body = format!("{{{} \"value\": 1}}", "\"x\": 1,".repeat(200_000));
        let read = read(
            ObjectKind::PriorityClass.into(),
            &body,
            FieldValidation::Warn,
        );
        assert_eq!(read.expect("read").warnings.len(), FINDINGS_MAX);
    }

    #[test]
    fn what_is_strange_is_told_in_its_order() {
        let body = r#"{"value": 1, "b": 1, "a": 2, "value": 2,
                       "metadata": {"name": "x", "labels": {"k": "1", "k": "2"}}}"#;
        let read_as = |validation| read(ObjectKind::PriorityClass.into(), body, validation);
        let strange = [
            "unknown field \"b\"",
            "unknown field \"a\"",
            "duplicate field \"value\"",
            "duplicate field \"metadata.labels.k\"",
        ];
        let body = read_as(FieldValidation::Warn).expect("read");
        assert_eq!(body.warnings, strange);
        assert_eq!(body.value["value"], 2);
        assert_eq!(
            read_as(FieldValidation::Ignore)
                .expect("read")
                .warnings
                .len(),
            0
        );
        let refused = read_as(FieldValidation::Strict).expect_err("refused");
        let end = format!(": strict decoding error: {}", strange.join(", "));
        assert!(refused.message.ends_with(&end), "{}", refused.message);
    }

    #[test]
    fn a_body_is_of_the_kind_of_the_request() {
        let kind = ObjectKind::PriorityClass;
        let pod = r#"{"apiVersion": "v1", "kind": "Pod"}"#;
        assert_eq!(
            refusal(kind, pod),
            "the API version in the data (v1) does not match the expected API version \
             (scheduling.k8s.io/v1)"
        );
        let nothing = r#"{"apiVersion": "scheduling.k8s.io/v1", "kind": "Whale"}"#;
        assert!(refusal(kind, nothing).contains("no kind \"Whale\" is registered"));
        assert!(refusal(kind, "nonsense").ends_with("(6e6f6e73656e7365)"));
    }
}
