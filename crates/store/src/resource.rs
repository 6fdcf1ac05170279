//! All that is known of one resource: its objects, its latest changes, and who watches them.
//!
//! Each resource has a lock of its own, so that a long list of pods holds up no lease.

use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use std::sync::Arc;

use crate::history::{CHANGE_BYTES, History, Recorded, Stored};
use crate::interest::{Interest, Interests};
use crate::lock::{read, write};
use crate::{Change, ChangeKind, Entry, Key, Range};

/// A write that is decided, and has its version, but is not to be seen yet.
pub(crate) struct Prepared<T> {
    pub(crate) key: Key,
    pub(crate) kind: ChangeKind,
    pub(crate) stored: Stored<T>,
    pub(crate) previous: Option<Stored<T>>,
    /// What is to be written to disk, if there is one and the object is not deleted.
    pub(crate) encoded: Option<Vec<u8>>,
}

impl<T> Prepared<T> {
    pub(crate) fn entry(&self) -> Entry<T> {
        Entry {
            key: self.key.clone(),
            value: self.stored.value.clone(),
            version: self.stored.version,
        }
    }

    /// What exists after the write.
    pub(crate) fn remains(&self) -> Option<&Stored<T>> {
        (self.kind != ChangeKind::Deleted).then_some(&self.stored)
    }
}

pub(crate) struct Resource<T> {
    pub(crate) state: RwLock<ResourceState<T>>,
    history_bytes: AtomicUsize,
}

pub(crate) struct ResourceState<T> {
    pub(crate) objects: BTreeMap<Key, Stored<T>>,
    pub(crate) history: History<T>,
    interests: Interests,
}

impl<T> Resource<T> {
    /// A resource of which nothing happened after version `floor`.
    pub(crate) fn new(objects: BTreeMap<Key, Stored<T>>, floor: u64) -> Self {
        Self {
            state: RwLock::new(ResourceState {
                objects,
                history: History::new(floor),
                interests: Interests::default(),
            }),
            history_bytes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Stored<T>> {
        read(&self.state).objects.get(key).cloned()
    }

    /// What the remembered changes count for.
    pub(crate) fn history_bytes(&self) -> usize {
        self.history_bytes.load(Ordering::Relaxed)
    }

    /// To be called when something was applied to or forgotten from `state`.
    pub(crate) fn recount(&self, state: &ResourceState<T>) {
        self.history_bytes
            .store(state.history.bytes(), Ordering::Relaxed);
    }

    pub(crate) fn leave(&self, range: &Range) {
        write(&self.state).interests.leave(range);
    }

    pub(crate) fn wake_all(&self) {
        read(&self.state).interests.wake_all();
    }
}

impl<T> ResourceState<T> {
    /// Makes a write visible and remembers it; `batch_start` is the version of the first write that
    /// becomes visible along with it. Adds to `wake` whom to wake.
    pub(crate) fn apply(
        &mut self,
        prepared: Prepared<T>,
        batch_start: u64,
        wake: &mut Vec<Arc<Interest>>,
    ) {
        match prepared.remains() {
            Some(stored) => {
                self.objects.insert(prepared.key.clone(), stored.clone());
            }
            None => {
                self.objects.remove(&prepared.key);
            }
        }
        let version = prepared.stored.version;
        self.interests
            .changed(&prepared.key, version, batch_start, wake);
        self.history.push(Recorded {
            bytes: prepared.stored.bytes + CHANGE_BYTES,
            change: Change {
                version,
                key: prepared.key,
                kind: prepared.kind,
                value: prepared.stored.value,
                previous: prepared
                    .previous
                    .as_ref()
                    .map(|previous| previous.value.clone()),
            },
            previous: prepared.previous,
        });
    }

    /// Forgets the oldest change.
    pub(crate) fn forget_oldest(&mut self) -> Option<Recorded<T>> {
        let oldest = self.history.pop_oldest()?;
        self.interests
            .forgotten(&oldest.change.key, oldest.change.version);
        Some(oldest)
    }

    /// The interest for a new watch of the changes of `range` after `after`, which must not be below
    /// the floor of the history.
    pub(crate) fn join(&mut self, range: &Range, after: u64) -> Arc<Interest> {
        let newest = match range {
            Range::Resource(_) => None,
            _ => self.history.newest_after(after, |key| range.contains(key)),
        };
        self.interests
            .join(range, self.history.floor(), newest.unwrap_or(0))
    }
}
