//! The times of secrets: parses `--expire` and formats times as RFC 3339 (spec/hook-tools.md 2.6).

use crate::quote::quote;
use state::terms::duration;
use state::unit::hook_context_builder::utc;

/// Parses a time (RFC 3339, or without a zone, which is UTC) or a Go duration from now. Returns milliseconds since
/// 1970.
///
/// # Errors
/// The text for the charm.
pub fn parse(text: &str, now_ms: i64) -> Result<i64, String> {
    if let Some(at_ms) = timestamp(text) {
        return Ok(at_ms);
    }
    match duration_ms(text) {
        Some(duration) if duration > 0 => Ok(now_ms.saturating_add(duration)),
        Some(_) => Err(format!("negative expire duration {} not valid", quote(text))),
        None => Err(format!("expire time or duration {} not valid", quote(text))),
    }
}

/// Formats a time as RFC 3339 in UTC: `2031-03-04T06:06:06Z`.
pub fn format(at_ms: i64) -> String {
    utc(at_ms).replace(' ', "T")
}

/// Parses `2006-01-02T15:04:05`, with an optional fraction, and `Z` or an offset if there is one.
fn timestamp(text: &str) -> Option<i64> {
    let (date, rest) = text.split_once('T')?;
    let mut parts = date.split('-');
    let (year, month, day) =
        (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if parts.next().is_some() || !(1..=days_of_month).contains(&day) {
        return None;
    }
    let (time, offset_ms) = match rest.find(['Z', '+', '-']) {
        None => (rest, 0),
        Some(at) if rest[at..] == *"Z" => (&rest[..at], 0),
        Some(at) => {
            let (hours, minutes) = rest[at + 1..].split_once(':')?;
            let offset = (digits(hours, 2)? * 60 + digits(minutes, 2)?) * 60_000;
            (&rest[..at], if rest[at..].starts_with('-') { -offset } else { offset })
        }
    };
    let (time, fraction) =
        time.split_once('.').map_or((time, None), |(time, fraction)| (time, Some(fraction)));
    let mut parts = time.split(':');
    let (hour, minute, second) =
        (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction_ms = match fraction {
        None => 0,
        Some(fraction) => {
            digits(fraction, fraction.len()).filter(|_| !fraction.is_empty())?;
            format!("{fraction:0<3}").get(..3)?.parse::<i64>().ok()?
        }
    };
    // the days since 1970, by 400-year cycles that begin in March, so that the leap day is the last day of a year
    let years = if month <= 2 { year - 1 } else { year };
    let (cycle, year_of_cycle) = (years.div_euclid(400), years.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = cycle * 146_097 + year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year
        - 719_468;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + fraction_ms - offset_ms)
}

/// A number of exactly this many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Parses a duration of Go, for example `1h30m`, in milliseconds.
fn duration_ms(text: &str) -> Option<i64> {
    let (negative, size) = match text.strip_prefix('-') {
        Some(size) => (true, size),
        None => (false, text),
    };
    if negative && size.starts_with('+') {
        return None;
    }
    let ms = duration::parse_ns(size)? / 1e6;
    // Go's durations have 63 bits of nanoseconds
    let is_possible = ms <= 9_223_372_036_854.0;
    is_possible.then_some(if negative { -ms as i64 } else { ms.ceil() as i64 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_durations_are_parsed() {
        let at = |text: &str| parse(text, 1_000);
        assert_eq!(at("2031-03-04T06:06:06").map(format), Ok("2031-03-04T06:06:06Z".to_owned()));
        assert_eq!(at("2031-03-04T06:06:06+02:00").map(format), Ok("2031-03-04T04:06:06Z".to_owned()));
        assert_eq!(at("1972-02-29T23:59:59.5-00:30"), Ok(68_257_799_500));
        assert_eq!(at("1970-01-01T00:00:00Z"), Ok(0));
        assert_eq!(at("24h"), Ok(86_401_000));
        assert_eq!(at("1h30m1.5s"), Ok(5_402_500));
        for text in [
            "2031-01-01",
            "2031-02-29T00:00:00Z",
            "2031-13-01T00:00:00Z",
            "x",
            "",
            "1",
            "5 h",
            "é",
            "1é",
            "-+1h",
            "+",
            "-",
        ] {
            assert_eq!(at(text), Err(format!("expire time or duration {} not valid", quote(text))), "{text}");
        }
        assert_eq!(at("-1h"), Err(r#"negative expire duration "-1h" not valid"#.to_owned()));
        assert_eq!(at("9999999999h"), Err(r#"expire time or duration "9999999999h" not valid"#.to_owned()));
    }
}
