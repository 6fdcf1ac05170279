//! How writes are carried out, one after the other.
//!
//! A commit is decided under the writers' lock, in its own thread, and at once. In memory it is made
//! visible there and then. On disk it is queued, and of all who wait for the disk one takes the whole
//! queue and writes it as one transaction: while one flush is under way the next group gathers, so
//! many writers share the cost of few flushes. What is decided but not on the disk yet is `pending`:
//! later commits are judged by it, but no reader sees it.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, MutexGuard, PoisonError};

use crate::disk::Disk;
use crate::history::{Recorded, Stored};
use crate::interest::Interest;
use crate::lock::{lock, read, write};
use crate::prepare::{Basis, Totals, prepare};
use crate::resource::{Prepared, Resource};
use crate::store::Inner;
use crate::{CommitError, DiskError, Entry, Key, Operation, Record};

/// What only the one who writes may touch.
pub(crate) struct Writer<T> {
    /// The newest version that is decided.
    version: u64,
    totals: Totals,
    /// What the remembered changes of all resources count for.
    history_bytes: usize,
    /// The objects that `queue` or the flush under way write.
    pending: BTreeMap<Key, Pending<T>>,
    /// What the next flush will write.
    queue: Vec<Prepared<T>>,
    /// Whether someone is writing to the disk.
    flushing: bool,
    /// Why nothing can be written any more.
    failure: Option<DiskError>,
}

struct Pending<T> {
    version: u64,
    /// None if the object is deleted.
    remains: Option<Stored<T>>,
}

impl<T> Writer<T> {
    /// A writer that goes on from what is there.
    pub(crate) fn new(version: u64, totals: Totals) -> Self {
        Self {
            version,
            totals,
            history_bytes: 0,
            pending: BTreeMap::new(),
            queue: Vec::new(),
            flushing: false,
            failure: None,
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    pub(crate) fn history_bytes(&self) -> usize {
        self.history_bytes
    }

    /// Leaves `prepared` to the next flush.
    fn enqueue(&mut self, prepared: Vec<Prepared<T>>) {
        for one in &prepared {
            let pending = Pending {
                version: one.stored.version,
                remains: one.remains().cloned(),
            };
            self.pending.insert(one.key.clone(), pending);
        }
        self.queue.extend(prepared);
    }

    /// The writes of `batch` are on the disk.
    fn settle(&mut self, batch: &[Prepared<T>]) {
        for one in batch {
            let newest = self.pending.get(&one.key).map(|pending| pending.version);
            if newest == Some(one.stored.version) {
                self.pending.remove(&one.key);
            }
        }
    }

    /// Nothing can be written from now on.
    fn fail(&mut self, error: DiskError) {
        self.failure = Some(error);
        self.queue.clear();
        self.pending.clear();
    }
}

impl<T: Record> Inner<T> {
    pub(crate) fn commit(
        &self,
        operations: Vec<Operation<T>>,
    ) -> Result<Vec<Entry<T>>, CommitError> {
        let mut writer = lock(&self.writer);
        if let Some(failure) = &writer.failure {
            return Err(failure.clone().into());
        }
        let decided = self.decide(&mut writer, operations);
        match &self.disk {
            None => {
                let (entries, prepared) = decided?;
                let aftermath = self.publish(&mut writer, prepared);
                drop(writer);
                aftermath.finish();
                Ok(entries)
            }
            Some(disk) => {
                let decided = decided.map(|(entries, prepared)| {
                    writer.enqueue(prepared);
                    entries
                });
                // A refusal waits, too: it may be due to a write that is not on the disk yet, and
                // whoever is refused must be able to see why.
                let due = writer.version;
                self.flush_until(disk, writer, due)?;
                decided
            }
        }
    }

    /// Decides a commit, with new versions. What it writes must then be published, or queued.
    #[expect(
        clippy::type_complexity,
        reason = "used once, and no clearer with a name"
    )]
    fn decide(
        &self,
        writer: &mut Writer<T>,
        operations: Vec<Operation<T>>,
    ) -> Result<(Vec<Entry<T>>, Vec<Prepared<T>>), CommitError> {
        let basis = Basis {
            version: writer.version,
            totals: writer.totals,
            current: &|key| match writer.pending.get(key) {
                Some(pending) => pending.remains.clone(),
                None => self.existing(&key.resource)?.get(key),
            },
            options: &self.options,
            encode: self.disk.is_some(),
        };
        let (prepared, totals) = prepare(&basis, operations)?;
        let entries = prepared.iter().map(Prepared::entry).collect();
        writer.version += prepared.len() as u64;
        writer.totals = totals;
        Ok((entries, prepared))
    }

    /// Returns when all writes up to version `due` are on the disk and visible.
    fn flush_until<'a>(
        &'a self,
        disk: &Disk,
        mut writer: MutexGuard<'a, Writer<T>>,
        due: u64,
    ) -> Result<(), DiskError> {
        while self.clock.version() < due {
            if let Some(failure) = &writer.failure {
                return Err(failure.clone());
            }
            if writer.flushing {
                writer = self
                    .flushed
                    .wait(writer)
                    .unwrap_or_else(PoisonError::into_inner);
            } else {
                self.flush(disk, writer);
                writer = lock(&self.writer);
            }
        }
        Ok(())
    }

    /// Writes the queue to the disk, and makes it visible.
    fn flush(&self, disk: &Disk, mut writer: MutexGuard<'_, Writer<T>>) {
        writer.flushing = true;
        let batch = mem::take(&mut writer.queue);
        drop(writer);
        let written = disk.write(&batch);

        let mut writer = lock(&self.writer);
        writer.flushing = false;
        let aftermath = match written {
            Ok(()) => {
                writer.settle(&batch);
                Some(self.publish(&mut writer, batch))
            }
            Err(error) => {
                writer.fail(error);
                None
            }
        };
        drop(writer);
        self.flushed.notify_all();
        aftermath.into_iter().for_each(Aftermath::finish);
    }
}

impl<T> Inner<T> {
    /// Makes writes visible, all at once. Their versions must follow that of the clock.
    fn publish(&self, writer: &mut Writer<T>, batch: Vec<Prepared<T>>) -> Aftermath<T> {
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
    fn limit_history_bytes(&self, writer: &mut Writer<T>, forgotten: &mut Vec<Recorded<T>>) {
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
