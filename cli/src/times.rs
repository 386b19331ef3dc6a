//! Formats of times in output (spec/clients.md 3.3, 3.6), and durations in flags.
//!
//! Clients parse these formats, so they match Juju's exactly.

pub use api::ago;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use state::terms::duration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch, by this host's wall clock.
pub fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// The time zone of displayed times: the host's, or UTC with `--utc`.
#[derive(Clone)]
pub struct Zone {
    zone: TimeZone,
    /// Whether `status` has times in the form of ISO 8601, as Juju does if UTC is requested.
    is_iso: bool,
}

impl Zone {
    /// UTC, or the time zone of this host.
    pub fn new(utc: bool) -> Zone {
        Zone { zone: if utc { TimeZone::UTC } else { TimeZone::system() }, is_iso: utc }
    }

    fn format(&self, ms: i64, format: &str) -> String {
        let time =
            Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(self.zone.clone());
        // A zero offset is written Z, as Go does.
        let offset =
            if time.offset() == Offset::UTC { "Z".to_owned() } else { time.strftime("%:z").to_string() };
        time.strftime(format).to_string().replace('@', &offset)
    }

    /// `24 Feb 2025 12:03:17+13:00`, in the JSON and YAML of `status`; `2025-02-23 23:03:17Z` if UTC is requested.
    pub fn since(&self, ms: i64) -> String {
        self.format(ms, &format!("{}:%S@", self.minute()))
    }

    fn minute(&self) -> &'static str {
        if self.is_iso { "%Y-%m-%d %H:%M" } else { "%d %b %Y %H:%M" }
    }

    /// `10:00:09Z`, in the head of `status`.
    pub fn time_of_day(&self, ms: i64) -> String {
        self.format(ms, "%H:%M:%S@")
    }

    /// `10:00:05`, in `debug-log`; optionally with the date and milliseconds.
    pub fn log_time(&self, ms: i64, date: bool, millis: bool) -> String {
        let day = if date { self.format(ms, "%Y-%m-%d ") } else { String::new() };
        let fraction = if millis { format!(".{:03}", ms.rem_euclid(1000)) } else { String::new() };
        format!("{day}{}{fraction}", self.format(ms, "%H:%M:%S"))
    }

    /// `2026-11-03T10:00:10Z`.
    pub fn iso(&self, ms: i64) -> String {
        self.format(ms, "%Y-%m-%dT%H:%M:%S@")
    }
}

/// Formats many times like [`Zone::since`]. The times of one minute have all but the seconds in common, which is
/// formatted once.
pub struct SinceTimes {
    zone: Zone,
    /// By minute since the epoch: what precedes the seconds, and what follows them.
    minutes: RefCell<BTreeMap<i64, (String, String)>>,
}

impl SinceTimes {
    /// A formatter of times in this zone.
    pub fn new(zone: &Zone) -> SinceTimes {
        SinceTimes { zone: zone.clone(), minutes: RefCell::default() }
    }

    /// As [`Zone::since`].
    pub fn since(&self, ms: i64) -> String {
        let (minute, second) = (ms.div_euclid(60_000), ms.rem_euclid(60_000) / 1_000);
        let mut minutes = self.minutes.borrow_mut();
        let (before, after) = minutes.entry(minute).or_insert_with(|| {
            // Zones whose offset has seconds, and changes of an offset within a minute, are older than any model.
            let start_ms = minute.saturating_mul(60_000);
            (self.zone.format(start_ms, &format!("{}:", self.zone.minute())), self.zone.format(start_ms, "@"))
        });
        format!("{before}{second:02}{after}")
    }
}

/// `2026-11-03T10:00`, the revision of an uploaded resource.
pub fn upload_time(ms: i64) -> String {
    Zone::new(true).format(ms, "%Y-%m-%dT%H:%M")
}

/// `2026-11-03 10:00:10 +0000 UTC`, in the document of a task.
pub fn task_time(ms: i64) -> String {
    Zone::new(true).format(ms, "%Y-%m-%d %H:%M:%S +0000 UTC")
}

/// Every duration is shorter than this, 8760 hours (a year), so that the sum of a time and a duration never overflows.
const DURATION_SECONDS_MAX: f64 = 8760.0 * 3600.0;

/// Parses a duration in Go's format: `30s`, `1.5s`, `1h30m`, `500ms`, `0`.
///
/// # Errors
/// If the text is not a duration, or the duration is a year or longer.
pub fn duration(text: &str) -> Result<Duration, String> {
    let to_error =
        || format!("invalid duration {text:?}: expected a number and a unit, for example 30s or 1h30m");
    let seconds = duration::parse_ns(text).ok_or_else(to_error)? / 1e9;
    if seconds >= DURATION_SECONDS_MAX {
        return Err(format!("invalid duration {text:?}: expected less than 8760h (a year)"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| to_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-03 10:00:09.250 UTC: 20,760 days (of 86,400 s) since 1970-01-01, and 36,009.25 s.
    const MS: i64 = 20_760 * 86_400_000 + 36_009_250;

    #[test]
    fn times_have_the_formats_of_the_spec() {
        let zone = Zone::new(true);
        assert_eq!(zone.since(MS), "2026-11-03 10:00:09Z");
        assert_eq!(zone.time_of_day(MS), "10:00:09Z");
        assert_eq!(zone.log_time(MS, false, false), "10:00:09");
        assert_eq!(zone.log_time(MS, true, true), "2026-11-03 10:00:09.250");
        assert_eq!(task_time(MS), "2026-11-03 10:00:09 +0000 UTC");
        let east = Zone { zone: TimeZone::fixed(jiff::tz::offset(13)), is_iso: false };
        assert_eq!(east.since(MS), "03 Nov 2026 23:00:09+13:00");
        for zone in [zone, east] {
            let times = SinceTimes::new(&zone);
            for ms in [MS, MS + 40_000, MS + 50_000, 0, -1] {
                assert_eq!(times.since(ms), zone.since(ms), "{ms}");
            }
        }
    }

    #[test]
    fn durations_in_the_format_of_go_are_parsed() {
        for (text, ms) in [("30s", 30_000), ("1.5s", 1_500), ("1h30m", 5_400_000), ("500ms", 500), ("0", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for invalid in ["99999999999999999999h", "8760h", "", "30", "s", "3 s", "1.2.3s", "-1s", "5x"] {
            assert!(duration(invalid).is_err(), "{invalid}");
        }
    }
}
