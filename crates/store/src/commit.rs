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
use std::time::{Duration, Instant};

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
    /// How many commits wait for the disk.
    waiting: usize,
    /// Why nothing can be written.
    failure: Option<Failure>,
}

/// What the disk has not done.
struct Failure {
    error: DiskError,
    /// How many bytes it was to write.
    bytes: u64,
    /// When it may be tried again.
    again_at: Instant,
}

/// How long the disk is left alone after a failure, at least; and how many times as long as the
/// last attempt took.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_AFTER_TIMES: u32 = 10;

/// How much room there must be on a disk that was full, beside several times what is to be written:
/// otherwise it would be full again at once.
const ROOM_BYTES: u64 = 1 << 20;
const ROOM_TIMES: u64 = 4;

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
            waiting: 0,
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
    fn fail(&mut self, error: DiskError, batch: &[Prepared<T>]) {
        let encoded = batch.iter().flat_map(|one| &one.encoded);
        self.failure = Some(Failure {
            error,
            bytes: encoded.map(|bytes| bytes.len() as u64).sum(),
            again_at: Instant::now() + AGAIN_AFTER,
        });
        self.queue.clear();
        self.pending.clear();
    }

    /// Why nothing can be written.
    pub(crate) fn failure(&self) -> Option<&DiskError> {
        self.failure.as_ref().map(|failure| &failure.error)
    }
}

