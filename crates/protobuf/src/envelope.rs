//! What stands around a message: four bytes, `k8s` and a zero, and another message that names
//! the kind, since messages do not say what they are.
//! Source: `k8s.io/apimachinery/pkg/runtime/serializer/protobuf/protobuf.go` and `Unknown` in
//! `k8s.io/apimachinery/pkg/runtime/generated.proto`, Kubernetes 1.36.

use std::convert::Infallible;

use crate::decode::text;
use crate::wire::{Reader, WireError, WireValue, put_bytes_field, put_nested_field};

const MAGIC: &[u8] = b"k8s\0";

const TYPE_META: u32 = 1;
const RAW: u32 = 2;
const CONTENT_ENCODING: u32 = 3;
const CONTENT_TYPE: u32 = 4;

const API_VERSION: u32 = 1;
const KIND: u32 = 2;

/// An envelope.
#[derive(Debug, Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// The object.
    pub(crate) raw: &'a [u8],
    pub(crate) content_encoding: String,
    pub(crate) content_type: String,
}

impl<'a> Envelope<'a> {
    /// Opens the envelope of a body; `None` if it does not begin as it must.
    pub(crate) fn open(body: &'a [u8]) -> Option<Result<Envelope<'a>, WireError>> {
        let bytes = body.strip_prefix(MAGIC)?;
        let mut envelope = Envelope::default();
        let read = for_each_text(bytes, |number, bytes| {
            match number {
                TYPE_META => envelope.read_type(bytes)?,
                RAW => envelope.raw = bytes,
                CONTENT_ENCODING => envelope.content_encoding = text(bytes),
                CONTENT_TYPE => envelope.content_type = text(bytes),
                _ => {}
            }
            Ok(())
        });
        Some(read.map(|()| envelope))
    }

    fn read_type(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        for_each_text(bytes, |number, bytes| {
            match number {
                API_VERSION => self.api_version = text(bytes),
                KIND => self.kind = text(bytes),
                _ => {}
            }
            Ok(())
        })
    }
}

/// Does something with the fields that are texts or bytes, as all of an envelope are.
fn for_each_text<'a>(
    bytes: &'a [u8],
    mut read: impl FnMut(u32, &'a [u8]) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let mut reader = Reader(bytes);
    while let Some((number, value)) = reader.next_field()? {
        if let (Ok(number), WireValue::Bytes(bytes)) = (u32::try_from(number), value) {
            read(number, bytes)?;
        }
    }
    Ok(())
}

/// Puts an envelope around a message that `write` adds.
///
/// # Errors
///
/// Those of `write`.
pub(crate) fn enclose<E>(
    api_version: &str,
    kind: &str,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<Vec<u8>, E> {
    let mut out = MAGIC.to_vec();
    let Ok(()) = put_nested_field::<Infallible>(&mut out, TYPE_META, |out| {
        put_bytes_field(out, API_VERSION, api_version.as_bytes());
        put_bytes_field(out, KIND, kind.as_bytes());
        Ok(())
    });
    put_nested_field(&mut out, RAW, write)?;
    put_bytes_field(&mut out, CONTENT_ENCODING, &[]);
    put_bytes_field(&mut out, CONTENT_TYPE, &[]);
    Ok(out)
}
