//! How many commits a store takes a second, in memory and on disk, beside what it is made of.
//!
//! ```console
//! $ cargo run --release -p outrank-store --example commits [DIRECTORY]
//! ```
//!
//! DIRECTORY should be on the disk that is meant; without one, only memory is tried.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outrank_store::{Key, ListQuery, Operation, Options, Range, Record, Store};
use redb::{Database, TableDefinition};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// As large as a small pod.
const OBJECT_BYTES: usize = 3000;
const KEYS: u64 = 10_000;

struct Bytes(Arc<[u8]>);

impl Record for Bytes {
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        (&*self.0).into()
    }

    fn from_bytes(_: &Key, bytes: &[u8]) -> Result<Self, String> {
        Ok(Self(bytes.into()))
    }
}

fn main() -> Outcome<()> {
    in_memory()?;
    if let Some(parent) = std::env::args_os().nth(1) {
        let directory = tempfile::tempdir_in(parent)?;
        on_disk(directory.path())?;
        large(directory.path())?;
    }
    Ok(())
}

fn report(what: &str, count: u64, took: Duration) {
    let each = took.as_secs_f64() / count as f64;
    println!("{what:58} {:>11.0}/s {:>10.2} us", 1.0 / each, each * 1e6);
}

fn pod(number: u64) -> Key {
    Key::new("pods", "default", format!("pod-{number:06}"))
}

fn in_memory() -> Outcome<()> {
    println!("In memory, {KEYS} objects");
    let count = 300_000;
    let keys: Vec<Key> = (0..KEYS).map(pod).collect();
    let bytes: Arc<[u8]> = vec![0; OBJECT_BYTES].into();

    let map = Mutex::new(BTreeMap::new());
    let started = Instant::now();
    for number in 0..count {
        let key = &keys[(number * 7919 % KEYS) as usize];
        let value = Arc::new(Bytes(bytes.clone()));
        if let Ok(mut map) = map.lock() {
            map.insert(key.clone(), value);
        }
    }
    report("a map behind a lock (yardstick)", count, started.elapsed());

    for threads in [1, 8] {
        let store: Store<Bytes> = Store::in_memory(Options::default());
        create(&store, &keys, &bytes)?;
        let what = format!("updates, {threads} threads");
        report(&what, count, update(&store, &keys, &bytes, threads, count)?);
        if threads == 1 {
            let mut watch =
                store.watch(&Range::Resource("pods".into()), store.version() - 50_000)?;
            let started = Instant::now();
            let mut seen = 0;
            while watch.position() < store.version() {
                seen += watch.next_batch(1000)?.len() as u64;
            }
            report("changes handed out to a watch", seen, started.elapsed());
        }
    }
    Ok(())
}

fn create(store: &Store<Bytes>, keys: &[Key], bytes: &Arc<[u8]>) -> Outcome<()> {
    let create = |key: &Key| {
        let bytes = bytes.clone();
        Operation::create(key.clone(), |_| Bytes(bytes))
    };
    for keys in keys.chunks(1000) {
        store.commit(keys.iter().map(create).collect())?;
    }
    Ok(())
}

/// Updates objects under the condition that nobody else does, each thread its own.
fn update(
    store: &Store<Bytes>,
    keys: &[Key],
    bytes: &Arc<[u8]>,
    threads: u64,
    count: u64,
) -> Outcome<Duration> {
    let one = |thread: u64| -> Result<(), String> {
        for number in 0..count / threads {
            let place = number * 7919 % (KEYS / threads) * threads + thread;
            let key = &keys[place as usize];
            let expected = store.get(key).map(|entry| entry.version);
            let bytes = bytes.clone();
            let operation = Operation::update(key.clone(), expected, |_| Bytes(bytes));
            store
                .commit(vec![operation])
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || one(thread)))
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(_) => Err("a thread has panicked".to_owned()),
            })
    })?;
    Ok(started.elapsed())
}

fn on_disk(directory: &Path) -> Outcome<()> {
    println!("On disk, {KEYS} objects of {OBJECT_BYTES} bytes");
    let count = 300;
    let keys: Vec<Key> = (0..KEYS).map(pod).collect();
    let bytes: Arc<[u8]> = vec![7; OBJECT_BYTES].into();

    let mut file = File::create(directory.join("file"))?;
    file.write_all(&vec![0; 1 << 20])?;
    let started = Instant::now();
    for _ in 0..count {
        file.rewind()?;
        file.write_all(&bytes)?;
        file.sync_data()?;
    }
    report(
        "the disk: a write and a flush (yardstick)",
        count,
        started.elapsed(),
    );

    for (steps, two_steps) in [("one step", false), ("two steps", true)] {
        let took = plain_database(directory, &bytes, two_steps, count)?;
        let what = format!("redb, a transaction each, {steps} (yardstick)");
        report(&what, count, took);
    }

    let store: Store<Bytes> = Store::open(&directory.join("store"), Options::default())?;
    create(&store, &keys, &bytes)?;
    for threads in [1, 8, 64] {
        let count = count * threads.min(16);
        let what = format!("updates, {threads} threads");
        report(&what, count, update(&store, &keys, &bytes, threads, count)?);
    }
    Ok(())
}

fn plain_database(
    directory: &Path,
    bytes: &[u8],
    two_steps: bool,
    count: u64,
) -> Outcome<Duration> {
    const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("objects");
    let database = Database::create(directory.join(format!("plain-{two_steps}")))?;
    let transaction = database.begin_write()?;
    let mut table = transaction.open_table(TABLE)?;
    for number in 0..KEYS {
        table.insert(number, bytes)?;
    }
    drop(table);
    transaction.commit()?;
    let started = Instant::now();
    for number in 0..count {
        let mut transaction = database.begin_write()?;
        transaction.set_two_phase_commit(two_steps);
        transaction
            .open_table(TABLE)?
            .insert(number * 7919 % KEYS, bytes)?;
        transaction.commit()?;
    }
    Ok(started.elapsed())
}

fn large(directory: &Path) -> Outcome<()> {
    println!("50,000 objects of {OBJECT_BYTES} bytes");
    let path = directory.join("large");
    let keys: Vec<Key> = (0..50_000).map(pod).collect();
    let store: Store<Bytes> = Store::open(&path, Options::default())?;
    let started = Instant::now();
    create(&store, &keys, &vec![7; OBJECT_BYTES].into())?;
    println!("written in {:?}", started.elapsed());
    let started = Instant::now();
    drop(store);
    println!("closed in {:?}", started.elapsed());
    let started = Instant::now();
    let store: Store<Bytes> = Store::open(&path, Options::default())?;
    println!(
        "opened, all compared with its checksums, in {:?}",
        started.elapsed()
    );
    let started = Instant::now();
    let list = store.list(&Range::Resource("pods".into()), ListQuery::default())?;
    println!("{} listed in {:?}", list.entries.len(), started.elapsed());
    Ok(())
}
