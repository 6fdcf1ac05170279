//! Watching: what happens to objects, from a version on.
//!
//! A watch begins with nothing, with what has happened since a version, or with the objects that
//! there are (`resourceVersion` absent or `0`, or `sendInitialEvents`). Then come changes, as they
//! happen. A client that selects objects is told of those that enter its selection as if they were
//! new, and of those that leave it as if they were deleted. Bookmarks tell how far the watch has
//! come, so that a client that comes back need not begin anew.
//!
//! A watch costs its place in the history of the store and nothing else: it keeps no object that
//! the store has forgotten. Who falls too far behind is told that it expired. Sources, Kubernetes 1.36:
//! `k8s.io/apiserver/pkg/storage/cacher/{cacher,cache_watcher}.go`, KEP-3157 (watch-list).

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use outrank_api::status::Status;
use outrank_store::{Change, ChangeKind, Entry, Key, ListError, ListQuery, Range, Store, Watch};
use serde_json::Value;

use super::read::{ListOptions, expired, range_of, version_of};
use super::{ApiServer, Target};
use crate::request::Query;
use crate::stored_object::{Selection, StoredObject};

/// How many events are taken at once. They are held until the client has read them.
const BATCH: usize = 256;

/// What a watch begins with.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Which objects, and from which version.
    pub list: ListOptions,
    /// Whether the client takes bookmarks.
    pub allows_bookmarks: bool,
    /// Whether to begin with all objects, and tell when they are through.
    pub sends_initial_events: Option<bool>,
    /// When to end, in seconds; `None` leaves it to the server.
    pub timeout_seconds: Option<u64>,
}

impl WatchOptions {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    ///
    /// The answer, if one of them is wrong.
    pub fn read(query: &Query<'_>, target: &Target) -> Result<Self, Status> {
        let initial = query.get("sendInitialEvents");
        let timeout = query.get("timeoutSeconds");
        Ok(Self {
            list: ListOptions::read(query, target)?,
            allows_bookmarks: query.is_true("allowWatchBookmarks"),
            sends_initial_events: (!initial.is_empty()).then(|| query.is_true("sendInitialEvents")),
            timeout_seconds: timeout.parse().ok().filter(|seconds| *seconds > 0),
        })
    }
}

/// An object that is still to be told, and its key.
type Due = (Key, Weak<StoredObject>);

/// Something that a watch tells.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// An object is there, or has entered the selection.
    Added(Key, Arc<StoredObject>),
    /// It has changed.
    Modified(Key, Arc<StoredObject>),
    /// It is gone, or has left the selection.
    Deleted(Key, Arc<StoredObject>),
    /// All up to this version was told.
    Bookmark {
        /// The version.
        version: u64,
        /// Whether all objects that there were have been told now.
        ends_initial_events: bool,
    },
    /// The watch is over.
    Error(Box<Status>),
}

/// A watch.
pub struct Watching {
    watch: Watch<StoredObject>,
    selection: Selection,
    initial: Option<Initial>,
    /// The version of the initial events, if their end is still to be told.
    ends_initial_events: Option<u64>,
    /// Only what is newer is told.
    after: u64,
    is_over: bool,
}

/// The objects with which a watch begins, as far as they are not told. They are listed piece by
/// piece, and it is the store that keeps them: watches whose clients read slowly hold none.
struct Initial {
    store: Store<StoredObject>,
    entries: VecDeque<Due>,
    /// After which key the next piece begins; none if this is the last.
    after: Option<Key>,
    version: u64,
}

impl WatchEvent {
    /// What happened to an object, as clients are told it, and the object; none if the event is not
    /// about one.
    pub(crate) fn object(&self) -> Option<(&'static str, &Arc<StoredObject>)> {
        match self {
            Self::Added(_, object) => Some(("ADDED", object)),
            Self::Modified(_, object) => Some(("MODIFIED", object)),
            Self::Deleted(_, object) => Some(("DELETED", object)),
            Self::Bookmark { .. } | Self::Error(_) => None,
        }
    }
}

impl ApiServer {
    /// Watches the objects of a type, in a namespace or all.
    ///
    /// # Errors
    ///
    /// If a version is no number. Versions that are forgotten are told by the watch.
    pub fn watch(&self, target: &Target, options: &WatchOptions) -> Result<Watching, Status> {
        let range = range_of(target);
        let version = version_of(&options.list.resource_version)?.unwrap_or(0);
        let has_initial = options.sends_initial_events.unwrap_or(version == 0);
        let mut initial = None;
        let mut after = version;
        if has_initial {
            let query = ListQuery {
                limit: Some(BATCH),
                ..ListQuery::default()
            };
            let list = self.store().list(&range, query);
            let list = list.map_err(|error| Status::internal_error(&error))?;
            after = list.version;
            initial = Some(Initial {
                store: self.store().clone(),
                entries: due(list.entries),
                after: list.more.map(|it| it.last_key),
                version: list.version,
            });
        }
        let newest = self.store().version();
        let watch = match self.store().watch(&range, after.min(newest)) {
            Ok(watch) => watch,
            Err(ListError::Gone { oldest }) => {
                return Err(too_old(version, oldest));
            }
            Err(error) => return Err(Status::internal_error(&error)),
        };
        let tells_end = options.sends_initial_events == Some(true) && options.allows_bookmarks;
        Ok(Watching {
            watch,
            selection: options.list.selection.clone(),
            initial,
            ends_initial_events: tells_end.then_some(after),
            after,
            is_over: false,
        })
    }
}

