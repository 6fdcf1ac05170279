//! Thousands of watches at a time, over few connections and over many.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::cluster::{Bystander, Running};
use crate::connection::Access;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Connections of HTTP/2, and watches over each.
const SHARED: usize = 4;
const STREAMS: usize = 800;

/// Connections of HTTP/1.1, with a watch each.
const OWN: usize = 300;

/// How much memory the program may take, in MiB.
const MEMORY_MIB_MAX: u64 = 1_000;

/// What comes of a watch.
enum Told {
    /// It has begun.
    Begun,
    /// It told of the object.
    Seen,
}

#[test]
fn thousands_of_watches_are_told_of_a_change() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let cluster = Running::start(&["--nodes", "0"]);
    let bystander = Bystander::start(&cluster);
    let access = Access::of(&cluster);
    let before = cluster.memory_mib();
    runtime.block_on(async {
        let (told, mut hears) = mpsc::unbounded_channel();
        for _ in 0..SHARED {
            let stream = TokioIo::new(connect(&access, "h2").await);
            let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
            let (sender, connection) = handshake.await.expect("HTTP/2");
            tokio::spawn(connection);
            for _ in 0..STREAMS {
                let (mut sender, told) = (sender.clone(), told.clone());
                tokio::spawn(async move {
                    let answer = sender.send_request(watch()).await.expect("an answer");
                    hear(answer, told).await;
                });
            }
        }
        for _ in 0..OWN {
            let stream = TokioIo::new(connect(&access, "http/1.1").await);
            let handshake = hyper::client::conn::http1::handshake(stream);
            let (mut sender, connection) = handshake.await.expect("HTTP/1.1");
            tokio::spawn(connection);
            let told = told.clone();
            tokio::spawn(async move {
                let answer = sender.send_request(watch()).await.expect("an answer");
                hear(answer, told).await;
            });
        }
        let count = SHARED * STREAMS + OWN;
        let mut seen = 0;
        for _ in 0..count {
            match next(&mut hears).await {
                Told::Begun => {}
                Told::Seen => seen += 1,
            }
        }
        assert_eq!(seen, 0, "nothing has happened");
        let memory = cluster.memory_mib();
        let api = cluster.api();
        let begun = std::time::Instant::now();
        tokio::task::block_in_place(|| {
            let map = json!({"metadata": {"name": "the-change"}, "data": {"a": "b"}});
            assert_eq!(api.write("POST", MAPS, &map).0, 201);
        });
        for _ in 0..count {
            assert!(matches!(next(&mut hears).await, Told::Seen));
        }
        println!(
            "crowd: {count} watches, all told of a change after {:.1?}; {before} MiB before, \
             {memory} MiB with all watches",
            begun.elapsed()
        );
        assert!(memory < MEMORY_MIB_MAX, "{memory} MiB");
    });
    let (answered, longest) = bystander.end();
    println!("crowd: a bystander was answered {answered} times, after {longest:.1?} at most");
}

async fn connect(access: &Access, protocol: &str) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(access.address)
        .await
        .expect("it listens");
    let connector = TlsConnector::from(Arc::clone(&access.config(protocol)));
    let connected = connector.connect(access.server_name(), stream).await;
    connected.expect("TLS")
}

fn watch() -> Request<Empty<Bytes>> {
    let uri = format!("https://cluster{MAPS}?watch=1&resourceVersion=0&allowWatchBookmarks=true");
    let request = Request::get(uri).header("host", "cluster");
    request.body(Empty::new()).expect("a request")
}

/// Hears a watch until it tells of the object.
async fn hear(answer: Response<Incoming>, told: mpsc::UnboundedSender<Told>) {
    assert_eq!(answer.status(), 200);
    told.send(Told::Begun).expect("the test runs");
    let mut body = answer.into_body();
    let mut heard = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.expect("the watch goes on");
        heard.extend_from_slice(&frame.into_data().unwrap_or_default());
        let name = b"\"the-change\"";
        if heard.windows(name.len()).any(|it| it == name) {
            told.send(Told::Seen).expect("the test runs");
            break;
        }
    }
    // The connection stays open until all have heard.
    std::future::pending::<()>().await;
}

async fn next(hears: &mut mpsc::UnboundedReceiver<Told>) -> Told {
    let next = tokio::time::timeout(Duration::from_secs(100), hears.recv()).await;
    next.expect("in time").expect("they run")
}
