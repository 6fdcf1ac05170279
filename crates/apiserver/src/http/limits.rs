//! How much clients may ask for at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Answers at least as long as this are compressed for those who take it; as upstream does.
pub(super) const GZIP_BYTES_MIN: usize = 128 * 1024;

/// What clients may ask for, and how long they may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time; more are closed at once.
    pub connections: usize,
    /// Requests at a time that are not watches; more are told to come back.
    pub requests: usize,
    /// Watches at a time.
    pub watches: usize,
    /// Bytes of long answers that wait to be read by slow clients, all together.
    pub answer_bytes: usize,
    /// Requests at a time over one connection of HTTP/2.
    pub streams: u32,
    /// Bytes of a body; the same as upstream's.
    pub body_bytes: usize,
    /// Bytes of the head of a request.
    pub head_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// How long a TLS handshake may take.
    pub handshake: Duration,
    /// How long the head of a request may take.
    pub head: Duration,
    /// How long a body may take.
    pub body: Duration,
    /// How long a client may take nothing of what it is sent.
    pub write: Duration,
    /// How often silent connections of HTTP/2 are asked whether they are there.
    pub keep_alive: Duration,
    /// How long they may take to answer.
    pub keep_alive_timeout: Duration,
    /// How long requests have to end when the server does.
    pub shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4_096,
            requests: 600,
            watches: 20_000,
            answer_bytes: 1024 * 1024 * 1024,
            streams: 1_000,
            body_bytes: 3 * 1024 * 1024,
            head_bytes: 64 * 1024,
            headers: 100,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            body: Duration::from_secs(60),
            write: Duration::from_secs(60),
            keep_alive: Duration::from_secs(30),
            keep_alive_timeout: Duration::from_secs(30),
            shutdown: Duration::from_secs(2),
        }
    }
}

/// What is still free of them.
pub(super) struct Permits {
    connections: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    /// In KiB.
    answers: Arc<Semaphore>,
    answer_kib: usize,
}

impl Permits {
    pub(super) fn new(limits: &Limits) -> Self {
        let of = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self {
            connections: of(limits.connections),
            requests: of(limits.requests),
            watches: of(limits.watches),
            answers: of(limits.answer_bytes / 1024),
            answer_kib: limits.answer_bytes / 1024,
        }
    }

    pub(super) fn connection(&self) -> Option<OwnedSemaphorePermit> {
        self.connections.clone().try_acquire_owned().ok()
    }

    pub(super) fn request(&self) -> Option<OwnedSemaphorePermit> {
        self.requests.clone().try_acquire_owned().ok()
    }

    /// For a long answer of so many bytes. One that is larger than all may be waits for all.
    pub(super) fn answer(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from((bytes / 1024).min(self.answer_kib)).ok()?;
        self.answers.clone().try_acquire_many_owned(kib).ok()
    }

    pub(super) fn watch(&self) -> Option<OwnedSemaphorePermit> {
        self.watches.clone().try_acquire_owned().ok()
    }
}
