//! Nothing that was acknowledged is lost, whenever the process is killed.
//!
//! This program starts itself again as a child that opens a store, writes to it from several threads,
//! and notes down each write before it begins and when it is acknowledged. It is killed (`kill -9`)
//! at some moment; then what is in the store is compared with the notes. The store goes on from round
//! to round.

#![cfg(unix)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::{Note, Random, quick_directory, seed};
use outrank_store::{CommitError, Key, ListQuery, Operation, Options, Range, Store};

const THREADS: u64 = 4;
const KEYS: u64 = 5;
const CHILD: &str = "OUTRANK_STORE_CRASH_CHILD";
/// Written by the child when it has opened the store.
const READY: &str = "ready";

fn open(directory: &Path) -> Store<Note> {
    Store::open(&directory.join("data"), Options::default()).unwrap()
}

fn key(thread: u64, number: u64) -> Key {
    Key::new(
        format!("things.{}", number % 2),
        format!("thread-{thread}"),
        number.to_string(),
    )
}

/// Threads all add to this one.
fn shared() -> Key {
    Key::new("shared", "", "counter")
}

fn notes(directory: &Path, thread: u64) -> PathBuf {
    directory.join(format!("notes-{thread}"))
}

// --- The child

/// Not a test of its own: what the child does.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let (seed, directory) = task.split_once(' ').unwrap();
    let seed: u64 = seed.parse().unwrap();
    let store = open(Path::new(directory));
    fs::write(Path::new(directory).join(READY), "").unwrap();
    let observer = {
        let store = store.clone();
        let notes = fs::File::create(notes(Path::new(directory), THREADS)).unwrap();
        thread::spawn(move || observe_until_killed(&store, notes))
    };
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let store = store.clone();
            let notes = fs::File::create(notes(Path::new(directory), thread)).unwrap();
            thread::spawn(move || write_until_killed(&store, thread, seed, notes))
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    observer.join().unwrap();
}

/// A write of a thread to its own keys: the key's number, and the note that it gets, or none.
type Plan = Vec<(u64, Option<Note>)>;

fn write_until_killed(store: &Store<Note>, thread: u64, seed: u64, mut notes: fs::File) {
    let mut random = Random(seed.wrapping_mul(THREADS).wrapping_add(thread));
    loop {
        if random.below(4) == 0 {
            let count = add_one(store);
            notes
                .write_all(format!("count {count}\n").as_bytes())
                .unwrap();
            continue;
        }
        let mut plan = Plan::new();
        for _ in 0..=random.below(3) {
            let note = Note {
                number: random.next(),
                // Some take many pages of the file.
                length: random.length(14),
            };
            plan.push((random.below(KEYS), (random.below(4) > 0).then_some(note)));
        }
        // One write to the file each, so that a line is there or not.
        notes.write_all(begin_line(&plan).as_bytes()).unwrap();
        let version = carry_out(store, thread, &plan);
        notes
            .write_all(format!("done {version}\n").as_bytes())
            .unwrap();
    }
}

/// Notes down what can be seen: it must not be lost either.
fn observe_until_killed(store: &Store<Note>, mut notes: fs::File) {
    let mut watch = store
        .watch(&Range::Resource(shared().resource), store.version())
        .unwrap();
    while watch.wait_blocking(Duration::from_secs(60)).is_ok() {
        let version = store.version();
        let count = watch.next_batch(usize::MAX).unwrap();
        let count = count.last().map_or(0, |change| change.value.number);
        notes
            .write_all(format!("saw {version} {count}\n").as_bytes())
            .unwrap();
    }
}

