//! Durations as Go writes them: `15s`, `1m30s`, `1.5h`, `300ms`.
//!
//! Source: `time.ParseDuration`, which `metav1.Duration` reads with.

use std::time::Duration;

use serde_json::Value;

use crate::ConfigError;
use crate::fields::Fields;

/// Units and their nanoseconds. Longer names come first where one begins like another.
const UNITS: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 6e10),
    ("h", 3.6e12),
];

/// A duration that may be negative, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SignedDuration {
    pub(crate) nanos: i64,
}

impl SignedDuration {
    pub(crate) const fn of_seconds(seconds: i64) -> Self {
        Self {
            nanos: seconds * 1_000_000_000,
        }
    }

    /// The duration, or none at all if it is negative.
    pub(crate) fn at_least_zero(self) -> Duration {
        Duration::from_nanos(u64::try_from(self.nanos).unwrap_or(0))
    }
}

/// Reads a field that holds a duration, or has none.
pub(crate) fn duration(
    fields: &mut Fields<'_>,
    name: &str,
    default: SignedDuration,
    errors: &mut Vec<ConfigError>,
) -> SignedDuration {
    let Some((path, value)) = fields.take(name) else {
        return default;
    };
    if value.is_null() {
        return default;
    }
    value.as_str().and_then(parse).unwrap_or_else(|| {
        errors.push(not_a_duration(path, value));
        default
    })
}

fn not_a_duration(path: String, value: &Value) -> ConfigError {
    ConfigError {
        path,
        message: format!("{value} is not a duration such as \"15s\" or \"1m30s\""),
    }
}

fn parse(text: &str) -> Option<SignedDuration> {
    let (sign, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) if text.starts_with('-') => (-1.0, rest),
        Some(rest) => (1.0, rest),
        None => (1.0, text),
    };
    if rest == "0" {
        return Some(SignedDuration { nanos: 0 });
    }
    let mut nanos = 0.0;
    loop {
        let digits = rest.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let (number, unit_on) = rest.split_at(digits);
        let unit = unit_on.find(|c: char| c == '.' || c.is_ascii_digit());
        let (unit, after) = unit_on.split_at(unit.unwrap_or(unit_on.len()));
        let (_, unit_nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
        nanos += number.parse::<f64>().ok()? * unit_nanos;
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    // i64::MAX nanoseconds are 292 years.
    let in_range = nanos < 9.2e18;
    in_range.then_some(SignedDuration {
        nanos: (sign * nanos) as i64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_go_writes_them() {
        for (text, millis) in [
            ("15s", 15_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("300ms", 300),
            ("+2s", 2_000),
            ("-2s", -2_000),
            ("0", 0),
            ("1m0.5s", 60_500),
            (".5s", 500),
        ] {
            let nanos = millis * 1_000_000;
            assert_eq!(parse(text), Some(SignedDuration { nanos }), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "1x",
            "1 s",
            "-",
            "1s1",
            "1..5s",
            "99999999h",
            "1m 2s",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
