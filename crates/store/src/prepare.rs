//! Decides what a commit writes, before anything is written.
//!
//! Conditions are judged against what is committed, what is decided but not on the disk yet, and the
//! operations before in the same commit, in this order of age. Nothing is changed unless all of them
//! hold, so a refusal (or a panic in a caller's closure) leaves no trace.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Limit;
use crate::history::Stored;
use crate::resource::Prepared;
use crate::{ChangeKind, CommitError, Key, Operation, Options, Record};

/// How much there is, with everything that is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) objects: usize,
    pub(crate) bytes: u64,
}

impl Totals {
    fn after<T>(self, prepared: &Prepared<T>) -> Self {
        let mut totals = self;
        if let Some(previous) = &prepared.previous {
            totals.objects -= 1;
            totals.bytes -= previous.bytes as u64;
        }
        if let Some(stored) = prepared.remains() {
            totals.objects += 1;
            totals.bytes += stored.bytes as u64;
        }
        totals
    }

    /// The limit that is exceeded, if it is so by more than it was at `before`.
    fn exceeds(self, before: Self, options: &Options) -> Option<Limit> {
        if self.objects > options.max_objects && self.objects > before.objects {
            Some(Limit::Objects(options.max_objects))
        } else if self.bytes > options.max_bytes && self.bytes > before.bytes {
            Some(Limit::Bytes(options.max_bytes))
        } else {
            None
        }
    }
}

/// What commits are decided on.
pub(crate) struct Basis<'a, T> {
    /// The newest version that is decided.
    pub(crate) version: u64,
    pub(crate) totals: Totals,
    /// An object with everything that is decided.
    pub(crate) current: &'a dyn Fn(&Key) -> Option<Stored<T>>,
    pub(crate) options: &'a Options,
    /// Whether there is a disk to write to.
    pub(crate) encode: bool,
}

/// The writes of a commit, with consecutive versions, and what there is after them.
pub(crate) fn prepare<T: Record>(
    basis: &Basis<'_, T>,
    operations: Vec<Operation<T>>,
) -> Result<(Vec<Prepared<T>>, Totals), CommitError> {
    let mut totals = basis.totals;
    let mut decided: Vec<Prepared<T>> = Vec::with_capacity(operations.len());
    let mut places: BTreeMap<Key, usize> = BTreeMap::new();
    let several = operations.len() > 1;
    for (index, operation) in operations.into_iter().enumerate() {
        let key = operation.key();
        let current = match places.get(key) {
            Some(place) => decided[*place].remains().cloned(),
            None => (basis.current)(key),
        };
        if several {
            places.insert(key.clone(), index);
        }
        let version = basis.version + 1 + index as u64;
        let prepared = prepare_one(basis, index, operation, current, version)?;
        let after = totals.after(&prepared);
        if let Some(limit) = after.exceeds(totals, basis.options) {
            let key = prepared.key;
            return Err(CommitError::Full { index, key, limit });
        }
        totals = after;
        decided.push(prepared);
    }
    Ok((decided, totals))
}

fn prepare_one<T: Record>(
    basis: &Basis<'_, T>,
    index: usize,
    operation: Operation<T>,
    current: Option<Stored<T>>,
    version: u64,
) -> Result<Prepared<T>, CommitError> {
    let (key, kind, value) = match operation {
        Operation::Create { key, make } => {
            if current.is_some() {
                return Err(CommitError::Exists { index, key });
            }
            (key, ChangeKind::Created, Arc::new(make(version)))
        }
        Operation::Update {
            key,
            expected,
            make,
        } => {
            let (key, _) = demand(index, key, expected, &current)?;
            (key, ChangeKind::Updated, Arc::new(make(version)))
        }
        Operation::Delete {
            key,
            expected,
            make,
        } => {
            let (key, last) = demand(index, key, expected, &current)?;
            let value = match make {
                Some(make) => Arc::new(make(version)),
                None => last.value.clone(),
            };
            (key, ChangeKind::Deleted, value)
        }
    };
    let encoded =
        (basis.encode && kind != ChangeKind::Deleted).then(|| value.to_bytes().into_owned());
    let value_bytes = match &encoded {
        Some(encoded) => encoded.len(),
        None => value.size_bytes(),
    };
    let most = basis.options.max_object_bytes;
    if value_bytes > most && kind != ChangeKind::Deleted {
        let limit = Limit::ObjectBytes(most);
        return Err(CommitError::Full { index, key, limit });
    }
    let stored = Stored {
        value,
        version,
        bytes: value_bytes + key_bytes(&key),
    };
    Ok(Prepared {
        key,
        kind,
        stored,
        previous: current,
        encoded,
    })
}

/// The object, which must exist, and have the version `expected` if there is one.
fn demand<T>(
    index: usize,
    key: Key,
    expected: Option<u64>,
    current: &Option<Stored<T>>,
) -> Result<(Key, &Stored<T>), CommitError> {
    let Some(current) = current else {
        return Err(CommitError::NotFound { index, key });
    };
    if expected.is_some_and(|expected| expected != current.version) {
        let actual = current.version;
        return Err(CommitError::Conflict { index, key, actual });
    }
    Ok((key, current))
}

/// What a key counts for.
pub(crate) fn key_bytes(key: &Key) -> usize {
    key.resource.len() + key.namespace.len() + key.name.len()
}
