//! YAML documents: parser events become JSON values.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Value};

use super::{
    ALIAS_BYTES_BASE, DEPTH_MAX, Document, DuplicateKey, Duplicates, ListType, Location, Receiver,
    SyntaxError, scalar,
};
use crate::diagnostic::{FieldPath, Segment};

/// Bytes that a value costs beside its text, roughly.
const VALUE_BYTES: usize = 32;

/// Reads all documents of a YAML text.
pub(super) fn read(text: &str, receiver: &mut dyn Receiver) -> Result<(), SyntaxError> {
    let mut builder = Builder {
        receiver,
        document: 0,
        stack: Vec::new(),
        anchors: HashMap::new(),
        alias_bytes_left: 0,
        duplicates: Duplicates::of(text),
    };
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(syntax_error)?;
        if matches!(event, Event::DocumentStart(_)) {
            builder.anchors.clear();
            builder.alias_bytes_left = ALIAS_BYTES_BASE.saturating_add(text.len());
        }
        builder.event(event, span).map_err(|message| SyntaxError {
            line: span.start.line(),
            message,
        })?;
    }
    Ok(())
}

/// An error of the parser, in words that say what to do where the cause is a usual one.
pub(super) fn syntax_error(error: ScanError) -> SyntaxError {
    let info = error.info();
    let message = if info.contains("tab") {
        format!("{info}; YAML is indented with spaces")
    } else {
        info.to_owned()
    };
    SyntaxError {
        line: error.marker().line(),
        message,
    }
}

/// The value of a scalar event.
///
/// # Errors
///
/// A tag that the text does not fit, or that is not known.
pub(super) fn scalar_value(
    text: Cow<'_, str>,
    style: ScalarStyle,
    tag: Option<&Tag>,
) -> Result<Value, String> {
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => scalar::resolve(&text),
            _ => Ok(Value::String(text.into_owned())),
        };
    };
    if !tag.is_yaml_core_schema() {
        return Ok(Value::String(text.into_owned()));
    }
    let fits: fn(&Value) -> bool = match tag.suffix.as_str() {
        "str" => return Ok(Value::String(text.into_owned())),
        "int" => |value| value.is_i64() || value.is_u64(),
        "float" => Value::is_number,
        "bool" => Value::is_boolean,
        "null" => Value::is_null,
        "timestamp" => Value::is_string,
        other => return Err(format!("tag !!{other} is not supported")),
    };
    let value = scalar::resolve(&text)?;
    match fits(&value) {
        true => Ok(value),
        false => Err(format!("{text:?} does not fit its tag !!{}", tag.suffix)),
    }
}

struct Builder<'r> {
    receiver: &'r mut dyn Receiver,
    document: usize,
    /// The lists and maps that are open, outermost first.
    stack: Vec<Open>,
    /// Complete values that have an anchor, with their size.
    anchors: HashMap<usize, (Value, usize)>,
    alias_bytes_left: usize,
    duplicates: Duplicates,
}

/// A list or map that has begun.
struct Open {
    values: Values,
    line: usize,
    anchor: usize,
    /// Rough size in bytes of what is in it.
    bytes: usize,
}

enum Values {
    List(Vec<Value>),
    Map {
        fields: Map<String, Value>,
        next: Next,
        merged: BTreeSet<String>,
    },
}

/// What a map expects.
enum Next {
    Key,
    Value(String),
    Merge,
}

