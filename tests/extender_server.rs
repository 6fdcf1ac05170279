//! A server that plays an extender, for tests of those who call one. Test files include it by its path.

#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

/// What the server does when it is called.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Answers with a status and a body.
    Text(u16, String),
    /// Never answers.
    Hang,
    /// Begins to answer.
    HangInBody,
    /// Answers without an end.
    Endless,
}

impl Answer {
    pub(crate) fn json(value: &Value) -> Self {
        Self::Text(200, value.to_string())
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::Text(200, text.to_owned())
    }

    pub(crate) fn status(code: u16) -> Self {
        Self::Text(code, String::new())
    }
}

type Calls = Arc<Mutex<Vec<(String, Value)>>>;
type Script = dyn Fn(&str, &Value) -> Answer + Send + Sync;

/// The server. It ends when it is dropped.
pub(crate) struct ExtenderServer {
    address: String,
    calls: Calls,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ExtenderServer {
    /// A server that answers each call (path and arguments) as `script` says.
    pub(crate) fn start(script: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (calls, stopped) = (Calls::default(), Arc::new(AtomicBool::new(false)));
        let (noted, stop) = (Arc::clone(&calls), Arc::clone(&stopped));
        let script: Arc<Script> = Arc::new(script);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let (noted, script) = (Arc::clone(&noted), Arc::clone(&script));
                if let Ok(stream) = stream {
                    std::thread::spawn(move || serve(stream, &noted, &*script));
                }
            }
        });
        Self {
            address,
            calls,
            stopped,
            thread: Some(thread),
        }
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// Paths and arguments of the calls so far.
    pub(crate) fn calls(&self) -> Vec<(String, Value)> {
        self.calls.lock().expect("no panics").clone()
    }
}

impl Drop for ExtenderServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread, so that it sees that it is to end.
        drop(TcpStream::connect(&self.address));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Serves the requests of one connection.
fn serve(stream: TcpStream, calls: &Calls, script: &Script) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    while let Some((path, body)) = read_request(&mut reader) {
        let args = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let answer = script(&path, &args);
        calls.lock().expect("no panics").push((path, args));
        if !write_answer(&stream, &answer) {
            // Held open until the client gives up.
            drop(reader.read_to_end(&mut Vec::new()));
            return;
        }
    }
}

/// The path and the body of the next request, if there is one.
fn read_request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

/// Writes an answer. Returns whether the connection can be used for more.
fn write_answer(mut stream: &TcpStream, answer: &Answer) -> bool {
    match answer {
        Answer::Text(code, text) => {
            let length = text.len();
            let head = format!("HTTP/1.1 {code} .\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all(format!("{head}{text}").as_bytes()).is_ok()
        }
        Answer::Hang => false,
        Answer::HangInBody => {
            drop(stream.write_all(b"HTTP/1.1 200 .\r\nContent-Length: 100\r\n\r\n{"));
            false
        }
        Answer::Endless => {
            drop(stream.write_all(b"HTTP/1.1 200 .\r\nConnection: close\r\n\r\n["));
            while stream.write_all(&[b' '; 65_536]).is_ok() {}
            false
        }
    }
}