fn add_one(store: &Store<Note>) -> u64 {
    loop {
        let entry = store.get(&shared());
        let (count, operation) = match &entry {
            None => (1, Operation::create(shared(), |_| Note::new(1))),
            Some(entry) => {
                let count = entry.value.number + 1;
                let expected = Some(entry.version);
                (
                    count,
                    Operation::update(shared(), expected, move |_| Note::new(count)),
                )
            }
        };
        match store.commit(vec![operation]) {
            Ok(_) => return count,
            Err(CommitError::Conflict { .. } | CommitError::Exists { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Writes all of the plan in one commit; returns the version of its last write.
fn carry_out(store: &Store<Note>, thread: u64, plan: &Plan) -> u64 {
    let mut exist: BTreeMap<u64, bool> = BTreeMap::new();
    let mut operations = Vec::new();
    for (number, note) in plan {
        let key = key(thread, *number);
        let exists = exist
            .entry(*number)
            .or_insert_with(|| store.get(&key).is_some());
        match (note.as_ref().copied(), *exists) {
            (Some(note), false) => operations.push(Operation::create(key, move |_| note)),
            (Some(note), true) => operations.push(Operation::update(key, None, move |_| note)),
            (None, true) => operations.push(Operation::delete(key, None)),
            (None, false) => {}
        }
        *exists = note.is_some();
    }
    let entries = store.commit(operations).unwrap();
    entries.last().map_or(0, |entry| entry.version)
}

fn begin_line(plan: &Plan) -> String {
    let writes: Vec<String> = plan
        .iter()
        .map(|(number, note)| match note {
            Some(note) => format!("{number}:{}:{}", note.number, note.length),
            None => format!("{number}"),
        })
        .collect();
    format!("begin {}\n", writes.join(" "))
}

fn read_plan(line: &str) -> Plan {
    let read = |write: &str| {
        let mut numbers = write
            .split(':')
            .map(|number| number.parse::<u64>().unwrap());
        let key = numbers.next().unwrap();
        let note = numbers.next().map(|number| Note {
            number,
            length: numbers.next().unwrap() as usize,
        });
        (key, note)
    };
    line.split(' ').map(read).collect()
}

// --- The parent

fn start(directory: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(CHILD, format!("{seed} {}", directory.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn wait_until_ready(directory: &Path, child: &mut Child) {
    while !directory.join(READY).exists() {
        assert!(
            child.try_wait().unwrap().is_none(),
            "the child has given up"
        );
        thread::sleep(Duration::from_millis(1));
    }
}

/// The notes of one thread by their keys.
type Things = BTreeMap<u64, Note>;

/// What is known of a store.
#[derive(Default)]
struct Known {
    things: Vec<Things>,
    count: u64,
    version: u64,
}

/// What the notes of a thread say.
#[derive(Default)]
struct Noted {
    acknowledged: Vec<Plan>,
    under_way: Option<Plan>,
    count: u64,
    version: u64,
}

fn read_notes(path: &Path) -> Noted {
    let mut noted = Noted::default();
    let text = fs::read_to_string(path).unwrap_or_default();
    for line in text.split_inclusive('\n') {
        let Some(line) = line.strip_suffix('\n') else {
            break;
        };
        match line.split_once(' ').unwrap() {
            ("begin", plan) => noted.under_way = Some(read_plan(plan)),
            ("done", version) => {
                noted.acknowledged.extend(noted.under_way.take());
                noted.version = noted.version.max(version.parse().unwrap());
            }
            ("count", count) => noted.count = noted.count.max(count.parse().unwrap()),
            ("saw", seen) => {
                let (version, count) = seen.split_once(' ').unwrap();
                noted.version = noted.version.max(version.parse().unwrap());
                noted.count = noted.count.max(count.parse().unwrap());
            }
            (other, _) => panic!("{other}"),
        }
    }
    noted
}

fn apply(things: &mut Things, plan: &Plan) {
    for (number, note) in plan {
        match note {
            Some(note) => things.insert(*number, *note),
            None => things.remove(number),
        };
    }
}

fn stored(store: &Store<Note>, thread: u64) -> Things {
    (0..KEYS)
        .filter_map(|number| {
            let entry = store.get(&key(thread, number))?;
            Some((number, *entry.value))
        })
        .collect()
}

/// Compares the store with what is known from before and noted since; returns how many commits were
/// acknowledged.
fn verify(store: &Store<Note>, directory: &Path, known: &mut Known) -> usize {
    let mut commits = 0;
    let mut most = known.version;
    let mut counts = 0;
    for thread in 0..THREADS {
        let noted = read_notes(&notes(directory, thread));
        let things = &mut known.things[thread as usize];
        noted
            .acknowledged
            .iter()
            .for_each(|plan| apply(things, plan));
        commits += noted.acknowledged.len();
        let found = stored(store, thread);
        if found != *things {
            // The only other thing that may be is that the write under way got there, as a whole.
            let plan = noted.under_way.expect("what was acknowledged is not there");
            apply(things, &plan);
            assert_eq!(found, *things, "thread {thread}");
        }
        most = most.max(noted.version);
        counts = counts.max(noted.count);
        let _ = fs::remove_file(notes(directory, thread));
    }
    let seen = read_notes(&notes(directory, THREADS));
    let _ = fs::remove_file(notes(directory, THREADS));
    most = most.max(seen.version);
    counts = counts.max(seen.count);
    let count = store.get(&shared()).map_or(0, |entry| entry.value.number);
    assert!(count >= known.count.max(counts), "{count}");
    assert!(store.version() >= most, "{} < {most}", store.version());
    known.count = count;
    known.version = store.version();
    commits
}

/// Writes something, so that each round also has a store that was opened after a crash and is used.
fn use_it(store: &Store<Note>, known: &mut Known) {
    let before = store.version();
    known.count = add_one(store);
    assert_eq!(store.version(), before + 1);
    known.version = store.version();
    for resource in ["things.0", "things.1", "shared"] {
        let list = store.list(&Range::Resource(resource.into()), ListQuery::default());
        let entries = list.unwrap().entries;
        assert!(entries.iter().all(|entry| entry.version <= before + 1));
    }
}

/// A disk takes its time, so that most children are killed while they wait for it.
#[test]
fn what_was_acknowledged_survives_kill_9() {
    kill_in_rounds(&tempfile::tempdir().unwrap(), 120);
}

/// In memory a child gets through many more writes before it is killed.
#[test]
fn what_was_acknowledged_survives_kill_9_amid_many_writes() {
    kill_in_rounds(&quick_directory(), 200);
}

fn kill_in_rounds(directory: &tempfile::TempDir, most_rounds: usize) {
    let seed = seed();
    let mut random = Random(seed);
    let mut known = Known {
        things: vec![Things::new(); THREADS as usize],
        count: 0,
        version: 1,
    };
    let (mut commits, mut without, mut rounds) = (0, 0, 0);
    let started = Instant::now();
    for round in 0..most_rounds {
        // On a slow disk fewer rounds are enough; each is a test by itself.
        if started.elapsed() > Duration::from_secs(60) {
            break;
        }
        let mut child = start(directory.path(), random.next());
        // One round in four is over while the store is opened, or just after.
        if round % 4 == 0 {
            thread::sleep(Duration::from_micros(random.below(40_000)));
        } else {
            wait_until_ready(directory.path(), &mut child);
            thread::sleep(Duration::from_micros(random.below(60_000)));
        }
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(
            !complaint.contains("panicked"),
            "round {round}: {complaint}"
        );

        let store = open(directory.path());
        let of_round = verify(&store, directory.path(), &mut known);
        if round % 3 == 0 {
            use_it(&store, &mut known);
        }
        let _ = fs::remove_file(directory.path().join(READY));
        commits += of_round;
        without += usize::from(of_round == 0);
        rounds += 1;
    }
    println!(
        "{rounds} rounds, {commits} commits acknowledged, {without} rounds without any, {:.1?}",
        started.elapsed()
    );
    assert!(commits > rounds, "the children did not get to write");
}

// --- A full disk

const FULL: &str = "OUTRANK_STORE_FULL_CHILD";

/// Not a test of its own: writes to a store whose file may not grow.
#[test]
fn full_disk_child() {
    let Ok(directory) = std::env::var(FULL) else {
        return;
    };
    let store = open(Path::new(&directory));
    let mut watch = store
        .watch(&Range::Resource("pods".into()), store.version())
        .unwrap();
    let write = |number: u64| {
        let key = Key::new("pods", "", number.to_string());
        let note = move |_| Note {
            number,
            length: 20_000,
        };
        store.commit(vec![Operation::create(key, note)])
    };
    let mut written = 0;
    let error = loop {
        match write(written) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, CommitError::Io(_)), "{error:?}");
    let version = store.version();
    assert_eq!(version, 1 + written);
    assert!(
        store
            .get(&Key::new("pods", "", written.to_string()))
            .is_none()
    );
    assert!(store.get(&Key::new("pods", "", "0")).is_some());
    assert_eq!(watch.next_batch(usize::MAX).unwrap().len() as u64, written);
    // Again and again, with the same words.
    let again = write(u64::MAX).unwrap_err();
    assert_eq!(again, error);
    assert!(
        again
            .to_string()
            .contains("writes are refused until the store is opened again")
    );
    fs::write(Path::new(&directory).join("written"), written.to_string()).unwrap();
}

#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    // A file beyond the limit is refused like one on a full disk, once the signal is ignored.
    let script = "trap '' XFSZ; ulimit -f 8192; exec \"$0\" --exact full_disk_child --nocapture";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(FULL, directory.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let written = fs::read_to_string(directory.path().join("written")).unwrap();
    let written: u64 = written.parse().unwrap();
    println!("{written} objects were written before the disk was full");
    assert!(written > 10);

    let store = open(directory.path());
    for number in 0..written {
        let entry = store
            .get(&Key::new("pods", "", number.to_string()))
            .unwrap();
        assert_eq!(entry.value.number, number);
    }
    let list = store
        .list(&Range::Resource("pods".into()), ListQuery::default())
        .unwrap();
    assert!(list.entries.len() as u64 - written <= 1);
    let key = Key::new("pods", "", "after");
    store
        .commit(vec![Operation::create(key, Note::new)])
        .unwrap();
}
