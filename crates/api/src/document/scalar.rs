//! What a plain YAML scalar means: text, number, boolean or null.
//!
//! These are the rules of YAML 1.1 as `go.yaml.in/yaml/v2` has them (`resolve.go`,
//! Kubernetes 1.36), with the outcome that `sigs.k8s.io/yaml` then writes as JSON.

use serde_json::{Number, Value};

/// Resolves a plain scalar without a tag.
///
/// # Errors
///
/// Infinity and not-a-number, which JSON cannot hold.
pub(super) fn resolve(text: &str) -> Result<Value, String> {
    let first = text.bytes().next();
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(Value::Bool(true));
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(Value::Bool(false));
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF"
        | "-.inf" | "-.Inf" | "-.INF" => {
            return Err(format!(
                "{text} is a number that JSON cannot hold; write it in quotes"
            ));
        }
        _ => {}
    }
    let number = match first {
        Some(b'0'..=b'9' | b'+' | b'-') if !is_date(text) => number(text),
        Some(b'.') => float(text),
        _ => None,
    };
    Ok(number.map_or_else(|| Value::String(text.to_owned()), Value::Number))
}

/// Whether it starts like a date; those stay text.
fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count()
        == 4
        && bytes.get(4) == Some(&b'-')
}

fn number(text: &str) -> Option<Number> {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    integer(&plain).or_else(|| float(&plain))
}

/// An integer in Go's notation: `0x`, `0o` or a leading `0`, `0b`, else decimal.
fn integer(plain: &str) -> Option<Number> {
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, plain.get(1..)?),
        b'+' => (false, plain.get(1..)?),
        _ => (false, plain),
    };
    let prefix = digits.get(..2).unwrap_or_default().to_ascii_lowercase();
    let (radix, digits) = match prefix.as_str() {
        "0x" => (16, digits.get(2..)?),
        "0o" => (8, digits.get(2..)?),
        "0b" => (2, digits.get(2..)?),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    match negative {
        false => Some(size.into()),
        true => 0i64.checked_sub_unsigned(size).map(Number::from),
    }
}

/// A decimal fraction; a whole one becomes an integer, as it does when Go writes JSON.
fn float(plain: &str) -> Option<Number> {
    let unsigned = plain.strip_prefix(['-', '+']).unwrap_or(plain);
    let mut bytes = unsigned.bytes().peekable();
    let mut digits = 0;
    while bytes.next_if(u8::is_ascii_digit).is_some() {
        digits += 1;
    }
    if bytes.next_if_eq(&b'.').is_some() {
        while bytes.next_if(u8::is_ascii_digit).is_some() {
            digits += 1;
        }
    }
    if digits == 0 {
        return None;
    }
    if bytes.next_if(|byte| matches!(byte, b'e' | b'E')).is_some() {
        bytes.next_if(|byte| matches!(byte, b'-' | b'+'));
        bytes.peek()?;
        while bytes.next_if(u8::is_ascii_digit).is_some() {}
    }
    if bytes.next().is_some() {
        return None;
    }
    let value: f64 = plain.parse().ok()?;
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}

#[cfg(test)]
mod tests {
    use super::resolve;

    /// Pairs of a plain scalar and the JSON that kubectl makes of it.
    #[test]
    fn scalars_resolve_as_kubectl_resolves_them() {
        let cases = [
            ("yes", "true"),
            ("On", "true"),
            ("n", "false"),
            ("oN", "\"oN\""),
            ("~", "null"),
            ("", "null"),
            ("nULL", "\"nULL\""),
            ("0644", "420"),
            ("0o17", "15"),
            ("0x1F", "31"),
            ("0b11", "3"),
            ("-0b11", "-3"),
            ("089", "89"),
            ("1_000", "1000"),
            ("+7", "7"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "1.8446744073709552e+19"),
            ("1.0", "1"),
            ("1.10", "1.1"),
            ("12e3", "12000"),
            (".5", "0.5"),
            ("1e", "\"1e\""),
            ("1e999", "\"1e999\""),
            (".", "\".\""),
            ("-", "\"-\""),
            ("1.2.3", "\"1.2.3\""),
            ("500m", "\"500m\""),
            ("2024-01-02", "\"2024-01-02\""),
            ("2024-01-02T03:04:05Z", "\"2024-01-02T03:04:05Z\""),
            ("12:30", "\"12:30\""),
        ];
        for (text, json) in cases {
            let value = resolve(text).expect(text);
            assert_eq!(value.to_string(), json, "{text}");
        }
    }

    #[test]
    fn infinity_is_refused() {
        assert!(resolve(".inf").is_err());
        assert!(resolve("-.INF").is_err());
        assert!(resolve(".nan").is_err());
    }
}
