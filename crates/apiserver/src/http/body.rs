//! Bodies of answers: bytes, or the stream of a watch.

use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::event_memory::EventMemory;
use crate::answer::{EventWriter, LINE_END, WatchBody};
use crate::clock::Clock;
use crate::server::watch::WatchEvent;

/// How long a watch lasts if the client does not say. Source: `--min-request-timeout` of
/// kube-apiserver.
const WATCH_SECONDS_DEFAULT: u64 = 1_800;

/// How often a client is told how far its watch has come.
const BOOKMARKS_EVERY: Duration = Duration::from_secs(60);

/// How long a client may take to read what it was sent, before it gets no more.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long it may take while others wait for the memory that slow clients hold.
const PATIENCE_IF_SHORT: Duration = Duration::from_secs(1);

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

    /// A long answer, in pieces. It is given up, and the connection with it (`end`), if the client
    /// takes none of them for too long.
    pub(super) fn pieces(bytes: Bytes, end: Arc<Notify>) -> Self {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        let length = bytes.len();
        tokio::spawn(async move {
            let delivery = Delivery::new(end);
            let mut rest = delivery.track(bytes);
            while !rest.is_empty() {
                let piece = rest.split_to(rest.len().min(PIECE_BYTES));
                if !matches!(
                    tokio::time::timeout(PATIENCE, sender.send(piece)).await,
                    Ok(Ok(()))
                ) {
                    break;
                }
            }
            drop((rest, sender));
            delivery.finish().await;
        });
        Self(Content::Pieces(receiver, length))
    }

    /// The events of a watch, until it ends, the client goes, or the server stops.
    pub(super) fn watch(watch: WatchBody, stage: Stage, permit: OwnedSemaphorePermit) -> Self {
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        tokio::spawn(async move {
            let delivery = send_events(watch, stage, sender).await;
            delivery.finish().await;
            drop(permit);
        });
        Self(Content::Stream(receiver))
    }
}

/// What is around a watch.
pub(super) struct Stage {
    pub(super) clock: Clock,
    /// True once the server is to end.
    pub(super) is_ending: watch::Receiver<bool>,
    pub(super) memory: Arc<EventMemory>,
    /// Ends the connection.
    pub(super) end: Arc<Notify>,
}

/// What was sent of something, as far as the client has not taken it.
///
/// The connection has that, and over HTTP/2 it may have it for as long as it lasts: a client that is
/// there otherwise need not read every stream. So who does not read for too long loses it.
struct Delivery {
    end: Arc<Notify>,
    /// Bytes that are tracked have it, too.
    tracked: Arc<()>,
}

/// Bytes that are tracked.
struct Tracked {
    bytes: Bytes,
    _by: Arc<()>,
}

impl AsRef<[u8]> for Tracked {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Delivery {
    fn new(end: Arc<Notify>) -> Self {
        let tracked = Arc::new(());
        Self { end, tracked }
    }

    fn track(&self, bytes: Bytes) -> Bytes {
        let by = self.tracked.clone();
        Bytes::from_owner(Tracked { bytes, _by: by })
    }

    fn is_taken(&self) -> bool {
        Arc::strong_count(&self.tracked) == 1
    }

    /// Ends the connection.
    fn give_up(&self) {
        self.end.notify_one();
    }

    /// Waits until the client has taken all; for some time.
    async fn finish(self) {
        let begun = Instant::now();
        while !self.is_taken() {
            if begun.elapsed() >= PATIENCE {
                return self.give_up();
            }
            tokio::time::sleep(PATIENCE_IF_SHORT).await;
        }
    }
}

async fn send_events(watch: WatchBody, stage: Stage, sender: mpsc::Sender<Bytes>) -> Delivery {
    let WatchBody {
        mut watching,
        writer,
        timeout_seconds,
        allows_bookmarks,
    } = watch;
    let mut is_ending = stage.is_ending.clone();
    let mut outgoing = Outgoing {
        writer,
        text: Vec::new(),
        delivery: Delivery::new(stage.end.clone()),
        stage,
        sender,
        sent_at: Instant::now(),
    };
    let seconds = timeout_seconds.unwrap_or(WATCH_SECONDS_DEFAULT);
    let end = Instant::now() + Duration::from_secs(seconds.min(86_400));
    let mut bookmark_at = Instant::now() + BOOKMARKS_EVERY;
    loop {
        let mut events = watching.next_batch_within(PIECE_BYTES);
        let is_quiet = events.is_empty();
        let is_failed = matches!(events.last(), Some(WatchEvent::Error(_)));
        let now = Instant::now();
        let is_over = now >= end || *is_ending.borrow();
        let is_due = now >= bookmark_at || is_over;
        if allows_bookmarks && is_due && is_quiet && !watching.has_initial_events() {
            bookmark_at = now + BOOKMARKS_EVERY;
            events.push(WatchEvent::Bookmark {
                version: watching.position(),
                ends_initial_events: false,
            });
        }
        if !outgoing.send_all(events).await || is_failed || is_over {
            return outgoing.delivery;
        }
        if !is_quiet {
            continue;
        }
        let mut wake = if allows_bookmarks {
            end.min(bookmark_at)
        } else {
            end
        };
        if !outgoing.delivery.is_taken() {
            if outgoing.sent_at.elapsed() >= PATIENCE {
                return outgoing.delivery;
            }
            wake = wake.min(outgoing.sent_at + PATIENCE);
        }
        tokio::select! {
            () = watching.changed() => {}
            () = sleep_until(wake) => {}
            () = outgoing.sender.closed() => return outgoing.delivery,
            _ = is_ending.wait_for(|it| *it) => {}
        }
    }
}

/// Events on their way to a client. All that waits here is counted.
struct Outgoing {
    writer: EventWriter,
    /// Written, and not sent yet.
    text: Vec<u8>,
    delivery: Delivery,
    stage: Stage,
    sender: mpsc::Sender<Bytes>,
    /// When it was last sent something.
    sent_at: Instant,
}

impl Outgoing {
    /// Sends events. Whether the watch goes on.
    async fn send_all(&mut self, events: Vec<WatchEvent>) -> bool {
        for event in events {
            if !self.write(event).await {
                return false;
            }
        }
        self.flush().await
    }

