//! How answers are written.

use bytes::Bytes;
use outrank_api::status::Status;
use serde_json::{Value, json};

use crate::media_type::{Accepted, Encoding, Shape};
use crate::served_types::ServedType;
use crate::server::read::Listed;
use crate::server::watch::{WatchEvent, WatchOptions, Watching};
use crate::stored_object::StoredObject;
use crate::table::{self, Columns, IncludeObject, TableOptions, TableVersion};
use crate::versions;

/// An answer to a request.
pub struct Answer {
    /// The HTTP code.
    pub code: u16,
    /// Header `Content-Type`.
    pub content_type: &'static str,
    /// Header `ETag`, if there is one.
    pub etag: Option<String>,
    /// Header `Location`, where the answer is elsewhere.
    pub location: Option<String>,
    /// Whether clients may keep the answer for ever.
    pub may_be_kept: bool,
    /// For `Warning` headers.
    pub warnings: Vec<String>,
    /// Header `Retry-After`, in seconds; 0 is none.
    pub retry_after_seconds: u32,
    /// The body.
    pub body: Body,
}

/// The body of an answer.
pub enum Body {
    /// Bytes.
    Whole(Bytes),
    /// Events, as they happen.
    Watch(Box<WatchBody>),
}

/// What a watch is answered with.
pub struct WatchBody {
    /// The watch.
    pub watching: Watching,
    /// How its events are written.
    pub writer: EventWriter,
    /// When it ends, in seconds.
    pub timeout_seconds: Option<u64>,
    /// Whether the client takes bookmarks.
    pub allows_bookmarks: bool,
}

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TEXT: &str = "text/plain; charset=utf-8";

/// In which form a client wants its answer.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Encoding and shape.
    pub accepted: Accepted,
    /// Parameter `includeObject` of tables.
    pub include_object: IncludeObject,
    /// The time, for ages in tables.
    pub now: i64,
}

impl Answer {
    /// Text.
    pub fn text(code: u16, text: impl Into<String>) -> Self {
        Self::bytes(code, TEXT, text.into().into_bytes())
    }

    /// Bytes of a content type.
    pub fn bytes(code: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self {
            code,
            content_type,
            etag: None,
            location: None,
            may_be_kept: false,
            warnings: Vec::new(),
            retry_after_seconds: 0,
            body: Body::Whole(bytes.into()),
        }
    }

    /// A value as JSON.
    pub fn value(code: u16, value: &Value) -> Self {
        let mut text = value.to_string();
        text.push('\n');
        Self::bytes(code, JSON, text.into_bytes())
    }

    /// That what was asked has been done.
    pub fn success(code: u16) -> Self {
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Success", "code": code});
        Self::value(code, &status)
    }

    /// A Status. People read these, so it has line breaks.
    pub fn status(status: &Status) -> Self {
        let value = serde_json::to_value(status).unwrap_or_default();
        let code = if status.code == 0 { 200 } else { status.code };
        let details = status.details.as_ref();
        Self {
            retry_after_seconds: details.map_or(0, |it| it.retry_after_seconds),
            ..Self::value(code, &value)
        }
    }

    /// The same with line breaks, if it is JSON and that is wanted.
    #[must_use]
    pub fn pretty(mut self, is_wanted: bool) -> Self {
        if let Body::Whole(bytes) = &self.body
            && is_wanted
            && self.content_type == JSON
            && let Ok(value) = serde_json::from_slice::<Value>(bytes)
        {
            let text = serde_json::to_vec_pretty(&value).unwrap_or_default();
            self.body = Body::Whole(text.into());
        }
        self
    }
}

/// One object.
pub fn object(
    code: u16,
    served: &ServedType,
    object: &StoredObject,
    form: Form,
    warnings: Vec<String>,
) -> Answer {
    let mut answer = match (form.accepted.encoding, form.accepted.shape) {
        (Encoding::Json, Shape::Whole) => {
            let mut text = Vec::with_capacity(object.json().len() + 64);
            write_object(&mut text, served, object);
            text.push(b'\n');
            Answer::bytes(code, JSON, text)
        }
        (encoding, Shape::Table(version)) => {
            let value = served_value(served, object);
            let version_of = &value["metadata"]["resourceVersion"];
            let metadata = json!({ "resourceVersion": version_of });
            let objects = std::slice::from_ref(&value);
            encoded(
                code,
                encoding,
                &table_of(served, objects, &metadata, version, form),
            )
        }
        (encoding, Shape::Metadata(version)) => {
            let value = served_value(served, object);
            encoded(code, encoding, &partial(&value, version))
        }
        (encoding, Shape::Whole) => encoded(code, encoding, &served_value(served, object)),
    };
    answer.warnings = warnings;
    answer
}