impl Watching {
    /// What there is to tell now; empty if nothing has happened. After an error comes no more.
    pub fn next_batch(&mut self) -> Vec<WatchEvent> {
        self.next_batch_within(usize::MAX)
    }

    /// As [`next_batch`](Self::next_batch), but no event more once their objects have `bytes_max`
    /// bytes.
    pub fn next_batch_within(&mut self, bytes_max: usize) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        while let Some(initial) = &mut self.initial {
            let told = initial.tell(&self.selection, bytes_max, &mut events);
            let goes_on = told.and_then(|has_more| match has_more {
                true => Ok(true),
                false => initial.next(self.watch.range()),
            });
            match goes_on {
                Ok(true) => {}
                Ok(false) => self.initial = None,
                Err(status) => {
                    events.push(self.fail(status));
                    return events;
                }
            }
            if !events.is_empty() && self.initial.is_some() {
                return events;
            }
        }
        if let Some(version) = self.ends_initial_events.take() {
            events.push(WatchEvent::Bookmark {
                version,
                ends_initial_events: true,
            });
        }
        while events.is_empty() && !self.is_over {
            let changes = match self.watch.next_batch_within(BATCH, bytes_max) {
                Ok(changes) => changes,
                Err(gone) => {
                    let status = too_old(self.position(), gone.oldest);
                    events.push(self.fail(status));
                    return events;
                }
            };
            if changes.is_empty() {
                break;
            }
            let newer = changes.into_iter().filter(|it| it.version > self.after);
            events.extend(newer.filter_map(|change| told(change, &self.selection)));
        }
        events
    }

    /// Ends the watch.
    fn fail(&mut self, status: Status) -> WatchEvent {
        self.is_over = true;
        self.initial = None;
        self.ends_initial_events = None;
        WatchEvent::Error(Box::new(status))
    }

    /// Waits until there may be something to tell.
    pub async fn changed(&mut self) {
        if !self.has_initial_events() && self.watch.changed().await.is_err() {
            // The store is gone: nothing will ever change.
            std::future::pending::<()>().await;
        }
    }

    /// Up to which version all was told.
    pub fn position(&self) -> u64 {
        self.watch.position().max(self.after)
    }

    /// Whether objects that were there at the beginning are still to be told.
    pub fn has_initial_events(&self) -> bool {
        self.initial.is_some() || self.ends_initial_events.is_some()
    }
}

impl Initial {
    /// Adds the objects of this piece that are selected, up to so many bytes. Whether there are more
    /// in it.
    ///
    /// # Errors
    ///
    /// If one of them is forgotten.
    fn tell(
        &mut self,
        selection: &Selection,
        bytes_max: usize,
        events: &mut Vec<WatchEvent>,
    ) -> Result<bool, Status> {
        let mut bytes = 0_usize;
        while bytes < bytes_max {
            let Some((key, object)) = self.entries.pop_front() else {
                return Ok(false);
            };
            let Some(object) = object.upgrade() else {
                // The store keeps what there was as long as its history goes back that far.
                return Err(too_old(self.version, self.store.version()));
            };
            if object.is_selected(&key, selection) {
                bytes = bytes.saturating_add(object.json().len());
                events.push(WatchEvent::Added(key, object));
            }
        }
        Ok(!self.entries.is_empty())
    }

    /// Lists the next piece. Whether there is one.
    ///
    /// # Errors
    ///
    /// If the objects as they were are forgotten.
    fn next(&mut self, range: &Range) -> Result<bool, Status> {
        let Some(after) = self.after.take() else {
            return Ok(false);
        };
        let query = ListQuery {
            limit: Some(BATCH),
            after: Some(after),
            at: Some(self.version),
        };
        let list = self.store.list(range, query).map_err(|error| match error {
            ListError::Gone { oldest } => too_old(self.version, oldest),
            error => Status::internal_error(&error),
        })?;
        self.entries = due(list.entries);
        self.after = list.more.map(|it| it.last_key);
        Ok(true)
    }
}

fn due(entries: Vec<Entry<StoredObject>>) -> VecDeque<Due> {
    let weak = |entry: Entry<StoredObject>| (entry.key, Arc::downgrade(&entry.value));
    entries.into_iter().map(weak).collect()
}

/// The watch has fallen too far behind.
fn too_old(version: u64, oldest: u64) -> Status {
    expired(&format!("too old resource version: {version} ({oldest})"))
}

/// What a client with a selection is told of a change.
fn told(change: Change<StoredObject>, selection: &Selection) -> Option<WatchEvent> {
    let Change {
        key,
        kind,
        value,
        previous,
        version,
    } = change;
    let is_selected = |object: &StoredObject| object.is_selected(&key, selection);
    let was = previous.as_ref().is_some_and(|it| is_selected(it));
    let is = kind != ChangeKind::Deleted && is_selected(&value);
    match (was, is) {
        (false, true) => Some(WatchEvent::Added(key, value)),
        (true, true) => Some(WatchEvent::Modified(key, value)),
        (true, false) if kind == ChangeKind::Deleted => Some(WatchEvent::Deleted(key, value)),
        (true, false) => {
            let previous = previous?;
            let last = at_version(&key, &previous, version);
            Some(WatchEvent::Deleted(key, Arc::new(last)))
        }
        (false, false) => None,
    }
}

/// The object with another version.
fn at_version(key: &Key, object: &StoredObject, version: u64) -> StoredObject {
    let mut value: Value = serde_json::from_slice(object.json()).unwrap_or_default();
    value["metadata"]["resourceVersion"] = version.to_string().into();
    StoredObject::new(&key.resource, value)
}
