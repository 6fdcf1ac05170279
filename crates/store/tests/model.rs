//! A store does what a naive model of it does, whatever happens in whatever order.

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::{Note, quick_directory};
use outrank_store::{
    Change, ChangeKind, CommitError, Gone, Key, ListError, ListQuery, Operation, Options, Range,
    Remaining, Store, Watch,
};
use proptest::prelude::*;

/// A write, with the version of the object that it expects: none, the true one, or a wrong one.
#[derive(Clone, Debug)]
enum Write {
    Create(u8),
    Update(u8, Expect),
    Delete(u8, Expect),
    DeleteWithLast(u8, Expect),
}

#[derive(Clone, Copy, Debug)]
enum Expect {
    Any,
    Right,
    Wrong,
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Write>),
    List { range: u8, back: u64, limit: usize },
    Watch { range: u8, back: u64 },
    ListAndWatch { range: u8 },
    Poll { watch: usize, max: usize },
    Leave { watch: usize },
    Reopen,
}

fn writes() -> impl Strategy<Value = Write> {
    let expect = || {
        prop_oneof![
            2 => Just(Expect::Any),
            5 => Just(Expect::Right),
            1 => Just(Expect::Wrong),
        ]
    };
    prop_oneof![
        4 => any::<u8>().prop_map(Write::Create),
        4 => (any::<u8>(), expect()).prop_map(|(key, expect)| Write::Update(key, expect)),
        2 => (any::<u8>(), expect()).prop_map(|(key, expect)| Write::Delete(key, expect)),
        1 => (any::<u8>(), expect()).prop_map(|(key, expect)| Write::DeleteWithLast(key, expect)),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => prop::collection::vec(writes(), 0..4).prop_map(Step::Commit),
        4 => (any::<u8>(), 0..14_u64, 0..5_usize)
            .prop_map(|(range, back, limit)| Step::List { range, back, limit }),
        3 => (any::<u8>(), 0..14_u64).prop_map(|(range, back)| Step::Watch { range, back }),
        1 => any::<u8>().prop_map(|range| Step::ListAndWatch { range }),
        6 => (any::<usize>(), 0..4_usize).prop_map(|(watch, max)| Step::Poll { watch, max }),
        1 => any::<usize>().prop_map(|watch| Step::Leave { watch }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..80)
}

/// Two resources with two namespaces each (one is that of objects in none), two names in each.
fn key(number: u8) -> Key {
    let bit = |place: u8, names: [&'static str; 2]| names[usize::from(number >> place & 1)];
    Key::new(
        bit(0, ["pods", "podtemplates"]),
        bit(1, ["", "default"]),
        bit(2, ["a", "b"]),
    )
}

fn range(number: u8) -> Range {
    let key = key(number);
    match number / 8 % 3 {
        0 => Range::Resource(key.resource),
        1 => Range::Namespace(key.resource, key.namespace),
        _ => Range::Object(key),
    }
}

/// A change as the model keeps it.
#[derive(Clone, Debug, PartialEq)]
struct Event {
    version: u64,
    key: Key,
    kind: ChangeKind,
    value: u64,
    previous: Option<u64>,
}

impl Event {
    fn of(change: &Change<Note>) -> Self {
        Self {
            version: change.version,
            key: change.key.clone(),
            kind: change.kind,
            value: change.value.number,
            previous: change.previous.as_ref().map(|previous| previous.number),
        }
    }
}

type Objects = BTreeMap<Key, (u64, u64)>;

/// All that ever happened.
struct Model {
    log: Vec<Event>,
    version: u64,
    first: u64,
    before_first: Objects,
    remembered: usize,
}

impl Model {
    fn new(remembered: usize) -> Self {
        Self {
            log: Vec::new(),
            version: 1,
            first: 1,
            before_first: Objects::new(),
            remembered,
        }
    }

    /// The objects, with their versions and numbers, at a version.
    fn at(&self, version: u64) -> Objects {
        let mut objects = self.before_first.clone();
        for event in self.log.iter().filter(|event| event.version <= version) {
            match event.kind {
                ChangeKind::Deleted => {
                    objects.remove(&event.key);
                }
                _ => {
                    objects.insert(event.key.clone(), (event.version, event.value));
                }
            }
        }
        objects
    }

    fn forgotten(&self, resource: &str) -> &[Event] {
        let of_resource = |event: &&Event| &*event.key.resource == resource;
        let count = self.log.iter().filter(of_resource).count();
        let Some(last) = count.checked_sub(self.remembered + 1) else {
            return &[];
        };
        let last = self.log.iter().filter(of_resource).nth(last).unwrap();
        let place = self.log.iter().position(|event| event == last).unwrap();
        &self.log[..=place]
    }

    /// The oldest version of a resource that one can go back to.
    fn floor(&self, resource: &str) -> u64 {
        self.forgotten(resource)
            .last()
            .map_or(self.first, |event| event.version)
    }

    fn reopen(&mut self) {
        self.before_first = self.at(self.version);
        self.first = self.version;
        self.log.clear();
    }

    /// What becomes of a commit.
    fn commit(&mut self, writes: &[Write]) -> Result<Vec<(Key, u64, u64)>, CommitError> {
        let mut objects = self.at(self.version);
        let mut events = Vec::new();
        for (index, write) in writes.iter().enumerate() {
            let version = self.version + 1 + index as u64;
            let (number, expect) = target(write);
            let key = key(number);
            let current = objects.get(&key).copied();
            let previous = current.map(|(_, value)| value);
            let (kind, value) = match (write, current) {
                (Write::Create(_), Some(_)) => return Err(CommitError::Exists { index, key }),
                (Write::Create(_), None) => (ChangeKind::Created, version),
                (_, None) => return Err(CommitError::NotFound { index, key }),
                (_, Some((actual, _)))
                    if expect_version(expect, self, &key)
                        .is_some_and(|expected| expected != actual) =>
                {
                    return Err(CommitError::Conflict { index, key, actual });
                }
                (Write::Update(..), _) => (ChangeKind::Updated, version),
                (Write::Delete(..), Some((_, last))) => (ChangeKind::Deleted, last),
                (Write::DeleteWithLast(..), _) => (ChangeKind::Deleted, version),
            };
            match kind {
                ChangeKind::Deleted => {
                    objects.remove(&key);
                }
                _ => {
                    objects.insert(key.clone(), (version, value));
                }
            }
            events.push(Event {
                version,
                key,
                kind,
                value,
                previous,
            });
        }
        self.version += events.len() as u64;
        self.log.extend(events.iter().cloned());
        Ok(events
            .into_iter()
            .map(|event| (event.key, event.version, event.value))
            .collect())
    }
}

fn target(write: &Write) -> (u8, Expect) {
    match write {
        Write::Create(key) => (*key, Expect::Any),
        Write::Update(key, expect)
        | Write::Delete(key, expect)
        | Write::DeleteWithLast(key, expect) => (*key, *expect),
    }
}

/// The version that a write expects, by what was there before its commit.
fn expect_version(expect: Expect, model: &Model, key: &Key) -> Option<u64> {
    let before = model
        .at(model.version)
        .get(key)
        .map_or(1, |object| object.0);
    match expect {
        Expect::Any => None,
        Expect::Right => Some(before),
        Expect::Wrong => Some(before + 1000),
    }
}

fn operation(write: &Write, model: &Model) -> Operation<Note> {
    let (number, expect) = target(write);
    let key = key(number);
    let expected = expect_version(expect, model, &key);
    match write {
        Write::Create(_) => Operation::create(key, Note::new),
        Write::Update(..) => Operation::update(key, expected, Note::new),
        Write::Delete(..) => Operation::delete(key, expected),
        Write::DeleteWithLast(..) => Operation::Delete {
            key,
            expected,
            make: Some(Box::new(Note::new)),
        },
    }
}

/// A store and its model, and watches with the positions that they should have.
struct Pair<'a> {
    directory: Option<&'a Path>,
    options: Options,
    store: Store<Note>,
    model: Model,
    watches: Vec<(Watch<Note>, u64)>,
}

impl<'a> Pair<'a> {
    fn new(directory: Option<&'a Path>, history_changes: usize) -> Self {
        let options = Options {
            history_changes,
            ..Options::default()
        };
        let store = match directory {
            None => Store::in_memory(options.clone()),
            Some(directory) => Store::open(directory, options.clone()).unwrap(),
        };
        Self {
            directory,
            options,
            store,
            model: Model::new(history_changes),
            watches: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Commit(writes) => self.commit(writes),
            Step::List {
                range: one,
                back,
                limit,
            } => self.list(&range(*one), *back, *limit),
            Step::Watch { range: one, back } => self.watch(range(*one), *back),
            Step::ListAndWatch { range: one } => {
                let (list, watch) = self.store.list_and_watch(&range(*one));
                assert_eq!(list.version, self.model.version);
                assert_eq!(watch.position(), list.version);
                self.compare(&range(*one), list.version, None, &list.entries);
                self.watches.push((watch, self.model.version));
            }
            Step::Poll { watch, max } if !self.watches.is_empty() => {
                let place = watch % self.watches.len();
                self.poll(place, *max);
            }
            Step::Leave { watch } if !self.watches.is_empty() => {
                self.watches.swap_remove(watch % self.watches.len());
            }
            Step::Reopen => self.reopen(),
            Step::Poll { .. } | Step::Leave { .. } => {}
        }
        assert_eq!(self.store.version(), self.model.version);
    }

    fn commit(&mut self, writes: &[Write]) {
        let operations = writes
            .iter()
            .map(|write| operation(write, &self.model))
            .collect();
        let expected = self.model.commit(writes);
        let actual = self.store.commit(operations).map(|entries| {
            entries
                .into_iter()
                .map(|entry| (entry.key, entry.version, entry.value.number))
                .collect()
        });
        assert_eq!(actual, expected);
    }

    fn compare(
        &self,
        range: &Range,
        version: u64,
        after: Option<&Key>,
        entries: &[outrank_store::Entry<Note>],
    ) {
        let objects = self.model.at(version);
        let expected: Vec<_> = objects
            .iter()
            .filter(|(key, _)| range.contains(key) && after.is_none_or(|after| *key > after))
            .map(|(key, (version, value))| (key, *version, *value))
            .collect();
        let actual: Vec<_> = entries
            .iter()
            .map(|entry| (&entry.key, entry.version, entry.value.number))
            .collect();
        assert_eq!(actual, expected, "{range:?} at {version}");
    }

    /// Lists all pages.
    fn list(&mut self, range: &Range, back: u64, limit: usize) {
        // 0 asks for what is in the future, 1 for now.
        let at = (self.model.version + 1).saturating_sub(back);
        let floor = self.model.floor(range.resource());
        let mut query = ListQuery {
            limit: Some(limit),
            after: None,
            at: (back != 1).then_some(at),
        };
        if at > self.model.version {
            let newest = self.model.version;
            let error = self.store.list(range, query).unwrap_err();
            assert_eq!(error, ListError::Future { newest });
            return;
        }
        if at < floor {
            let error = self.store.list(range, query).unwrap_err();
            assert_eq!(error, ListError::Gone { oldest: floor });
            return;
        }
        let mut entries = Vec::new();
        let total = self
            .model
            .at(at)
            .keys()
            .filter(|key| range.contains(key))
            .count();
        loop {
            let page = self.store.list(range, query.clone()).unwrap();
            assert_eq!(page.version, at);
            assert!(limit == 0 || page.entries.len() <= limit);
            entries.extend(page.entries);
            let left = total - entries.len();
            let last_key = entries.last().map(|entry| entry.key.clone());
            let expected = last_key.filter(|_| left > 0).map(|last_key| Remaining {
                last_key,
                remaining_count: left,
            });
            assert_eq!(page.more, expected);
            let Some(more) = page.more else { break };
            query.after = Some(more.last_key);
        }
        self.compare(range, at, None, &entries);
        // From after some key that may not exist, nor be of the range.
        let after = key(back as u8 ^ limit as u8);
        let query = ListQuery {
            limit: None,
            after: Some(after.clone()),
            at: Some(at),
        };
        let rest = self.store.list(range, query).unwrap();
        self.compare(range, at, Some(&after), &rest.entries);
    }

    fn watch(&mut self, range: Range, back: u64) {
        let after = (self.model.version + 1).saturating_sub(back);
        let floor = self.model.floor(range.resource());
        let watch = self.store.watch(&range, after);
        if after > self.model.version {
            let newest = self.model.version;
            assert_eq!(watch.unwrap_err(), ListError::Future { newest });
        } else if after < floor {
            assert_eq!(watch.unwrap_err(), ListError::Gone { oldest: floor });
        } else {
            self.watches.push((watch.unwrap(), after));
        }
    }

    fn poll(&mut self, place: usize, max: usize) {
        let (watch, position) = &mut self.watches[place];
        let range = watch.range().clone();
        let due = |event: &&Event| event.version > *position && range.contains(&event.key);
        let lost = self
            .model
            .forgotten(range.resource())
            .iter()
            .any(|event| due(&event));
        let batch = watch.next_batch(max);
        if lost {
            let oldest = self.model.floor(range.resource());
            assert_eq!(batch.unwrap_err(), Gone { oldest });
            return;
        }
        let expected: Vec<Event> = self.model.log.iter().filter(due).cloned().collect();
        let batch: Vec<Event> = batch.unwrap().iter().map(Event::of).collect();
        assert_eq!(batch, expected[..expected.len().min(max)]);
        if expected.len() <= max {
            *position = self.model.version;
        } else if let Some(last) = batch.last() {
            *position = last.version;
        }
        assert_eq!(watch.position(), *position);
    }

    fn reopen(&mut self) {
        let Some(directory) = self.directory else {
            return;
        };
        self.watches.clear();
        self.store = Store::in_memory(Options::default());
        self.store = Store::open(directory, self.options.clone()).unwrap();
        self.model.reopen();
        let usage = self.store.usage();
        assert_eq!(usage.objects, self.model.before_first.len());
    }

    /// All watches get all that they have not got.
    fn finish(mut self) {
        for place in 0..self.watches.len() {
            self.poll(place, usize::MAX);
        }
        for number in 0..8 {
            let object = self.model.at(self.model.version).remove(&key(number));
            let entry = self.store.get(&key(number));
            assert_eq!(
                entry.map(|entry| (entry.version, entry.value.number)),
                object
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    #[test]
    fn in_memory(steps in steps(), history_changes in 0..20_usize) {
        let mut pair = Pair::new(None, history_changes);
        steps.iter().for_each(|step| pair.step(step));
        pair.finish();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn on_disk(steps in steps(), history_changes in 0..20_usize) {
        let directory = quick_directory();
        let mut pair = Pair::new(Some(directory.path()), history_changes);
        steps.iter().for_each(|step| pair.step(step));
        pair.finish();
    }
}
