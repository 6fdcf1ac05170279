//! What of an object a request can own.

use crate::resource_type::ResourceType;

use super::field_set::FieldSet;
use super::shape::Shape;

/// The objects of a type, as a request through a subresource sees them.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'s> {
    pub(crate) resource: &'s ResourceType,
    pub(crate) subresource: &'s str,
}

/// What clients do not own of the metadata, whoever wrote it (`stripmeta.go`).
const NEVER_OWNED: [&str; 8] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

impl<'s> Scope<'s> {
    pub(crate) fn shape(self) -> Shape<'s> {
        Shape::of(self.resource)
    }

    /// Whether a field of the object is written by nobody (`apiVersion`), or put back by the
    /// server whatever this request says: the status by requests to the object, the rest by
    /// those to the status (`GetResetFields` of upstream's strategies).
    pub(crate) fn excludes(self, name: &str) -> bool {
        match (self.subresource, name) {
            (_, "apiVersion" | "kind") => true,
            ("", "status") => self.resource.has_subresource("status"),
            ("status", "spec") => true,
            ("status", "metadata") => {
                self.resource.type_name.is_none()
                    || matches!(
                        self.resource.kind.as_str(),
                        "CustomResourceDefinition" | "ResourceClaim"
                    )
            }
            _ => false,
        }
    }

    /// The same for fields of the metadata.
    pub(crate) fn excludes_of_metadata(self, name: &str) -> bool {
        if NEVER_OWNED.contains(&name) {
            return true;
        }
        match (self.subresource, self.resource.kind.as_str()) {
            ("status", "Deployment") => name == "labels",
            ("status", "Pod") => matches!(name, "deletionTimestamp" | "ownerReferences"),
            _ => false,
        }
    }

    /// Takes out of a set what this request cannot own.
    pub(crate) fn restrict(self, set: &mut FieldSet) {
        for name in ["apiVersion", "kind", "status", "spec", "metadata"] {
            if self.excludes(name) {
                set.remove_all(&[&format!("f:{name}")]);
            }
        }
        let of_metadata =
            NEVER_OWNED
                .into_iter()
                .chain(["labels", "deletionTimestamp", "ownerReferences"]);
        for name in of_metadata.filter(|name| self.excludes_of_metadata(name)) {
            set.remove_all(&["f:metadata", &format!("f:{name}")]);
        }
        set.remove(&["f:metadata"]);
    }
}
