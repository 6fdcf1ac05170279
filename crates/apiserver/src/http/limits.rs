//! How much clients may ask for at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::event_memory::{EventMemory, Room};

/// Answers at least as long as this are compressed for those who take it; as upstream does.
pub(super) const GZIP_BYTES_MIN: usize = 128 * 1024;

/// Bodies up to this many bytes are not counted: there are no more of them than requests.
const SMALL_BODY_BYTES: usize = 32 * 1024;

/// Reading YAML takes so many times the memory that JSON takes.
pub(super) const YAML_WEIGHT: usize = 8;

/// What clients may ask for, and how long they may take.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at a time; more are closed at once.
    pub connections: usize,
    /// Requests at a time that are not watches, those included that wait for their turn; more are
    /// told to come back.
    pub requests: usize,
    /// Answers to reads that are made at a time, so that long lists do not all take memory at once;
    /// others wait for their turn.
    pub reads: usize,
    /// Watches at a time.
    pub watches: usize,
    /// Bytes of long answers that wait to be read by slow clients, all together.
    pub answer_bytes: usize,
    /// Bytes of events that wait to be read by slow watches, all together. What many watches are told
    /// as the same text counts once. When it is used up, watches that do not read are ended.
    pub event_bytes: usize,
    /// Requests at a time over one connection of HTTP/2.
    pub streams: u32,
    /// Bytes of a body; the same as upstream's.
    pub body_bytes: usize,
    /// Bytes of large bodies that are read and worked on at a time, all together; YAML counts
    /// several times. Further ones wait.
    pub bodies_bytes: usize,
    /// How long they wait before they are told to come back.
    pub wait: Duration,
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
            requests: 4_096,
            reads: std::thread::available_parallelism().map_or(4, |it| it.get().max(4)),
            watches: 20_000,
            answer_bytes: 1024 * 1024 * 1024,
            event_bytes: 256 * 1024 * 1024,
            streams: 1_000,
            body_bytes: 3 * 1024 * 1024,
            bodies_bytes: 64 * 1024 * 1024,
            wait: Duration::from_secs(10),
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
    reads: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    pub(super) events: Arc<EventMemory>,
    /// In KiB.
    answers: Arc<Semaphore>,
    answer_kib: usize,
    /// In KiB.
    bodies: Arc<Semaphore>,
    body_kib: usize,
}

impl Permits {
    pub(super) fn new(limits: &Limits) -> Self {
        let of = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Self {
            connections: of(limits.connections),
            requests: of(limits.requests),
            reads: of(limits.reads.max(1)),
            watches: of(limits.watches),
            events: EventMemory::new(limits.event_bytes, limits.wait),
            answers: of(limits.answer_bytes / 1024),
            answer_kib: limits.answer_bytes / 1024,
            bodies: of(limits.bodies_bytes / 1024),
            body_kib: limits.bodies_bytes / 1024,
        }
    }

    pub(super) fn connection(&self) -> Option<OwnedSemaphorePermit> {
        self.connections.clone().try_acquire_owned().ok()
    }

    pub(super) fn request(&self) -> Option<OwnedSemaphorePermit> {
        self.requests.clone().try_acquire_owned().ok()
    }

    /// To make the answer to a read, as soon as it is its turn.
    pub(super) async fn read(&self) -> Option<OwnedSemaphorePermit> {
        self.reads.clone().acquire_owned().await.ok()
    }

    /// For a body of so many bytes, as soon as it finds its place. One that is larger than all may
    /// be waits for all; a small one needs none.
    pub(super) async fn body(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        if bytes <= SMALL_BODY_BYTES {
            return None;
        }
        let kib = u32::try_from((bytes / 1024).min(self.body_kib)).ok()?;
        self.bodies.clone().acquire_many_owned(kib).await.ok()
    }

    /// For a long answer of so many bytes, if there is room. One that is larger than all may be needs
    /// all.
    pub(super) fn answer(&self, bytes: usize) -> Option<Room> {
        let kib = u32::try_from((bytes / 1024).min(self.answer_kib)).ok()?;
        let permit = self.answers.clone().try_acquire_many_owned(kib).ok()?;
        Some(permit.into())
    }

    pub(super) fn watch(&self) -> Option<OwnedSemaphorePermit> {
        self.watches.clone().try_acquire_owned().ok()
    }
}
