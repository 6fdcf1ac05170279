//! The wire format of protocol buffers: numbers, and values that bear one.
//!
//! A message is a sequence of fields. Each begins with a key, `number << 3 | wire type`, and
//! goes on as the wire type says: a varint (seven bits a byte, lowest first), four or eight
//! bytes, or a length and as many bytes. Texts, bytes and messages all are of the last type, so
//! a message cannot be read without a table that says which is which.
//! Source: <https://protobuf.dev/programming-guides/encoding/>.

/// What stands on the wire for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireValue<'a> {
    Varint(u64),
    Fixed32(u32),
    Fixed64(u64),
    Bytes(&'a [u8]),
    /// A group of fields, the old form of a message. Kubernetes has none.
    Group,
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("the bytes end within a field")]
    Truncated,
    #[error("a number has more than ten bytes")]
    LongVarint,
    #[error("{0} is no key of a field")]
    BadKey(u64),
}

/// Reads fields, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// The next field, with its number; `None` at the end. A group is passed over whole.
    pub(crate) fn next_field(&mut self) -> Result<Option<(u64, WireValue<'a>)>, WireError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match self.value(key)? {
            Some(value) => value,
            None if key & 7 == END_GROUP => return Err(WireError::BadKey(key)),
            None => {
                self.skip_group()?;
                WireValue::Group
            }
        };
        Ok(Some((key >> 3, value)))
    }

    /// A varint. Bits beyond the 64th are dropped, as Go does.
    pub(crate) fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or(WireError::Truncated)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::LongVarint)
    }

    /// What follows a key; `None` where a group begins or ends.
    fn value(&mut self, key: u64) -> Result<Option<WireValue<'a>>, WireError> {
        if key >> 3 == 0 || key >> 3 > MAX_NUMBER {
            return Err(WireError::BadKey(key));
        }
        Ok(Some(match key & 7 {
            VARINT => WireValue::Varint(self.varint()?),
            FIXED_64 => WireValue::Fixed64(u64::from_le_bytes(self.array()?)),
            BYTES => {
                let len = usize::try_from(self.varint()?).map_err(|_| WireError::Truncated)?;
                WireValue::Bytes(self.take(len)?)
            }
            START_GROUP | END_GROUP => return Ok(None),
            FIXED_32 => WireValue::Fixed32(u32::from_le_bytes(self.array()?)),
            _ => return Err(WireError::BadKey(key)),
        }))
    }

    /// Passes over the rest of a group, groups inside included.
    fn skip_group(&mut self) -> Result<(), WireError> {
        let mut open = 1_usize;
        while open > 0 {
            let key = self.varint()?;
            match self.value(key)? {
                Some(_) => {}
                None if key & 7 == START_GROUP => open += 1,
                None => open -= 1,
            }
        }
        Ok(())
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], WireError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(WireError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }
}

/// Numbers have 29 bits.
const MAX_NUMBER: u64 = (1 << 29) - 1;

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const BYTES: u64 = 2;
const START_GROUP: u64 = 3;
const END_GROUP: u64 = 4;
const FIXED_32: u64 = 5;

/// Writes a varint field.
pub(crate) fn put_varint_field(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3 | VARINT);
    put_varint(out, value);
}

/// Writes a field of eight bytes.
pub(crate) fn put_fixed64_field(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3 | FIXED_64);
    out.extend(value.to_le_bytes());
}

/// Writes a field of bytes or text.
pub(crate) fn put_bytes_field(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_varint(out, u64::from(number) << 3 | BYTES);
    put_varint(out, value.len() as u64);
    out.extend(value);
}

/// Writes a field whose bytes are what `write` adds.
///
/// # Errors
///
/// Those of `write`.
pub(crate) fn put_nested_field<E>(
    out: &mut Vec<u8>,
    number: u32,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    put_varint(out, u64::from(number) << 3 | BYTES);
    let start = out.len();
    write(out)?;
    // The length is known now only, and stands in front.
    let mut len = Vec::with_capacity(5);
    put_varint(&mut len, (out.len() - start) as u64);
    out.splice(start..start, len);
    Ok(())
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Result<Vec<(u64, WireValue<'_>)>, WireError> {
        let mut reader = Reader(bytes);
        let mut fields = Vec::new();
        while let Some(field) = reader.next_field()? {
            fields.push(field);
        }
        Ok(fields)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut out = Vec::new();
        put_varint_field(&mut out, 1, u64::MAX);
        put_fixed64_field(&mut out, 16, 7);
        put_bytes_field(&mut out, 2, b"text");
        put_nested_field(&mut out, 3, |out| {
            put_bytes_field(out, 1, &[0; 200]);
            Ok::<_, ()>(())
        })
        .unwrap();
        let mut nested = vec![10, 200, 1];
        nested.extend([0; 200]);
        let expected = vec![
            (1, WireValue::Varint(u64::MAX)),
            (16, WireValue::Fixed64(7)),
            (2, WireValue::Bytes(b"text")),
            (3, WireValue::Bytes(&nested)),
        ];
        assert_eq!(fields(&out), Ok(expected));
    }

    #[test]
    fn a_group_is_passed_over_with_the_groups_inside() {
        let bytes = [0x0b, 0x13, 0x08, 1, 0x14, 0x1a, 1, 0xff, 0x0c, 0x10, 5];
        let expected = vec![(1, WireValue::Group), (2, WireValue::Varint(5))];
        assert_eq!(fields(&bytes), Ok(expected));
        assert_eq!(fields(&bytes[..8]), Err(WireError::Truncated));
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        use WireError::{BadKey, LongVarint, Truncated};
        assert_eq!(fields(&[0x08]), Err(Truncated));
        assert_eq!(fields(&[0x08, 0x80]), Err(Truncated));
        assert_eq!(fields(&[0x0a, 2, 0]), Err(Truncated));
        assert_eq!(fields(&[0x09, 0, 0, 0, 0, 0, 0, 0]), Err(Truncated));
        assert_eq!(fields(&[0x0d, 0, 0, 0]), Err(Truncated));
        assert_eq!(fields(&[0xff; 11]), Err(LongVarint));
        assert_eq!(fields(&[0x00, 0]), Err(BadKey(0)));
        assert_eq!(fields(&[0x0c]), Err(BadKey(12)));
        assert_eq!(fields(&[0x0f]), Err(BadKey(15)));
        let len = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(fields(&len), Err(Truncated));
    }
}
