//! Bytes as JSON has them: text in base64, read as Go's decoders read it.
//!
//! Line breaks are passed over, and bits that belong to no byte are; nothing else is that is not of
//! the alphabet. An error names the place that Go's does. Source: `encoding/base64` of Go
//! (`StdEncoding`), which `encoding/json` uses for fields of type `[]byte`.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// As Go's `StdEncoding`: padded, and lenient with the last bits.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The same bytes as they are written: without line breaks, with all other bits zero.
///
/// # Errors
///
/// What Go says of text that is no base64.
pub(crate) fn rewritten(text: &str) -> Result<String, String> {
    let one_line: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = ENGINE.decode(&one_line);
    let bytes = bytes.map_err(|_| {
        let place = first_mistake(text.as_bytes());
        format!("illegal base64 data at input byte {place}")
    })?;
    Ok(ENGINE.encode(bytes))
}

/// Where a text stops being base64: the first byte that is wrong, or the beginning of what is left
/// over if the text ends within a group of four.
fn first_mistake(text: &[u8]) -> usize {
    let is_break = |byte: u8| matches!(byte, b'\r' | b'\n');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    // How many digits of the group have been seen.
    let mut digits = 0;
    for (place, &byte) in text.iter().enumerate() {
        if is_break(byte) {
            continue;
        }
        if is_digit(byte) {
            digits = (digits + 1) % 4;
            continue;
        }
        if byte != b'=' || digits < 2 {
            return place;
        }
        let mut rest = (place + 1..text.len()).filter(|&at| !is_break(text[at]));
        if digits == 2 {
            match rest.next() {
                None => return text.len(),
                Some(second) if text[second] != b'=' => return second - 1,
                Some(_) => {}
            }
        }
        return rest.next().unwrap_or(text.len());
    }
    text.len() - digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_go_reads_them() {
        for (text, written) in [
            ("", ""),
            ("AQID", "AQID"),
            ("AQ\nID\r\n", "AQID"),
            ("AR==", "AQ=="),
            ("AQI\n=", "AQI="),
            ("AQ=\n=", "AQ=="),
        ] {
            assert_eq!(rewritten(text).as_deref(), Ok(written), "{text:?}");
        }
    }

    #[test]
    fn mistakes_are_told_with_the_place_that_go_tells() {
        for (text, place) in [
            ("%%%", 0),
            ("AQID!", 4),
            ("A", 0),
            ("AQIDA", 4),
            ("AQ", 0),
            ("AQI", 0),
            ("=", 0),
            ("A===", 1),
            ("AQ=", 3),
            ("AQ=x", 2),
            ("AQ==AQ==", 4),
            ("AQI=A", 4),
            ("é", 0),
            ("AQ_-", 2),
        ] {
            let why = format!("illegal base64 data at input byte {place}");
            assert_eq!(rewritten(text), Err(why), "{text:?}");
        }
    }
}
