//! How much memory the events take that wait for watches to read them.
//!
//! A large object is told to every watch as the same text: it is counted once, as long as anyone
//! still has it to send. Text that one watch has for itself (small events, tables, objects of
//! another version) is counted for each. When all that may be held is held, the next event waits
//! for a while, and meanwhile watches that do not read are ended ([`EventMemory::is_short`]).
//!
//! What is counted is counted until the bytes are gone, wherever they are: waiting for their turn
//! or handed to the connection. So the room that bytes have lives with the bytes.
//!
//! Upstream shares the text of an event between its watches as well
//! (`k8s.io/apiserver/pkg/storage/cacher/caching_object.go`, Kubernetes 1.36), and ends watches
//! whose queue is full (`cache_watcher.go`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Text below this many bytes is not counted: there is no more of it than there are watches.
const SMALL_BYTES: usize = 1024;

/// How often who waits for room looks whether someone else holds the same text by now.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// What events may take, and what they take.
pub(super) struct EventMemory {
    /// In KiB.
    free: Arc<Semaphore>,
    /// In KiB.
    all_kib: usize,
    /// How long an event waits for room.
    wait: Duration,
    /// How many events wait for room.
    waiting: AtomicUsize,
    /// Texts that several watches may have, by where they are in memory.
    shared: Mutex<HashMap<usize, Weak<SharedText>>>,
}

/// Room for some bytes.
pub(super) struct Room(Option<OwnedSemaphorePermit>);

/// A text that all who send it count once.
struct SharedText {
    text: Bytes,
    memory: Arc<EventMemory>,
    _room: Room,
}

/// One who sends it.
struct Share(Arc<SharedText>);

/// Bytes with the room that they take.
struct Counted<T> {
    bytes: T,
    _room: Room,
}

impl EventMemory {
    pub(super) fn new(bytes: usize, wait: Duration) -> Arc<Self> {
        let all_kib = (bytes / 1024).clamp(1, Semaphore::MAX_PERMITS);
        Arc::new(Self {
            free: Arc::new(Semaphore::new(all_kib)),
            all_kib,
            wait,
            waiting: AtomicUsize::new(0),
            shared: Mutex::default(),
        })
    }

    /// Room for so many bytes, as soon as there is; none if there is not within some time. What is
    /// larger than all there may be waits for all.
    pub(super) async fn room(&self, bytes: usize) -> Option<Room> {
        self.room_within(bytes, self.wait).await
    }

    /// A text of which others may have the same bytes. None if there is no room for it within some
    /// time.
    pub(super) async fn share(self: &Arc<Self>, text: &Bytes) -> Option<Bytes> {
        let give_up = Instant::now() + self.wait;
        loop {
            if let Some(known) = self.known(text) {
                return Some(known);
            }
            if let Some(room) = self.room_within(text.len(), LOOK_AGAIN).await {
                return Some(self.share_in(room, text));
            }
            if Instant::now() >= give_up {
                return None;
            }
        }
    }

    /// Whether events wait for room.
    pub(super) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// How many bytes are held, in whole KiB.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        (self.all_kib - self.free.available_permits()) * 1024
    }

    async fn room_within(&self, bytes: usize, wait: Duration) -> Option<Room> {
        if bytes < SMALL_BYTES {
            return Some(Room(None));
        }
        let kib = u32::try_from(bytes.div_ceil(1024).min(self.all_kib)).ok()?;
        if let Ok(permit) = self.free.clone().try_acquire_many_owned(kib) {
            return Some(Room(Some(permit)));
        }
        let _waiting = Waiting::new(&self.waiting);
        let permit = self.free.clone().acquire_many_owned(kib);
        let permit = tokio::time::timeout(wait, permit).await;
        Some(Room(Some(permit.ok()?.ok()?)))
    }

    fn known(&self, text: &Bytes) -> Option<Bytes> {
        let known = self.lock().get(&place(text)).and_then(Weak::upgrade);
        known.map(|it| Bytes::from_owner(Share(it)))
    }

    fn share_in(self: &Arc<Self>, room: Room, text: &Bytes) -> Bytes {
        let mut shared = self.lock();
        // Someone else may have been faster. Then this room is given back.
        let known = shared.get(&place(text)).and_then(Weak::upgrade);
        let held = known.unwrap_or_else(|| {
            let held = Arc::new(SharedText {
                text: text.clone(),
                memory: self.clone(),
                _room: room,
            });
            shared.insert(place(text), Arc::downgrade(&held));
            held
        });
        Bytes::from_owner(Share(held))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Weak<SharedText>>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a text is. No other text is there as long as someone has this one.
fn place(text: &Bytes) -> usize {
    text.as_ptr().addr()
}

impl Room {
    /// The part of it that so many bytes take.
    pub(super) fn take(&mut self, bytes: usize) -> Self {
        Self(self.0.as_mut().and_then(|permit| {
            let kib = bytes.div_ceil(1024).min(permit.num_permits());
            permit.split(kib)
        }))
    }

    /// This and another one.
    pub(super) fn and(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(mut all), Some(other)) => {
                all.merge(other);
                Self(Some(all))
            }
            (one, other) => Self(one.or(other)),
        }
    }

    /// Bytes that are counted until nobody has them.
    pub(super) fn counts(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        match self.0 {
            None => Bytes::copy_from_slice(bytes.as_ref()),
            Some(_) => Bytes::from_owner(Counted { bytes, _room: self }),
        }
    }
}

impl From<OwnedSemaphorePermit> for Room {
    fn from(permit: OwnedSemaphorePermit) -> Self {
        Self(Some(permit))
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Counted<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl AsRef<[u8]> for Share {
    fn as_ref(&self) -> &[u8] {
        &self.0.text
    }
}

impl Drop for SharedText {
    fn drop(&mut self) {
        let mut shared = self.memory.lock();
        let place = place(&self.text);
        // It may be shared again already, by someone who came in between.
        if shared.get(&place).is_some_and(|it| it.strong_count() == 0) {
            shared.remove(&place);
        }
    }
}

/// One that waits, as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    #[tokio::test]
    async fn what_many_have_counts_once_and_until_the_last_has_gone() {
        let memory = EventMemory::new(100 * KIB, Duration::from_millis(1));
        let text = Bytes::from(vec![b'a'; 60 * KIB]);
        let mut shares = Vec::new();
        for _ in 0..50 {
            shares.push(memory.share(&text).await.expect("room"));
        }
        assert_eq!(memory.held_bytes(), 60 * KIB);
        assert_eq!(shares[49], text);
        // A part of it holds all of it.
        let part = shares[7].slice(10..20);
        shares.clear();
        assert_eq!(memory.held_bytes(), 60 * KIB);
        assert!(
            memory
                .share(&Bytes::from(vec![0; 50 * KIB]))
                .await
                .is_none()
        );
        drop(part);
        assert_eq!(memory.held_bytes(), 0);
        assert!(memory.lock().is_empty());
    }

    #[tokio::test]
    async fn room_goes_with_the_bytes() {
        let memory = EventMemory::new(100 * KIB, Duration::from_millis(1));
        let mut room = memory.room(70 * KIB).await.expect("room");
        let part = room.take(30 * KIB).counts(vec![0; 30 * KIB]);
        drop(room);
        assert_eq!(memory.held_bytes(), 30 * KIB);
        assert!(memory.room(71 * KIB).await.is_none());
        assert!(!memory.is_short(), "nobody waits any more");
        drop(part);
        assert_eq!(memory.held_bytes(), 0);
        assert!(memory.room(1_000 * KIB).await.is_some(), "all is enough");
        assert!(memory.room(10).await.is_some());
    }
}
