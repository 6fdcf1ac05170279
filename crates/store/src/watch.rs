//! What happens, as it happens: [`Watch`].

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::interest::Interest;
use crate::lock::read;
use crate::resource::Resource;
use crate::{Change, Closed, Gone, Range};

/// The changes of a range, in the order of their versions, each once.
///
/// A watch holds no changes, it is a place in the history that the store remembers anyway. So one
/// that is not asked for long takes no memory; it may only come too late ([`Gone`]).
///
/// ```
/// # use std::{borrow::Cow, sync::Arc};
/// # use outrank_store::{Key, Operation, Options, Range, Record, Store};
/// # struct Text(String);
/// # impl Record for Text {
/// #     fn to_bytes(&self) -> Cow<'_, [u8]> { self.0.as_bytes().into() }
/// #     fn from_bytes(_: &Key, _: &[u8]) -> Result<Self, String> { Err("not here".into()) }
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store: Store<Text> = Store::in_memory(Options::default());
/// let pods = Range::Resource("pods".into());
/// let mut watch = store.watch(&pods, store.version())?;
///
/// store.commit(vec![Operation::create(Key::new("pods", "default", "a"), |_| Text("new".into()))])?;
///
/// for change in watch.next_batch(100)? {
///     println!("{:?} {}", change.kind, change.key);
/// }
/// assert_eq!(watch.position(), store.version());
/// # Ok(())
/// # }
/// ```
pub struct Watch<T> {
    range: Range,
    position: u64,
    resource: Arc<Resource<T>>,
    interest: Arc<Interest>,
    clock: Arc<Clock>,
}

impl<T> Watch<T> {
    /// A watch that has joined `interest` for `range`.
    pub(crate) fn new(
        range: Range,
        position: u64,
        resource: Arc<Resource<T>>,
        interest: Arc<Interest>,
        clock: Arc<Clock>,
    ) -> Self {
        Self {
            range,
            position,
            resource,
            interest,
            clock,
        }
    }

    /// The next changes, at most `max`, without waiting. None means that there are none now.
    ///
    /// Takes time for the changes of the resource since the last call, whether they are of the range
    /// or not; but next to none if none is.
    ///
    /// # Errors
    ///
    /// [`Gone`] if changes of the range that come next are not remembered any more, now and at each
    /// further call.
    pub fn next_batch(&mut self, max: usize) -> Result<Vec<Change<T>>, Gone> {
        self.next_batch_within(max, usize::MAX)
    }

    /// As [`next_batch`](Self::next_batch), but no change more once their objects have `bytes_max`
    /// bytes, as [`Options`](crate::Options) counts them: who hands them on slowly keeps few of them.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn next_batch_within(
        &mut self,
        max: usize,
        bytes_max: usize,
    ) -> Result<Vec<Change<T>>, Gone> {
        // The version must be read first: a newer change may then be overlooked, not an older one.
        let version = self.clock.version();
        if !self.is_behind() {
            self.position = self.position.max(version);
            return Ok(Vec::new());
        }
        let state = read(&self.resource.state);
        if self.interest.lost() > self.position {
            return Err(Gone {
                oldest: state.history.floor(),
            });
        }
        // No change of this resource gets a version up to this one while its lock is held.
        let version = self.clock.version();
        let (mut changes, mut bytes) = (Vec::new(), 0_usize);
        for recorded in state.history.after(self.position) {
            if self.range.contains(&recorded.change.key) {
                if changes.len() == max || bytes >= bytes_max {
                    return Ok(changes);
                }
                bytes = bytes.saturating_add(recorded.bytes);
                self.position = recorded.change.version;
                changes.push(recorded.change.clone());
            }
        }
        self.position = self.position.max(version);
        Ok(changes)
    }

    /// Waits until [`next_batch`](Self::next_batch) has something to say: changes, or that they are
    /// [`Gone`]. May be cancelled at any time.
    ///
    /// # Errors
    ///
    /// [`Closed`] if there is nothing more, and never will be.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let interest = self.interest.clone();
        loop {
            let mut notified = pin!(interest.notify().notified());
            // From here on no call is missed, so what is seen next is no older than the last call.
            notified.as_mut().enable();
            let closed = self.clock.is_closed();
            if self.is_behind() {
                return Ok(());
            }
            if closed {
                return Err(Closed);
            }
            notified.await;
        }
    }

    /// As [`changed`](Self::changed), in a thread that may block, and for no longer than `timeout`.
    /// Whether there is something; false if the time is over.
    ///
    /// # Errors
    ///
    /// [`Closed`] if there is nothing more, and never will be.
    pub fn wait_blocking(&mut self, timeout: Duration) -> Result<bool, Closed> {
        let started = Instant::now();
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut changed = pin!(self.changed());
        loop {
            if let Poll::Ready(result) = changed.as_mut().poll(&mut context) {
                return result.map(|()| true);
            }
            let Some(left) = timeout.checked_sub(started.elapsed()) else {
                return Ok(false);
            };
            std::thread::park_timeout(left);
        }
    }

    /// All changes of the range up to this version have been handed out. It moves on with the
    /// versions of the store when [`next_batch`](Self::next_batch) finds nothing more, so after that
    /// it is what a bookmark says.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The range that is watched.
    pub fn range(&self) -> &Range {
        &self.range
    }

    /// Sets the position, for a watch from which nothing was taken yet.
    pub(crate) fn start_at(&mut self, position: u64) {
        self.position = position;
    }

    /// Whether there are changes that were not handed out.
    fn is_behind(&self) -> bool {
        self.interest.newest() > self.position
    }
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        // The interest in a whole resource stays, so many watches of it can come and go.
        if !matches!(self.range, Range::Resource(_)) {
            self.resource.leave(&self.range);
        }
    }
}

impl<T> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("range", &self.range)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
