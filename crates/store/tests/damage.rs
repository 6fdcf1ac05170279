//! A file that is not right in all parts is refused and left as it is.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use common::{Note, Random, quick_directory, seed};
use outrank_store::{Key, ListQuery, OpenError, Operation, Options, Range, Record, Store};
use redb::{Database, TableDefinition};

type Contents = (u64, BTreeMap<Key, (u64, Note)>);

fn file(directory: &Path) -> PathBuf {
    directory.join("objects.redb")
}

fn open(directory: &Path) -> Result<Store<Note>, OpenError> {
    Store::open(directory, Options::default())
}

/// Fills a store with notes of all sizes, and changes many of them.
fn fill(store: &Store<Note>, random: &mut Random) {
    for number in 0..120 {
        let note = Note {
            number: random.next(),
            length: random.length(14),
        };
        let key = Key::new(
            format!("kind.{}", number % 5),
            "default",
            (number % 70).to_string(),
        );
        let operation = if store.get(&key).is_some() {
            Operation::update(key, None, move |_| note)
        } else {
            Operation::create(key, move |_| note)
        };
        store.commit(vec![operation]).unwrap();
    }
}

fn contents(store: &Store<Note>) -> Contents {
    let mut objects = BTreeMap::new();
    for (resource, _) in store.resources() {
        let list = store
            .list(&Range::Resource(resource), ListQuery::default())
            .unwrap();
        for entry in list.entries {
            objects.insert(entry.key, (entry.version, *entry.value));
        }
    }
    (store.version(), objects)
}

/// The bytes of a file as a process leaves it that is killed, and as one leaves it that ends well,
/// and what is in it.
fn sound_files(random: &mut Random) -> (Vec<u8>, Vec<u8>, Contents) {
    let directory = quick_directory();
    let store = open(directory.path()).unwrap();
    fill(&store, random);
    let expected = contents(&store);
    let killed = fs::read(file(directory.path())).unwrap();
    drop(store);
    let closed = fs::read(file(directory.path())).unwrap();
    (killed, closed, expected)
}

/// Opens a store with a damaged file. Whether it was refused.
fn try_open(directory: &Path, bytes: &[u8], expected: &Contents, what: &str) -> bool {
    fs::write(file(directory), bytes).unwrap();
    match open(directory) {
        Ok(store) => {
            let found = contents(&store);
            assert_eq!(found.0, expected.0, "{what}: another version");
            assert!(found.1 == expected.1, "{what}: other objects");
            false
        }
        Err(error) => {
            let text = error.to_string();
            assert!(text.contains("objects.redb"), "{what}: {text}");
            assert!(
                fs::read(file(directory)).unwrap() == bytes,
                "{what}: changed"
            );
            true
        }
    }
}

#[test]
fn damage_is_refused_or_does_not_matter() {
    let seed = seed();
    let mut random = Random(seed);
    let (killed, closed, expected) = sound_files(&mut random);
    let directory = quick_directory();
    let mut refused = 0;
    for round in 0..1000 {
        let mut bytes = if round % 2 == 0 {
            killed.clone()
        } else {
            closed.clone()
        };
        // Half of the file is never written, so damage is more often near the start.
        let length = bytes.len() as u64;
        let place = random.below(if round % 3 == 0 { length } else { length / 4 }) as usize;
        let most = bytes.len() - place;
        let kind = random.below(5);
        match kind {
            0 => bytes[place] ^= 1 << random.below(8),
            1 => {
                let count = most.min(1 + random.below(5000) as usize);
                bytes[place..place + count].fill(0);
            }
            2 => {
                let count = most.min(1 + random.below(500) as usize);
                bytes[place..place + count].fill_with(|| random.below(256) as u8);
            }
            3 => bytes.truncate(place),
            // A page that ended up where another belongs.
            _ => {
                let pages = length / 4 / 4096;
                let (from, to) = (random.below(pages) as usize, random.below(pages) as usize);
                bytes.copy_within(from * 4096..(from + 1) * 4096, to * 4096);
            }
        }
        let what = format!("round {round}, kind {kind}, at {place} of {length}");
        refused += usize::from(try_open(directory.path(), &bytes, &expected, &what));
    }
    println!("{refused} of 1000 were refused");
    assert!(refused > 100);
}

/// The head of the file is not protected by checksums in all parts.
#[test]
fn each_bit_of_the_head_may_fall_over() {
    let seed = seed();
    let mut random = Random(seed);
    let (killed, closed, expected) = sound_files(&mut random);
    let directory = quick_directory();
    let mut refused = 0;
    let mut tried = 0;
    for (which, sound) in [("killed", &killed), ("closed", &closed)] {
        for bit in 0..320 * 8 {
            // All of the first part, and some of the two slots, which have checksums.
            if bit >= 64 * 8 && random.below(2) > 0 {
                continue;
            }
            let mut bytes = sound.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let what = format!("{which}, bit {} of byte {}", bit % 8, bit / 8);
            refused += usize::from(try_open(directory.path(), &bytes, &expected, &what));
            tried += 1;
        }
    }
    println!("{refused} of {tried} were refused");
    assert!(refused > 100);
}

