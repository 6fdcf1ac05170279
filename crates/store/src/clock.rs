//! The version of the newest write that can be seen.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared by a store and its watches.
#[derive(Debug)]
pub(crate) struct Clock {
    version: AtomicU64,
    closed: AtomicBool,
}

impl Clock {
    pub(crate) fn new(version: u64) -> Self {
        Self {
            version: AtomicU64::new(version),
            closed: AtomicBool::new(false),
        }
    }

    /// Whoever reads this while it holds the lock of a resource sees all writes to the resource up to
    /// this version, and none after it.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// To be called with the locks of all resources held that were written.
    pub(crate) fn advance(&self, version: u64) {
        self.version.store(version, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}
