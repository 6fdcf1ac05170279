//! JSON patch (RFC 6902): operations one after the other.
//!
//! Ten operations that each copy a value into itself make it a thousand times as large, and two
//! that move a value and put it into a new one nest it ever deeper. So what is copied is limited in
//! bytes, as upstream does, and how deep values are inside of each other, since all who read an
//! object go into it step by step.
//!
//! What an operation does is what the library of Kubernetes does, where that is more than RFC 6902
//! says: places of lists may be counted from the end, what `replace` and `copy` do not find is
//! `null`, and a value that is not given is, too. Sources, Kubernetes 1.36:
//! `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`, `gopkg.in/evanphx/json-patch.v4`.

use serde_json::{Map, Value};

use crate::document::{DEPTH_MAX, depth};
use crate::names::quoted;
use crate::request_body::{FieldValidation, may_tell_more};
use crate::status::Status;

/// How many operations a JSON patch may have.
pub const OPERATIONS_MAX: usize = 10_000;

/// How many bytes of JSON the copies of a patch may add, all together, 3 MiB: as many as a body
/// has at most.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How often the depth of an object is measured during a patch.
const MEASUREMENTS_MAX: usize = 16;

/// The fields of an operation.
const FIELDS: [&str; 4] = ["op", "path", "from", "value"];

const MISSING: &str = "missing value";

/// Whether a patch has the form of one; fields that no operation has.
///
/// # Errors
///
/// 400, in the words of Go's decoder.
pub(super) fn check_types(
    changes: &Value,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let is_typed = validation != FieldValidation::Ignore;
    let (list, element, why) = match is_typed {
        true => (
            "[]handlers.jsonPatchOp",
            "handlers.jsonPatchOp",
            "error decoding patch: ",
        ),
        false => ("jsonpatch.Patch", "jsonpatch.Operation", ""),
    };
    let wrong = |found: &Value, place: String| {
        let found = json_type(found);
        Status::bad_request(format!(
            "{why}json: cannot unmarshal {found} into Go {place}"
        ))
    };
    let operations = match changes {
        Value::Null => return Ok(Vec::new()),
        Value::Array(operations) => operations,
        other => return Err(wrong(other, format!("value of type {list}"))),
    };
    let mut unknown = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let fields = match operation {
            Value::Null => continue,
            Value::Object(fields) => fields,
            other => return Err(wrong(other, format!("value of type {element}"))),
        };
        for (name, value) in fields.iter().filter(|_| is_typed) {
            let is_text = matches!(value, Value::Null | Value::String(_));
            if !FIELDS.contains(&name.as_str()) {
                if may_tell_more(&unknown) {
                    let path = quoted(&format!("[{index}].{name}"));
                    unknown.push(format!("json patch unknown field {path}"));
                }
            } else if name != "value" && !is_text {
                let place = format!("struct field jsonPatchOp.{name} of type string");
                return Err(wrong(value, place));
            }
        }
    }
    Ok(unknown)
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The object after all operations of a patch of the right form ([`check_types`]).
///
/// # Errors
///
/// 413 if the patch has too many operations, 422 if one cannot be carried out or makes the object
/// too large or too deep.
pub(super) fn apply(live: &Value, changes: &Value) -> Result<Value, Status> {
    let operations = changes.as_array().map_or(&[][..], Vec::as_slice);
    if operations.len() > OPERATIONS_MAX {
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let mut growth = Growth {
        copied_bytes: 0,
        depth_max: depth(live),
        measurements_left: MEASUREMENTS_MAX,
    };
    let mut patched = live.clone();
    let nothing = Map::new();
    for operation in operations {
        let operation = Operation(operation.as_object().unwrap_or(&nothing));
        // Who fails leaves a copy behind that nobody sees, so nothing need be undone.
        let carried_out = operation.carry_out(&mut patched, &mut growth);
        carried_out.map_err(Status::unprocessable)?;
        growth
            .check_depth(&patched)
            .map_err(Status::unprocessable)?;
    }
    Ok(patched)
}

/// One step of a patch.
struct Operation<'p>(&'p Map<String, Value>);

