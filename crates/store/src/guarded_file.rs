//! The file of the database, which stays as it is until it has proved sound.
//!
//! The database writes into its file as soon as it opens it: it marks it as in use, and repairs what
//! an unclean shutdown left. If the file is damaged, or not ours at all, that could spoil what
//! someone might still save. So at first everything that the database writes is held in memory, and
//! it sees its file as if it had been written. Once all has been read and found right,
//! [`GuardedFile::release`] writes it down, in the same order.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

use crate::commit_slots;
use crate::lock::lock;

#[cfg(not(test))]
type Backend = FileBackend;
#[cfg(test)]
type Backend = crate::small_disk::SmallDisk;

fn backend(file: File) -> Result<Backend, DatabaseError> {
    let file = FileBackend::new(file)?;
    #[cfg(test)]
    let file = crate::small_disk::SmallDisk::new(file);
    Ok(file)
}

/// A handle to the file; clones are the same.
#[derive(Clone)]
pub(crate) struct GuardedFile {
    shared: Arc<Shared>,
}

struct Shared {
    file: Backend,
    /// Its length as long as writes are held back.
    length: u64,
    /// What waits to be written; none once writes go through.
    waiting: Mutex<Option<Vec<Waiting>>>,
    /// What has gone wrong since.
    trouble: Mutex<Option<Trouble>>,
}

/// Why something could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// There was no room for it. What was written before is there, and gets on the disk.
    Full,
    /// Anything else: what is on the disk is not known.
    Unknown,
}

impl Trouble {
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            _ => Self::Unknown,
        }
    }
}

enum Waiting {
    Bytes { offset: u64, bytes: Vec<u8> },
    Length(u64),
    Sync,
}

/// Which of the two latest commits in the file is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The one that the file says is valid.
    Valid,
    /// The other one.
    Other,
}

impl GuardedFile {
    /// Opens the file at `path` for reading, and for writing later.
    pub(crate) fn open(path: &Path, slot: Slot) -> Result<Self, DatabaseError> {
        let file = File::options().read(true).write(true).open(path)?;
        let this = Self {
            shared: Arc::new(Shared {
                length: file.metadata()?.len(),
                file: backend(file)?,
                waiting: Mutex::new(Some(Vec::new())),
                trouble: Mutex::new(None),
            }),
        };
        if slot == Slot::Other {
            let mut flags = [0];
            this.read(commit_slots::FLAGS_OFFSET, &mut flags)?;
            this.write(
                commit_slots::FLAGS_OFFSET,
                &[flags[0] ^ commit_slots::VALID_SLOT_FLAG],
            )?;
        }
        Ok(this)
    }

    /// Writes what was held back, and from now on everything at once.
    pub(crate) fn release(&self) -> io::Result<()> {
        let mut waiting = lock(&self.shared.waiting);
        for one in waiting.iter().flatten() {
            match one {
                Waiting::Bytes { offset, bytes } => self.shared.file.write(*offset, bytes)?,
                Waiting::Length(length) => self.shared.file.set_len(*length)?,
                // Whatever the reason, it is not one to try again.
                Waiting::Sync => self.shared.file.sync_data().map_err(io::Error::other)?,
            }
        }
        *waiting = None;
        Ok(())
    }

    /// What has gone wrong, if anything has: the worst of it.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        *lock(&self.shared.trouble)
    }

    /// Notes why something could not be done.
    fn note<T>(&self, done: io::Result<T>, trouble: fn(&io::Error) -> Trouble) -> io::Result<T> {
        if let Err(error) = &done {
            let mut worst = lock(&self.shared.trouble);
            if *worst != Some(Trouble::Unknown) {
                *worst = Some(trouble(error));
            }
        }
        done
    }

    /// Holds back what `make` makes, if still so; whether it was.
    fn hold_back(&self, make: impl FnOnce() -> Waiting) -> bool {
        match lock(&self.shared.waiting).as_mut() {
            Some(waiting) => waiting.push(make()),
            None => return false,
        }
        true
    }
}

