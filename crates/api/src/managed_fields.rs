//! Managed fields: who wrote which field of an object last.
//!
//! The API server keeps, in `metadata.managedFields`, a set of fields for each manager: a client
//! by its name, what it did (`Apply` or `Update`), an API version and a subresource. Who changes
//! a field owns it from then on; others lose it. Server-side apply
//! ([`crate::server_side_apply`]) rests on this, and so do people who ask who did that.
//!
//! A set of fields is a tree. Fields are written `f:NAME`, elements of lists that are told apart
//! by keys `k:{...}`, elements of sets `v:...`, and `.` stands for the map or element itself.
//! Which values are owned whole and which part by part stands in the schema: `schema/rules.txt`
//! for kinds of Kubernetes, the definition for custom resources
//! ([`crate::custom_resource`]).
//!
//! What nobody owns: `apiVersion`, `kind`, names and what the server writes into the metadata,
//! the status in requests to the object itself, and the rest in requests to the status. A scale
//! (subresource `scale`) is recorded at the object that is scaled, for its replicas.
//!
//! An object that has no managed fields gets none by updates, only by an apply: it was made
//! before they were kept, or somebody reset them (by `managedFields: []` or `[{}]`). No more
//! than [`UPDATE_ENTRIES_MAX`] entries are kept of updates; the oldest go to the manager
//! [`ANCIENT_CHANGES`]. The time of an entry is that of the last write that changed something.
//!
//! Sources, Kubernetes 1.36: `k8s.io/apimachinery/pkg/util/managedfields`,
//! `sigs.k8s.io/structured-merge-diff` v6 (`merge/update.go`, `typed/compare.go`). Unlike there,
//! entries of another version of a kind are read as if they were of the version of the request,
//! since here objects are not converted.
//!
//! ```
//! use outrank_api::decode::ObjectKind;
//! use outrank_api::managed_fields::{Write, update};
//! use serde_json::{Value, json};
//!
//! let mut class = json!({"metadata": {"name": "high", "labels": {"a": "b"}}, "value": 7});
//! let write = Write { manager: "kubectl", subresource: "", now: "2026-01-01T00:00:00Z" };
//! update(ObjectKind::PriorityClass.into(), &Value::Null, &mut class, write);
//! assert_eq!(
//!     class["metadata"]["managedFields"][0]["fieldsV1"],
//!     json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:value": {}}),
//! );
//! ```

pub(crate) mod compare;
pub(crate) mod field_set;
pub(crate) mod owners;
pub(crate) mod scope;
pub(crate) mod shape;

use serde_json::Value;

use crate::resource_type::ResourceType;
use compare::{Comparison, compare};
pub use owners::{ANCIENT_CHANGES, UPDATE_ENTRIES_MAX};
use owners::{Operation, Owner, Owners};
use scope::Scope;

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub struct Write<'w> {
    /// Name of the client; empty is `unknown`.
    pub manager: &'w str,
    /// The subresource that is written to; may be empty.
    pub subresource: &'w str,
    /// The time, RFC 3339.
    pub now: &'w str,
}

/// Writes into a new object who owns its fields, given the object as it was (`null` if there
/// was none). An object that brings no managed fields keeps those that it had.
///
/// Costs time linear in both objects; nothing is copied but the entries of the object as it was,
/// if the new one brings none.
pub fn update(resource: &ResourceType, live: &Value, new: &mut Value, write: Write<'_>) {
    let owners = Owners::of_write(live, new, write.subresource);
    if owners.is_empty() && !live.is_null() {
        return;
    }
    let scope = Scope {
        resource,
        subresource: write.subresource,
    };
    track(scope, live, new, owners, write).write_to(new);
}

/// The owners after a write that is not an apply.
pub(crate) fn track(
    scope: Scope<'_>,
    live: &Value,
    new: &Value,
    mut owners: Owners,
    write: Write<'_>,
) -> Owners {
    let Comparison { changed, removed } = compare(scope, live, new);
    for owner in &mut owners.0 {
        owner.fields.subtract(&changed);
        owner.fields.subtract(&removed);
    }
    owners.tidy();
    if !changed.is_empty() {
        owners.give(Owner {
            manager: named(write.manager).to_owned(),
            operation: Operation::Update,
            api_version: scope.resource.api_version(),
            subresource: write.subresource.to_owned(),
            // Upstream loses the time on the way from the scale to its object.
            time: (write.subresource != "scale").then(|| write.now.to_owned()),
            fields: changed,
        });
    }
    owners.cap_updates();
    owners
}

/// The name of a manager; one that does not say is `unknown`.
pub(crate) fn named(manager: &str) -> &str {
    match manager {
        "" => "unknown",
        manager => manager,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode::ObjectKind;

    fn write(manager: &str) -> Write<'_> {
        Write {
            manager,
            subresource: "",
            now: "2026-01-01T00:00:00Z",
        }
    }

    fn fields_of<'o>(object: &'o Value, manager: &str) -> Option<&'o Value> {
        let mut entries = object["metadata"]["managedFields"].as_array()?.iter();
        Some(&entries.find(|entry| entry["manager"] == manager)?["fieldsV1"])
    }

    #[test]
    fn who_changes_a_field_owns_it() {
        let kind = ObjectKind::PriorityClass;
        let mut first = json!({"metadata": {"name": "a", "labels": {"x": "1", "y": "1"}},
                               "value": 7, "description": "d"});
        update(kind.into(), &Value::Null, &mut first, write("one"));
        let mut second = first.clone();
        second["metadata"]["labels"] = json!({"x": "2"});
        second["globalDefault"] = json!(true);
        update(kind.into(), &first, &mut second, write("two"));
        assert_eq!(
            fields_of(&second, "one"),
            Some(&json!({"f:description": {}, "f:metadata": {"f:labels": {}}, "f:value": {}}))
        );
        assert_eq!(
            fields_of(&second, "two"),
            Some(&json!({"f:globalDefault": {}, "f:metadata": {"f:labels": {"f:x": {}}}}))
        );
    }

    #[test]
    fn containers_are_told_apart_by_name() {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {}}],
            "nodeSelector": {"a": "b"}, "volumes": [{"name": "v", "emptyDir": {}}],
        }});
        update(ObjectKind::Pod.into(), &Value::Null, &mut pod, write("one"));
        assert_eq!(
            fields_of(&pod, "one"),
            Some(&json!({"f:spec": {
                "f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:name": {}, "f:image": {}, "f:resources": {},
                }},
                "f:nodeSelector": {},
                "f:volumes": {".": {}, "k:{\"name\":\"v\"}": {
                    ".": {}, "f:name": {}, "f:emptyDir": {},
                }},
            }}))
        );
    }

    #[test]
    fn nothing_new_leaves_owners_and_times_alone() {
        let kind = ObjectKind::PriorityClass;
        let mut first = json!({"metadata": {"name": "a"}, "value": 7});
        update(kind.into(), &Value::Null, &mut first, write("one"));
        let mut same = json!({"metadata": {"name": "a"}, "value": 7});
        let later = Write {
            now: "2027-01-01T00:00:00Z",
            ..write("two")
        };
        update(kind.into(), &first, &mut same, later);
        assert_eq!(same, first);
    }
}
