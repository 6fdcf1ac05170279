//! Kubernetes objects by key, with versions, conditions on writes, and watches: what etcd is to
//! kube-apiserver, in one process.
//!
//! # What it is for
//!
//! All parts of a Kubernetes cluster talk to each other by writing objects and watching what others
//! write. For that the place where objects are kept must give four promises:
//!
//! * **Each write has a version**, greater than all before. Here one count serves all resources. An
//!   API server hands it out as `metadata.resourceVersion`.
//! * **A write can be conditional** on the version of the object that its author has seen. Of two
//!   who change the same object at the same time one is told so
//!   ([`CommitError::Conflict`]), and nobody's change is lost.
//! * **A list is of one moment**, and says which. Its further pages can be of the same moment, even if
//!   much has happened since ([`ListQuery::at`]).
//! * **A watch misses nothing and repeats nothing.** It starts from the version of a list, or from
//!   where an earlier watch was cut off, and if it cannot, it says so ([`ListError::Gone`]).
//!
//! ```
//! use std::borrow::Cow;
//! use outrank_store::{CommitError, Key, ListQuery, Operation, Options, Range, Record, Store};
//!
//! struct Text(String);
//!
//! impl Record for Text {
//!     fn to_bytes(&self) -> Cow<'_, [u8]> {
//!         self.0.as_bytes().into()
//!     }
//!     fn from_bytes(_: &Key, bytes: &[u8]) -> Result<Self, String> {
//!         String::from_utf8(bytes.to_vec()).map(Text).map_err(|error| error.to_string())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::in_memory(Options::default());
//! let key = Key::new("configmaps", "default", "colours");
//!
//! let created = store.commit(vec![Operation::create(key.clone(), |version| {
//!     Text(format!("red, written at {version}"))
//! })])?;
//! let (list, mut watch) = store.list_and_watch(&Range::Resource("configmaps".into()));
//! assert_eq!(list.entries[0].value.0, "red, written at 2");
//!
//! // Whoever has seen the object may replace it; whoever has not seen that, may not.
//! let seen = Some(created[0].version);
//! store.commit(vec![Operation::update(key.clone(), seen, |_| Text("blue".into()))])?;
//! let late = store.commit(vec![Operation::update(key, seen, |_| Text("green".into()))]);
//! assert!(matches!(late, Err(CommitError::Conflict { actual: 3, .. })));
//!
//! // The watch tells what has happened since the list, and the list can be had once more.
//! assert_eq!(watch.next_batch(10)?[0].value.0, "blue");
//! let query = ListQuery { at: Some(list.version), ..ListQuery::default() };
//! let again = store.list(&Range::Resource("configmaps".into()), query)?;
//! assert_eq!(again.entries[0].value.0, "red, written at 2");
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! All objects are in memory, in a sorted map for each resource. Beside it is the history, the latest
//! changes in order, within the limits of [`Options`]. A watch is a place in that history and holds
//! nothing else, so slow watches cost no memory; a list of the past is the present with the history
//! taken back. Writes come one after the other, and each wakes only the watches that it concerns.
//!
//! A store on disk ([`Store::open`]) has the same objects in a database file, and no history: what
//! clients saw before a restart they have to list again, and are told so. It gives three promises more:
//!
//! * **What is acknowledged stays**, through `kill -9` and power failure: [`Store::commit`] returns when
//!   the disk has it. Commits that wait at the same time share one flush of the disk.
//! * **Nobody sees what might still be lost.** Readers do not wait for the disk either: they see what
//!   was there before.
//! * **Nothing is repaired by guessing.** A file that is not right in all parts is refused, with what is
//!   wrong, and not touched ([`OpenError`]). What an unclean end leaves is no damage: the latest commit is
//!   there or not.
//!
//! A full disk refuses writes, and nothing else: once there is room again, writing goes on
//! ([`Store::failure`]).

mod change;
mod clock;
mod commit;
mod commit_slots;
mod disk;
mod error;
mod format;
mod guarded_file;
mod history;
mod interest;
mod key;
mod list;
mod lock;
mod operation;
mod options;
mod prepare;
mod record;
mod resource;
#[cfg(test)]
mod small_disk;
mod store;
mod watch;

pub use change::{Change, ChangeKind};
pub use error::{Closed, CommitError, DiskError, Gone, Limit, ListError, OpenError};
pub use key::{Key, Range};
pub use list::{Entry, List, ListQuery, Remaining};
pub use operation::{Make, Operation};
pub use options::Options;
pub use record::Record;
pub use store::{Store, Usage};
pub use watch::Watch;
