//! Objects in protocol buffers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::field;

/// Our answer to an operation; `None` if the topic is not this one.
pub(super) fn answer(topic: &str, op: &str, input: &Value) -> Option<Result<Value, String>> {
    match (topic, op) {
        ("protobuf", "decode") => Some(decode(input)),
        _ => None,
    }
}

fn decode(input: &Value) -> Result<Value, String> {
    let body: String = field(input, "base64")?;
    let body = STANDARD.decode(body).map_err(|error| error.to_string())?;
    let decoded = outrank_protobuf::decode(&body).map_err(|error| error.to_string())?;
    Ok(json!({ "object": decoded.object }))
}
