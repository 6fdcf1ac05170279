//! For tests: a disk that gets full.

use std::cell::Cell;
use std::io;
use std::ops::Bound;

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

thread_local! {
    /// How many more writes the disk takes; none is any number. Tests have a thread each.
    static WRITES_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    /// Whether flushes fail.
    static IS_BROKEN: Cell<bool> = const { Cell::new(false) };
}

/// Sets how many more writes succeed in this thread.
pub(crate) fn set_writes_left(writes: Option<u64>) {
    WRITES_LEFT.set(writes);
}

/// Sets whether flushes fail in this thread.
pub(crate) fn set_broken(is_broken: bool) {
    IS_BROKEN.set(is_broken);
}

/// Whether a write finds no room.
pub(crate) fn is_full() -> bool {
    WRITES_LEFT.get() == Some(0)
}

#[derive(Debug)]
pub(crate) struct SmallDisk(FileBackend);

impl SmallDisk {
    pub(crate) fn new(file: FileBackend) -> Self {
        Self(file)
    }

    fn take_room(&self) -> io::Result<()> {
        match WRITES_LEFT.get() {
            None => Ok(()),
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            Some(left) => {
                WRITES_LEFT.set(Some(left - 1));
                Ok(())
            }
        }
    }
}

impl StorageBackend for SmallDisk {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.take_room()?;
        self.0.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        match IS_BROKEN.get() {
            true => Err(io::Error::other("a test")),
            false => self.0.sync_data(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Err(error) = self.take_room() {
            // What there is room for is written; but the header has its room already.
            if offset > 0 {
                self.0.write(offset, &data[..data.len() / 2])?;
            }
            return Err(error);
        }
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
