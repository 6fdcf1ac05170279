//! A disk that does not do what it should: everybody who asks is told.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::Running;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const START: [&str; 4] = ["--nodes", "0", "--data", "data"];

#[test]
fn a_disk_that_fails_is_told_of_and_loses_nothing() {
    let mut cluster = Running::start_with_file_limit(16_384, &START);
    let api = cluster.api();
    let health = |api: &crate::api::Api, path: &str| {
        let answer = api.send("GET", path, &[], Vec::new()).expect("an answer");
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        (answer.status, text)
    };
    assert_eq!(health(&api, "/readyz/store").0, 200);
    let mut written = 0;
    let refusal = loop {
        assert!(written < 1_000, "the limit is not kept");
        let map = json!({"metadata": {"name": format!("m{written}")},
            "data": {"a": "x".repeat(100_000)}});
        match api.write("POST", MAPS, &map) {
            (201, _) => written += 1,
            (_, refusal) => break refusal.to_string(),
        }
    };
    assert!(refusal.contains("cannot write"), "{refusal}");
    let (code, text) = health(&api, "/readyz?verbose");
    assert_eq!(code, 500);
    assert!(
        text.contains("[-]store failed: the disk has failed"),
        "{text}"
    );
    assert!(!text.contains("objects.redb"), "not for everybody: {text}");
    assert_eq!(health(&api, "/readyz/store").0, 500);
    assert_eq!(health(&api, "/livez").0, 500);
    assert_ne!(
        api.get(&format!("{MAPS}/m0")),
        Value::Null,
        "reading goes on"
    );
    let begun = Instant::now();
    while !cluster.log().contains("outrank: cannot write") {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing is said");
        thread::sleep(Duration::from_millis(100));
    }
    cluster.kill();

    let cluster = cluster.start_again(&START);
    let api = cluster.api();
    assert_eq!(health(&api, "/readyz").0, 200);
    for number in 0..written {
        let path = format!("{MAPS}/m{number}");
        assert_ne!(api.get(&path), Value::Null, "m{number}");
    }
    assert_eq!(cluster.log().matches("cannot write").count(), 1);
}
