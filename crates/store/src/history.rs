//! The changes of one resource that are remembered.

use std::collections::VecDeque;

use crate::{Change, Key};
use std::sync::Arc;

/// What a remembered change takes beside its object, as [`Options`](crate::Options) counts it: the
/// record itself, and names and reference counts behind its pointers.
pub(crate) const CHANGE_BYTES: usize = 300;

/// An object as it is kept in memory.
pub(crate) struct Stored<T> {
    pub(crate) value: Arc<T>,
    /// Of the write that made it.
    pub(crate) version: u64,
    /// What it counts for in the limits, key included.
    pub(crate) bytes: usize,
}

impl<T> Clone for Stored<T> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            version: self.version,
            bytes: self.bytes,
        }
    }
}

/// A change, and what is needed to go back behind it.
pub(crate) struct Recorded<T> {
    pub(crate) change: Change<T>,
    pub(crate) previous: Option<Stored<T>>,
    pub(crate) bytes: usize,
}

/// The newest changes of one resource, in the order of their versions.
pub(crate) struct History<T> {
    changes: VecDeque<Recorded<T>>,
    floor: u64,
    bytes: usize,
}

impl<T> History<T> {
    /// No change, and all changes after version `floor` will be remembered.
    pub(crate) fn new(floor: u64) -> Self {
        Self {
            changes: VecDeque::new(),
            floor,
            bytes: 0,
        }
    }

    /// The version after which no change is forgotten.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    pub(crate) fn len(&self) -> usize {
        self.changes.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, recorded: Recorded<T>) {
        self.bytes += recorded.bytes;
        self.changes.push_back(recorded);
    }

    /// Forgets the oldest change.
    pub(crate) fn pop_oldest(&mut self) -> Option<Recorded<T>> {
        let oldest = self.changes.pop_front()?;
        self.floor = oldest.change.version;
        self.bytes -= oldest.bytes;
        Some(oldest)
    }

    /// The changes with versions above `version`, oldest first.
    pub(crate) fn after(&self, version: u64) -> impl DoubleEndedIterator<Item = &Recorded<T>> {
        let first = self
            .changes
            .partition_point(|recorded| recorded.change.version <= version);
        self.changes.range(first..)
    }

    /// The version of the newest change after `version` of an object that `concerns` accepts.
    pub(crate) fn newest_after(
        &self,
        version: u64,
        concerns: impl Fn(&Key) -> bool,
    ) -> Option<u64> {
        self.after(version)
            .rev()
            .find(|recorded| concerns(&recorded.change.key))
            .map(|recorded| recorded.change.version)
    }
}
