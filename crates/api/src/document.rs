//! From bytes to documents: what people feed in, as JSON values.
//!
//! An input is YAML or JSON text, maybe gzipped, with any number of documents. Each
//! object is handed on as soon as it is read, and the items of a `List` one by one,
//! so that a dump of a whole cluster never exists as one tree of values.
//!
//! YAML is read as kubectl reads it (`sigs.k8s.io/yaml`, that is `go.yaml.in/yaml/v2`,
//! in Kubernetes 1.36): words such as `yes` and `off` are booleans, `0644` is octal,
//! and keys that are booleans or numbers become strings. A text that begins with brackets
//! and then a `"` is JSON, all else is YAML.
//!
//! # Limits
//!
//! | what | limit |
//! | --- | --- |
//! | text after decompression | [`TEXT_BYTES_MAX`] and [`GZIP_RATIO_MAX`] |
//! | lists and maps inside each other | [`DEPTH_MAX`] |
//! | what aliases and merge keys may add | [`ALIAS_BYTES_BASE`] plus the size of the text |
//!
//! Within them, time and memory grow linearly with the text. Reading needs some 10 bytes
//! for each byte of the largest object; only a YAML text in flow style (`{a: 1, ...}`)
//! needs up to 200 for each byte of an outermost pair of brackets, because the parser
//! must see its end before it knows whether it is a key.

mod json;
mod positions;
mod scalar;
mod yaml;

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use crate::diagnostic::FieldPath;

pub use positions::{Place, Request, positions};

/// Largest text in bytes, 4 GiB.
pub const TEXT_BYTES_MAX: u64 = 4 << 30;

/// How many times larger than its gzip file a text may be, above [`GZIP_BYTES_FREE`].
/// Dumps of real clusters reach 50; a decompression bomb comes near 1,000.
pub const GZIP_RATIO_MAX: u64 = 300;

/// Text that a gzip file may hold regardless of its own size, 64 MiB.
pub const GZIP_BYTES_FREE: u64 = 64 << 20;

/// How deep lists and maps may be inside each other. `serde_json` has the same limit.
pub const DEPTH_MAX: usize = 127;

/// How many bytes of values the aliases of one YAML document may add, 16 MiB, plus the
/// size of the text.
pub const ALIAS_BYTES_BASE: usize = 16 << 20;

/// One document, or one item of a document that is a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The value. In a list whose items were handed on, they are `null` here.
    pub value: Value,
    /// Where it stands in the text.
    pub location: Location,
}

/// Where a document stands in its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// Which document of the text, from 0.
    pub document: usize,
    /// Which of its `items`, from 0, if it is one.
    pub item: Option<usize>,
    /// The line where it starts, from 1.
    pub line: usize,
}

/// How many bytes the paths of keys that stand twice may take, beside the size of the text, 1 MiB;
/// further ones are not told.
const DUPLICATE_PATH_BYTES_BASE: usize = 1 << 20;

/// A key that a map has twice; the last value counts, as it does for kubectl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateKey {
    /// The key.
    pub key: String,
    /// Where it is, from the document inwards.
    pub path: FieldPath,
    /// The line of its second appearance, from 1.
    pub line: usize,
}

/// Tells of keys that stand twice, as long as that is in proportion to the text.
struct Duplicates {
    path_bytes_left: usize,
}

impl Duplicates {
    fn of(text: &str) -> Self {
        Self {
            path_bytes_left: DUPLICATE_PATH_BYTES_BASE.saturating_add(text.len()),
        }
    }

    /// Whether there is still something to be told.
    fn are_told(&self) -> bool {
        self.path_bytes_left > 0
    }

    fn tell(&mut self, duplicate: DuplicateKey, receiver: &mut dyn Receiver) {
        let bytes = duplicate.path.to_string().len() + duplicate.key.len() + 1;
        self.path_bytes_left = self.path_bytes_left.saturating_sub(bytes);
        receiver.duplicate_key(duplicate);
    }
}

/// What is said where a key must not be there twice, in the words of upstream's strict
/// decoding.
impl fmt::Display for DuplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: key {:?} already set in map", self.path, self.key)
    }
}

/// Why a text cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// What [`read`] hands on.
pub trait Receiver {
    /// The next document that is not empty.
    fn document(&mut self, document: Document);
    /// A key that appears twice.
    fn duplicate_key(&mut self, duplicate: DuplicateKey);
    /// There are managed fields, which are left out.
    fn managed_fields(&mut self) {}
}

/// Reads all documents of a text (see [`text`] for bytes).
///
/// `metadata.managedFields` is left out: it is often half of a dump and no decision
/// reads it.
///
/// # Errors
///
/// The first place where the text is neither YAML nor JSON or passes a limit. Documents
/// before it have been handed on.
pub fn read(text: &str, receiver: &mut dyn Receiver) -> Result<(), SyntaxError> {
    if is_json(text) {
        json::read(text, receiver)
    } else {
        yaml::read(text, receiver)
    }
}

