//! Bodies of answers: bytes, or the stream of a watch.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::answer::WatchBody;
use crate::clock::Clock;
use crate::server::watch::WatchEvent;

/// How long a watch lasts if the client does not say. Source: `--min-request-timeout` of
/// kube-apiserver.
const WATCH_SECONDS_DEFAULT: u64 = 1_800;

/// How often a client is told how far its watch has come.
const BOOKMARKS_EVERY: Duration = Duration::from_secs(60);

/// How long a client may take to read what it was sent, before it gets no more.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longer answers are sent in pieces of so many bytes, and so are events. A client with many
/// requests that reads none of the answers has a few of these held for each.
pub(super) const PIECE_BYTES: usize = 32 * 1024;

/// How many pieces wait for a client that reads slowly.
const PIECES_MAX: usize = 1;

/// The body of an answer.
pub struct AnswerBody(Content);

enum Content {
    Whole(Option<Bytes>),
    /// Pieces of a long answer, and how many bytes are still to come.
    Pieces(mpsc::Receiver<Bytes>, usize),
    Stream(mpsc::Receiver<Bytes>),
}

impl AnswerBody {
    pub(super) fn empty() -> Self {
        Self(Content::Whole(None))
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        Self(Content::Whole(Some(bytes)))
    }

    /// A long answer, in pieces. It is given up if the client takes none of them for too long;
    /// until then, `permit` counts it.
    pub(super) fn pieces(bytes: Bytes, permit: OwnedSemaphorePermit) -> Self {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        let length = bytes.len();
        tokio::spawn(async move {
            let mut rest = bytes;
            while !rest.is_empty() {
                let piece = rest.split_to(rest.len().min(PIECE_BYTES));
                let sent = tokio::time::timeout(PATIENCE, sender.send(piece));
                if !matches!(sent.await, Ok(Ok(()))) {
                    break;
                }
            }
            drop(permit);
        });
        Self(Content::Pieces(receiver, length))
    }

    /// The events of a watch, until it ends, the client goes, or the server stops.
    pub(super) fn watch(
        watch: WatchBody,
        clock: Clock,
        is_ending: watch::Receiver<bool>,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        tokio::spawn(async move {
            send_events(watch, clock, is_ending, sender).await;
            drop(permit);
        });
        Self(Content::Stream(receiver))
    }
}

async fn send_events(
    watch: WatchBody,
    clock: Clock,
    mut is_ending: watch::Receiver<bool>,
    sender: mpsc::Sender<Bytes>,
) {
    let WatchBody {
        mut watching,
        mut writer,
        timeout_seconds,
        allows_bookmarks,
    } = watch;
    let seconds = timeout_seconds.unwrap_or(WATCH_SECONDS_DEFAULT);
    let end = Instant::now() + Duration::from_secs(seconds.min(86_400));
    let mut bookmark_at = Instant::now() + BOOKMARKS_EVERY;
    loop {
        let mut out = Vec::new();
        let events = watching.next_batch();
        for event in &events {
            writer.write(&mut out, event, clock.now());
            if out.len() >= PIECE_BYTES && !send(&sender, &mut out).await {
                return;
            }
        }
        let now = Instant::now();
        let is_over = now >= end || *is_ending.borrow();
        let is_due = now >= bookmark_at || is_over;
        if allows_bookmarks && is_due && events.is_empty() && !watching.has_initial_events() {
            bookmark_at = now + BOOKMARKS_EVERY;
            let bookmark = WatchEvent::Bookmark {
                version: watching.position(),
                ends_initial_events: false,
            };
            writer.write(&mut out, &bookmark, clock.now());
        }
        if !out.is_empty() && !send(&sender, &mut out).await {
            return;
        }
        let is_failed = matches!(events.last(), Some(WatchEvent::Error(_)));
        if is_failed || is_over {
            return;
        }
        if !events.is_empty() {
            continue;
        }
        let wake = if allows_bookmarks {
            end.min(bookmark_at)
        } else {
            end
        };
        tokio::select! {
            () = watching.changed() => {}
            () = sleep_until(wake) => {}
            () = sender.closed() => return,
            _ = is_ending.wait_for(|it| *it) => {}
        }
    }
}

/// Sends what has been written. Whether the client takes it.
async fn send(sender: &mpsc::Sender<Bytes>, out: &mut Vec<u8>) -> bool {
    let piece = std::mem::take(out).into();
    let sent = tokio::time::timeout(PATIENCE, sender.send(piece));
    matches!(sent.await, Ok(Ok(())))
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|it| Ok(Frame::data(it)))),
            Content::Pieces(receiver, left) => {
                let next = receiver.poll_recv(context);
                next.map(|bytes| {
                    let bytes = bytes?;
                    *left = left.saturating_sub(bytes.len());
                    Some(Ok(Frame::data(bytes)))
                })
            }
            Content::Stream(receiver) => {
                let next = receiver.poll_recv(context);
                next.map(|bytes| bytes.map(|it| Ok(Frame::data(it))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(bytes) => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
            Content::Pieces(_, left) => {
                SizeHint::with_exact(u64::try_from(*left).unwrap_or(u64::MAX))
            }
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

/// The bytes, compressed quickly rather than well.
pub(super) fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(1));
    // Writing into memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}
