//! Spans of time as people read them: `8s`, `3m6s`, `47h`, `5y12d`.
//!
//! Two or three digits are enough to know how old something is, so the unit grows with the span,
//! and a second unit is shown while the first is small. Source:
//! `k8s.io/apimachinery/pkg/util/duration`, `HumanDuration`, Kubernetes 1.36.

use outrank_api::time::unix_nanos;
use serde_json::Value;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Calendars play no part: a year is 365 days.
const YEAR: i64 = 365 * DAY;

/// The point in time of a field in nanoseconds since 1970; `None` if it is absent or is none.
pub(super) fn time(value: &Value) -> Option<i64> {
    value.as_str().and_then(unix_nanos)
}

/// How long ago the point in time of a field was; `<unknown>` if it is absent or is none.
pub(super) fn since(value: &Value, now_nanos: i64) -> String {
    since_time(time(value), now_nanos)
}

/// How long ago a point in time (nanoseconds since 1970) was; `<unknown>` if there is none.
pub(super) fn since_time(time: Option<i64>, now_nanos: i64) -> String {
    match time {
        Some(time) => human(now_nanos.saturating_sub(time)),
        None => "<unknown>".to_owned(),
    }
}

/// A span of time in nanoseconds. Clocks may differ a little, so up to two seconds less than
/// nothing is `0s`; less than that is `<invalid>`.
pub(super) fn human(nanos: i64) -> String {
    let seconds = nanos / NANOS_PER_SECOND;
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(seconds, (MINUTE, "m"), (1, "s")),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(seconds, (HOUR, "h"), (MINUTE, "m")),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(seconds, (DAY, "d"), (HOUR, "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// A span in a large unit, and what is left in a small one unless that is nothing.
fn two(seconds: i64, large: (i64, &str), small: (i64, &str)) -> String {
    let (count, rest) = (seconds / large.0, seconds % large.0 / small.0);
    match rest {
        0 => format!("{count}{}", large.1),
        rest => format!("{count}{}{rest}{}", large.1, small.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_grow_with_the_span() {
        let cases = [
            (-2 * NANOS_PER_SECOND, "<invalid>"),
            (-2 * NANOS_PER_SECOND + 1, "0s"),
            (-1, "0s"),
            (0, "0s"),
            (NANOS_PER_SECOND - 1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 59, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR + 60, "8h"),
            (48 * HOUR - 1, "47h"),
            (48 * HOUR, "2d"),
            (49 * HOUR, "2d1h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY + HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR + DAY, "8y"),
        ];
        for (span, text) in cases {
            // Small numbers are seconds, for reading.
            let is_nanos = span < 0 || span == NANOS_PER_SECOND - 1;
            let nanos = if is_nanos {
                span
            } else {
                span * NANOS_PER_SECOND
            };
            assert_eq!(human(nanos), text, "{span}");
        }
        assert_eq!(human(i64::MAX), "292y");
        assert_eq!(human(i64::MIN), "<invalid>");
    }

    #[test]
    fn no_time_is_unknown() {
        for value in [Value::Null, "soon".into(), 7.into()] {
            assert_eq!(since(&value, 0), "<unknown>");
        }
        assert_eq!(since(&"0001-01-01T00:00:00Z".into(), 0), "<unknown>");
        assert_eq!(since(&"1970-01-01T00:00:00Z".into(), i64::MAX), "292y");
        assert_eq!(since(&"2200-01-01T00:00:00Z".into(), i64::MIN), "<invalid>");
    }
}
