//! Pieces of messages as they stand on the wire, written without the crate that is tested.

/// A field of bytes, text or a message.
pub(crate) fn field(number: usize, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let mut field = varint(number << 3 | 2);
    field.extend(varint(bytes.len()));
    field.extend(bytes);
    field
}

/// A number, seven bits at a time.
fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
