//! The server on the network: connections, TLS, limits.
//!
//! Whoever connects may be slow, hostile or broken. So everything has a limit: connections,
//! requests at a time, watches, the size of headers and bodies, and the time that a handshake, a
//! request's head and its body may take. What is over a limit is refused with a status that says
//! so; others are answered on.

mod body;
mod event_memory;
mod limits;
mod patient_stream;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use outrank_api::status::{Reason, Status, warning_header};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use uuid::Uuid;

use crate::answer::{Answer, Body};
use crate::front::Front;
use crate::handler;
use crate::request::RequestInfo;

pub use body::AnswerBody;
use body::Stage;
pub use limits::Limits;
use limits::Permits;
use patient_stream::PatientStream;

/// A server that listens.
pub struct HttpServer {
    listener: TcpListener,
    tls: TlsAcceptor,
    shared: Arc<Shared>,
}

struct Shared {
    front: Arc<Front>,
    limits: Limits,
    permits: Permits,
    /// True once the server is to end.
    is_ending: watch::Receiver<bool>,
}

/// Ends a server.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// Has the server end: it takes no more connections, and ends its watches.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl HttpServer {
    /// A server that listens at an address; port 0 is any that is free.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened at.
    pub async fn bind(
        address: SocketAddr,
        tls: Arc<ServerConfig>,
        front: Arc<Front>,
        limits: Limits,
    ) -> io::Result<(Self, Stop)> {
        let listener = TcpListener::bind(address).await?;
        let (sender, is_ending) = watch::channel(false);
        let shared = Shared {
            front,
            permits: Permits::new(&limits),
            limits,
            is_ending,
        };
        let server = Self {
            listener,
            tls: TlsAcceptor::from(tls),
            shared: Arc::new(shared),
        };
        Ok((server, Stop(Arc::new(sender))))
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// If the system cannot say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is stopped. What was begun then has some time to end.
    pub async fn serve(self) {
        let graceful = GracefulShutdown::new();
        let mut is_ending = self.shared.is_ending.clone();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = is_ending.wait_for(|it| *it) => break,
            };
            let Ok((stream, _)) = accepted else {
                // Mostly there are no more file descriptors; some will be free soon.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            // Who finds no place waits outside: the connection is closed.
            let Some(permit) = self.shared.permits.connection() else {
                continue;
            };
            let (tls, shared) = (self.tls.clone(), self.shared.clone());
            let watcher = graceful.watcher();
            tokio::spawn(async move {
                serve_connection(stream, tls, shared, watcher).await;
                drop(permit);
            });
        }
        let patience = self.shared.limits.shutdown;
        let _ = tokio::time::timeout(patience, graceful.shutdown()).await;
    }
}

async fn serve_connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    shared: Arc<Shared>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let _ = stream.set_nodelay(true);
    let stream = PatientStream::new(stream, shared.limits.write);
    let handshake = tokio::time::timeout(shared.limits.handshake, tls.accept(stream));
    // Who speaks no TLS gets no answer: there is none that it would understand.
    let Ok(Ok(stream)) = handshake.await else {
        return;
    };
    let (_, connection) = stream.get_ref();
    let certificates = connection.peer_certificates();
    let certificate = certificates.and_then(|it| it.first()).map(|it| it.to_vec());
    let certificate: Option<Arc<[u8]>> = certificate.map(Into::into);
    let limits = shared.limits.clone();
    // Told by an answer that nobody reads: what was sent of it is held as long as the connection.
    let given_up = Arc::new(Notify::new());
    let end = given_up.clone();
    let service = service_fn(move |request| {
        let (shared, certificate, end) = (shared.clone(), certificate.clone(), end.clone());
        async move {
            let certificate = certificate.as_deref();
            Ok::<_, Infallible>(respond(&shared, certificate, &end, request).await)
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes.max(8 * 1024))
        .max_headers(limits.headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(limits.streams)
        .max_send_buf_size(body::PIECE_BYTES)
        .keep_alive_interval(limits.keep_alive)
        .keep_alive_timeout(limits.keep_alive_timeout);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = watcher.watch(connection.into_owned()) => {}
        () = given_up.notified() => {}
    }
}

async fn respond(
    shared: &Arc<Shared>,
    certificate: Option<&[u8]>,
    end: &Arc<Notify>,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let accepts_gzip = accepts_gzip(request.headers());
    let is_head = request.method() == hyper::Method::HEAD;
    let started = std::time::Instant::now();
    let (answer, verb) = match shared.permits.request() {
        Some(_permit) => answer_to(shared, certificate, request).await,
        None => (Answer::status(&too_many_requests()), String::new()),
    };
    shared.front.measure(&verb, answer.code, started.elapsed());
    let mut response = Response::new(AnswerBody::empty());
    let code = hyper::StatusCode::from_u16(answer.code);
    *response.status_mut() = code.unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    write_headers(response.headers_mut(), &answer);
    *response.body_mut() = match answer.body {
        Body::Whole(_) if is_head => AnswerBody::empty(),
        Body::Whole(bytes) => {
            let mut bytes = bytes;
            if accepts_gzip && bytes.len() >= limits::GZIP_BYTES_MIN {
                let encoding = HeaderValue::from_static("gzip");
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_ENCODING, encoding);
                bytes = tokio::task::block_in_place(|| body::gzip(&bytes));
            }
            match bytes.len() > body::PIECE_BYTES {
                false => AnswerBody::whole(bytes),
                true => match shared.permits.answer(bytes.len()) {
                    Some(room) => AnswerBody::pieces(room.counts(bytes), end.clone()),
                    None => refuse(&mut response),
                },
            }
        }
        Body::Watch(watch) => match shared.permits.watch() {
            Some(permit) => {
                let stage = Stage {
                    clock: shared.front.server.clock().clone(),
                    is_ending: shared.is_ending.clone(),
                    memory: shared.permits.events.clone(),
                    end: end.clone(),
                };
                AnswerBody::watch(*watch, stage, permit)
            }
            None => refuse(&mut response),
        },
    };
    response
}