/// All documents of an input, as values: for files that hold no Kubernetes objects, such
/// as configuration.
///
/// # Errors
///
/// As [`text`] and [`read`], and the first key that a map has twice.
pub fn values(bytes: &[u8]) -> Result<Vec<Value>, SyntaxError> {
    #[derive(Default)]
    struct Values(Vec<Value>, Option<DuplicateKey>);
    impl Receiver for Values {
        fn document(&mut self, document: Document) {
            self.0.push(document.value);
        }
        fn duplicate_key(&mut self, duplicate: DuplicateKey) {
            self.1.get_or_insert(duplicate);
        }
    }
    let mut values = Values::default();
    read(&text(bytes)?, &mut values)?;
    match values.1 {
        None => Ok(values.0),
        Some(duplicate) => Err(SyntaxError {
            line: duplicate.line,
            message: duplicate.to_string(),
        }),
    }
}

/// How many lists and maps are inside each other in a value; 0 if it is neither. The value must be
/// of limited depth, as all that come of a text are.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(elements) => 1 + elements.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn is_json(text: &str) -> bool {
    let opened = |c: char| matches!(c, '{' | '[') || c.is_whitespace();
    let start = text.trim_start();
    start.starts_with(['{', '['])
        && start
            .trim_start_matches(opened)
            .starts_with(['"', '}', ']'])
}

/// What is said of a document that is a list.
pub(crate) const LIST_DOCUMENT: &str = "expected a Kubernetes object, found a list; \
                                        write it as the items of an object of kind List";

/// The text in an input: decompressed if it is gzip, without byte order mark.
///
/// # Errors
///
/// Broken or oversized gzip, bytes that are not UTF-8, and NUL, each with its line.
pub fn text(bytes: &[u8]) -> Result<Cow<'_, str>, SyntaxError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return check_text(bytes).map(Cow::Borrowed);
    }
    let allowed = (bytes.len() as u64).saturating_mul(GZIP_RATIO_MAX);
    let limit = allowed.saturating_add(GZIP_BYTES_FREE).min(TEXT_BYTES_MAX);
    let fail = |message: String| SyntaxError { line: 1, message };
    let mut plain = Vec::new();
    MultiGzDecoder::new(bytes)
        .take(limit + 1)
        .read_to_end(&mut plain)
        .map_err(|error| fail(format!("broken gzip file: {error}")))?;
    if plain.len() as u64 > limit {
        return Err(fail(format!(
            "gzip file holds more than {limit} bytes of text"
        )));
    }
    let start = check_text(&plain)?.as_ptr() as usize - plain.as_ptr() as usize;
    plain.drain(..start);
    String::from_utf8(plain)
        .map(Cow::Owned)
        .map_err(|error| fail(error.to_string()))
}

fn check_text(bytes: &[u8]) -> Result<&str, SyntaxError> {
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        let message = format!("text is larger than {TEXT_BYTES_MAX} bytes");
        return Err(SyntaxError { line: 1, message });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let offset = error.valid_up_to();
        let byte = bytes.get(offset).copied().unwrap_or_default();
        let message = format!("byte {offset} (0x{byte:02x}) is not UTF-8; save the file as UTF-8");
        SyntaxError {
            line: line_at(bytes, offset),
            message,
        }
    })?;
    if let Some(offset) = text.find('\0') {
        let message = format!("byte {offset} is NUL, which no text may contain");
        return Err(SyntaxError {
            line: line_at(bytes, offset),
            message,
        });
    }
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn line_at(bytes: &[u8], offset: usize) -> usize {
    1 + line_breaks(bytes.get(..offset).unwrap_or(bytes))
}

fn line_breaks(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// What a list tells of items that do not say their own kind.
#[derive(Clone, Default)]
struct ListType {
    api_version: Option<String>,
    kind: Option<String>,
}

impl ListType {
    /// Notes a field of the list.
    fn note(&mut self, key: &str, value: &Value) {
        let text = value.as_str().map(str::to_owned);
        match key {
            "apiVersion" => self.api_version = text,
            "kind" => self.kind = text,
            _ => {}
        }
    }

    /// Whether this item can be handed on by itself; if so it knows its kind afterwards.
    fn claim(&self, item: &mut Value) -> bool {
        let Value::Object(fields) = item else {
            return false;
        };
        if fields.contains_key("kind") {
            return self.kind.as_ref().is_none_or(|kind| kind.ends_with("List"));
        }
        let (Some(api_version), Some(kind)) = (&self.api_version, &self.kind) else {
            return false;
        };
        let Some(kind) = item_kind(kind) else {
            return false;
        };
        fields
            .entry("apiVersion")
            .or_insert_with(|| api_version.as_str().into());
        fields.insert("kind".to_owned(), kind.into());
        true
    }
}

/// The kind of the items in a list of this kind (`PodList` has Pods).
pub(crate) fn item_kind(list_kind: &str) -> Option<&str> {
    list_kind
        .strip_suffix("List")
        .filter(|kind| !kind.is_empty())
}