/// A complete value on its way into its list or map.
struct Done {
    value: Value,
    line: usize,
    bytes: usize,
    /// A plain `<<`, which as a key merges maps.
    is_merge_key: bool,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), String> {
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_merge_key = style == ScalarStyle::Plain && tag.is_none() && text == "<<";
                let bytes = VALUE_BYTES + text.len();
                let value = scalar_value(text, style, tag.as_deref())?;
                self.anchor(anchor, &value, bytes)?;
                self.put(Done {
                    value,
                    line,
                    bytes,
                    is_merge_key,
                })
            }
            Event::Alias(anchor) => {
                let Some((value, bytes)) = self.anchors.get(&anchor) else {
                    return Err("alias to a value that contains it".to_owned());
                };
                let bytes = *bytes;
                self.alias_bytes_left = self
                    .alias_bytes_left
                    .checked_sub(bytes)
                    .ok_or_else(too_much)?;
                let value = value.clone();
                self.put(Done {
                    value,
                    line,
                    bytes,
                    is_merge_key: false,
                })
            }
            Event::SequenceStart(anchor, _) => self.open(Values::List(Vec::new()), anchor, line),
            Event::MappingStart(anchor, _) => {
                let fields = Map::new();
                self.open(
                    Values::Map {
                        fields,
                        next: Next::Key,
                        merged: BTreeSet::new(),
                    },
                    anchor,
                    line,
                )
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::DocumentEnd => {
                self.document += 1;
                Ok(())
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {
                Ok(())
            }
        }
    }

    fn open(&mut self, values: Values, anchor: usize, line: usize) -> Result<(), String> {
        if self.stack.len() >= DEPTH_MAX {
            return Err(format!(
                "more than {DEPTH_MAX} lists and maps inside each other"
            ));
        }
        self.stack.push(Open {
            values,
            line,
            anchor,
            bytes: VALUE_BYTES,
        });
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(Open {
            values,
            line,
            anchor,
            bytes,
        }) = self.stack.pop()
        else {
            return Ok(());
        };
        let value = match values {
            Values::List(values) => Value::Array(values),
            Values::Map { fields, .. } => Value::Object(fields),
        };
        self.anchor(anchor, &value, bytes)?;
        self.put(Done {
            value,
            line,
            bytes,
            is_merge_key: false,
        })
    }

    /// Remembers a value that has an anchor (0 is none). The copy counts as what an alias
    /// adds, because anchors can stand inside each other.
    fn anchor(&mut self, anchor: usize, value: &Value, bytes: usize) -> Result<(), String> {
        if anchor != 0 {
            self.alias_bytes_left = self
                .alias_bytes_left
                .checked_sub(bytes)
                .ok_or_else(too_much)?;
            self.anchors.insert(anchor, (value.clone(), bytes));
        }
        Ok(())
    }

    /// Puts a complete value where it belongs.
    fn put(&mut self, mut done: Done) -> Result<(), String> {
        let depth = self.stack.len();
        if depth == 2 {
            self.hand_on_item(&mut done);
        }
        let parent_key = depth.checked_sub(2).and_then(|above| self.key_at(above));
        let drop_fields = matches!(parent_key, Some("metadata"));
        let Some(open) = self.stack.last_mut() else {
            if !done.value.is_null() {
                let location = Location {
                    document: self.document,
                    item: None,
                    line: done.line,
                };
                self.receiver.document(Document {
                    value: done.value,
                    location,
                });
            }
            return Ok(());
        };
        open.bytes = open.bytes.saturating_add(done.bytes);
        let (fields, next, merged) = match &mut open.values {
            Values::List(values) => {
                values.push(done.value);
                return Ok(());
            }
            Values::Map {
                fields,
                next,
                merged,
            } => (fields, next, merged),
        };
        match std::mem::replace(next, Next::Key) {
            Next::Key if done.is_merge_key => *next = Next::Merge,
            Next::Key => {
                let key = key(done.value)?;
                let is_there = fields.contains_key(&key) && !merged.contains(&key);
                *next = Next::Value(key.clone());
                if is_there && self.duplicates.are_told() {
                    let duplicate = DuplicateKey {
                        key,
                        path: self.path(),
                        line: done.line,
                    };
                    self.duplicates.tell(duplicate, self.receiver);
                }
            }
            Next::Value(key) if drop_fields && key == "managedFields" => {
                self.receiver.managed_fields();
            }
            Next::Value(key) => {
                fields.insert(key, done.value);
            }
            Next::Merge => merge(done.value, fields, merged)?,
        }
        Ok(())
    }

    /// Hands on an element of the document's `items`, leaving `null`.
    fn hand_on_item(&mut self, done: &mut Done) {
        let [top, items] = self.stack.as_slice() else {
            return;
        };
        let (
            Values::Map {
                fields,
                next: Next::Value(key),
                ..
            },
            Values::List(values),
        ) = (&top.values, &items.values)
        else {
            return;
        };
        if key != "items" {
            return;
        }
        let mut list = ListType::default();
        for key in ["apiVersion", "kind"] {
            if let Some(value) = fields.get(key) {
                list.note(key, value);
            }
        }
        if list.claim(&mut done.value) {
            let value = std::mem::take(&mut done.value);
            let item = Some(values.len());
            let location = Location {
                document: self.document,
                item,
                line: done.line,
            };
            self.receiver.document(Document { value, location });
        }
    }

    /// The way to the value that comes next.
    fn path(&self) -> FieldPath {
        let steps = self.stack.iter().filter_map(|open| match &open.values {
            Values::List(values) => Some(Segment::Index(values.len())),
            Values::Map {
                next: Next::Value(key),
                ..
            } => Some(Segment::Field(key.clone())),
            Values::Map { .. } => None,
        });
        FieldPath::of(steps.collect())
    }

    /// The key whose value is being read in an open map.
    fn key_at(&self, depth: usize) -> Option<&str> {
        match &self.stack.get(depth)?.values {
            Values::Map {
                next: Next::Value(key),
                ..
            } => Some(key),
            _ => None,
        }
    }
}

fn too_much() -> String {
    "aliases repeat too much; write the values out".to_owned()
}

/// A key as text.
pub(super) fn key(value: Value) -> Result<String, String> {
    match value {
        Value::String(key) => Ok(key),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null => Err("a key is missing or null".to_owned()),
        Value::Array(_) | Value::Object(_) => {
            Err("a key must be text, not a list or map".to_owned())
        }
    }
}

/// Puts the fields of a map, or of a list of maps, into another. As in go.yaml.in/yaml/v2
/// they take the place of fields that stand before `<<` and give way to those after it; in
/// a list, the earlier map wins.
fn merge(
    source: Value,
    fields: &mut Map<String, Value>,
    merged: &mut BTreeSet<String>,
) -> Result<(), String> {
    let maps = match source {
        Value::Array(maps) => maps,
        map => vec![map],
    };
    for map in maps.into_iter().rev() {
        let Value::Object(map) = map else {
            return Err("<< takes a map or a list of maps".to_owned());
        };
        for (key, value) in map {
            merged.insert(key.clone());
            fields.insert(key, value);
        }
    }
    Ok(())
}
