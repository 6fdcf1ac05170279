//! What a commit may consist of: [`Operation`].

use std::fmt;

use crate::Key;

/// Makes the object to be stored, given the version that the write gets.
///
/// An API server writes that version into the object, as its `metadata.resourceVersion`. It is
/// called while writers are held up, so it should do no more than that, and it must not write to
/// the store. If it panics the panic reaches whoever called
/// [`Store::commit`](crate::Store::commit), and nothing is written.
pub type Make<T> = Box<dyn FnOnce(u64) -> T + Send>;

/// A write to one object.
pub enum Operation<T> {
    /// The object must not exist, and will.
    Create {
        /// Which object.
        key: Key,
        /// Makes it.
        make: Make<T>,
    },
    /// The object must exist, and is replaced.
    Update {
        /// Which object.
        key: Key,
        /// The version that it must have; none: any.
        expected: Option<u64>,
        /// Makes what replaces it.
        make: Make<T>,
    },
    /// The object must exist, and will not.
    Delete {
        /// Which object.
        key: Key,
        /// The version that it must have; none: any.
        expected: Option<u64>,
        /// Makes the last state that watches see of it; without it, they see the object as it was.
        make: Option<Make<T>>,
    },
}

impl<T> Operation<T> {
    /// Creates the object `key`.
    pub fn create(key: Key, make: impl FnOnce(u64) -> T + Send + 'static) -> Self {
        Self::Create {
            key,
            make: Box::new(make),
        }
    }

    /// Replaces the object `key`, if it has version `expected`, where one is given.
    pub fn update(
        key: Key,
        expected: Option<u64>,
        make: impl FnOnce(u64) -> T + Send + 'static,
    ) -> Self {
        Self::Update {
            key,
            expected,
            make: Box::new(make),
        }
    }

    /// Deletes the object `key`, if it has version `expected`, where one is given. Watches see the
    /// object as it was.
    pub fn delete(key: Key, expected: Option<u64>) -> Self {
        Self::Delete {
            key,
            expected,
            make: None,
        }
    }

    /// The object that is written.
    pub fn key(&self) -> &Key {
        match self {
            Self::Create { key, .. } | Self::Update { key, .. } | Self::Delete { key, .. } => key,
        }
    }
}

impl<T> fmt::Debug for Operation<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { key, .. } => write!(f, "create {key}"),
            Self::Update { key, expected, .. } => write!(f, "update {key} at {expected:?}"),
            Self::Delete { key, expected, .. } => write!(f, "delete {key} at {expected:?}"),
        }
    }
}
