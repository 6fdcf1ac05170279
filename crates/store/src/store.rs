//! The store itself: [`Store`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, RwLock};

use crate::clock::Clock;
use crate::history::Recorded;
use crate::interest::Interest;
use crate::lock::{lock, read, write};
use crate::prepare::{Basis, Totals, prepare};
use crate::resource::{Prepared, Resource};
use crate::{
    CommitError, Entry, Key, List, ListError, ListQuery, Operation, Options, Range, Record, Watch,
};

/// Objects by key, each with the version of its last write.
///
/// A handle: clones are the same store. It may be used from any number of threads. Only
/// [`commit`](Self::commit) may wait, for other writers and in a store on disk for the disk; nothing
/// needs an asynchronous runtime. When the last handle is dropped the store is closed, and its
/// watches end.
pub struct Store<T> {
    inner: Arc<Inner<T>>,
}

struct Inner<T> {
    options: Options,
    clock: Arc<Clock>,
    /// The version that the store began with: nothing is remembered of what was before.
    first_version: u64,
    resources: RwLock<BTreeMap<Arc<str>, Arc<Resource<T>>>>,
    writer: Mutex<Writer>,
}

/// What only the one who writes may touch.
struct Writer {
    /// The newest version that is decided.
    version: u64,
    totals: Totals,
    /// What the remembered changes of all resources count for.
    history_bytes: usize,
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
        let version = 1;
        Self {
            inner: Arc::new(Inner {
                options,
                clock: Arc::new(Clock::new(version)),
                first_version: version,
                resources: RwLock::new(BTreeMap::new()),
                writer: Mutex::new(Writer {
                    version,
                    totals: Totals::default(),
                    history_bytes: 0,
                }),
            }),
        }
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
            objects: writer.totals.objects,
            bytes: writer.totals.bytes,
            history_bytes: writer.history_bytes,
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
    /// # Errors
    ///
    /// If a condition does not hold, or a limit is reached. Nothing is written then.
    pub fn commit(&self, operations: Vec<Operation<T>>) -> Result<Vec<Entry<T>>, CommitError> {
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        let inner = &*self.inner;
        let mut writer = lock(&inner.writer);
        let (prepared, totals) = prepare(
            &Basis {
                version: writer.version,
                totals: writer.totals,
                current: &|key| inner.existing(&key.resource)?.get(key),
                options: &inner.options,
                encode: false,
            },
            operations,
        )?;
        let entries = prepared.iter().map(Prepared::entry).collect();
        writer.version += prepared.len() as u64;
        writer.totals = totals;
        let aftermath = inner.publish(&mut writer, prepared);
        drop(writer);
        aftermath.finish();
        Ok(entries)
    }
}

/// What is left to do once writers may go on.
struct Aftermath<T> {
    wake: Vec<Arc<Interest>>,
    /// Dropped without holding anyone up.
    forgotten: Vec<Recorded<T>>,
}

impl<T> Aftermath<T> {
    fn finish(self) {
        for interest in self.wake {
            interest.notify().notify_waiters();
        }
        drop(self.forgotten);
    }
}

impl<T> Inner<T> {
    fn existing(&self, resource: &str) -> Option<Arc<Resource<T>>> {
        read(&self.resources).get(resource).cloned()
    }

    fn resource(&self, name: &Arc<str>) -> Arc<Resource<T>> {
        if let Some(resource) = self.existing(name) {
            return resource;
        }
        let mut resources = write(&self.resources);
        let resource = resources
            .entry(name.clone())
            .or_insert_with(|| Arc::new(Resource::new(BTreeMap::new(), self.first_version)));
        resource.clone()
    }

    /// Makes writes visible, all at once. Their versions must follow that of the clock.
    fn publish(&self, writer: &mut Writer, batch: Vec<Prepared<T>>) -> Aftermath<T> {
        let mut aftermath = Aftermath {
            wake: Vec::new(),
            forgotten: Vec::new(),
        };
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
            return aftermath;
        };
        let (first, last) = (first.stored.version, last.stored.version);

        let (resources, places) = self.concerned(&batch);
        // Only this thread ever waits for a lock while it holds another one.
        let mut states: Vec<_> = resources.iter().map(|(_, one)| write(&one.state)).collect();
        for (prepared, place) in batch.into_iter().zip(places) {
            states[place].apply(prepared, first, &mut aftermath.wake);
        }
        self.clock.advance(last);

        for (state, (_, resource)) in states.iter_mut().zip(&resources) {
            while state.history.len() > self.options.history_changes {
                aftermath.forgotten.extend(state.forget_oldest());
            }
            writer.history_bytes -= resource.history_bytes();
            writer.history_bytes += state.history.bytes();
            resource.recount(state);
        }
        drop(states);
        self.limit_history_bytes(writer, &mut aftermath.forgotten);
        aftermath
    }

    /// The resources that writes concern, and for each write the place of its resource among them.
    #[expect(
        clippy::type_complexity,
        reason = "used once, and no clearer with a name"
    )]
    fn concerned(&self, batch: &[Prepared<T>]) -> (Vec<(Arc<str>, Arc<Resource<T>>)>, Vec<usize>) {
        let mut resources: Vec<(Arc<str>, Arc<Resource<T>>)> = Vec::with_capacity(1);
        let mut places = Vec::with_capacity(batch.len());
        for prepared in batch {
            let name = &prepared.key.resource;
            let known = resources.iter().position(|(known, _)| known == name);
            places.push(known.unwrap_or_else(|| {
                resources.push((name.clone(), self.resource(name)));
                resources.len() - 1
            }));
        }
        (resources, places)
    }

    /// Forgets changes until they are within the limit for all resources together.
    fn limit_history_bytes(&self, writer: &mut Writer, forgotten: &mut Vec<Recorded<T>>) {
        while writer.history_bytes > self.options.history_bytes {
            let largest = read(&self.resources)
                .values()
                .max_by_key(|resource| resource.history_bytes())
                .cloned();
            let Some(largest) = largest else { return };
            let mut state = write(&largest.state);
            while writer.history_bytes > self.options.history_bytes {
                let Some(oldest) = state.forget_oldest() else {
                    break;
                };
                writer.history_bytes -= oldest.bytes;
                forgotten.push(oldest);
            }
            largest.recount(&state);
        }
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
