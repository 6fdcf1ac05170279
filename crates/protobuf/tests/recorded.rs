//! Bodies that clients of Kubernetes 1.36.2 send, and the objects that they are.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrank_protobuf::{decode, encode};
use serde_json::Value;

const RECORDS: &[u8] = include_bytes!("../../../tests/golden/components/protobuf.jsonl.gz");

/// Bodies with their objects.
fn records() -> Vec<(Vec<u8>, Value)> {
    let mut text = String::new();
    let mut records = flate2::read::GzDecoder::new(RECORDS);
    records.read_to_string(&mut text).expect("gzipped text");
    let records = text.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a record a line");
        let body = record["input"]["base64"].as_str().expect("base64");
        let body = STANDARD.decode(body).expect("base64");
        (body, record["expected"]["object"].clone())
    });
    records.collect()
}

#[test]
fn bodies_are_the_objects_that_the_api_server_sees() {
    let records = records();
    assert_eq!(records.len(), 204);
    for (body, expected) in records {
        let decoded = decode(&body).unwrap();
        assert_eq!(decoded.object, expected);
        assert_eq!(expected["apiVersion"], decoded.api_version);
        assert_eq!(expected["kind"], decoded.kind);
    }
}

#[test]
fn objects_are_encoded_byte_for_byte_as_go_does() {
    for (body, object) in records() {
        assert_eq!(encode(&object).as_deref(), Ok(body.as_slice()), "{object}");
    }
}
