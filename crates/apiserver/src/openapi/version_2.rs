//! `/openapi/v2`: a document without definitions.
//!
//! Version 2 is one document for all groups. Clients of today read it in one case: kubectl wants
//! to check an object of a kind that version 3 does not know, and fails if there is nothing.
//! Clients older than 1.27 check every object by it. What a document does not define, both let
//! pass, and the server checks; so the one that defines nothing serves both.

use serde_json::json;

use crate::discovery::ServerVersion;
use crate::document::Document;

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The document in the form that the header `Accept` asks for, protobuf or JSON; `None` if it
/// asks for another, which is answered by 406.
pub fn version_2(accept: &str) -> Option<Document> {
    let mut ranges = accept
        .split(',')
        .map(|range| range.split(';').next().unwrap_or("").trim());
    if accept.contains(PROTOBUF) {
        // Upstream writes the type of the answer without the `@`.
        let content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        Some(Document::new(content_type, protobuf()))
    } else if ranges.any(|it| matches!(it, "" | "*/*" | "application/*" | "application/json")) {
        let info = json!({ "title": "Kubernetes", "version": ServerVersion::own().git_version });
        let document = json!({ "swagger": "2.0", "info": info, "paths": {} });
        Some(Document::new("application/json", document.to_string()))
    } else {
        None
    }
}

/// A message `openapi.v2.Document` (gnostic): `swagger` is field 1, `info` field 2, with `title`
/// and `version` as fields 1 and 2.
fn protobuf() -> Vec<u8> {
    let version = ServerVersion::own().git_version;
    let info = [field(1, b"Kubernetes"), field(2, version.as_bytes())].concat();
    [field(1, b"2.0"), field(2, &info)].concat()
}

/// A field of bytes, of which there are less than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap_or_default() & 0x7f;
    [&[(number << 3) | 2, length], bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_is_asked_for() {
        let protobuf = version_2(PROTOBUF).unwrap();
        let version = ServerVersion::own().git_version;
        let length = version.len();
        let info_length = u8::try_from(14 + length).unwrap();
        let mut expected = b"\x0a\x032.0\x12".to_vec();
        expected.push(info_length);
        expected.extend(b"\x0a\x0aKubernetes\x12");
        expected.push(u8::try_from(length).unwrap());
        expected.extend(version.as_bytes());
        assert_eq!(protobuf.body().as_ref(), expected);

        let json = version_2("application/json, */*").unwrap();
        let json: serde_json::Value = serde_json::from_slice(json.body()).unwrap();
        assert_eq!(json["swagger"], "2.0");
        assert!(version_2("").is_some());
        assert!(version_2("application/xml").is_none());
    }
}