impl StorageBackend for GuardedFile {
    fn len(&self) -> io::Result<u64> {
        let waiting = lock(&self.shared.waiting);
        let Some(waiting) = waiting.as_ref() else {
            return self.shared.file.len();
        };
        let set = waiting.iter().rev().find_map(|one| match one {
            Waiting::Length(length) => Some(*length),
            _ => None,
        });
        Ok(set.unwrap_or(self.shared.length))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let waiting = lock(&self.shared.waiting);
        let Some(waiting) = waiting.as_ref().filter(|waiting| !waiting.is_empty()) else {
            drop(waiting);
            return self.shared.file.read(offset, out);
        };
        let there = self.shared.length.saturating_sub(offset);
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(out.len());
        self.shared.file.read(offset, &mut out[..there])?;
        out[there..].fill(0);
        let mut length = self.shared.length;
        for one in waiting {
            match one {
                Waiting::Bytes { offset: at, bytes } => overlay(out, offset, bytes, *at),
                Waiting::Length(new) => {
                    let kept = usize::try_from(new.saturating_sub(offset)).unwrap_or(usize::MAX);
                    if kept < out.len() {
                        out[kept..].fill(0);
                    }
                    length = *new;
                }
                Waiting::Sync => {}
            }
        }
        if offset.saturating_add(out.len() as u64) > length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if self.hold_back(|| Waiting::Length(length)) {
            return Ok(());
        }
        self.note(self.shared.file.set_len(length), Trouble::of)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.hold_back(|| Waiting::Sync) {
            return Ok(());
        }
        // Whatever the reason: the system may have dropped what it did not write.
        self.note(self.shared.file.sync_data(), |_| Trouble::Unknown)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let bytes = || Waiting::Bytes {
            offset,
            bytes: data.to_vec(),
        };
        if self.hold_back(bytes) {
            return Ok(());
        }
        self.note(self.shared.file.write(offset, data), Trouble::of)
    }

    fn close(&self) -> io::Result<()> {
        self.shared.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.shared.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.shared.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.shared.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.shared.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.shared.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.shared.file.query_lock_range(start, end)
    }
}

/// Puts those of `bytes`, which begin at `at`, into `out`, which begins at `offset`, that fall there.
fn overlay(out: &mut [u8], offset: u64, bytes: &[u8], at: u64) {
    let start = offset.max(at);
    let end = (offset + out.len() as u64).min(at + bytes.len() as u64);
    if start < end {
        let length = (end - start) as usize;
        let (to, from) = ((start - offset) as usize, (start - at) as usize);
        out[to..to + length].copy_from_slice(&bytes[from..from + length]);
    }
}

/// Without the bytes, which may be secrets.
impl fmt::Debug for GuardedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardedFile").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(contents: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), contents).unwrap();
        file
    }

    #[test]
    fn what_is_held_back_is_read_but_not_in_the_file() {
        let on_disk = file(b"0123456789");
        let guarded = GuardedFile::open(on_disk.path(), Slot::Valid).unwrap();
        guarded.write(2, b"abc").unwrap();
        guarded.write(4, b"CD").unwrap();
        guarded.set_len(7).unwrap();
        guarded.sync_data().unwrap();
        guarded.set_len(9).unwrap();
        guarded.write(8, b"z").unwrap();
        let expected = b"01abCD6\0z";

        assert_eq!(guarded.len().unwrap(), 9);
        for start in 0..9 {
            for end in start..=9 {
                let mut out = vec![b'?'; end - start];
                guarded.read(start as u64, &mut out).unwrap();
                assert_eq!(out, expected[start..end], "{start}..{end}");
            }
        }
        assert!(guarded.read(5, &mut [0; 5]).is_err());
        assert_eq!(std::fs::read(on_disk.path()).unwrap(), b"0123456789");

        guarded.release().unwrap();
        assert_eq!(std::fs::read(on_disk.path()).unwrap(), expected);
        guarded.write(0, b"!").unwrap();
        assert_eq!(std::fs::read(on_disk.path()).unwrap()[0], b'!');
    }
}
