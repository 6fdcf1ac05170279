//! The store itself: [`Store`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, RwLock};

use crate::clock::Clock;
use crate::commit::Writer;
use crate::disk::Disk;
use crate::history::Stored;
use crate::lock::{lock, read, write};
use crate::prepare::{Totals, key_bytes};
use crate::resource::Resource;
use crate::{
    CommitError, DiskError, Entry, Key, List, ListError, ListQuery, OpenError, Operation, Options,
    Range, Record, Watch,
};

/// Objects by key, each with the version of its last write.
///
/// A handle: clones are the same store. It may be used from any number of threads. Only
/// [`commit`](Self::commit) may wait, for other writers and in a store on disk for the disk; nothing
/// needs an asynchronous runtime. When the last handle is dropped the store is closed, and its
/// watches end.
pub struct Store<T> {
    pub(crate) inner: Arc<Inner<T>>,
}

/// What all handles of a store share.
pub(crate) struct Inner<T> {
    pub(crate) options: Options,
    pub(crate) clock: Arc<Clock>,
    /// The version that the store began with: nothing is remembered of what was before.
    first_version: u64,
    pub(crate) resources: RwLock<BTreeMap<Arc<str>, Arc<Resource<T>>>>,
    pub(crate) writer: Mutex<Writer<T>>,
    pub(crate) disk: Option<Disk>,
    /// A flush is over. Goes with `writer`.
    pub(crate) flushed: Condvar,
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Objects that exist.
    pub objects: usize,
    /// What they count for, see [`Options::max_bytes`].
    pub bytes: u64,
    /// What the remembered changes count for, see [`Options::history_bytes`].
    pub history_bytes: usize,
}

impl<T: Record> Store<T> {
    /// A new store, empty and at version 1. It is gone when the process ends.
    pub fn in_memory(options: Options) -> Self {
        Self::new(options, 1, Loaded::default(), None)
    }

    /// The store in `directory`; a new one if there is none. All that was acknowledged is there,
    /// however the process before ended, and versions go on. What happened before is not remembered:
    /// watches and lists of the past are possible from the version that the store begins with.
    ///
    /// Reads and checks all that there is, and holds it in memory. Limits in `options` do not keep
    /// a store from being opened. Files are made for their owner alone to read.
    ///
    /// # Errors
    ///
    /// If the directory is in use, if files cannot be read and written, or if what is in them is
    /// not right in all parts. Then nothing of it is changed.
    pub fn open(directory: &Path, options: Options) -> Result<Self, OpenError> {
        let mut loaded = Loaded::default();
        let (disk, version) = Disk::open(directory, &mut |key, version, bytes| {
            let value = match T::from_bytes(&key, bytes) {
                Ok(value) => Arc::new(value),
                Err(reason) => return Err((key, reason)),
            };
            let bytes = bytes.len() + key_bytes(&key);
            loaded.add(
                key,
                Stored {
                    value,
                    version,
                    bytes,
                },
            );
            Ok(())
        })?;
        Ok(Self::new(options, version, loaded, Some(disk)))
    }

    fn new(options: Options, version: u64, loaded: Loaded<T>, disk: Option<Disk>) -> Self {
        let resources = loaded.resources.into_iter();
        let resources = resources
            .map(|(name, objects)| (name, Arc::new(Resource::new(objects, version))))
            .collect();
        Self {
            inner: Arc::new(Inner {
                options,
                clock: Arc::new(Clock::new(version)),
                first_version: version,
                resources: RwLock::new(resources),
                writer: Mutex::new(Writer::new(version, loaded.totals)),
                disk,
                flushed: Condvar::new(),
            }),
        }
    }

    /// Whether the store is on disk, so that [`commit`](Self::commit) waits for it.
    pub fn is_durable(&self) -> bool {
        self.inner.disk.is_some()
    }

    /// Why nothing can be written now, if that is so: the disk has failed, or is full. Whether a full
    /// disk has room again is seen by the next [`commit`](Self::commit).
    pub fn failure(&self) -> Option<DiskError> {
        lock(&self.inner.writer).failure().cloned()
    }

    /// The version of the newest write that is committed; 1 in a new store. All resources share one
    /// count, and each write has a version of its own. A store on disk goes on counting where it
    /// stopped.
    pub fn version(&self) -> u64 {
        self.inner.clock.version()
    }

    /// How much there is.
    pub fn usage(&self) -> Usage {
        let writer = lock(&self.inner.writer);
        Usage {
            objects: writer.totals().objects,
            bytes: writer.totals().bytes,
            history_bytes: writer.history_bytes(),
        }
    }

    /// The resources that were ever written to or watched, in order, with the number of objects of
    /// each.
    pub fn resources(&self) -> Vec<(Arc<str>, usize)> {
        let resources = read(&self.inner.resources);
        let count = |resource: &Resource<T>| read(&resource.state).objects.len();
        resources
            .iter()
            .map(|(name, resource)| (name.clone(), count(resource)))
            .collect()
    }

    /// The object `key` as it is now, if it exists.
    pub fn get(&self, key: &Key) -> Option<Entry<T>> {
        let stored = self.inner.existing(&key.resource)?.get(key)?;
        Some(Entry {
            key: key.clone(),
            value: stored.value,
            version: stored.version,
        })
    }

