//! Kubernetes objects in protocol buffers, as JSON and back.
//!
//! Kubernetes has two forms of an object. People and most clients use JSON; programs that are
//! written in Go, among them kubectl when it makes an object from its arguments and all of
//! Kubernetes' own controllers, prefer protocol buffers
//! (`Content-Type: application/vnd.kubernetes.protobuf`), since they are smaller and read faster.
//!
//! Such a body begins with the bytes `k8s\0`. An envelope follows that names `apiVersion` and
//! `kind`, and in it is the object, a message in which fields have numbers instead of names.
//! What the numbers mean is in the table `messages.txt`, for all kinds that Kubernetes 1.36
//! serves by default, their lists, and what is sent to subresources (Binding, Eviction, Scale,
//! TokenRequest, DeleteOptions, reviews) or comes as an answer (Status). Objects of custom
//! resources have no messages: they are JSON always.
//!
//! [`decode`] gives the JSON that the API server would show of the object: what is zero on the
//! wire is there or not as Go's `omitempty` says, times are RFC 3339, quantities canonical.
//! Defaults are not filled in. [`encode`] writes byte for byte what Go does.
//!
//! ```
//! use outrank_protobuf::{decode, encode, is_known};
//! use serde_json::json;
//!
//! let class = json!({
//!     "apiVersion": "scheduling.k8s.io/v1",
//!     "kind": "PriorityClass",
//!     "metadata": { "name": "high" },
//!     "value": 1000,
//! });
//! let body = encode(&class).unwrap();
//! assert!(body.starts_with(b"k8s\0"));
//!
//! let decoded = decode(&body).unwrap();
//! assert_eq!((decoded.api_version.as_str(), decoded.kind.as_str()),
//!            ("scheduling.k8s.io/v1", "PriorityClass"));
//! assert_eq!(decoded.object, class);
//!
//! assert!(!is_known("example.com/v1", "Widget"));
//! let error = decode(&body[..body.len() - 5]).unwrap_err();
//! assert_eq!(error.to_string(), "envelope: the bytes end within a field");
//! ```
//!
//! # Limits
//!
//! Time and memory are linear in the size of the body. An object may have 100 lists and objects
//! inside of each other, and 10,000 values more than its message has bytes, where an object
//! counts for four; beyond that it is refused, as two bytes could become a whole container
//! otherwise.
//!
//! # Differences from Go
//!
//! * Fields with unknown numbers are passed over, as in Go. Fields that only JSON has are not
//!   encoded, for there is no place for them.
//! * Text that is not UTF-8 is taken, and each wrong byte becomes U+FFFD. Go does so, too, but
//!   only when the object is written as JSON.
//! * What Go could read but never show as JSON is an error: numbers that are not finite, raw
//!   values that are no JSON, times beyond the year 9999.
//! * The content type in the envelope counts, which Go ignores: `application/json` is taken as
//!   JSON, anything unknown is refused.

#[cfg(test)]
mod completeness;
mod decode;
mod encode;
mod envelope;
mod error;
#[cfg(test)]
mod round_trip;
mod table;
mod time;
mod wire;

use serde_json::Value;

use envelope::Envelope;
use table::Table;

pub use error::{DecodeError, EncodeError};

/// The content type of what this crate decodes and encodes.
pub const CONTENT_TYPE: &str = error::PROTOBUF;

/// An object that was decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The API version in the envelope, such as `apps/v1`.
    pub api_version: String,
    /// The kind in the envelope, such as `Deployment`.
    pub kind: String,
    /// The object as JSON, `apiVersion` and `kind` included.
    pub object: Value,
}

/// Whether objects of a kind, or lists of them such as `PodList`, have a message.
pub fn is_known(api_version: &str, kind: &str) -> bool {
    Table::get().of_kind(api_version, kind).is_some()
}

