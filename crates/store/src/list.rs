//! What there is, now or at an earlier version: [`List`].

use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use crate::history::Stored;
use crate::resource::ResourceState;
use crate::{Key, Range};

/// An object as it is, or was.
pub struct Entry<T> {
    /// Its name.
    pub key: Key,
    /// The object.
    pub value: Arc<T>,
    /// The version of the write that made it so.
    pub version: u64,
}

impl<T> Clone for Entry<T> {
    fn clone(&self) -> Self {
        Self {
            key: self.key.clone(),
            value: self.value.clone(),
            version: self.version,
        }
    }
}

/// Without the object, which may be large and need not be `Debug`.
impl<T> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.key, self.version)
    }
}

/// Which part of a [`Range`] to list, and as of when. The default is all of it, now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Most entries to return. None and 0 mean all, as in Kubernetes.
    pub limit: Option<usize>,
    /// Only what comes after this key, which need not exist. To go on where a list with a limit
    /// stopped, this is its [`Remaining::last_key`], and `at` its version.
    pub after: Option<Key>,
    /// Everything as it was when the write of this version had just happened; none means now.
    pub at: Option<u64>,
}

/// Objects of a range as they were together at one moment.
#[derive(Debug)]
pub struct List<T> {
    /// The objects in the order of their keys.
    pub entries: Vec<Entry<T>>,
    /// The moment: all writes up to this version are considered, and none after it.
    pub version: u64,
    /// What the limit left out.
    pub more: Option<Remaining>,
}

impl<T> Clone for List<T> {
    fn clone(&self) -> Self {
        Self {
            entries: self.entries.clone(),
            version: self.version,
            more: self.more.clone(),
        }
    }
}

/// What a limit left out of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// The key of the last entry that was returned.
    pub last_key: Key,
    /// How many objects of the range follow it. At least 1.
    pub remaining_count: usize,
}

impl<T> ResourceState<T> {
    /// The objects of `range` as they were at version `at`, which must be between the floor of the
    /// history and the newest version.
    ///
    /// Takes time for what is returned, for what remains after it (which is counted), and for the
    /// changes since `at`.
    pub(crate) fn list(&self, range: &Range, query: &ListQuery, at: u64) -> List<T> {
        let limit = match query.limit {
            None | Some(0) => usize::MAX,
            Some(limit) => limit,
        };
        let start = range.start();
        let first = match &query.after {
            Some(after) if *after >= start => Bound::Excluded(after),
            _ => Bound::Included(&start),
        };
        let past = self.since(at);
        let mut found = AsOf {
            now: self.objects.range((first, Bound::Unbounded)).peekable(),
            past: past.range((first, Bound::Unbounded)).peekable(),
        }
        .take_while(|(key, _)| range.contains(key));

        let entries: Vec<Entry<T>> = found
            .by_ref()
            .take(limit)
            .map(|(key, stored)| Entry {
                key: key.clone(),
                value: stored.value.clone(),
                version: stored.version,
            })
            .collect();
        let remaining_count = if entries.len() < limit {
            0
        } else {
            found.count()
        };
        let more = entries
            .last()
            .filter(|_| remaining_count > 0)
            .map(|last| Remaining {
                last_key: last.key.clone(),
                remaining_count,
            });
        List {
            entries,
            version: at,
            more,
        }
    }

    /// What the objects that changed after version `at` were then; none if they did not exist.
    fn since(&self, at: u64) -> BTreeMap<Key, Option<Stored<T>>> {
        let mut past = BTreeMap::new();
        // From the newest to the oldest, so that what the oldest replaced remains.
        for recorded in self.history.after(at).rev() {
            past.insert(recorded.change.key.clone(), recorded.previous.clone());
        }
        past
    }
}

/// The objects as they are, but where the past differs, as they were.
struct AsOf<'a, T> {
    now: Peekable<btree_map::Range<'a, Key, Stored<T>>>,
    past: Peekable<btree_map::Range<'a, Key, Option<Stored<T>>>>,
}

impl<'a, T> Iterator for AsOf<'a, T> {
    type Item = (&'a Key, &'a Stored<T>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some((past_key, _)) = self.past.peek() else {
                return self.now.next();
            };
            if let Some(now) = self.now.next_if(|(key, _)| key < past_key) {
                return Some(now);
            }
            self.now.next_if(|(key, _)| key == past_key);
            if let Some((key, Some(stored))) = self.past.next() {
                return Some((key, stored));
            }
        }
    }
}