impl Operation<'_> {
    fn carry_out(&self, object: &mut Value, growth: &mut Growth) -> Result<(), String> {
        match self.kind() {
            "add" => self.add(object, growth),
            "remove" => self.remove(object),
            "replace" => self.replace(object, growth),
            "move" => self.move_value(object, growth),
            "test" => self.test(object),
            "copy" => self.copy(object, growth),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn kind(&self) -> &str {
        self.0
            .get("op")
            .and_then(Value::as_str)
            .unwrap_or("unknown")
    }

    fn path(&self) -> Result<&str, String> {
        self.text("path")
            .unwrap_or_else(|| Err(format!("operation missing path field: {MISSING}")))
    }

    fn from(&self) -> Result<&str, String> {
        self.text("from")
            .unwrap_or_else(|| Err(format!("operation, missing from field: {MISSING}")))
    }

    fn text(&self, field: &str) -> Option<Result<&str, String>> {
        match self.0.get(field)? {
            Value::Null => None,
            Value::String(text) => Some(Ok(text)),
            other => Some(Err(format!(
                "json: cannot unmarshal {} into Go value of type string",
                json_type(other)
            ))),
        }
    }

    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or_default()
    }

    fn add(&self, object: &mut Value, growth: &mut Growth) -> Result<(), String> {
        let path = self.path();
        let path = path.map_err(|_| format!("add operation failed to decode path: {MISSING}"))?;
        let (place, key) = find(object, path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        let value = self.value();
        growth.note(path, depth(&value));
        insert(place, &key, value).map_err(|why| format!("error in add for path: '{path}': {why}"))
    }

    fn remove(&self, object: &mut Value) -> Result<(), String> {
        let path = self.path();
        let path =
            path.map_err(|_| format!("remove operation failed to decode path: {MISSING}"))?;
        let (place, key) = find(object, path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        let removed = take(place, &key);
        removed.map_err(|why| format!("error in remove for path: '{path}': {why}"))?;
        Ok(())
    }

    fn replace(&self, object: &mut Value, growth: &mut Growth) -> Result<(), String> {
        let path = self.path();
        let path = path.map_err(|why| format!("replace operation failed to decode path: {why}"))?;
        let value = self.value();
        growth.note(path, depth(&value));
        if path.is_empty() {
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array".to_owned());
            }
            *object = value;
            return Ok(());
        }
        let missing = |what: &str| {
            format!("replace operation does not apply: doc is missing {what}: {path}: {MISSING}")
        };
        let (place, key) = find(object, path).ok_or_else(|| missing("path"))?;
        match place {
            Value::Array(elements) => {
                let index = index_of(&key, elements.len()).map_err(|_| missing("key"))?;
                elements[index] = value;
            }
            place => place[key] = value,
        }
        Ok(())
    }

    fn move_value(&self, object: &mut Value, growth: &mut Growth) -> Result<(), String> {
        let from = self.from();
        let from = from.map_err(|why| format!("move operation failed to decode from: {why}"))?;
        let (place, key) = find(object, from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let failed = |key: &str, why: String| format!("error in move for path: '{key}': {why}");
        let value = take(place, &key).map_err(|why| failed(&key, why))?;
        let path = self.path();
        let path = path.map_err(|why| format!("move operation failed to decode path: {why}"))?;
        growth.note_moved(from, path);
        let (place, key) = find(object, path).ok_or_else(|| {
            format!(
                "move operation does not apply: doc is missing destination path: {path}: {MISSING}"
            )
        })?;
        insert(place, &key, value).map_err(|why| failed(path, why))
    }

    fn test(&self, object: &mut Value) -> Result<(), String> {
        let path = self.path();
        let path = path.map_err(|why| format!("test operation failed to decode path: {why}"))?;
        let expected = self.0.get("value").unwrap_or(&Value::Null);
        let failed = || Err(format!("testing value {path} failed: test failed"));
        if path.is_empty() {
            return if object == expected { Ok(()) } else { failed() };
        }
        let (place, key) = find(object, path).ok_or_else(|| {
            format!("test operation does not apply: is missing path: {path}: {MISSING}")
        })?;
        let found = get(place, &key);
        let found = found.map_err(|why| format!("error in test for path: '{path}': {why}"))?;
        match found.unwrap_or(&Value::Null) == expected {
            true => Ok(()),
            false => failed(),
        }
    }

    fn copy(&self, object: &mut Value, growth: &mut Growth) -> Result<(), String> {
        let from = self.from();
        let from = from.map_err(|why| format!("copy operation failed to decode from: {why}"))?;
        let (place, key) = find(object, from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let value = get(place, &key);
        let value = value.map_err(|why| format!("error in copy for from: '{from}': {why}"))?;
        growth.note_copied(value.map_or(0, json_bytes))?;
        let value = value.cloned().unwrap_or_default();
        let path = self.path();
        let path = path.map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
        growth.note_moved(from, path);
        let (place, key) = find(object, path).ok_or_else(|| {
            format!(
                "copy operation does not apply: doc is missing destination path: {path}: {MISSING}"
            )
        })?;
        insert(place, &key, value)
            .map_err(|why| format!("error while adding value during copy: {why}"))
    }
}

/// The object or list in which the end of a path is, and the key of it there. What stands before the
/// first `/` is passed over.
fn find<'o>(object: &'o mut Value, path: &str) -> Option<(&'o mut Value, String)> {
    let (before, key) = path.rsplit_once('/')?;
    let mut place = object;
    for part in before.split('/').skip(1) {
        place = match place {
            Value::Array(elements) => {
                let index = index_of(&decoded(part), elements.len()).ok()?;
                elements.get_mut(index)?
            }
            place => place.get_mut(decoded(part))?,
        };
        if !place.is_object() && !place.is_array() {
            return None;
        }
    }
    Some((place, decoded(key)))
}

/// A part of a path without its escapes.
fn decoded(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// What is at a key; nothing if an object does not have it.
fn get<'o>(place: &'o Value, key: &str) -> Result<Option<&'o Value>, String> {
    match place {
        Value::Array(elements) => Ok(elements.get(index_of(key, elements.len())?)),
        place => Ok(place.get(key)),
    }
}

fn insert(place: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match place {
        Value::Array(elements) if key == "-" => elements.push(value),
        Value::Array(elements) => {
            let number = number(key);
            number.map_err(|why| format!("value was not a proper array index: '{key}': {why}"))?;
            let index = index_of(key, elements.len() + 1)?;
            elements.insert(index, value);
        }
        place => place[key] = value,
    }
    Ok(())
}

/// Takes out what is at a key, which must be there.
fn take(place: &mut Value, key: &str) -> Result<Value, String> {
    match place {
        Value::Array(elements) => {
            let index = index_of(key, elements.len())?;
            Ok(elements.remove(index))
        }
        Value::Object(fields) => fields
            .remove(key)
            .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}")),
        _ => Err(MISSING.to_owned()),
    }
}

