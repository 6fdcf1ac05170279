//! The recorded answers of Kubernetes to questions about quantities, selectors, taints
//! and pod resources are ours, too.

#[path = "../../../xtask/src/components.rs"]
mod components;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;

fn check_topic(topic: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/golden/components")
        .join(format!("{topic}.jsonl.gz"));
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut count = 0;
    let mut failures = Vec::new();
    for line in BufReader::new(GzDecoder::new(file)).lines() {
        let record: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        count += 1;
        if let Err(difference) = components::check(topic, &record).unwrap() {
            failures.push(format!(
                "{} {}\n{difference}",
                record["id"], record["input"]
            ));
        }
    }
    assert!(count > 0, "{} is empty", path.display());
    assert!(
        failures.is_empty(),
        "{} of {count} records differ:\n{}",
        failures.len(),
        failures.join("\n\n")
    );
}

#[test]
fn quantity() {
    check_topic("quantity");
}

#[test]
fn selectors() {
    check_topic("selectors");
}

#[test]
fn taints() {
    check_topic("taints");
}

#[test]
fn pod_resources() {
    check_topic("pod-resources");
}

#[test]
fn a_difference_is_found() {
    let record = serde_json::json!({
        "op": "tolerates",
        "input": { "taint": { "key": "a" }, "toleration": { "operator": "Exists" } },
        "expected": { "tolerates": false },
    });
    let difference = components::check("taints", &record).unwrap().unwrap_err();
    assert!(
        difference.contains("tolerates: expected false, got true"),
        "{difference}"
    );
    assert!(components::check("protobuf", &record).is_none());
}
