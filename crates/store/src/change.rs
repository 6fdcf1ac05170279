//! One write as watches tell it: [`Change`].

use std::fmt;
use std::sync::Arc;

use crate::Key;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It did not exist before.
    Created,
    /// It was replaced.
    Updated,
    /// It does not exist any more.
    Deleted,
}

/// A write that was committed.
pub struct Change<T> {
    /// The version of the write, no other write has it.
    pub version: u64,
    /// Which object.
    pub key: Key,
    /// What happened to it.
    pub kind: ChangeKind,
    /// The object after the write; for a deletion its last state, as the deletion left it.
    pub value: Arc<T>,
    /// The object before the write, none if it was created. Who selects objects by what is in them
    /// needs it to tell whether an object has come into or gone out of sight.
    pub previous: Option<Arc<T>>,
}

impl<T> Clone for Change<T> {
    fn clone(&self) -> Self {
        Self {
            version: self.version,
            key: self.key.clone(),
            kind: self.kind,
            value: self.value.clone(),
            previous: self.previous.clone(),
        }
    }
}

/// Without the objects, which may be large and need not be `Debug`.
impl<T> fmt::Debug for Change<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} {}", self.version, self.kind, self.key)
    }
}