/// The place in a list of some length; negative ones count from its end.
fn index_of(key: &str, length: usize) -> Result<usize, String> {
    let number = number(key)?;
    let index = match number < 0 {
        true => usize::try_from(number.unsigned_abs())
            .ok()
            .and_then(|from_end| length.checked_sub(from_end)),
        false => usize::try_from(number).ok().filter(|it| *it < length),
    };
    index.ok_or_else(|| {
        format!("Unable to access invalid index: {number}: invalid index referenced")
    })
}

fn number(key: &str) -> Result<i64, String> {
    key.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!("strconv.Atoi: parsing {}: {why}", quoted(key))
    })
}

/// How an object grows under operations.
struct Growth {
    copied_bytes: usize,
    /// It is no deeper than this.
    depth_max: usize,
    measurements_left: usize,
}

impl Growth {
    /// Takes note that a value of this depth is put at a path.
    fn note(&mut self, path: &str, depth: usize) {
        self.depth_max = self.depth_max.max(parts(path) + depth);
    }

    /// Takes note that what is at a path is put at another, too.
    fn note_moved(&mut self, from: &str, path: &str) {
        let inside = self.depth_max.saturating_sub(parts(from));
        self.note(path, inside);
    }

    fn note_copied(&mut self, bytes: usize) -> Result<(), String> {
        self.copied_bytes += bytes;
        match self.copied_bytes > COPIED_BYTES_MAX {
            false => Ok(()),
            true => Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {}, \
                 exceeding the limit {COPIED_BYTES_MAX}",
                self.copied_bytes
            )),
        }
    }

    /// Measures the object if it may be too deep. Measuring takes time for the whole object, so it
    /// is not done often: nobody comes near the limit but who wants to.
    fn check_depth(&mut self, object: &Value) -> Result<(), String> {
        if self.depth_max <= DEPTH_MAX {
            return Ok(());
        }
        self.depth_max = depth(object);
        self.measurements_left = self.measurements_left.saturating_sub(1);
        match self.depth_max <= DEPTH_MAX && self.measurements_left > 0 {
            true => Ok(()),
            false => Err(format!(
                "the patch makes more than {DEPTH_MAX} lists and objects inside each other"
            )),
        }
    }
}

