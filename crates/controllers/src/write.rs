//! What controllers want written, as values: somebody else carries it out.
//!
//! A write says no more than it means. There is no "replace the object by this one", since a
//! controller knows only some of an object's fields: changes are merge patches, and an
//! object that is made from a template takes the whole template along ([`Create::written`]).

use std::borrow::Cow;
use std::sync::Arc;

use outrank_api::decode::Object;
use outrank_api::status::StatusCause;
use serde_json::{Map, Value, json};

use crate::pod_edit::PodEdit;
use crate::world::{Key, Stored};

/// One request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Make an object.
    Create(Box<Create>),
    /// Change one.
    Patch(Box<Patch>),
    /// Delete one.
    Delete(Delete),
    /// Bind a pod to a node.
    Bind(Bind),
    /// Tell people. Whoever carries it out counts repetitions.
    Event(Event),
}

/// Make an object. Without a name, the API server makes one from `generateName`.
#[derive(Clone, Debug, PartialEq)]
pub struct Create {
    /// The object, as far as it is typed.
    pub object: Object,
    /// Where the object says more than its types do.
    pub written: Option<Written>,
}

/// JSON that stands at a place of a typed object and says more than its types.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The place in the new object, a JSON pointer such as `/spec`.
    pub at: &'static str,
    /// The object that has the JSON, and where.
    pub source: Arc<Value>,
    /// The place in `source`.
    pub pointer: Cow<'static, str>,
    /// What is changed of it, if it is the spec of a pod. The typed object has it already.
    pub edits: Vec<PodEdit>,
}

impl Create {
    /// The body of the request.
    pub fn to_value(&self) -> Value {
        let mut value = self.object.to_value();
        if let Some(written) = &self.written
            && let Some(found) = written.source.pointer(&written.pointer)
            && let Some(place) = value.pointer_mut(written.at)
        {
            *place = found.clone();
            if let Value::Object(spec) = place {
                written.edits.iter().for_each(|edit| edit.edit_value(spec));
            }
        }
        // `null` says nothing that absence does not.
        without_nulls(&mut value);
        value
    }
}

/// Drops fields that are `null`.
pub(crate) fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(elements) => elements.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Which part of an object a [`Patch`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    /// `/status`.
    Status,
    /// `/scale`.
    Scale,
    /// `/finalize` of a namespace, which a real API server wants as a whole (PUT).
    Finalize,
}

/// Change an object by a JSON merge patch (RFC 7396).
#[derive(Clone, Debug, PartialEq)]
pub struct Patch {
    /// Which object.
    pub key: Key,
    /// Which part of it; `None` is all but the status.
    pub subresource: Option<Subresource>,
    /// What changes.
    pub changes: Value,
    /// Only if the object has this uid.
    pub uid: Option<String>,
    /// Only if the object still has this version.
    pub resource_version: Option<String>,
}

impl Patch {
    /// The body of the request: the changes with the conditions, which the API server takes
    /// as part of the metadata.
    pub fn to_value(&self) -> Value {
        let mut body = self.changes.clone();
        let conditions = [
            ("uid", &self.uid),
            ("resourceVersion", &self.resource_version),
        ];
        for (name, condition) in conditions {
            if let (Some(condition), Value::Object(fields)) = (condition, &mut body) {
                let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
                metadata[name] = condition.as_str().into();
            }
        }
        body
    }
}

/// What becomes of the objects that an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// Delete an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Which object.
    pub key: Key,
    /// Only if it has this uid.
    pub uid: Option<String>,
    /// Only if it still has this version.
    pub resource_version: Option<String>,
    /// Time to end in seconds; what the object says if absent.
    pub grace_seconds: Option<i64>,
    /// What becomes of what it owns; what its kind says if absent.
    pub propagation: Option<Propagation>,
}

/// Bind a pod to a node: what a scheduler does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The pod.
    pub key: Key,
    /// Only if it has this uid.
    pub uid: String,
    /// The name of the node.
    pub node: String,
}

/// Something to tell people, about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object.
    pub regarding: Key,
    /// Its uid.
    pub uid: String,
    /// The version of it of which something is told; empty if it is not known.
    pub resource_version: String,
    /// Type `Warning`, else `Normal`.
    pub is_warning: bool,
    /// Reason, one word.
    pub reason: Cow<'static, str>,
    /// The same for people.
    pub message: String,
}

impl Event {
    /// An event of type `Normal`.
    pub fn normal(about: &Stored, reason: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self {
            regarding: about.key(),
            uid: about.metadata().uid.clone(),
            resource_version: about.metadata().resource_version.clone(),
            is_warning: false,
            reason: reason.into(),
            message,
        }
    }

    /// An event of type `Warning`.
    pub fn warning(about: &Stored, reason: impl Into<Cow<'static, str>>, message: String) -> Self {
        Self {
            is_warning: true,
            ..Self::normal(about, reason, message)
        }
    }
}

