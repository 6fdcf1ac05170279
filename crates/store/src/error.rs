//! What can go wrong, by what was asked for.

use std::io;
use std::path::PathBuf;

use crate::Key;

/// Why a list or a watch at a version is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The changes since that version are not all remembered any more. An API server answers
    /// 410 Gone.
    #[error(
        "the version asked for is too old: the oldest version that can be gone back to is {oldest}"
    )]
    Gone {
        /// The oldest version that would have been possible.
        oldest: u64,
    },
    /// No write has that version yet.
    #[error("the version asked for does not exist yet: the newest version is {newest}")]
    Future {
        /// The version of the newest write.
        newest: u64,
    },
}

/// Changes that a watch should have handed out next are not remembered any more: its owner was too
/// slow. What to do is to list again, and watch from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the watch is too far behind: the oldest version that changes are remembered from is {oldest}"
)]
pub struct Gone {
    /// The oldest version from which a watch of the resource can start.
    pub oldest: u64,
}

/// The store of a watch is gone, so nothing will change any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store is closed")]
pub struct Closed;

/// Why a commit was refused. None of its operations was carried out.
///
/// `index` is the place of the offending operation in the commit, from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The object to create exists.
    #[error("{key} exists already")]
    Exists {
        /// Which operation.
        index: usize,
        /// Which object.
        key: Key,
    },
    /// The object to update or delete does not exist.
    #[error("{key} does not exist")]
    NotFound {
        /// Which operation.
        index: usize,
        /// Which object.
        key: Key,
    },
    /// The object has not the version that was expected: someone else has written it since.
    #[error("{key} has been changed: it is at version {actual}")]
    Conflict {
        /// Which operation.
        index: usize,
        /// Which object.
        key: Key,
        /// The version that it has.
        actual: u64,
    },
    /// A limit of [`Options`](crate::Options) is reached.
    #[error("{key} cannot be written: {limit}")]
    Full {
        /// Which operation.
        index: usize,
        /// Which object.
        key: Key,
        /// Which limit.
        limit: Limit,
    },
    /// The commit could not be written to disk. It is not visible; but if the disk failed while it
    /// was written it may turn out to be there when the store is opened again.
    #[error(transparent)]
    Io(#[from] DiskError),
}

/// A limit of [`Options`](crate::Options) that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Limit {
    /// [`Options::max_objects`](crate::Options::max_objects).
    #[error("the store is full, as it takes {0} objects at most; delete some that are not needed")]
    Objects(usize),
    /// [`Options::max_bytes`](crate::Options::max_bytes).
    #[error("the store is full, as it takes {0} bytes at most; delete objects that are not needed")]
    Bytes(u64),
    /// [`Options::max_object_bytes`](crate::Options::max_object_bytes).
    #[error("an object may take {0} bytes at most")]
    ObjectBytes(usize),
}

/// The disk did not do what it should. The store goes on answering reads, and refuses all writes
/// with this error: if the disk is full, until there is room; otherwise until it is opened again, as
/// what is on the disk is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot write {}: {reason}; writes are refused until {}", file.display(), end(*is_full))]
pub struct DiskError {
    /// The file.
    pub file: PathBuf,
    /// What the operating system or the database says.
    pub reason: String,
    /// Whether there was no room, and nothing else is wrong.
    pub is_full: bool,
}

fn end(is_full: bool) -> &'static str {
    match is_full {
        true => "there is room on the disk",
        false => "the store is opened again",
    }
}

/// Why a store could not be opened. Whatever was in the directory is as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the store open, or this one has it open already.
    #[error("{} is in use by another process{}; a data directory belongs to one at a time", directory.display(), holder(*process))]
    InUse {
        /// The directory.
        directory: PathBuf,
        /// The number of the process, if it left it.
        process: Option<u32>,
    },
    /// The operating system refuses.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was to be done: `open`, `create`, ...
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
    /// The file is damaged, cut off, or not of this program at all.
    #[error("{} is damaged or was not written by this program: {reason}; it is left as it is, restore it from a copy or use another directory", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file is of a format that this version of the program does not know.
    #[error("{} has format {found}, this version of the program reads formats 1 to {supported}; use the version that wrote it, or a newer one", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// The format of the file.
        found: u64,
        /// The newest format that can be read.
        supported: u64,
    },
    /// The bytes of an object are not what [`Record::from_bytes`](crate::Record::from_bytes) can
    /// read.
    #[error("{}: {key} cannot be read: {reason}; the file is left as it is", file.display())]
    Record {
        /// The file.
        file: PathBuf,
        /// Which object.
        key: Key,
        /// What is wrong with it.
        reason: String,
    },
}

fn holder(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" ({process})"))
}
