//! Who is woken by which change.
//!
//! All watches of a range share one [`Interest`]. A write looks up the at most three interests that
//! it concerns (those of its resource, its namespace and its object) and wakes only these, so a
//! thousand watches of other objects cost it nothing. Nor do they cost anything when they are asked:
//! the interest knows the newest change that concerns it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::{Key, Range};

/// What all watches of a range have in common.
#[derive(Default)]
pub(crate) struct Interest {
    notify: Notify,
    newest: AtomicU64,
    lost: AtomicU64,
}

impl Interest {
    pub(crate) fn notify(&self) -> &Notify {
        &self.notify
    }

    /// The version of the newest change of the range.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// The version of the newest change of the range that is forgotten.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Acquire)
    }
}

#[derive(Default)]
struct Narrow {
    interest: Arc<Interest>,
    watches: usize,
}

/// The interests in one resource. Those in less than all of it are there while someone watches.
#[derive(Default)]
pub(crate) struct Interests {
    everything: Arc<Interest>,
    namespaces: BTreeMap<Arc<str>, Narrow>,
    objects: BTreeMap<Key, Narrow>,
}

impl Interests {
    /// The interest of a new watch of `range`, which begins where no change is forgotten (`floor`) and
    /// misses a change of the range of version `newest`, if that is not 0.
    pub(crate) fn join(&mut self, range: &Range, floor: u64, newest: u64) -> Arc<Interest> {
        let narrow = match range {
            Range::Resource(_) => return self.everything.clone(),
            Range::Namespace(_, namespace) => self.namespaces.entry(namespace.clone()).or_default(),
            Range::Object(key) => self.objects.entry(key.clone()).or_default(),
        };
        if narrow.watches == 0 {
            narrow.interest.lost.store(floor, Ordering::Release);
        }
        narrow.watches += 1;
        // The watches before may all have begun later.
        narrow.interest.newest.fetch_max(newest, Ordering::AcqRel);
        narrow.interest.clone()
    }

    /// A watch of `range` is gone.
    pub(crate) fn leave(&mut self, range: &Range) {
        match range {
            Range::Resource(_) => {}
            Range::Namespace(_, namespace) => leave(&mut self.namespaces, namespace),
            Range::Object(key) => leave(&mut self.objects, key),
        }
    }

    /// Takes note of a change; those concerned that knew none since `batch_start` are added to
    /// `wake`, to be woken when the whole batch can be seen.
    pub(crate) fn changed(
        &self,
        key: &Key,
        version: u64,
        batch_start: u64,
        wake: &mut Vec<Arc<Interest>>,
    ) {
        for interest in self.concerned(key) {
            if interest.newest.swap(version, Ordering::AcqRel) < batch_start {
                wake.push(interest.clone());
            }
        }
    }

    /// Takes note that a change is forgotten.
    pub(crate) fn forgotten(&self, key: &Key, version: u64) {
        for interest in self.concerned(key) {
            interest.lost.store(version, Ordering::Release);
        }
    }

    /// Wakes everyone, for the last time.
    pub(crate) fn wake_all(&self) {
        self.everything.notify.notify_waiters();
        let narrow = self.namespaces.values().chain(self.objects.values());
        narrow.for_each(|narrow| narrow.interest.notify.notify_waiters());
    }

    fn concerned(&self, key: &Key) -> impl Iterator<Item = &Arc<Interest>> {
        let namespace = (!self.namespaces.is_empty())
            .then(|| self.namespaces.get(&key.namespace))
            .flatten();
        let object = (!self.objects.is_empty())
            .then(|| self.objects.get(key))
            .flatten();
        let narrow = namespace.into_iter().chain(object);
        std::iter::once(&self.everything).chain(narrow.map(|narrow| &narrow.interest))
    }
}

fn leave<K: Ord>(narrows: &mut BTreeMap<K, Narrow>, key: &K) {
    if let Some(narrow) = narrows.get_mut(key) {
        narrow.watches -= 1;
        if narrow.watches == 0 {
            narrows.remove(key);
        }
    }
}
