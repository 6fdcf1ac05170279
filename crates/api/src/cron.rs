//! Schedules of CronJobs: `30 2 * * mon-fri`, `@hourly`, `@every 90m`.
//!
//! Five fields: minute, hour, day of month, month, day of week. Each is a list of numbers,
//! ranges and steps; `*` and `?` are all. If both days are given, either is enough. Hours that a
//! change of the clock leaves out have no runs, those that it repeats have them twice.
//! Source, with error texts: the standard parser of `github.com/robfig/cron` v3, which
//! Kubernetes 1.36 uses.
//!
//! ```
//! use outrank_api::cron::{Schedule, Zone};
//! use outrank_api::time::{rfc3339, unix_nanos};
//!
//! let schedule = Schedule::parse("30 2 * * mon-fri").unwrap();
//! let friday = unix_nanos("2026-01-02T12:00:00Z").unwrap();
//! let next = schedule.next(friday, &Zone::utc()).unwrap();
//! assert_eq!(rfc3339(next), "2026-01-05T02:30:00Z");
//! let berlin = Zone::named("Europe/Berlin").unwrap();
//! assert_eq!(rfc3339(schedule.next(friday, &berlin).unwrap()), "2026-01-05T01:30:00Z");
//! assert_eq!(
//!     Schedule::parse("61 * * * *").unwrap_err(),
//!     "end of range (61) above maximum (59): 61"
//! );
//! ```

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};

const SECOND: i64 = 1_000_000_000;

/// How far ahead a run is looked for, in years: `0 0 30 2 *` never comes.
const YEARS_MAX: i16 = 5;

/// When something is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Every so many seconds.
    Every(i64),
    Fields {
        minutes: Set,
        hours: Set,
        days: Set,
        months: Set,
        weekdays: Set,
    },
}

/// Allowed numbers, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set {
    bits: u64,
    /// Whether a `*` or `?` is in it.
    is_star: bool,
}

/// A time zone.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// UTC.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The zone of this name in the IANA database that comes with the program; `None` if there
    /// is none.
    pub fn named(name: &str) -> Option<Self> {
        let zone = TimeZoneDatabase::bundled().get(name).ok()?;
        Some(Self(zone))
    }

    /// The text of a point in time in this zone, in whole seconds as the API writes them.
    pub fn rfc3339(&self, unix_nanos: i64) -> String {
        let zoned = self.zoned(unix_nanos);
        let text = zoned.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
        match text.strip_suffix("+00:00") {
            Some(utc) => format!("{utc}Z"),
            None => text,
        }
    }

    fn zoned(&self, unix_nanos: i64) -> Zoned {
        // Every number of nanoseconds that fits is a time.
        let timestamp = Timestamp::from_nanosecond(unix_nanos.into()).unwrap_or_default();
        timestamp.to_zoned(self.0.clone())
    }
}

/// Minimum, maximum and names of a field.
struct Bounds {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const MINUTES: Bounds = Bounds {
    min: 0,
    max: 59,
    names: &[],
};
const HOURS: Bounds = Bounds {
    min: 0,
    max: 23,
    names: &[],
};
const DAYS: Bounds = Bounds {
    min: 1,
    max: 31,
    names: &[],
};
const MONTHS: Bounds = Bounds {
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const WEEKDAYS: Bounds = Bounds {
    min: 0,
    max: 6,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Schedule {
    /// Reads a schedule. The error is upstream's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("empty spec string".to_owned());
        }
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            return Err(
                "cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned(),
            );
        }
        if text.starts_with('@') {
            return descriptor(text).map(Self);
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            let (count, fields) = (fields.len(), fields.join(" "));
            return Err(format!(
                "expected exactly 5 fields, found {count}: [{fields}]"
            ));
        };
        Ok(Self(Kind::Fields {
            minutes: set(minutes, &MINUTES)?,
            hours: set(hours, &HOURS)?,
            days: set(days, &DAYS)?,
            months: set(months, &MONTHS)?,
            weekdays: set(weekdays, &WEEKDAYS)?,
        }))
    }

    /// The first time after `unix_nanos`; `None` if there is none in the next years.
    pub fn next(&self, unix_nanos: i64, zone: &Zone) -> Option<i64> {
        let (minutes, hours) = match &self.0 {
            Kind::Every(seconds) => {
                let now = unix_nanos.div_euclid(SECOND);
                return now.checked_add(*seconds)?.checked_mul(SECOND);
            }
            Kind::Fields { minutes, hours, .. } => (minutes, hours),
        };
        let minute = 60 * SECOND;
        let first = unix_nanos
            .div_euclid(minute)
            .checked_add(1)?
            .checked_mul(minute)?;
        let mut time = zone.zoned(first);
        let last_year = time.year() + YEARS_MAX;
        while time.year() <= last_year {
            if !self.has_day(&time) {
                time = self.next_day(&time)?;
            } else if !hours.has(time.hour()) {
                let minutes = 60 - i64::from(time.minute());
                time = time.checked_add(SignedDuration::from_mins(minutes)).ok()?;
            } else if !minutes.has(time.minute()) {
                time = time.checked_add(SignedDuration::from_mins(1)).ok()?;
            } else {
                return time.timestamp().as_nanosecond().try_into().ok();
            }
        }
        None
    }