/// A list.
pub fn list(served: &ServedType, listed: &Listed, form: Form) -> Answer {
    let mut metadata = json!({"resourceVersion": listed.version.to_string()});
    if !listed.token.is_empty() {
        metadata["continue"] = listed.token.as_str().into();
    }
    if let Some(count) = listed.remaining_count {
        metadata["remainingItemCount"] = count.into();
    }
    let values = || -> Vec<Value> {
        let entries = listed.entries.iter();
        entries
            .map(|entry| served_value(served, &entry.value))
            .collect()
    };
    let (kind, api_version) = (&served.resource.kind, served.resource.api_version());
    match (form.accepted.encoding, form.accepted.shape) {
        (Encoding::Json, Shape::Whole) => {
            let bytes: usize = listed
                .entries
                .iter()
                .map(|it| it.value.json().len() + 1)
                .sum();
            let mut text = Vec::with_capacity(bytes + 256);
            let head = format!(
                "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\
                 \"items\":["
            );
            text.extend_from_slice(head.as_bytes());
            for (index, entry) in listed.entries.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                write_item(&mut text, served, &entry.value);
            }
            text.extend_from_slice(b"]}\n");
            Answer::bytes(200, JSON, text)
        }
        (encoding, Shape::Table(version)) => encoded(
            200,
            encoding,
            &table_of(served, &values(), &metadata, version, form),
        ),
        (encoding, Shape::Metadata(version)) => {
            let items: Vec<Value> = values().iter().map(|it| partial(it, version)).collect();
            let list = json!({"kind": "PartialObjectMetadataList",
                "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": metadata, "items": items});
            encoded(200, encoding, &list)
        }
        (encoding, Shape::Whole) => {
            let list = json!({"kind": format!("{kind}List"), "apiVersion": api_version,
                "metadata": metadata, "items": values()});
            encoded(200, encoding, &list)
        }
    }
}

/// A watch, or why there is none. Versions that are forgotten are told in its stream.
pub fn watch(
    served: &ServedType,
    watching: Result<Watching, Status>,
    options: &WatchOptions,
    form: Form,
) -> Answer {
    let mut writer = EventWriter {
        served: served.clone(),
        shape: form.accepted.shape,
        include_object: form.include_object,
        columns: columns_of(served),
        has_columns: false,
    };
    match watching {
        Ok(watching) => Answer {
            body: Body::Watch(Box::new(WatchBody {
                watching,
                writer,
                timeout_seconds: options.timeout_seconds,
                allows_bookmarks: options.allows_bookmarks,
            })),
            ..Answer::bytes(200, JSON, Bytes::new())
        },
        Err(status) if status.code == 410 => {
            let mut text = Vec::new();
            writer.write(&mut text, &WatchEvent::Error(Box::new(status)), form.now);
            Answer::bytes(200, JSON, text)
        }
        Err(status) => Answer::status(&status),
    }
}

/// Objects with at least so many bytes are told to all watches as the same text. Smaller ones are
/// copied, several into one piece.
const SHARED_BYTES_MIN: usize = 16 * 1024;

/// What a line of [`EventWriter::shared_line`] ends with.
pub(crate) const LINE_END: &[u8] = b"}\n";

/// Writes the events of a watch, a line each.
pub struct EventWriter {
    served: ServedType,
    shape: Shape,
    include_object: IncludeObject,
    columns: Columns,
    /// Whether the columns of the table were told.
    has_columns: bool,
}

impl EventWriter {
    /// Adds a line for an event.
    pub fn write(&mut self, out: &mut Vec<u8>, event: &WatchEvent, now: i64) {
        let Some((name, object)) = event.object() else {
            return self.write_notice(out, event);
        };
        match self.shape {
            Shape::Whole => {
                out.extend_from_slice(line_start(name).as_bytes());
                write_object(out, &self.served, object);
                out.extend_from_slice(LINE_END);
            }
            Shape::Metadata(version) => {
                let value = partial(&served_value(&self.served, object), version);
                write_line(out, &json!({"type": name, "object": value}));
            }
            Shape::Table(version) => {
                let value = served_value(&self.served, object);
                let table = self.table_of(&value, version, now);
                write_line(out, &json!({"type": name, "object": table}));
            }
        }
    }

