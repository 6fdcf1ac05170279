//! Many threads at once: no write is lost, and every watch sees every change once, in order.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{Note, Random, seed};
use outrank_store::{
    ChangeKind, Closed, CommitError, Key, ListQuery, Operation, Options, Range, Store, Watch,
};

const COUNTERS: u64 = 6;

fn counter(number: u64) -> Key {
    let namespace = if number.is_multiple_of(2) {
        "even"
    } else {
        "odd"
    };
    Key::new("counters", namespace, number.to_string())
}

fn create_counters(store: &Store<Note>) {
    let create = |number| Operation::create(counter(number), |_| Note::new(0));
    store.commit((0..COUNTERS).map(create).collect()).unwrap();
}

/// Adds one to a counter, however often others come first. Returns how often they did.
fn increment(store: &Store<Note>, key: &Key) -> usize {
    let mut conflicts = 0;
    loop {
        let entry = store.get(key).unwrap();
        let next = entry.value.number + 1;
        let operation =
            Operation::update(key.clone(), Some(entry.version), move |_| Note::new(next));
        match store.commit(vec![operation]) {
            Ok(_) => return conflicts,
            Err(CommitError::Conflict { .. }) => conflicts += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Counts along with the counters until the store is closed; returns how often.
fn follow(mut watch: Watch<Note>) -> usize {
    let mut last = watch.position();
    let mut counts = BTreeMap::new();
    let mut seen = 0;
    while watch
        .wait_blocking(Duration::from_secs(60))
        .is_ok_and(|more| {
            assert!(more, "nothing has happened for a minute");
            more
        })
    {
        for change in watch.next_batch(7).unwrap() {
            assert!(change.version > last, "{change:?} after {last}");
            assert!(watch.range().contains(&change.key));
            assert_eq!(change.kind, ChangeKind::Updated);
            let previous = change.previous.unwrap().number;
            assert_eq!(change.value.number, previous + 1);
            assert_eq!(*counts.get(&change.key).unwrap_or(&0), previous);
            counts.insert(change.key, change.value.number);
            last = change.version;
            seen += 1;
        }
    }
    seen
}

fn count_in_parallel(store: Store<Note>, threads: u64, rounds: u64) {
    let seed = seed();
    create_counters(&store);
    let start = store.version();
    let all = Range::Resource("counters".into());
    let even = Range::Namespace("counters".into(), "even".into());
    let first = Range::Object(counter(0));
    let watch = |range: &Range| {
        let watch = store.watch(range, start).unwrap();
        thread::spawn(move || follow(watch))
    };
    let followers = [watch(&all), watch(&all), watch(&even), watch(&first)];

    let writers: Vec<_> = (0..threads)
        .map(|thread| {
            let store = store.clone();
            thread::spawn(move || {
                let mut random = Random(seed ^ thread);
                let mut counts = [0; COUNTERS as usize];
                for _ in 0..rounds {
                    let number = random.below(COUNTERS);
                    increment(&store, &counter(number));
                    counts[number as usize] += 1;
                }
                counts
            })
        })
        .collect();
    let mut counts = [0; COUNTERS as usize];
    for writer in writers {
        let of_writer: [u64; COUNTERS as usize] = writer.join().unwrap();
        counts
            .iter_mut()
            .zip(of_writer)
            .for_each(|(sum, one)| *sum += one);
    }
    for number in 0..COUNTERS {
        let entry = store.get(&counter(number)).unwrap();
        assert_eq!(entry.value.number, counts[number as usize]);
    }
    assert_eq!(store.version(), start + threads * rounds);

    drop(store);
    let seen = followers.map(|follower| follower.join().unwrap() as u64);
    let even = counts.iter().step_by(2).sum::<u64>();
    assert_eq!(seen, [threads * rounds, threads * rounds, even, counts[0]]);
}

#[test]
fn counters_in_memory() {
    count_in_parallel(Store::in_memory(Options::default()), 8, 4000);
}

#[test]
fn counters_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path(), Options::default()).unwrap();
    count_in_parallel(store, 8, 60);
    let store: Store<Note> = Store::open(directory.path(), Options::default()).unwrap();
    assert_eq!(store.version(), 1 + COUNTERS + 8 * 60);
}

/// Commits to two resources are seen in both or in none, whenever one looks.
#[test]
fn commits_are_seen_whole() {
    let store: Store<Note> = Store::in_memory(Options::default());
    let [left, right] = ["left", "right"].map(|resource| Key::new(resource, "", "same"));
    let both = [left.clone(), right.clone()];
    let create = both
        .clone()
        .map(|key| Operation::create(key, |_| Note::new(0)));
    store.commit(create.into()).unwrap();
    let done = Arc::new(AtomicBool::new(false));

    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (store, done, both) = (store.clone(), done.clone(), both.clone());
            thread::spawn(move || {
                let number = |key: &Key, at| {
                    let query = ListQuery {
                        at,
                        ..ListQuery::default()
                    };
                    let list = store.list(&Range::Object(key.clone()), query).unwrap();
                    (list.entries[0].value.number, list.version)
                };
                while !done.load(Ordering::Relaxed) {
                    let (left, version) = number(&both[0], None);
                    let (right, _) = number(&both[1], Some(version));
                    assert_eq!(left, right, "at {version}");
                    assert!(number(&both[1], None).0 >= left);
                }
            })
        })
        .collect();
    for round in 1..20_000 {
        let update = |key| Operation::update(key, None, move |_| Note::new(round));
        store.commit(both.clone().map(update).into()).unwrap();
    }
    done.store(true, Ordering::Relaxed);
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A write wakes the watches that it concerns, and no other.
#[test]
fn only_watches_that_are_concerned_are_woken() {
    let store: Store<Note> = Store::in_memory(Options::default());
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let key = |namespace: &str, name: usize| Key::new("pods", namespace, name.to_string());
    let wait = |range: Range| {
        let mut context = Context::from_waker(&waker);
        let mut watch = store.watch(&range, 1).unwrap();
        let mut waiting = Box::pin(async move { watch.changed().await });
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        waiting
    };
    let mut of_objects: Vec<_> = (0..5000)
        .map(|name| wait(Range::Object(key("default", name))))
        .collect();
    let others: Vec<_> = (0..100)
        .map(|_| wait(Range::Namespace("pods".into(), "other".into())))
        .chain((0..10).map(|_| wait(Range::Resource("pods".into()))))
        .chain((0..1000).map(|_| wait(Range::Resource("nodes".into()))))
        .collect();
    let write = |key| {
        let before = woken.0.load(Ordering::Relaxed);
        store
            .commit(vec![Operation::create(key, Note::new)])
            .unwrap();
        woken.0.load(Ordering::Relaxed) - before
    };
    // The object and the resource; later those of the resource do not wait any more.
    assert_eq!(write(key("default", 7)), 1 + 10);
    assert_eq!(write(key("default", 8)), 1);
    assert_eq!(write(key("other", 7)), 100);
    assert_eq!(write(key("third", 7)), 0);

    let mut context = Context::from_waker(&waker);
    let ready = of_objects
        .iter_mut()
        .enumerate()
        .filter_map(|(name, waiting)| {
            waiting
                .as_mut()
                .poll(&mut context)
                .is_ready()
                .then_some(name)
        });
    assert_eq!(ready.collect::<Vec<_>>(), [7, 8]);
    drop(store);
    drop(others);
}

