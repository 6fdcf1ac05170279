//! Which object is meant: [`Key`], and which objects: [`Range`].

use std::fmt;
use std::sync::Arc;

/// Names one object: its resource, its namespace and its own name.
///
/// Keys order by resource, then namespace, then name, each byte by byte. That is the order of
/// [`Store::list`](crate::Store::list). Cloning costs three reference counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Resource with its API group, as `kubectl` writes it: `pods`, `deployments.apps`. The store
    /// does not look into it; versions of a group share one.
    pub resource: Arc<str>,
    /// Namespace, empty for objects that live in none.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl Key {
    /// The key of the object `name` in `namespace` (empty: none) among `resource`.
    pub fn new(
        resource: impl Into<Arc<str>>,
        namespace: impl Into<Arc<str>>,
        name: impl Into<Arc<str>>,
    ) -> Self {
        Self {
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// `pods default/web-0`, `nodes worker-1`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.resource, self.name)
        } else {
            write!(f, "{} {}/{}", self.resource, self.namespace, self.name)
        }
    }
}

/// The objects that a list or a watch is about. All are of one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Range {
    /// All objects of a resource, in all namespaces.
    Resource(Arc<str>),
    /// The objects of a resource (first) in one namespace (second).
    Namespace(Arc<str>, Arc<str>),
    /// One object, whether it exists or not.
    Object(Key),
}

impl Range {
    /// The resource that all objects of the range are of.
    pub fn resource(&self) -> &Arc<str> {
        match self {
            Self::Resource(resource) | Self::Namespace(resource, _) => resource,
            Self::Object(key) => &key.resource,
        }
    }

    /// Whether the object `key` is of the range.
    pub fn contains(&self, key: &Key) -> bool {
        match self {
            Self::Resource(resource) => *resource == key.resource,
            Self::Namespace(resource, namespace) => {
                *namespace == key.namespace && *resource == key.resource
            }
            Self::Object(one) => one == key,
        }
    }

    /// The first key that can be of the range; those of the range follow without a gap.
    pub(crate) fn start(&self) -> Key {
        match self {
            Self::Resource(resource) => Key::new(resource.clone(), "", ""),
            Self::Namespace(resource, namespace) => {
                Key::new(resource.clone(), namespace.clone(), "")
            }
            Self::Object(key) => key.clone(),
        }
    }
}
