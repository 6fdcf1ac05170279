//! Documents: answers that are made once and given often, such as discovery.
//!
//! A client keeps what it got together with its tag. When it asks again with
//! `If-None-Match: "TAG"`, and the document is still the same, the answer is 304 without a body.
//!
//! ```
//! use outrank_apiserver::document::Document;
//!
//! let document = Document::new("text/plain", "a node");
//! assert!(document.is_match(&document.etag()));
//! assert!(!document.is_match("\"another\""));
//! ```

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest;

/// An answer with all that is told of it. Its hash and its compressed form are made when they are
/// first asked for.
#[derive(Debug)]
pub struct Document {
    content_type: &'static str,
    body: Bytes,
    hash: OnceLock<String>,
    gzip: OnceLock<Bytes>,
}

impl Document {
    /// A document of a content type, such as `application/json`.
    pub fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Document {
            content_type,
            body: body.into(),
            hash: OnceLock::new(),
            gzip: OnceLock::new(),
        }
    }

    /// What it is, for the header `Content-Type`.
    pub fn content_type(&self) -> &'static str {
        self.content_type
    }

    /// The bytes, not compressed.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The bytes for clients that say `Accept-Encoding: gzip`.
    pub fn gzip(&self) -> &Bytes {
        self.gzip.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            // Writing into memory does not fail; an empty answer would be noticed.
            let written = encoder
                .write_all(&self.body)
                .and_then(|()| encoder.finish());
            Bytes::from(written.unwrap_or_default())
        })
    }

    /// The hash of the bytes: SHA-512 in hexadecimal, in upper case.
    pub fn hash(&self) -> &str {
        self.hash.get_or_init(|| hash(&self.body))
    }

    /// The tag, for the header `ETag`: the hash in quotes.
    pub fn etag(&self) -> String {
        format!("\"{}\"", self.hash())
    }

    /// Whether a client that sends this in `If-None-Match` has the document (RFC 9110, 13.1.2), so
    /// that the answer is 304.
    pub fn is_match(&self, if_none_match: &str) -> bool {
        let mut tags = if_none_match.split(',').map(str::trim);
        tags.any(|tag| {
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            let quoted = tag.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
            tag == "*" || quoted == Some(self.hash())
        })
    }
}

/// SHA-512 of bytes in hexadecimal, in upper case, as upstream tags discovery and OpenAPI
/// (`apiserver/pkg/endpoints/discovery/aggregated/etag.go`, Kubernetes 1.36).
fn hash(bytes: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA512, bytes);
    let mut text = String::with_capacity(2 * digest.as_ref().len());
    for byte in digest.as_ref() {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02X}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_bytes() {
        // Of RFC 6234's test vectors.
        let document = Document::new("text/plain", "abc");
        assert!(
            document
                .hash()
                .starts_with("DDAF35A193617ABACC417349AE204131")
        );
        assert!(document.hash().ends_with("2A9AC94FA54CA49F"));
    }

    #[test]
    fn clients_that_have_it_are_told_so() {
        let document = Document::new("text/plain", "abc");
        let tag = document.etag();
        for sent in [&tag, "*", &format!("\"x\", {tag}"), &format!("W/{tag}")] {
            assert!(document.is_match(sent), "{sent}");
        }
        for sent in ["", "\"\"", "\"x\"", document.hash(), ",,,", "\""] {
            assert!(!document.is_match(sent), "{sent}");
        }
    }

    #[test]
    fn compressed_it_is_the_same() {
        let document = Document::new("text/plain", "priority ".repeat(1000));
        let mut text = String::new();
        let mut decoder = GzDecoder::new(document.gzip().as_ref());
        decoder.read_to_string(&mut text).unwrap();
        assert_eq!(text.as_bytes(), document.body());
        assert!(document.gzip().len() < 200);
    }
}