/// Makes a response one that tells the client to come back.
fn refuse(response: &mut Response<AnswerBody>) -> AnswerBody {
    *response.status_mut() = hyper::StatusCode::TOO_MANY_REQUESTS;
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_ENCODING);
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    let status = serde_json::to_vec(&too_many_requests()).unwrap_or_default();
    AnswerBody::whole(status.into())
}

async fn answer_to(
    shared: &Arc<Shared>,
    certificate: Option<&[u8]>,
    request: Request<Incoming>,
) -> (Answer, String) {
    let (head, incoming) = request.into_parts();
    let path = head.uri.path();
    let verb = head.method.as_str().to_owned();
    if path.len() > crate::request::PATH_BYTES_MAX {
        let status = Status {
            code: 414,
            reason: None,
            message: format!(
                "the path is longer than {} bytes",
                crate::request::PATH_BYTES_MAX
            ),
            ..Status::bad_request("")
        };
        return (Answer::status(&status), verb);
    }
    let user = match shared.front.authenticate(&head.headers, certificate) {
        Ok(user) => user,
        Err(status) => return (Answer::status(&status), verb),
    };
    // Who may not do what he asks is not listened to any further.
    if !incoming.is_end_stream() {
        let query = head.uri.query().unwrap_or_default();
        let info = RequestInfo::parse(head.method.as_str(), path, query);
        if let Err(status) = shared.front.authorize(&user, &info) {
            discard(incoming);
            return (Answer::status(&status), verb);
        }
    }
    // The permit counts the body until the answer is there.
    let (body, _permit) = match read_body(shared, &head.headers, incoming).await {
        Ok(read) => read,
        Err(status) => return (Answer::status(&status), verb),
    };
    let text = |name: HeaderName| {
        let values = head.headers.get_all(name).iter();
        let texts = values.filter_map(|value| value.to_str().ok());
        texts.collect::<Vec<_>>().join(",")
    };
    let (accept, content_type) = (text(header::ACCEPT), text(header::CONTENT_TYPE));
    let (user_agent, if_none_match) = (text(header::USER_AGENT), text(header::IF_NONE_MATCH));
    let request = handler::Request {
        method: head.method.as_str(),
        path,
        query: head.uri.query().unwrap_or_default(),
        accept: &accept,
        content_type: &content_type,
        user_agent: &user_agent,
        if_none_match: &if_none_match,
        user: &user,
        body,
    };
    // Long lists are made one after the other: at once they would take no less time, but memory.
    let is_read = matches!(head.method, hyper::Method::GET | hyper::Method::HEAD);
    let _turn = match is_read {
        true => shared.permits.read().await,
        false => None,
    };
    // Decisions take a while, and a durable store waits for the disk: others go on meanwhile.
    let answer = tokio::task::block_in_place(|| handler::handle(&shared.front, &request));
    (answer, verb)
}