    /// The objects of `range`, all or the part that `query` asks for, now or as they were.
    ///
    /// Takes time for the objects that are returned and that remain after a limit, and for the
    /// changes since the version asked for. Writes to the same resource wait meanwhile: about a
    /// millisecond for ten thousand objects.
    ///
    /// # Errors
    ///
    /// If the version asked for is before what is remembered of the resource, or does not exist yet.
    pub fn list(&self, range: &Range, query: ListQuery) -> Result<List<T>, ListError> {
        // Read before looking for the resource: one that is made afterwards has newer writes only.
        let newest = self.version();
        let Some(resource) = self.inner.existing(range.resource()) else {
            let at = query.at.unwrap_or(newest);
            demand_within(self.inner.first_version, at, newest)?;
            return Ok(List {
                entries: Vec::new(),
                version: at,
                more: None,
            });
        };
        let state = read(&resource.state);
        let newest = self.version();
        let at = query.at.unwrap_or(newest);
        demand_within(state.history.floor(), at, newest)?;
        Ok(state.list(range, &query, at))
    }

    /// The changes of `range` with versions above `after`: those that have happened, then those that
    /// will.
    ///
    /// # Errors
    ///
    /// If not all changes of the resource after that version are remembered, or there is no such
    /// version yet.
    pub fn watch(&self, range: &Range, after: u64) -> Result<Watch<T>, ListError> {
        let inner = &self.inner;
        let resource = inner.resource(range.resource());
        let interest = {
            let mut state = write(&resource.state);
            demand_within(state.history.floor(), after, self.version())?;
            state.join(range, after)
        };
        let clock = inner.clock.clone();
        Ok(Watch::new(range.clone(), after, resource, interest, clock))
    }

    /// The objects of `range` as they are now, and all changes that follow.
    pub fn list_and_watch(&self, range: &Range) -> (List<T>, Watch<T>) {
        let inner = &self.inner;
        let resource = inner.resource(range.resource());
        // The interest is there before the list is made, so that no change falls between.
        let interest = write(&resource.state).join(range, self.version());
        let clock = inner.clock.clone();
        let mut watch = Watch::new(range.clone(), 0, resource.clone(), interest, clock);
        let state = read(&resource.state);
        let list = state.list(range, &ListQuery::default(), self.version());
        watch.start_at(list.version);
        (list, watch)
    }

    /// Carries out `operations`, all or none of them, and returns what each wrote, in order.
    ///
    /// Each operation finds what those before it have done, and gets the next version. Nobody sees
    /// some of them without the others. For a deletion the entry has the last state of the object
    /// and the version of the deletion. Without operations nothing happens.
    ///
    /// In a store on disk it returns when the writes are on the disk, which takes as long as the disk
    /// takes; many threads that commit at the same time share that. Nobody sees the writes before. In
    /// asynchronous code, call it where blocking is allowed.
    ///
    /// # Errors
    ///
    /// If a condition does not hold, or a limit is reached: then nothing is written. If the disk
    /// fails: then nothing is visible, but what is on the disk is not known, and nothing more can be
    /// written until the store is opened again; reading goes on. If the disk is full: the same, but
    /// once there is room a later commit finds out what is on the disk, and goes on if that is what is
    /// visible.
    pub fn commit(&self, operations: Vec<Operation<T>>) -> Result<Vec<Entry<T>>, CommitError> {
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        self.inner.commit(operations)
    }
}

impl<T> Inner<T> {
    pub(crate) fn existing(&self, resource: &str) -> Option<Arc<Resource<T>>> {
        read(&self.resources).get(resource).cloned()
    }

    pub(crate) fn resource(&self, name: &Arc<str>) -> Arc<Resource<T>> {
        if let Some(resource) = self.existing(name) {
            return resource;
        }
        let mut resources = write(&self.resources);
        let resource = resources
            .entry(name.clone())
            .or_insert_with(|| Arc::new(Resource::new(BTreeMap::new(), self.first_version)));
        resource.clone()
    }
}

/// What was found on disk.
struct Loaded<T> {
    resources: BTreeMap<Arc<str>, BTreeMap<Key, Stored<T>>>,
    totals: Totals,
    /// Of the last object, as the next one is likely to have the same.
    resource: Arc<str>,
    namespace: Arc<str>,
}

impl<T> Default for Loaded<T> {
    fn default() -> Self {
        Self {
            resources: BTreeMap::new(),
            totals: Totals::default(),
            resource: "".into(),
            namespace: "".into(),
        }
    }
}

impl<T> Loaded<T> {
    fn add(&mut self, mut key: Key, stored: Stored<T>) {
        share(&mut key.resource, &mut self.resource);
        share(&mut key.namespace, &mut self.namespace);
        self.totals.objects += 1;
        self.totals.bytes += stored.bytes as u64;
        let objects = self.resources.entry(key.resource.clone()).or_default();
        objects.insert(key, stored);
    }
}

/// Makes equal texts one.
fn share(text: &mut Arc<str>, last: &mut Arc<str>) {
    if text == last {
        *text = last.clone();
    } else {
        *last = text.clone();
    }
}

impl<T> Drop for Inner<T> {
    fn drop(&mut self) {
        self.clock.close();
        read(&self.resources)
            .values()
            .for_each(|resource| resource.wake_all());
    }
}

impl<T> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<T> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("version", &self.inner.clock.version())
            .finish_non_exhaustive()
    }
}

/// Whether one can go back to version `at`.
fn demand_within(oldest: u64, at: u64, newest: u64) -> Result<(), ListError> {
    if at < oldest {
        Err(ListError::Gone { oldest })
    } else if at > newest {
        Err(ListError::Future { newest })
    } else {
        Ok(())
    }
}
