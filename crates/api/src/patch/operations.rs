//! JSON patch (RFC 6902): operations one after the other.
//!
//! Ten operations that each copy a value into itself make it a thousand times as large, and two
//! that move a value and put it into a new one nest it ever deeper. So what is copied is limited in
//! bytes, as upstream does, and how deep values are inside of each other, since all who read an
//! object go into it step by step. Sources, Kubernetes 1.36:
//! `k8s.io/apiserver/pkg/endpoints/handlers/patch.go`, `gopkg.in/evanphx/json-patch.v4`.

use json_patch::jsonptr::Pointer;
use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value;

use crate::document::{DEPTH_MAX, depth};
use crate::status::Status;

/// How many operations a JSON patch may have.
pub const OPERATIONS_MAX: usize = 10_000;

/// How many bytes of JSON the copies of a patch may add, all together, 3 MiB: as many as a body
/// has at most.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// How often the depth of an object is measured during a patch.
const MEASUREMENTS_MAX: usize = 16;

/// The object after all operations.
///
/// # Errors
///
/// 400 if the patch is none, 413 if it has too many operations, 422 if one cannot be carried out or
/// makes the object too large or too deep.
pub(super) fn apply(live: &Value, changes: Value) -> Result<Value, Status> {
    let patch: json_patch::Patch = serde_json::from_value(changes)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    if patch.0.len() > OPERATIONS_MAX {
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            patch.0.len()
        )));
    }
    let mut growth = Growth {
        copied_bytes: 0,
        depth_max: depth(live),
        measurements_left: MEASUREMENTS_MAX,
    };
    let mut patched = live.clone();
    for operation in &patch.0 {
        let allowed = growth.note(operation, &patched);
        allowed.map_err(Status::unprocessable)?;
        // Who fails leaves a copy behind that nobody sees, so nothing need be undone.
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(operation))
            .map_err(|error| Status::unprocessable(why_not(operation, &error.kind)))?;
        growth
            .check_depth(&patched)
            .map_err(Status::unprocessable)?;
    }
    Ok(patched)
}

/// How an object grows under operations.
struct Growth {
    copied_bytes: usize,
    /// It is no deeper than this.
    depth_max: usize,
    measurements_left: usize,
}

impl Growth {
    /// Takes note of an operation before it is carried out.
    fn note(&mut self, operation: &PatchOperation, object: &Value) -> Result<(), String> {
        let inside = |path: &Pointer| path.tokens().count();
        let depth_max = match operation {
            PatchOperation::Add(it) => inside(&it.path) + depth(&it.value),
            PatchOperation::Replace(it) => inside(&it.path) + depth(&it.value),
            PatchOperation::Copy(it) => {
                let source = object.pointer(it.from.as_str());
                self.copied_bytes += source.map_or(0, json_bytes);
                if self.copied_bytes > COPIED_BYTES_MAX {
                    return Err(format!(
                        "Unable to complete the copy, the accumulated size increase of copy is \
                         {}, exceeding the limit {COPIED_BYTES_MAX}",
                        self.copied_bytes
                    ));
                }
                inside(&it.path) + self.depth_max.saturating_sub(inside(&it.from))
            }
            PatchOperation::Move(it) => {
                inside(&it.path) + self.depth_max.saturating_sub(inside(&it.from))
            }
            PatchOperation::Remove(_) | PatchOperation::Test(_) => 0,
        };
        self.depth_max = self.depth_max.max(depth_max);
        Ok(())
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

/// Why an operation cannot be carried out.
fn why_not(operation: &PatchOperation, error: &PatchErrorKind) -> String {
    let path = operation.path();
    match (operation, error) {
        (_, PatchErrorKind::TestFailed) => format!("testing value {path} failed: test failed"),
        (_, PatchErrorKind::CannotMoveInsideItself) => {
            format!("error in move for path: '{path}': cannot move the value inside itself")
        }
        (PatchOperation::Add(_), _) => {
            format!("add operation does not apply: doc is missing path: \"{path}\": missing value")
        }
        (PatchOperation::Remove(_), _) => {
            let key = operation
                .path()
                .last()
                .map(|token| token.decoded().into_owned());
            let key = key.unwrap_or_default();
            format!(
                "error in remove for path: '{path}': Unable to remove nonexistent key: {key}: \
                 missing value"
            )
        }
        (PatchOperation::Replace(_), _) => {
            format!("replace operation does not apply: doc is missing key: {path}: missing value")
        }
        (PatchOperation::Move(it), _) => format!(
            "move operation does not apply: doc is missing from path: {}: missing value",
            it.from
        ),
        (PatchOperation::Copy(it), _) => format!(
            "copy operation does not apply: doc is missing from path: {}: missing value",
            it.from
        ),
        (PatchOperation::Test(_), _) => {
            format!("test operation does not apply: is missing path: {path}: missing value")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(live: &Value, operations: Vec<Value>) -> String {
        let refused = apply(live, operations.into()).expect_err("refused");
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
        assert!(apply(&live, (0..10).map(copy).collect()).is_ok());
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
        let patched = apply(&live, (0..100).flat_map(wrap).collect()).expect("applied");
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
        let patched = apply(&live, (0..100).flat_map(pair).collect());
        assert_eq!(patched.expect("applied"), live);
    }
}