async fn read_body(
    shared: &Shared,
    headers: &HeaderMap,
    mut incoming: Incoming,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Status> {
    let limits = &shared.limits;
    let too_large = || Status::too_large(format!("limit is {}", limits.body_bytes));
    let announced = headers.get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|it| it.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|bytes| bytes > limits.body_bytes) {
        discard(incoming);
        return Err(too_large());
    }
    if incoming.is_end_stream() {
        return Ok((Bytes::new(), None));
    }
    let kind = headers.get(header::CONTENT_TYPE);
    let is_yaml = kind.is_some_and(|it| it.to_str().is_ok_and(|it| it.contains("yaml")));
    let weight = if is_yaml { limits::YAML_WEIGHT } else { 1 };
    let bytes = announced.unwrap_or(limits.body_bytes);
    let permit = shared.permits.body(bytes.saturating_mul(weight));
    let Ok(permit) = tokio::time::timeout(limits.wait, permit).await else {
        discard(incoming);
        return Err(too_many_requests());
    };
    let whole = Limited::new(&mut incoming, limits.body_bytes).collect();
    let refusal = match tokio::time::timeout(limits.body, whole).await {
        Ok(Ok(collected)) => return Ok((collected.to_bytes(), permit)),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => too_large(),
        Ok(Err(_)) => Status::bad_request("the body could not be read"),
        Err(_) => Status {
            code: 408,
            reason: Some(Reason::Timeout),
            message: format!(
                "the body did not arrive within {} seconds",
                limits.body.as_secs()
            ),
            ..Status::bad_request("")
        },
    };
    discard(incoming);
    Err(refusal)
}

/// Reads on for a while what nobody wants. Many clients listen only when they have said all: if the
/// connection ended at once they would not hear why they are refused.
fn discard(incoming: Incoming) {
    const BYTES_MAX: usize = 16 * 1024 * 1024;
    const PATIENCE: Duration = Duration::from_secs(5);
    tokio::spawn(async move {
        let mut rest = Limited::new(incoming, BYTES_MAX);
        let reading = async { while let Some(Ok(_)) = rest.frame().await {} };
        // Who says more, or says it slowly, may miss the answer.
        let _ = tokio::time::timeout(PATIENCE, reading).await;
    });
}

fn too_many_requests() -> Status {
    Status {
        code: 429,
        reason: Some(Reason::TooManyRequests),
        message: "Too many requests, please try again later.".to_owned(),
        details: Some(Box::new(outrank_api::status::StatusDetails {
            retry_after_seconds: 1,
            ..Default::default()
        })),
        ..Status::bad_request("")
    }
}

fn write_headers(headers: &mut HeaderMap, answer: &Answer) {
    let mut set = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.append(name, value);
        }
    };
    set(
        HeaderName::from_static("audit-id"),
        &Uuid::new_v4().to_string(),
    );
    match answer.may_be_kept {
        true => set(header::CACHE_CONTROL, "public, immutable"),
        false => set(header::CACHE_CONTROL, "no-cache, private"),
    }
    if let Some(location) = &answer.location {
        set(header::LOCATION, location);
    }
    set(header::CONTENT_TYPE, answer.content_type);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    if let Some(etag) = &answer.etag {
        set(header::ETAG, etag);
        set(header::VARY, "Accept");
    }
    if answer.retry_after_seconds > 0 {
        set(header::RETRY_AFTER, &answer.retry_after_seconds.to_string());
    }
    for warning in told(&answer.warnings) {
        set(header::WARNING, &warning_header(&warning));
    }
}

/// The warnings that fit into the head of an answer: all of them, or the beginnings of as many as
/// may be told. Clients limit heads, too.
///
/// Source: `k8s.io/apiserver/pkg/endpoints/filters/warning.go`, Kubernetes 1.36.
fn told(warnings: &[String]) -> Vec<String> {
    const CHARACTERS_MAX: usize = 4 * 1024;
    const CHARACTERS_OF_ONE: usize = 256;
    let count = |text: &String| text.chars().take(CHARACTERS_MAX + 1).count();
    if warnings
        .iter()
        .take(CHARACTERS_MAX)
        .map(count)
        .sum::<usize>()
        <= CHARACTERS_MAX
    {
        return warnings.iter().take(CHARACTERS_MAX).cloned().collect();
    }
    let mut left = CHARACTERS_MAX;
    let shortened = warnings.iter().map(|text| {
        let start: String = text.chars().take(CHARACTERS_OF_ONE).collect();
        start
    });
    let fitting = shortened.take_while(|text| {
        let characters = text.chars().count();
        let fits = characters <= left;
        left = left.saturating_sub(characters);
        fits
    });
    fitting.collect()
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut texts = values.filter_map(|it| it.to_str().ok());
    texts.any(|text| {
        text.split(',')
            .any(|it| it.split(';').next().unwrap_or("").trim() == "gzip")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_fit_into_a_head() {
        let few = vec!["a".repeat(1000), "b".repeat(1000)];
        assert_eq!(told(&few), few);
        let many = vec!["\u{e4}".repeat(300); 100_000];
        let told = told(&many);
        assert_eq!(told.len(), 16);
        assert!(told.iter().all(|it| it.chars().count() == 256));
        assert_eq!(super::told(&vec![String::new(); 100_000]).len(), 4096);
    }
}
