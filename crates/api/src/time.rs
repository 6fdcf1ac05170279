//! Points in time as the API writes them (RFC 3339), and spans of time.

/// A point in time in nanoseconds since 1970; `None` if the text is not one, or is too far
/// away from today to be counted so.
///
/// ```
/// use outrank_api::time::unix_nanos;
///
/// assert_eq!(unix_nanos("1970-01-01T00:00:01Z"), Some(1_000_000_000));
/// assert_eq!(unix_nanos("1970-01-01T02:00:00.5+02:00"), Some(500_000_000));
/// assert_eq!(unix_nanos("yesterday"), None);
/// ```
pub fn unix_nanos(text: &str) -> Option<i64> {
    let timestamp: jiff::Timestamp = text.parse().ok()?;
    timestamp.as_nanosecond().try_into().ok()
}

/// The text of a point in time, in whole seconds as the API writes them.
///
/// ```
/// assert_eq!(outrank_api::time::rfc3339(1_500_000_000), "1970-01-01T00:00:01Z");
/// ```
pub fn rfc3339(unix_nanos: i64) -> String {
    let seconds = unix_nanos.div_euclid(1_000_000_000);
    // Every number of nanoseconds that fits is a time.
    let timestamp = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    timestamp.to_string()
}

/// A span of time in nanoseconds; `None` if the text is not one, is negative, or is too long
/// to be counted so.
///
/// ```
/// use outrank_api::time::span_nanos;
///
/// assert_eq!(span_nanos("1m30s"), Some(90_000_000_000));
/// assert_eq!(span_nanos("250ms"), Some(250_000_000));
/// assert_eq!(span_nanos("-1s"), None);
/// assert_eq!(span_nanos("soon"), None);
/// ```
pub fn span_nanos(text: &str) -> Option<i64> {
    let span: jiff::SignedDuration = text.parse().ok()?;
    let nanos = span.as_nanos().try_into().ok();
    nanos.filter(|nanos| *nanos >= 0)
}