/// A quiet watch is not told that it is too slow because of what happens elsewhere, and a slow one
/// does not hold memory.
#[test]
fn quiet_watches_stay_and_slow_ones_are_told() {
    let options = Options {
        history_bytes: 10_000,
        ..Options::default()
    };
    let store: Store<Note> = Store::in_memory(options);
    let quiet_key = Key::new("pods", "default", "quiet");
    store
        .commit(vec![Operation::create(quiet_key.clone(), Note::new)])
        .unwrap();
    let start = store.version();
    let mut quiet = store
        .watch(&Range::Object(quiet_key.clone()), start)
        .unwrap();
    let mut slow = store.watch(&Range::Resource("pods".into()), start).unwrap();
    let mut elsewhere = store
        .watch(&Range::Resource("nodes".into()), start)
        .unwrap();

    let node = Key::new("nodes", "", "one");
    store
        .commit(vec![Operation::create(node, Note::new)])
        .unwrap();
    for number in 0..1000_u64 {
        let key = Key::new("pods", "default", number.to_string());
        let note = |number| Note {
            number,
            length: 100,
        };
        store.commit(vec![Operation::create(key, note)]).unwrap();
        assert!(store.usage().history_bytes <= 10_000);
    }
    let gone = slow.next_batch(10).unwrap_err();
    assert!(gone.oldest > start + 900, "{gone}");
    assert_eq!(slow.next_batch(10).unwrap_err(), gone);
    // The resource with the most changes pays for them.
    assert_eq!(elsewhere.next_batch(10).unwrap().len(), 1);
    assert_eq!(quiet.next_batch(10).unwrap().len(), 0);
    assert_eq!(quiet.position(), store.version());

    store
        .commit(vec![Operation::delete(quiet_key, None)])
        .unwrap();
    assert_eq!(quiet.next_batch(10).unwrap()[0].kind, ChangeKind::Deleted);
}

