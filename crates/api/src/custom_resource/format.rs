//! Formats of strings that schemas may ask for.
//!
//! Sources, Kubernetes 1.36: `k8s.io/kube-openapi/pkg/validation/strfmt`; which of them count in
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go`. Formats that are not in
//! the list are ignored, as upstream does. Those about money, books and colours (`isbn`,
//! `creditcard`, `ssn`, `hexcolor`, `rgbcolor`, `bsonobjectid`) are known, and fit any text here.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::schema::{Schema, ValueType};
use crate::names::{dns1123_label_errors, dns1123_subdomain_errors};

/// Formats of strings; dashes in their names do not count.
const FORMATS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether the format of a schema is one that is looked at.
pub(crate) fn is_known(schema: &Schema) -> bool {
    let format = schema.format.as_str();
    match schema.value_type {
        _ if format.is_empty() => true,
        _ if schema.is_int_or_string => false,
        None | Some(ValueType::String) => FORMATS.contains(&format.replace('-', "").as_str()),
        Some(ValueType::Integer) => matches!(format, "int32" | "int64"),
        Some(ValueType::Number) => matches!(format, "float" | "double"),
        Some(_) => false,
    }
}

/// Whether a text is of a format.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "byte" => is_base64(text),
        "cidr" => is_cidr(text),
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "duration" => is_duration(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "k8slongname" => dns1123_subdomain_errors(text).is_empty(),
        "k8sshortname" => dns1123_label_errors(text).is_empty(),
        "mac" => is_mac(text),
        "uri" => is_uri(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        _ => true,
    }
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && STANDARD.decode(text).is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let is_plain = bits.bytes().all(|byte| byte.is_ascii_digit())
        && (bits.len() == 1 || !bits.starts_with('0'));
    match (address.parse(), bits.parse::<u8>()) {
        (Ok(std::net::IpAddr::V4(_)), Ok(bits)) => is_plain && bits <= 32,
        (Ok(std::net::IpAddr::V6(_)), Ok(bits)) => is_plain && bits <= 128,
        _ => false,
    }
}

/// A duration of Go, such as `1h30m` or `-1.5s`, or of Scala, such as `22 ns` or `3 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 8] = ["ns", "us", "\u{b5}s", "\u{3bc}s", "ms", "s", "m", "h"];
    const WORDS: [&str; 26] = [
        "ns",
        "nano",
        "nanos",
        "nanosecond",
        "nanoseconds",
        "us",
        "\u{b5}s",
        "micro",
        "micros",
        "microsecond",
        "microseconds",
        "ms",
        "milli",
        "millis",
        "millisecond",
        "milliseconds",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "mins",
        "minute",
        "minutes",
    ];
    const LONG_WORDS: [&str; 10] = [
        "h", "hr", "hrs", "hour", "hours", "d", "day", "days", "week", "weeks",
    ];
    let unsigned = text.trim_start_matches(['-', '+']);
    if text.len() - unsigned.len() > 1 {
        return false;
    }
    if unsigned == "0" {
        return true;
    }
    let number_end = |text: &str| {
        text.find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len())
    };
    let is_number =
        |text: &str| text.chars().any(|c| c.is_ascii_digit()) && text.matches('.').count() <= 1;
    let mut rest = unsigned;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(number_end(rest));
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        if !is_number(number) || !UNITS.contains(&unit) {
            break;
        }
        rest = after;
        if rest.is_empty() {
            return true;
        }
    }
    let (number, unit) = unsigned.split_at(number_end(unsigned));
    let unit = unit.trim();
    is_number(number)
        && !number.contains('.')
        && (WORDS.contains(&unit) || LONG_WORDS.contains(&unit))
}

fn is_email(text: &str) -> bool {
    let Some((user, host)) = text.rsplit_once('@') else {
        return false;
    };
    let fits = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with('.')
            && !part.contains("..")
            && !part.contains(|c: char| c.is_whitespace() || "@<>(),;:\\\"[]".contains(c))
    };
    fits(user) && fits(host)
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        let fits = |c: char| c.is_alphanumeric() || c == '-';
        (1..=63).contains(&label.len())
            && label.chars().all(fits)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 255 && !text.is_empty() && text.split('.').all(label)
}

fn is_mac(text: &str) -> bool {
    let groups = |separator: char, digits: usize, counts: &[usize]| {
        let groups: Vec<&str> = text.split(separator).collect();
        let fits = |group: &&str| {
            group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        counts.contains(&groups.len()) && groups.iter().all(fits)
    };
    groups(':', 2, &[6, 8, 20]) || groups('-', 2, &[6, 8, 20]) || groups('.', 4, &[3, 4, 10])
}

/// A URI as Go parses it in a request: absolute, or a path from the root.
fn is_uri(text: &str) -> bool {
    if text.contains(|c: char| c.is_ascii_control() || c == ' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme && !rest.is_empty()
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    let mut rest = text;
    let mut digits = String::with_capacity(32);
    for (index, length) in LENGTHS.into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(length) else {
            return false;
        };
        digits.push_str(group);
        rest = after;
    }
    let at = |index: usize| digits.as_bytes().get(index).copied().map(char::from);
    let is_version = version.is_none_or(|version| at(12) == Some(version));
    let has_variant =
        matches!(version, None | Some('3')) || at(16).is_some_and(|c| "89abAB".contains(c));
    rest.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && is_version
        && has_variant
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_from_what_is_near() {
        for (format, right, wrong) in [
            ("byte", "aGVsbG8=", "hello!"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("date", "2026-02-28", "2026-02-30"),
            ("date-time", "2026-02-28T10:00:00Z", "2026-02-28"),
            ("duration", "1h30m", "1h30"),
            ("duration", "22 ns", "22 parsecs"),
            ("duration", "-1.5s", "--1s"),
            ("email", "a@b.example", "a b@c"),
            ("hostname", "node-1.example", "-node"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("ipv6", "::1", "10.0.0.1"),
            ("k8s-short-name", "a-b", "a.b"),
            ("k8s-long-name", "a.b", "a_b"),
            ("mac", "01:23:45:67:89:ab", "01:23:45:67:89"),
            ("uri", "https://example.org/x", "example"),
            (
                "uuid",
                "123e4567-e89b-12d3-a456-426614174000",
                "123e4567-e89b",
            ),
            (
                "uuid4",
                "123e4567-e89b-42d3-a456-426614174000",
                "123e4567-e89b-12d3-a456-426614174000",
            ),
        ] {
            assert!(fits(format, right), "{format} {right}");
            assert!(!fits(format, wrong), "{format} {wrong}");
        }
        assert!(fits("anything", "at all"));
    }
}