/// Decodes a body of the type [`CONTENT_TYPE`].
///
/// # Errors
///
/// If the body is not of that form, its kind has no message, or a value is impossible; the
/// [limits](crate#limits) count, too.
pub fn decode(body: &[u8]) -> Result<Decoded, DecodeError> {
    let envelope = Envelope::open(body).ok_or(DecodeError::NoMagic)?;
    let envelope = envelope.map_err(|error| DecodeError::Malformed {
        path: "envelope".to_owned(),
        problem: error.to_string(),
    })?;
    if !envelope.content_encoding.is_empty() {
        return Err(DecodeError::UnknownContent {
            field: "contentEncoding",
            value: envelope.content_encoding,
        });
    }
    let object = match envelope.content_type.as_str() {
        "" | error::PROTOBUF => object_of_message(&envelope)?,
        error::JSON => return object_of_json(envelope),
        _ => {
            return Err(DecodeError::UnknownContent {
                field: "contentType",
                value: envelope.content_type,
            });
        }
    };
    Ok(Decoded {
        api_version: envelope.api_version,
        kind: envelope.kind,
        object,
    })
}

fn object_of_message(envelope: &Envelope<'_>) -> Result<Value, DecodeError> {
    let Envelope {
        api_version, kind, ..
    } = envelope;
    if kind.is_empty() {
        return Err(DecodeError::NoKind);
    }
    if api_version.is_empty() {
        return Err(DecodeError::NoApiVersion);
    }
    let message = Table::get().of_kind(api_version, kind);
    let message = message.ok_or_else(|| DecodeError::UnknownKind {
        api_version: api_version.clone(),
        kind: kind.clone(),
    })?;
    let object = decode::object(message, envelope.raw);
    let mut object = object.map_err(|fault| malformed(fault, kind))?;
    object.insert("apiVersion".to_owned(), api_version.as_str().into());
    object.insert("kind".to_owned(), kind.as_str().into());
    Ok(Value::Object(object))
}

/// An object that is JSON in its envelope. Envelope and object must agree on what it is, as far
/// as they say.
fn object_of_json(envelope: Envelope<'_>) -> Result<Decoded, DecodeError> {
    let value = decode::json(envelope.raw, decode::MAX_DEPTH);
    let mut value = value.map_err(|fault| malformed(fault, &envelope.kind))?;
    let Value::Object(object) = &mut value else {
        let fault = error::Fault::new("must be an object");
        return Err(malformed(fault, &envelope.kind));
    };
    let mut agree = |field: &str, outside: String| match object.get(field).and_then(Value::as_str) {
        Some(inside) if outside.is_empty() || outside == inside => Ok(inside.to_owned()),
        Some(inside) => Err(DecodeError::Malformed {
            path: field.to_owned(),
            problem: format!("is {inside:?}, and {outside:?} in the envelope"),
        }),
        None => {
            object.insert(field.to_owned(), outside.as_str().into());
            Ok(outside)
        }
    };
    let api_version = agree("apiVersion", envelope.api_version)?;
    let kind = agree("kind", envelope.kind)?;
    if kind.is_empty() {
        return Err(DecodeError::NoKind);
    }
    if api_version.is_empty() {
        return Err(DecodeError::NoApiVersion);
    }
    Ok(Decoded {
        api_version,
        kind,
        object: value,
    })
}

fn malformed(fault: error::Fault, kind: &str) -> DecodeError {
    let (path, problem) = fault.of_object(kind);
    DecodeError::Malformed { path, problem }
}

/// Encodes an object, or a list of objects, with its `apiVersion` and `kind`.
///
/// # Errors
///
/// If the object's kind has no message, or a value is not what its field demands. Fields that
/// Kubernetes 1.36 does not have are left out; that is no error.
pub fn encode(object: &Value) -> Result<Vec<u8>, EncodeError> {
    let text = |field: &'static str| {
        let text = object.get(field).and_then(Value::as_str);
        text.ok_or(EncodeError::NoType(field))
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    let message = Table::get().of_kind(api_version, kind);
    let message = message.ok_or_else(|| EncodeError::UnknownKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    })?;
    let body = envelope::enclose(api_version, kind, |out| {
        encode::object(message, object, out)
    });
    body.map_err(|fault| {
        let (path, problem) = fault.of_object(kind);
        EncodeError::Malformed { path, problem }
    })
}