    /// The line of a large object that is told as it is stored: what stands before its text, and the
    /// text, of which the first byte is not told. [`LINE_END`] follows. None for other events.
    pub(crate) fn shared_line<'a>(&self, event: &'a WatchEvent) -> Option<(String, &'a Bytes)> {
        let (name, object) = event.object()?;
        let text = object.json();
        let is_shared = matches!(self.shape, Shape::Whole)
            && text.len() >= SHARED_BYTES_MIN
            && is_served_as_stored(&self.served);
        let head = || format!("{}{},", line_start(name), object_start(&self.served));
        is_shared.then(|| (head(), text))
    }

    /// The table of one object. Only the first says what the columns are.
    fn table_of(&mut self, value: &Value, version: TableVersion, now: i64) -> Value {
        let is_first = !std::mem::replace(&mut self.has_columns, true);
        let options = TableOptions {
            version,
            include_object: self.include_object,
        };
        table::event_table(&self.columns, value, is_first, &options, now)
    }

    /// Adds a line for an event that has no object.
    fn write_notice(&self, out: &mut Vec<u8>, event: &WatchEvent) {
        match event {
            WatchEvent::Bookmark {
                version,
                ends_initial_events,
            } => self.write_bookmark(out, *version, *ends_initial_events),
            WatchEvent::Error(status) => {
                let status = serde_json::to_value(status).unwrap_or_default();
                write_line(out, &json!({"type": "ERROR", "object": status}));
            }
            _ => {}
        }
    }

    fn write_bookmark(&self, out: &mut Vec<u8>, version: u64, ends_initial_events: bool) {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if ends_initial_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let resource = &self.served.resource;
        let (kind, api_version) = match self.shape {
            Shape::Metadata(version) => ("PartialObjectMetadata", format!("meta.k8s.io/{version}")),
            Shape::Table(version) => ("Table", version.api_version().to_owned()),
            _ => (resource.kind.as_str(), resource.api_version()),
        };
        let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if let Shape::Table(_) = self.shape {
            object["columnDefinitions"] = Value::Null;
            object["rows"] = json!([]);
        }
        write_line(out, &json!({"type": "BOOKMARK", "object": object}));
    }
}

fn line_start(name: &str) -> String {
    format!("{{\"type\":\"{name}\",\"object\":")
}

fn write_line(out: &mut Vec<u8>, value: &Value) {
    out.extend_from_slice(value.to_string().as_bytes());
    out.push(b'\n');
}

/// The object with its kind, as it is served.
pub(crate) fn served_value(served: &ServedType, object: &StoredObject) -> Value {
    let value = object.to_value(&served.stored);
    versions::to_served(&served.resource, &served.stored, value)
}

/// Whether the text of a stored object is that of the object as it is served.
fn is_served_as_stored(served: &ServedType) -> bool {
    served.resource.group == served.stored.group
        && (served.resource.version == served.stored.version || served.definition.is_some())
}

fn write_object(out: &mut Vec<u8>, served: &ServedType, object: &StoredObject) {
    if !is_served_as_stored(served) {
        out.extend_from_slice(served_value(served, object).to_string().as_bytes());
        return;
    }
    out.extend_from_slice(object_start(served).as_bytes());
    match object.json().get(1..) {
        Some(rest) if rest != b"}" => {
            out.push(b',');
            out.extend_from_slice(rest);
        }
        _ => out.push(b'}'),
    }
}

/// What an object begins with. The text of a stored object follows, without its first byte.
fn object_start(served: &ServedType) -> String {
    let resource = &served.resource;
    format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\"",
        resource.kind,
        resource.api_version()
    )
}

/// An object in a list, where its kind is not said again.
fn write_item(out: &mut Vec<u8>, served: &ServedType, object: &StoredObject) {
    if served.resource.type_name.is_none() {
        // Clients of custom types know no more of an object than it says.
        return write_object(out, served, object);
    }
    if is_served_as_stored(served) {
        out.extend_from_slice(object.json());
        return;
    }
    let mut value = served_value(served, object);
    if let Value::Object(fields) = &mut value {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    out.extend_from_slice(value.to_string().as_bytes());
}

fn partial(value: &Value, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": value["metadata"]})
}

fn columns_of(served: &ServedType) -> Columns {
    Columns::of(&served.resource, &crate::custom_types::columns(served))
}

fn table_of(
    served: &ServedType,
    objects: &[Value],
    metadata: &Value,
    version: TableVersion,
    form: Form,
) -> Value {
    let options = TableOptions {
        version,
        include_object: form.include_object,
    };
    table::table(&columns_of(served), objects, metadata, &options, form.now)
}

fn encoded(code: u16, encoding: Encoding, value: &Value) -> Answer {
    match encoding {
        Encoding::Json => Answer::value(code, value),
        Encoding::Yaml => match serde_saphyr::to_string(value) {
            Ok(text) => Answer::bytes(code, YAML, text.into_bytes()),
            Err(error) => Answer::status(&Status::internal_error(error)),
        },
        Encoding::Protobuf => match outrank_protobuf::encode(value) {
            Ok(bytes) => Answer::bytes(code, PROTOBUF, bytes),
            Err(error) => Answer::status(&Status::internal_error(error)),
        },
    }
}
