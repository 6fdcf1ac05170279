//! Points in time: seconds since 1970 on the wire, RFC 3339 in JSON.
//!
//! `time` has whole seconds, whatever the wire says of their fractions, and `microTime`
//! microseconds. Go's zero, the beginning of the year 1, stands for no time at all: nothing on
//! the wire, `null` in JSON.
//! Source: `k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}{,_proto}.go`, Kubernetes 1.36.

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use jiff::fmt::temporal::Pieces;

/// A point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PointInTime {
    /// Seconds since 1970.
    pub(crate) seconds: i64,
    /// Nanoseconds in addition.
    pub(crate) nanos: i32,
}

/// Whether and how fractions of seconds are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    Seconds,
    Micros,
}

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
const NANOS_IN_SECOND: i32 = 1_000_000_000;

impl PointInTime {
    /// Go's zero: no time.
    pub(crate) const ZERO: PointInTime = PointInTime {
        seconds: -62_135_596_800,
        nanos: 0,
    };

    /// The point in time with no more than the precision, and fractions that count forward;
    /// `None` if it is beyond what can be counted.
    pub(crate) fn rounded(self, precision: Precision) -> Option<PointInTime> {
        let nanos = match precision {
            Precision::Seconds => 0,
            // Towards zero, as Go does.
            Precision::Micros => self.nanos - self.nanos % 1000,
        };
        let carried = i64::from(nanos.div_euclid(NANOS_IN_SECOND));
        Some(PointInTime {
            seconds: self.seconds.checked_add(carried)?,
            nanos: nanos.rem_euclid(NANOS_IN_SECOND),
        })
    }

    /// RFC 3339, in UTC; `None` if the year does not have four digits.
    pub(crate) fn text(self, precision: Precision) -> Option<String> {
        let rounded = self.rounded(precision)?;
        let since_epoch = SignedDuration::new(rounded.seconds, rounded.nanos);
        let time = EPOCH.checked_add(since_epoch).ok()?;
        let digits = match precision {
            Precision::Seconds => 0,
            Precision::Micros => 6,
        };
        (time.year() >= 0).then(|| format!("{time:.digits$}Z"))
    }

    /// Reads RFC 3339; `None` if the text is something else.
    pub(crate) fn parse(text: &str) -> Option<PointInTime> {
        let pieces = Pieces::parse(text).ok()?;
        let time = pieces.date().to_datetime(pieces.time()?);
        let offset = pieces.to_numeric_offset()?;
        let since_epoch = time.duration_since(EPOCH);
        let nanos = since_epoch.subsec_nanos();
        let borrowed = i64::from(nanos.div_euclid(NANOS_IN_SECOND));
        Some(PointInTime {
            seconds: since_epoch.as_secs() + borrowed - i64::from(offset.seconds()),
            nanos: nanos.rem_euclid(NANOS_IN_SECOND),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Precision::{Micros, Seconds};

    fn at(seconds: i64, nanos: i32) -> PointInTime {
        PointInTime { seconds, nanos }
    }

    #[test]
    fn texts_are_those_of_go() {
        let text = |seconds, nanos, precision| at(seconds, nanos).text(precision);
        assert_eq!(text(0, 999, Seconds).unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(text(0, 999, Micros).unwrap(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(
            text(1_790_000_000, 216_987_654, Micros).unwrap(),
            "2026-09-21T14:13:20.216987Z"
        );
        assert_eq!(text(-1, 0, Seconds).unwrap(), "1969-12-31T23:59:59Z");
        assert_eq!(
            text(0, -1_500_000_000, Micros).unwrap(),
            "1969-12-31T23:59:58.500000Z"
        );
        assert_eq!(
            text(253_402_300_799, 0, Seconds).unwrap(),
            "9999-12-31T23:59:59Z"
        );
        assert_eq!(
            text(-62_167_219_200, 0, Seconds).unwrap(),
            "0000-01-01T00:00:00Z"
        );
        for (seconds, nanos) in [
            (253_402_300_800, 0),
            (-62_167_219_201, 0),
            (i64::MAX, i32::MAX),
            (i64::MIN, i32::MIN),
        ] {
            assert_eq!(text(seconds, nanos, Micros), None);
            assert_eq!(text(seconds, nanos, Seconds), None);
        }
    }

    #[test]
    fn texts_are_read_in_any_offset() {
        assert_eq!(PointInTime::parse("1970-01-01T00:00:00Z"), Some(at(0, 0)));
        assert_eq!(
            PointInTime::parse("1970-01-01T02:00:00.5+02:00"),
            Some(at(0, 500_000_000))
        );
        assert_eq!(
            PointInTime::parse("1969-12-31T23:59:59.25Z"),
            Some(at(-1, 250_000_000))
        );
        assert_eq!(
            PointInTime::parse("0001-01-01T00:00:00Z"),
            Some(PointInTime::ZERO)
        );
        assert_eq!(
            PointInTime::parse("9999-12-31T23:59:59Z"),
            Some(at(253_402_300_799, 0))
        );
        for text in ["", "yesterday", "1970-01-01", "1970-01-01T00:00:00"] {
            assert_eq!(PointInTime::parse(text), None, "{text}");
        }
    }
}