    /// Whether there are runs on the day of a time.
    fn has_day(&self, time: &Zoned) -> bool {
        let Kind::Fields {
            days,
            months,
            weekdays,
            ..
        } = &self.0
        else {
            return true;
        };
        let day = days.has(time.day());
        let weekday = weekdays.has(time.weekday().to_sunday_zero_offset());
        let is_right = match days.is_star || weekdays.is_star {
            true => day && weekday,
            false => day || weekday,
        };
        months.has(time.month()) && is_right
    }

    /// The beginning of the next day, or month if there are no runs in this.
    fn next_day(&self, time: &Zoned) -> Option<Zoned> {
        let has_month = match &self.0 {
            Kind::Fields { months, .. } => months.has(time.month()),
            Kind::Every(_) => true,
        };
        let next = match has_month {
            true => time.date().checked_add(1.day()).ok()?,
            false => time.date().first_of_month().checked_add(1.month()).ok()?,
        };
        next.to_zoned(time.time_zone().clone()).ok()
    }
}

impl Set {
    fn has(&self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits >> number & 1 == 1)
    }
}

fn descriptor(text: &str) -> Result<Kind, String> {
    let fields = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(duration) = text.strip_prefix("@every ") else {
                return Err(format!("unrecognized descriptor: {text}"));
            };
            let seconds = seconds(duration).ok_or_else(|| {
                let cause = format!("time: invalid duration {duration:?}");
                format!("failed to parse duration {text}: {cause}")
            })?;
            return Ok(Kind::Every(seconds.max(1)));
        }
    };
    Schedule::parse(fields).map(|schedule| schedule.0)
}