#[test]
fn waiting_ends_in_time() {
    let store: Store<Note> = Store::in_memory(Options::default());
    let mut watch = store.watch(&Range::Resource("pods".into()), 1).unwrap();
    assert_eq!(watch.wait_blocking(Duration::from_millis(1)), Ok(false));
    let writer = store.clone();
    let thread = thread::spawn(move || {
        writer.commit(vec![Operation::create(
            Key::new("pods", "", "a"),
            Note::new,
        )])
    });
    assert_eq!(watch.wait_blocking(Duration::from_secs(60)), Ok(true));
    thread.join().unwrap().unwrap();
    assert_eq!(watch.next_batch(1).unwrap().len(), 1);
    drop(store);
    assert_eq!(watch.wait_blocking(Duration::MAX), Err(Closed));
}

/// A closure that panics leaves the store as it was.
#[test]
fn a_panic_of_a_writer_leaves_no_trace() {
    let directory = tempfile::tempdir().unwrap();
    for store in [
        Store::in_memory(Options::default()),
        Store::<Note>::open(directory.path(), Options::default()).unwrap(),
    ] {
        let key = Key::new("pods", "", "a");
        let writer = store.clone();
        let broken = Operation::create(key.clone(), |_| panic!("a test"));
        let fine = Operation::create(Key::new("pods", "", "b"), Note::new);
        let panicked = thread::spawn(move || writer.commit(vec![fine, broken])).join();
        assert!(panicked.is_err());
        assert_eq!((store.version(), store.usage().objects), (1, 0));
        let entries = store
            .commit(vec![Operation::create(key, Note::new)])
            .unwrap();
        assert_eq!(entries[0].version, 2);
    }
}

#[test]
fn limits_are_kept() {
    let options = Options {
        max_objects: 3,
        max_bytes: 200,
        max_object_bytes: 100,
        ..Options::default()
    };
    let store: Store<Note> = Store::in_memory(options);
    let key = |name: &str| Key::new("pods", "", name);
    let note = |length| move |number| Note { number, length };
    let create = |name, length| store.commit(vec![Operation::create(key(name), note(length))]);
    let refused =
        |result: Result<_, CommitError>| result.map(|_: Vec<_>| ()).unwrap_err().to_string();

    assert_eq!(
        refused(create("a", 93)),
        "pods a cannot be written: an object may take 100 bytes at most"
    );
    create("a", 80).unwrap();
    create("b", 80).unwrap();
    assert!(refused(create("c", 80)).contains("takes 200 bytes at most"));
    create("c", 0).unwrap();
    assert!(refused(create("d", 0)).contains("takes 3 objects at most"));
    assert_eq!(store.usage().bytes, 88 + 88 + 8 + 15);

    // What makes room in the same commit counts.
    let swap = vec![
        Operation::delete(key("a"), None),
        Operation::create(key("d"), note(80)),
    ];
    assert_eq!(store.commit(swap).unwrap().len(), 2);
    let grow = Operation::update(key("c"), None, note(20));
    assert!(refused(store.commit(vec![grow])).contains("takes 200 bytes"));
    assert_eq!(store.usage().objects, 3);
}

/// Watches work as tasks, too: many of them count along with many writers.
#[test]
fn tasks_can_watch() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let store: Store<Note> = Store::in_memory(Options::default());
        create_counters(&store);
        let start = store.version();
        let watchers: Vec<_> = (0..200)
            .map(|number| {
                let mut watch = store
                    .watch(&Range::Object(counter(number % COUNTERS)), start)
                    .unwrap();
                tokio::spawn(async move {
                    let mut seen = 0;
                    while watch.changed().await.is_ok() {
                        seen += watch.next_batch(3).unwrap().len();
                    }
                    assert_eq!(watch.changed().await, Err(Closed));
                    seen
                })
            })
            .collect();
        let writers: Vec<_> = (0..COUNTERS)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    for _ in 0..200 {
                        increment(&store, &counter(number));
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        drop(store);
        for watcher in watchers {
            assert_eq!(watcher.await.unwrap(), 200);
        }
    });
}