    async fn write(&mut self, event: WatchEvent) -> bool {
        if let Some((head, text)) = self.writer.shared_line(&event) {
            let text = text.clone();
            drop(event);
            self.text.extend_from_slice(head.as_bytes());
            let is_sent = self.flush().await && self.share(&text).await;
            self.text.extend_from_slice(LINE_END);
            return is_sent;
        }
        let bytes = event.object().map_or(0, |(_, it)| it.json().len());
        if bytes >= PIECE_BYTES {
            return self.flush().await && self.write_long(&event, bytes).await;
        }
        let now = self.stage.clock.now();
        self.writer.write(&mut self.text, &event, now);
        drop(event);
        self.text.len() < PIECE_BYTES || self.flush().await
    }

    /// Sends the text of a stored object, which others may send as well.
    async fn share(&mut self, text: &Bytes) -> bool {
        let Some(mut rest) = self.stage.memory.share(text).await else {
            return false;
        };
        rest.advance(1);
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(PIECE_BYTES));
            if !self.send(piece).await {
                return false;
            }
        }
        true
    }

    /// Sends a long line that no other watch has. Its pieces do not hang together, so that what is
    /// sent of it is not held by what is not.
    async fn write_long(&mut self, event: &WatchEvent, bytes: usize) -> bool {
        // About as much is written; what it is exactly is known only then.
        let Some(room) = self.stage.memory.room(bytes).await else {
            return false;
        };
        let mut text = Vec::with_capacity(bytes);
        let now = self.stage.clock.now();
        self.writer.write(&mut text, event, now);
        let more = text.len().saturating_sub(bytes);
        let Some(more) = self.stage.memory.room(more).await else {
            return false;
        };
        let mut room = room.and(more);
        let cut = |piece: &[u8]| room.take(piece.len()).counts(piece.to_vec());
        let pieces: Vec<Bytes> = text.chunks(PIECE_BYTES).map(cut).collect();
        drop((text, room));
        for piece in pieces {
            if !self.send(piece).await {
                return false;
            }
        }
        true
    }

    /// Sends what is written.
    async fn flush(&mut self) -> bool {
        if self.text.is_empty() {
            return true;
        }
        let mut text = std::mem::take(&mut self.text);
        text.shrink_to_fit();
        match self.stage.memory.room(text.len()).await {
            Some(room) => self.send(room.counts(text)).await,
            None => false,
        }
    }

    /// Sends a piece. A client that takes none for too long is given up, and so is one that keeps
    /// others waiting.
    async fn send(&mut self, piece: Bytes) -> bool {
        let piece = self.delivery.track(piece);
        let begun = Instant::now();
        loop {
            match tokio::time::timeout(PATIENCE_IF_SHORT, self.sender.reserve()).await {
                Ok(Ok(place)) => {
                    place.send(piece);
                    self.sent_at = Instant::now();
                    return true;
                }
                Ok(Err(_)) => return false,
                Err(_) if self.stage.memory.is_short() || begun.elapsed() >= PATIENCE => {
                    self.delivery.give_up();
                    return false;
                }
                Err(_) => {}
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use outrank_admission::{AdmissionChain, ClassRules, PluginFlags};
    use outrank_store::{Options, Store};
    use serde_json::{Value, json};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::answer::{self, Body as Answered, Form};
    use crate::media_type::{Accepted, Encoding, Shape};
    use crate::server::watch::WatchOptions;
    use crate::server::{ApiServer, Settings, Target, WriteOptions};
    use crate::table::{IncludeObject, TableVersion};

    const BYTES: usize = 900_000;

    /// A server with nothing but a namespace.
    fn server() -> ApiServer {
        let settings = Settings {
            chain: AdmissionChain::default_plugins(&PluginFlags::default()).expect("a chain"),
            classes: ClassRules::default(),
            has_quotas: false,
            limited_resources: Vec::new(),
            clock: Clock::system(),
        };
        let server = ApiServer::new(Store::in_memory(Options::default()), settings);
        let namespace = json!({"metadata": {"name": "shop"}});
        write(&server, "Namespace", "shop", namespace);
        server
    }

    fn target(server: &ApiServer, kind: &str, name: &str) -> Target {
        let is_map = kind == "ConfigMap";
        Target {
            served: server.types().of_kind("v1", kind).expect("a type").clone(),
            namespace: if is_map { "shop" } else { "" }.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
        }
    }

    fn write(server: &ApiServer, kind: &str, name: &str, mut body: Value) {
        body["apiVersion"] = "v1".into();
        body["kind"] = kind.into();
        let target = target(server, kind, name);
        let written = server.create(&target, body, &WriteOptions::default());
        written.expect("it is written");
    }

    /// Large ConfigMaps `m0`, `m1` and so on.
    fn write_maps(server: &ApiServer, count: usize) {
        for number in 0..count {
            let name = format!("m{number}");
            let map = json!({"metadata": {"name": &name}, "data": {"a": "x".repeat(BYTES)}});
            write(server, "ConfigMap", &name, map);
        }
    }

    /// A watch of all ConfigMaps from now on, and what tells that its connection is to end.
    fn watch(
        server: &ApiServer,
        memory: &Arc<EventMemory>,
        shape: Shape,
    ) -> (AnswerBody, Arc<Notify>) {
        let target = target(server, "ConfigMap", "");
        let mut options = WatchOptions::default();
        options.list.resource_version = server.store().version().to_string();
        let form = Form {
            accepted: Accepted {
                encoding: Encoding::Json,
                shape,
            },
            include_object: IncludeObject::Object,
            now: 0,
        };
        let watching = server.watch(&target, &options);
        let answer = answer::watch(&target.served, watching, &options, form);
        let Answered::Watch(body) = answer.body else {
            panic!("not a watch");
        };
        let end = Arc::new(Notify::new());
        let stage = Stage {
            clock: Clock::system(),
            is_ending: watch::channel(false).1,
            memory: memory.clone(),
            end: end.clone(),
        };
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned();
        (AnswerBody::watch(*body, stage, permit.expect("one")), end)
    }

    /// Reads so many events.
    async fn read(body: &mut AnswerBody, count: usize) -> Vec<Value> {
        let mut text = Vec::new();
        while text.iter().filter(|it| **it == b'\n').count() < count {
            let frame = body.frame().await.expect("it goes on").expect("a frame");
            text.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
        let lines = text.split(|it| *it == b'\n').filter(|it| !it.is_empty());
        let value = |line| serde_json::from_slice(line).expect("JSON");
        lines.map(value).collect()
    }

    #[tokio::test]
    async fn watches_that_do_not_read_hold_one_text_together() {
        let server = server();
        let memory = EventMemory::new(256 << 20, Duration::from_secs(10));
        let silent: Vec<_> = (0..300)
            .map(|_| watch(&server, &memory, Shape::Whole))
            .collect();
        let (mut body, _) = watch(&server, &memory, Shape::Whole);
        write_maps(&server, 10);
        for (number, event) in read(&mut body, 10).await.iter().enumerate() {
            assert_eq!(event["type"], "ADDED");
            let object = &event["object"];
            assert_eq!(object["apiVersion"], "v1");
            assert_eq!(object["kind"], "ConfigMap");
            assert_eq!(object["metadata"]["name"], format!("m{number}"));
            assert_eq!(object["data"]["a"].as_str().map(str::len), Some(BYTES));
        }
        let held = memory.held_bytes();
        assert!(held >= BYTES, "they have begun: {held}");
        assert!(held < 2 * BYTES, "all have the first one: {held}");
        drop((silent, body));
        while memory.held_bytes() > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_cannot_be_shared_is_counted_and_who_does_not_read_makes_room() {
        let server = server();
        // Four tables with an object find room.
        let memory = EventMemory::new(4 * (BYTES + 10_000), Duration::from_secs(60));
        let shape = Shape::Table(TableVersion::V1);
        let silent: Vec<_> = (0..8).map(|_| watch(&server, &memory, shape)).collect();
        let (mut body, end) = watch(&server, &memory, shape);
        write_maps(&server, 3);
        for (number, event) in read(&mut body, 3).await.iter().enumerate() {
            let row = &event["object"]["rows"][0];
            assert_eq!(row["object"]["metadata"]["name"], format!("m{number}"));
        }
        let mut ended = 0;
        for (_, end) in &silent {
            let end = tokio::time::timeout(Duration::ZERO, end.notified());
            ended += usize::from(end.await.is_ok());
        }
        assert!(ended >= 4, "{ended} have made room");
        let end = tokio::time::timeout(Duration::ZERO, end.notified());
        assert!(end.await.is_err(), "who reads goes on");
    }
}