#[test]
fn foreign_and_empty_files_are_refused() {
    let directory = quick_directory();
    for bytes in [&b""[..], b"redb", &[0; 5000], &[b'x'; 100_000]] {
        fs::write(file(directory.path()), bytes).unwrap();
        let error = open(directory.path()).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        assert_eq!(fs::read(file(directory.path())).unwrap(), bytes);
    }
}

#[test]
fn databases_of_others_are_refused() {
    let other: TableDefinition<'_, &str, u64> = TableDefinition::new("other");
    let not_ours: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let write = |path: &Path, kind: usize| {
        let database = Database::create(path).unwrap();
        let transaction = database.begin_write().unwrap();
        match kind {
            0 => drop(
                transaction
                    .open_table(other)
                    .unwrap()
                    .insert("format", 1)
                    .unwrap(),
            ),
            1 => drop(
                transaction
                    .open_table(not_ours)
                    .unwrap()
                    .insert("format", "1")
                    .unwrap(),
            ),
            2 => drop(
                transaction
                    .open_table(meta)
                    .unwrap()
                    .insert("format", 2)
                    .unwrap(),
            ),
            _ => drop(
                transaction
                    .open_table(meta)
                    .unwrap()
                    .insert("format", 1)
                    .unwrap(),
            ),
        }
        transaction.commit().unwrap();
    };
    for (kind, text) in [
        "it is a database of something else",
        "it is a database of something else",
        "has format 2, this version of the program reads formats 1 to 1",
        "it has no version",
    ]
    .into_iter()
    .enumerate()
    {
        let directory = quick_directory();
        write(&file(directory.path()), kind);
        let before = fs::read(file(directory.path())).unwrap();
        let error = open(directory.path()).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        assert!(
            error.contains(&file(directory.path()).display().to_string()),
            "{error}"
        );
        assert!(fs::read(file(directory.path())).unwrap() == before);
    }
}

/// Reads no notes but even ones.
struct Even;

impl Record for Even {
    fn to_bytes(&self) -> std::borrow::Cow<'_, [u8]> {
        [0].as_slice().into()
    }

    fn from_bytes(_: &Key, bytes: &[u8]) -> Result<Self, String> {
        match bytes[7] % 2 {
            0 => Ok(Self),
            _ => Err(format!("{} is odd", bytes[7])),
        }
    }
}

#[test]
fn objects_that_cannot_be_read_are_named() {
    let directory = quick_directory();
    let store = open(directory.path()).unwrap();
    for number in [2, 7] {
        let key = Key::new("pods", "default", format!("pod-{number}"));
        let create = Operation::create(key, move |_| Note::new(number));
        store.commit(vec![create]).unwrap();
    }
    drop(store);
    let before = fs::read(file(directory.path())).unwrap();
    let error = Store::<Even>::open(directory.path(), Options::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("pods default/pod-7 cannot be read: 7 is odd"),
        "{text}"
    );
    assert!(fs::read(file(directory.path())).unwrap() == before);
    assert_eq!(open(directory.path()).unwrap().usage().objects, 2);
}

#[test]
fn a_directory_belongs_to_one() {
    let directory = quick_directory();
    let store = open(&directory.path().join("a/b")).unwrap();
    let error = open(&directory.path().join("a/b")).unwrap_err();
    let process = std::process::id();
    assert!(matches!(&error, OpenError::InUse { process: Some(found), .. } if *found == process));
    assert!(
        error
            .to_string()
            .contains(&format!("is in use by another process ({process})"))
    );
    let watch = store.watch(&Range::Resource("pods".into()), 1).unwrap();
    drop(store);
    // A watch does not keep it open.
    open(&directory.path().join("a/b")).unwrap();
    drop(watch);
}

#[cfg(unix)]
#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let directory = quick_directory();
    let data = directory.path().join("data");
    let store = open(&data).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for entry in fs::read_dir(&data).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    drop(store);
}

/// What a process left that was killed while it made a new store.
#[test]
fn a_store_half_made_is_made_again() {
    let directory = quick_directory();
    fs::write(directory.path().join("objects.redb.new"), b"half").unwrap();
    let store = open(directory.path()).unwrap();
    assert_eq!((store.version(), store.is_durable()), (1, true));
    assert!(!directory.path().join("objects.redb.new").exists());
}