/// What came of a write.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The object as it is stored now. A deleted object that has time to end, or finalizers,
    /// is still there.
    Stored(Arc<Stored>),
    /// The object is no more, or an event was taken.
    Done,
    /// The API server refused.
    Refused(Refusal),
}

/// A refusal, as the API server's `Status` says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// Reason, one word, such as `AlreadyExists`; may be empty.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// Its causes, such as one of reason `NamespaceTerminating`.
    pub causes: Vec<StatusCause>,
}

impl Refusal {
    /// The message with those of its causes.
    pub fn in_full(&self) -> String {
        let causes = self.causes.iter().map(|cause| cause.message.as_str());
        let parts = [self.message.as_str()].into_iter().chain(causes);
        let said = parts.filter(|part| !part.is_empty());
        said.collect::<Vec<_>>().join(" ")
    }

    /// Whether the object to delete or change is not there.
    pub fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    /// Whether the object is not the one that was meant, or has changed since.
    pub fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Whether the object to create is there already.
    pub fn already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// Whether the namespace is being deleted, so that nothing new may come into it.
    pub fn namespace_ends(&self) -> bool {
        self.causes
            .iter()
            .any(|cause| cause.reason == "NamespaceTerminating")
    }
}

impl Write {
    /// Deletes an object, if it still is the one that is known.
    pub fn delete(object: &Stored) -> Self {
        Self::Delete(Delete {
            key: object.key(),
            uid: uid_of(object),
            resource_version: None,
            grace_seconds: None,
            propagation: None,
        })
    }

    /// Changes an object, if it still is the one that is known.
    pub fn patch(object: &Stored, changes: Value) -> Self {
        Self::Patch(Box::new(Patch {
            key: object.key(),
            subresource: None,
            changes,
            uid: uid_of(object),
            resource_version: None,
        }))
    }

    /// The same, only if the object still has the version that is known. Lists in merge patches
    /// want that, since they replace the whole list.
    pub fn at_version(mut self, object: &Stored) -> Self {
        let version = Some(object.metadata().resource_version.clone());
        let version = version.filter(|version| !version.is_empty());
        match &mut self {
            Self::Patch(patch) => patch.resource_version = version,
            Self::Delete(delete) => delete.resource_version = version,
            Self::Create(_) | Self::Bind(_) | Self::Event(_) => {}
        }
        self
    }

    /// The same as a change of the status, by which annotations may be changed, too. Who does so is
    /// known as their owner through the status.
    pub fn through_status(mut self) -> Self {
        if let Self::Patch(patch) = &mut self {
            patch.subresource = Some(Subresource::Status);
        }
        self
    }

    /// Changes the status of an object from one to another; `None` if they are the same.
    pub fn status<S: serde::Serialize>(object: &Stored, old: &S, new: &S) -> Option<Self> {
        // Types with string keys and finite numbers always have a JSON form.
        let [old, new] = [old, new].map(|it| serde_json::to_value(it).unwrap_or_default());
        let changes = difference(&old, &new)?;
        Some(Self::Patch(Box::new(Patch {
            key: object.key(),
            subresource: Some(Subresource::Status),
            changes: json!({ "status": changes }),
            uid: uid_of(object),
            resource_version: None,
        })))
    }
}

/// The uid of an object, if the API server has given it one.
fn uid_of(object: &Stored) -> Option<String> {
    let uid = &object.metadata().uid;
    (!uid.is_empty()).then(|| uid.clone())
}

/// The merge patch that makes `new` of `old`; `None` if they are the same.
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut changes = Map::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        changes.insert(name.clone(), Value::Null);
    }
    for (name, value) in after {
        let change = match before.get(name) {
            Some(old) => difference(old, value),
            None => Some(value.clone()),
        };
        changes.extend(change.map(|change| (name.clone(), change)));
    }
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// Applies a merge patch.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else {
        return;
    };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_makes_the_new_of_the_old() {
        let old = json!({"a": 1, "b": {"c": [1, 2], "d": "x"}, "e": true});
        let new = json!({"a": 1, "b": {"c": [2], "f": {"g": 0}}});
        let patch = difference(&old, &new).expect("they differ");
        assert_eq!(
            patch,
            json!({"b": {"c": [2], "d": null, "f": {"g": 0}}, "e": null})
        );
        let mut merged = old;
        merge(&mut merged, &patch);
        assert_eq!(merged, new);
        assert_eq!(difference(&new, &new), None);
    }

    #[test]
    fn a_patch_carries_its_conditions_in_the_metadata() {
        let patch = Patch {
            key: Key::new(outrank_api::decode::ObjectKind::Pod, "n", "p"),
            subresource: None,
            changes: json!({"metadata": {"labels": {"a": "b"}}}),
            uid: Some("u".into()),
            resource_version: None,
        };
        let body = json!({"metadata": {"labels": {"a": "b"}, "uid": "u"}});
        assert_eq!(patch.to_value(), body);
    }
}