impl<T: Record> Inner<T> {
    pub(crate) fn commit(
        &self,
        operations: Vec<Operation<T>>,
    ) -> Result<Vec<Entry<T>>, CommitError> {
        let mut writer = lock(&self.writer);
        self.recover(&mut writer)?;
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
                writer.waiting += 1;
                let (mut writer, flushed) = self.flush_until(disk, writer, due);
                writer.waiting -= 1;
                drop(writer);
                flushed?;
                decided
            }
        }
    }

    /// Goes on after a full disk, if there is room again.
    ///
    /// # Errors
    ///
    /// If nothing can be written.
    fn recover(&self, writer: &mut Writer<T>) -> Result<(), DiskError> {
        let (Some(failure), Some(disk)) = (&mut writer.failure, &self.disk) else {
            return Ok(());
        };
        // Versions are given anew. So all who wait for one that will never be must have heard so.
        let may_try = failure.error.is_full && writer.waiting == 0;
        let started = Instant::now();
        if !may_try || started < failure.again_at {
            return Err(failure.error.clone());
        }
        let room = failure.bytes.saturating_mul(ROOM_TIMES);
        let opened = disk.open_again(room.saturating_add(ROOM_BYTES));
        let took = started.elapsed().saturating_mul(AGAIN_AFTER_TIMES);
        failure.again_at = Instant::now() + took.max(AGAIN_AFTER);
        let is_as_seen = opened.and_then(|version| match version == self.clock.version() {
            true => Ok(()),
            // It was written just before there was no room for what comes after it. Nobody was told
            // of it, and who follows the writes of this process would miss it.
            false => Err(DiskError {
                reason: "a write that was refused is on the disk".to_owned(),
                is_full: false,
                ..failure.error.clone()
            }),
        });
        if let Err(error) = is_as_seen {
            failure.error = error.clone();
            return Err(error);
        }
        writer.failure = None;
        writer.version = self.clock.version();
        writer.totals = self.count();
        Ok(())
    }

    /// How much there is that can be seen.
    fn count(&self) -> Totals {
        let mut totals = Totals::default();
        for resource in read(&self.resources).values() {
            for stored in read(&resource.state).objects.values() {
                totals.objects += 1;
                totals.bytes += stored.bytes as u64;
            }
        }
        totals
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
    ) -> (MutexGuard<'a, Writer<T>>, Result<(), DiskError>) {
        while self.clock.version() < due {
            if let Some(error) = writer.failure() {
                let error = error.clone();
                return (writer, Err(error));
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
        (writer, Ok(()))
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
                writer.fail(error, &batch);
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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeMap;

    use super::*;
    use crate::small_disk::{set_broken, set_writes_left};
    use crate::{ListQuery, Options, Range, Store};

    struct Text(String);

    impl Record for Text {
        fn to_bytes(&self) -> Cow<'_, [u8]> {
            self.0.as_bytes().into()
        }
        fn from_bytes(_: &Key, bytes: &[u8]) -> Result<Self, String> {
            String::from_utf8(bytes.to_vec())
                .map(Text)
                .map_err(|error| error.to_string())
        }
    }

    type Contents = BTreeMap<String, (u64, String)>;

    fn contents(store: &Store<Text>) -> Contents {
        let list = store.list(&Range::Resource("maps".into()), ListQuery::default());
        let entries = list.unwrap().entries.into_iter();
        entries
            .map(|it| (it.key.name.to_string(), (it.version, it.value.0.clone())))
            .collect()
    }

    fn write(store: &Store<Text>, name: &str, length: usize) -> Result<(), CommitError> {
        let key = Key::new("maps", "", name);
        let text = name.repeat(length);
        let operation = match store.get(&key) {
            Some(_) => Operation::update(key, None, |_| Text(text)),
            None => Operation::create(key, |_| Text(text)),
        };
        store.commit(vec![operation]).map(|_| ())
    }

    fn let_time_pass(store: &Store<Text>) {
        if let Some(failure) = &mut lock(&store.inner.writer).failure {
            failure.again_at = Instant::now();
        }
    }

    /// The disk is full at the first write of a commit, at the second, and so on.
    #[test]
    fn writing_goes_on_after_a_full_disk_and_nothing_is_lost_or_half() {
        let mut went_on = 0;
        for writes in 0.. {
            let directory = tempfile::tempdir().unwrap();
            let store: Store<Text> = Store::open(directory.path(), Options::default()).unwrap();
            for number in 0..30 {
                write(&store, &format!("m{number}"), 1_000).unwrap();
            }
            let before = (store.version(), contents(&store), store.usage());
            set_writes_left(Some(writes));
            let refused = write(&store, "m7", 50_000);
            let Err(CommitError::Io(error)) = refused else {
                assert!(writes > 3, "it takes some writes");
                break;
            };
            assert!(error.is_full, "{error}");
            assert_eq!(store.failure(), Some(error));
            let_time_pass(&store);
            assert!(write(&store, "more", 1).is_err(), "there is no room");
            assert_eq!(
                (store.version(), contents(&store)),
                (before.0, before.1.clone())
            );

            set_writes_left(None);
            let is_alone = write(&store, "more", 1);
            assert!(is_alone.is_err(), "it was tried just now");
            let_time_pass(&store);
            let mut expected = before.1;
            match write(&store, "more", 1) {
                Ok(()) => {
                    went_on += 1;
                    assert_eq!(store.failure(), None);
                    expected.insert("more".to_owned(), (before.0 + 1, "more".to_owned()));
                    assert_eq!(store.usage().objects, before.2.objects + 1);
                    assert_eq!(store.usage().bytes, before.2.bytes + 12);
                }
                Err(CommitError::Io(error)) => {
                    // The refused write is on the disk: it is told of once the store is opened.
                    assert!(!error.is_full, "{error}");
                    let text = "m7".repeat(50_000);
                    assert!(!contents(&store).values().any(|it| it.1 == text));
                    expected.insert("m7".to_owned(), (before.0 + 1, text));
                }
                Err(error) => panic!("{error}"),
            }
            drop(store);
            let store: Store<Text> = Store::open(directory.path(), Options::default()).unwrap();
            assert_eq!(contents(&store), expected, "full after {writes} writes");
        }
        set_writes_left(None);
        assert!(went_on > 3, "{went_on}");
    }

    #[test]
    fn a_flush_that_fails_is_not_forgiven() {
        let directory = tempfile::tempdir().unwrap();
        let store: Store<Text> = Store::open(directory.path(), Options::default()).unwrap();
        set_broken(true);
        let Err(CommitError::Io(error)) = write(&store, "a", 1) else {
            panic!("it is broken");
        };
        assert!(!error.is_full, "{error}");
        set_broken(false);
        let_time_pass(&store);
        assert_eq!(write(&store, "a", 1), Err(CommitError::Io(error.clone())));
        assert_eq!(store.failure(), Some(error));
    }
}