/// The whole seconds of a duration such as `1h30m`.
fn seconds(text: &str) -> Option<i64> {
    let (is_negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut sum = 0.0;
    while !rest.is_empty() || sum == 0.0 && rest == text {
        let end = rest.find(|it: char| !it.is_ascii_digit() && it != '.')?;
        let number: f64 = rest.get(..end)?.parse().ok()?;
        rest = rest.get(end..)?;
        let units = [
            ("ns", 1e-9),
            ("us", 1e-6),
            ("µs", 1e-6),
            ("ms", 1e-3),
            ("s", 1.0),
            ("m", 60.0),
            ("h", 3600.0),
        ];
        let mut units = units.into_iter();
        let (unit, factor) = units.find(|(unit, _)| rest.starts_with(unit))?;
        sum += number * factor;
        rest = rest.get(unit.len()..)?;
    }
    Some(if is_negative { -sum as i64 } else { sum as i64 })
}

/// The numbers of a field: a list of ranges.
fn set(field: &str, bounds: &Bounds) -> Result<Set, String> {
    let mut set = Set {
        bits: 0,
        is_star: false,
    };
    for part in field.split(',').filter(|part| !part.is_empty()) {
        let (bits, is_star) = range(part, bounds)?;
        set.bits |= bits;
        set.is_star |= is_star;
    }
    Ok(set)
}

/// `*`, `5`, `2-7`, each with a step such as `/3`.
fn range(text: &str, bounds: &Bounds) -> Result<(u64, bool), String> {
    let (base, step_text) = match text.split('/').collect::<Vec<_>>()[..] {
        [base] => (base, None),
        [base, step] => (base, Some(step)),
        _ => return Err(format!("too many slashes: {text}")),
    };
    let (first, last, mut is_star) = match base.split('-').collect::<Vec<_>>()[..] {
        ["*" | "?"] => (bounds.min, bounds.max, true),
        ["*" | "?", _] => (bounds.min, bounds.max, true),
        [number] => {
            let number = number_or_name(number, bounds)?;
            let last = if step_text.is_some() {
                bounds.max
            } else {
                number
            };
            (number, last, false)
        }
        [first, last] => (
            number_or_name(first, bounds)?,
            number_or_name(last, bounds)?,
            false,
        ),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match step_text {
        None => 1,
        Some(step) => number(step)?,
    };
    is_star &= step <= 1;
    if first < bounds.min {
        let min = bounds.min;
        return Err(format!(
            "beginning of range ({first}) below minimum ({min}): {text}"
        ));
    }
    if last > bounds.max {
        let max = bounds.max;
        return Err(format!(
            "end of range ({last}) above maximum ({max}): {text}"
        ));
    }
    if first > last {
        return Err(format!(
            "beginning of range ({first}) beyond end of range ({last}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    let numbers = (first..=last).step_by(step as usize);
    Ok((numbers.fold(0, |bits, number| bits | 1 << number), is_star))
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let lower = text.to_ascii_lowercase();
    match bounds.names.iter().position(|name| *name == lower) {
        Some(position) => Ok(position as u32 + bounds.min),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if text.starts_with('-') && digits.bytes().all(|it| it.is_ascii_digit()) && !digits.is_empty() {
        return Err(format!("negative number ({text}) not allowed: {text}"));
    }
    text.parse().map_err(|_| {
        let cause = format!("strconv.Atoi: parsing {text:?}: invalid syntax");
        format!("failed to parse int from {text}: {cause}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{rfc3339, unix_nanos};

    /// The first times of a schedule after a time.
    fn times(schedule: &str, after: &str, zone: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::parse(schedule).expect("a schedule");
        let zone = Zone::named(zone).expect("a zone");
        let first = unix_nanos(after).expect("a time");
        let next = |time: &i64| schedule.next(*time, &zone);
        let times = std::iter::successors(Some(first), next).skip(1);
        times.take(count).map(rfc3339).collect()
    }

    #[test]
    fn fields_select_times() {
        assert_eq!(
            times("*/20 4,5 * * *", "2026-03-01T04:15:00Z", "UTC", 4),
            [
                "2026-03-01T04:20:00Z",
                "2026-03-01T04:40:00Z",
                "2026-03-01T05:00:00Z",
                "2026-03-01T05:20:00Z"
            ]
        );
        assert_eq!(
            times("0 0 29 2 *", "2026-03-01T00:00:00Z", "UTC", 1),
            ["2028-02-29T00:00:00Z"]
        );
        assert!(times("0 0 30 2 *", "2026-03-01T00:00:00Z", "UTC", 1).is_empty());
        assert_eq!(
            times("0 0 1 JAN ?", "2026-03-01T00:00:00Z", "UTC", 1),
            ["2027-01-01T00:00:00Z"]
        );
    }

    #[test]
    fn either_day_is_enough_if_both_are_given() {
        assert_eq!(
            times("0 0 13 * fri", "2026-02-01T00:00:00Z", "UTC", 3),
            [
                "2026-02-06T00:00:00Z",
                "2026-02-13T00:00:00Z",
                "2026-02-20T00:00:00Z"
            ]
        );
        assert_eq!(
            times("0 0 13 * *", "2026-02-01T00:00:00Z", "UTC", 2),
            ["2026-02-13T00:00:00Z", "2026-03-13T00:00:00Z"]
        );
    }

    #[test]
    fn the_clock_may_leave_an_hour_out_or_repeat_it() {
        let zone = "America/New_York";
        assert_eq!(
            times("30 2 * * *", "2026-03-07T12:00:00Z", zone, 1),
            ["2026-03-09T06:30:00Z"],
            "2:30 does not exist on March 8"
        );
        assert_eq!(
            times("30 1 * * *", "2026-11-01T00:00:00Z", zone, 2),
            ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"]
        );
    }

    #[test]
    fn descriptors_stand_for_fields_or_durations() {
        assert_eq!(
            times("@weekly", "2026-01-01T00:00:00Z", "UTC", 1),
            ["2026-01-04T00:00:00Z"]
        );
        assert_eq!(
            times("@every 1h30m", "2026-01-01T00:00:10Z", "UTC", 1),
            ["2026-01-01T01:30:10Z"]
        );
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let error = |text: &str| Schedule::parse(text).expect_err(text);
        assert_eq!(error("nope"), "expected exactly 5 fields, found 1: [nope]");
        assert_eq!(error("* * * * 7"), "end of range (7) above maximum (6): 7");
        assert_eq!(
            error("* * 0 * *"),
            "beginning of range (0) below minimum (1): 0"
        );
        assert_eq!(
            error("5-1 * * * *"),
            "beginning of range (5) beyond end of range (1): 5-1"
        );
        assert_eq!(
            error("*/0 * * * *"),
            "step of range should be a positive number: */0"
        );
        assert_eq!(error("1/2/3 * * * *"), "too many slashes: 1/2/3");
        assert_eq!(
            error("x * * * *"),
            "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"
        );
        assert_eq!(error("@often"), "unrecognized descriptor: @often");
        assert!(Schedule::parse("@every soon").is_err());
    }
}