/// How many steps a path has.
fn parts(path: &str) -> usize {
    path.split('/').count().saturating_sub(1)
}

/// About how many bytes a value has as JSON.
fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => 2 + elements.iter().map(|it| json_bytes(it) + 1).sum::<usize>(),
        Value::Object(fields) => {
            let fields = fields.iter();
            2 + fields
                .map(|(name, value)| name.len() + json_bytes(value) + 4)
                .sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(live: &Value, operations: Vec<Value>) -> String {
        let refused = apply(live, &operations.into()).expect_err("refused");
        assert_eq!(refused.code, 422);
        refused.message
    }

    #[test]
    fn copies_do_not_add_up_to_more_than_a_body() {
        let live = json!({"data": {"a": "x".repeat(1000)}});
        let copy =
            |at: usize| json!({"op": "copy", "from": "/data", "path": format!("/data/{at}")});
        let message = refused(&live, (0..100).map(copy).collect());
        assert!(
            message.contains("the accumulated size increase of copy"),
            "{message}"
        );
        assert!(apply(&live, &(0..10).map(copy).collect()).is_ok());
    }

    #[test]
    fn moving_does_not_nest_without_end() {
        let wrap = |_| {
            [
                json!({"op": "add", "path": "/b", "value": {}}),
                json!({"op": "move", "from": "/a", "path": "/b/a"}),
                json!({"op": "move", "from": "/b", "path": "/a"}),
            ]
        };
        let live = json!({"a": {}});
        let message = refused(&live, (0..3_000).flat_map(wrap).collect());
        assert!(message.contains("inside each other"), "{message}");
        let patched = apply(&live, &(0..100).flat_map(wrap).collect()).expect("applied");
        assert_eq!(depth(&patched), 102);
    }

    #[test]
    fn moving_to_and_fro_is_no_nesting() {
        let pair = |_| {
            [
                json!({"op": "move", "from": "/a", "path": "/b/a"}),
                json!({"op": "move", "from": "/b/a", "path": "/a"}),
            ]
        };
        let live = json!({"a": {"c": 1}, "b": {}});
        let patched = apply(&live, &(0..100).flat_map(pair).collect());
        assert_eq!(patched.expect("applied"), live);
    }

    #[test]
    fn a_patch_has_the_form_of_one() {
        for (patch, message) in [
            (
                json!({}),
                "object into Go value of type []handlers.jsonPatchOp",
            ),
            (
                json!([1]),
                "number into Go value of type handlers.jsonPatchOp",
            ),
            (
                json!([{"op": 1}]),
                "number into Go struct field jsonPatchOp.op of type string",
            ),
        ] {
            let refused = check_types(&patch, FieldValidation::Warn).expect_err("refused");
            let message = format!("error decoding patch: json: cannot unmarshal {message}");
            assert_eq!((refused.code, refused.message), (400, message));
        }
        let refused = check_types(&json!({}), FieldValidation::Ignore).expect_err("refused");
        let message = "json: cannot unmarshal object into Go value of type jsonpatch.Patch";
        assert_eq!((refused.code, refused.message.as_str()), (400, message));
        let odd = json!([{"op": "test", "path": "/a", "foo": 1}, null]);
        assert_eq!(
            check_types(&odd, FieldValidation::Warn).expect("a patch"),
            ["json patch unknown field \"[0].foo\""]
        );
        // Nothing is a patch that does nothing.
        assert_eq!(
            check_types(&Value::Null, FieldValidation::Warn),
            Ok(Vec::new())
        );
        let live = json!({"a": 1});
        assert_eq!(apply(&live, &Value::Null), Ok(live.clone()));
    }

    #[test]
    fn operations_fail_in_the_words_of_kubernetes() {
        let live = json!({"a": {"list": [1, 2]}, "text": "t"});
        for (operation, message) in [
            (json!({"op": "burn", "path": "/a"}), "Unexpected kind: burn"),
            (json!({"path": "/a"}), "Unexpected kind: unknown"),
            (json!(null), "Unexpected kind: unknown"),
            (
                json!({"op": "add"}),
                "add operation failed to decode path: missing value",
            ),
            (
                json!({"op": "test"}),
                "test operation failed to decode path: operation missing path field: missing value",
            ),
            (
                json!({"op": "move", "path": "/b"}),
                "move operation failed to decode from: operation, missing from field: missing value",
            ),
            (
                json!({"op": "add", "path": "/a/list/x", "value": 3}),
                "error in add for path: '/a/list/x': value was not a proper array index: 'x': \
                 strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                json!({"op": "add", "path": "/a/list/4", "value": 3}),
                "error in add for path: '/a/list/4': Unable to access invalid index: 4: invalid \
                 index referenced",
            ),
            (
                json!({"op": "remove", "path": "/a/list/-3"}),
                "error in remove for path: '/a/list/-3': Unable to access invalid index: -3: \
                 invalid index referenced",
            ),
            (
                json!({"op": "replace", "path": "/text/x", "value": 1}),
                "replace operation does not apply: doc is missing path: /text/x: missing value",
            ),
            (
                json!({"op": "replace", "path": "/a/list/2", "value": 1}),
                "replace operation does not apply: doc is missing key: /a/list/2: missing value",
            ),
            (
                json!({"op": "copy", "from": "/a", "path": "/b/c"}),
                "copy operation does not apply: doc is missing destination path: /b/c: missing value",
            ),
            (
                json!({"op": "move", "from": "/a", "path": "/a/b"}),
                "move operation does not apply: doc is missing destination path: /a/b: missing value",
            ),
        ] {
            assert_eq!(refused(&live, vec![operation]), message);
        }
    }

    #[test]
    fn operations_do_what_they_do_in_kubernetes() {
        let live = json!({"a/b": {"list": [1, 2]}});
        let patch = json!([
            {"op": "add", "path": "/a~1b/list/-1", "value": 3},
            {"op": "replace", "path": "/a~1b/list/0", "value": 0},
            {"op": "replace", "path": "/new", "value": 1},
            {"op": "copy", "from": "/absent", "path": "/nothing"},
            {"op": "test", "path": "/absent"},
            {"op": "test", "path": "/a~1b/list/-2", "value": 2},
            {"op": "remove", "path": "/a~1b/list/-2"},
            {"op": "move", "from": "/new", "path": "/a~1b/list/-"},
        ]);
        assert_eq!(
            apply(&live, &patch),
            Ok(json!({"a/b": {"list": [0, 3, 1]}, "nothing": null}))
        );
    }
}
