//! What Kubernetes 1.36.2 answered about itself (`discovery.jsonl.gz`: commands with their requests
//! and output).

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::Value;

/// What was recorded of the command that ends like this.
pub(crate) fn recorded(command: &str) -> String {
    let bytes = include_bytes!("discovery.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(&bytes[..])
        .read_to_string(&mut text)
        .unwrap();
    let mut steps = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let step = steps.find(|step| step["command"].as_str().unwrap().ends_with(command));
    step.unwrap()["stdout"].as_str().unwrap().to_owned()
}
