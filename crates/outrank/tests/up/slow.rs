//! Clients that take their time: they hold no memory for long, and nobody waits for them.

use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cluster::{Bystander, Running};
use crate::connection::{Access, Tls, hear, request};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// ConfigMaps, and how many bytes each has: a list has 16 MB.
const COUNT: usize = 400;
const BYTES: usize = 40_000;

/// How many clients there are of each kind.
const CLIENTS: usize = 25;

/// How much memory the program may take while it waits for all of them, in MiB. Their lists alone
/// have 400 MB.
const MEMORY_MIB_MAX: u64 = 1_200;

#[test]
fn slow_clients_hold_nothing_for_long() {
    let cluster = Running::start(&["--nodes", "0"]);
    let (api, access) = (cluster.api(), Access::of(&cluster));
    for number in 0..COUNT {
        let map = json!({"metadata": {"name": format!("m{number}")},
            "data": {"a": "x".repeat(BYTES)}});
        assert_eq!(api.write("POST", MAPS, &map).0, 201);
    }
    let before = cluster.memory_mib();
    let bystander = Bystander::start(&cluster);
    let begun = Instant::now();

    let mut silent: Vec<_> = (0..CLIENTS).map(|_| access.tcp()).collect();
    let heads = b"GET /api HTTP/1.1\r\nhost: x\r\nx-slow: ";
    let bodies = request(
        "POST",
        MAPS,
        "content-type: application/json\r\ncontent-length: 50000\r\n",
    );
    let lists = request("GET", MAPS, "");
    let watches = request("GET", &format!("{MAPS}?watch=1&resourceVersion=0"), "");
    let say = |said: &[u8]| -> Vec<Tls> {
        let clients = (0..CLIENTS).map(|_| {
            let mut stream = access.tls().expect("TLS");
            stream.write_all(said).expect("said");
            stream.flush().expect("said");
            stream
        });
        clients.collect()
    };
    let (mut heads, mut bodies) = (say(heads), say(&bodies));
    let (lists, mut watches) = (say(&lists), say(&watches));
    // They go on, a byte at a time.
    let mut memory = 0;
    while begun.elapsed() < Duration::from_secs(25) {
        for stream in heads.iter_mut().chain(&mut bodies) {
            let _ = stream.write_all(b" ");
            let _ = stream.flush();
        }
        memory = memory.max(cluster.memory_mib());
        thread::sleep(Duration::from_secs(1));
    }
    println!("slow: {before} MiB before, {memory} MiB while they take their time");
    assert!(memory < MEMORY_MIB_MAX, "{memory} MiB");
    for stream in &mut silent {
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.is_empty(), "{heard:?}");
    }
    for stream in &mut heads {
        // The end, or that time is over.
        if let Ok(heard) = hear(stream) {
            assert_eq!(heard.status, 408);
        }
    }
    for stream in &mut bodies {
        let heard = hear(stream).expect("an answer");
        assert_eq!(heard.status, 408, "{heard:?}");
    }
    println!("slow: all given up after {:.1?}", begun.elapsed());
    while begun.elapsed() < Duration::from_secs(70) {
        thread::sleep(Duration::from_millis(500));
    }
    // What was sent before is still there, but no more than that.
    for stream in &mut watches {
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.len() < COUNT * BYTES, "{} bytes", heard.len());
    }
    for mut stream in lists {
        let heard = hear(&mut stream).expect("the head at least");
        assert!(
            heard.status == 429 || heard.body.len() < COUNT * BYTES,
            "{}",
            heard.status
        );
    }
    let (answered, longest) = bystander.end();
    println!(
        "slow: a bystander was answered {answered} times, after {longest:.1?} at most; {} MiB",
        cluster.memory_mib()
    );
}

/// Watches that never read, and large events: each watch alone would hold 2.7 MB of them.
const WATCHES: usize = 150;
const LARGE_BYTES: usize = 900_000;

/// How much more memory the program may take for all of them, in MiB: the objects themselves, with
/// what was sent of them, and what a connection takes.
const WATCHES_MIB_MAX: u64 = 200;

#[test]
fn watches_that_do_not_read_share_large_events() {
    let cluster = Running::start(&["--nodes", "0"]);
    let (api, access) = (cluster.api(), Access::of(&cluster));
    let begun = request("GET", &format!("{MAPS}?watch=1"), "");
    let watch = || {
        let mut stream = access.tls().expect("TLS");
        stream.write_all(&begun).expect("said");
        stream.flush().expect("said");
        stream
    };
    let silent: Vec<Tls> = (0..WATCHES).map(|_| watch()).collect();
    let mut reads = watch();
    let before = cluster.memory_mib();
    let mut memory = before;
    for number in 0..10 {
        let name = format!("large-{number}");
        let map = json!({"metadata": {"name": &name}, "data": {"a": "x".repeat(LARGE_BYTES)}});
        assert_eq!(api.write("POST", MAPS, &map).0, 201);
        read_until(&mut reads, &format!("\"{name}\""));
        memory = memory.max(cluster.memory_mib());
    }
    thread::sleep(Duration::from_secs(2));
    memory = memory.max(cluster.memory_mib());
    println!("slow: {before} MiB before, {memory} MiB with {WATCHES} watches that do not read");
    assert!(memory - before < WATCHES_MIB_MAX, "{before}, {memory} MiB");
    drop(silent);
}

/// Reads until something was said.
fn read_until(stream: &mut Tls, said: &str) {
    let mut heard = Vec::new();
    let mut piece = vec![0; 64 * 1024];
    while !heard.windows(said.len()).any(|it| it == said.as_bytes()) {
        // The end of what was looked through may be the beginning of it.
        let kept = heard.len().saturating_sub(said.len());
        heard.drain(..kept);
        let count = stream.read(&mut piece).expect("it goes on");
        assert!(count > 0, "the watch has ended");
        heard.extend_from_slice(&piece[..count]);
    }
}
