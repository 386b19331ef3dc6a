//! Decides how goyaml.v2 reads a plain scalar of YAML 1.1 (spec/hook-tools.md 1.6, rule 3).
//!
//! `yaml` writes a string in double quotes if its plain form would be read as another type. `settings_file` uses the
//! same rules to name the type of a value.

/// Whether the plain text would be read as null, a boolean, a number or a time, or as a base-60 number by other
/// parsers.
pub fn needs_quotes(text: &str) -> bool {
    is_word(text) || is_time(text) || is_number(text) || is_base_60(text)
}

/// Whether the text is null, a boolean or a named number, in one of the spellings of YAML 1.1.
pub fn is_word(text: &str) -> bool {
    is_null(text)
        || matches!(
            text,
            "y" | "Y"
                | "yes"
                | "Yes"
                | "YES"
                | "n"
                | "N"
                | "no"
                | "No"
                | "NO"
                | "on"
                | "On"
                | "ON"
                | "off"
                | "Off"
                | "OFF"
                | "true"
                | "True"
                | "TRUE"
                | "false"
                | "False"
                | "FALSE"
        )
        || matches!(text.strip_prefix(['+', '-']).unwrap_or(text), ".inf" | ".Inf" | ".INF")
        || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// Whether the text is null.
pub fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Whether the text is an integer in a base of Go, or a finite decimal float. Underscores are ignored.
pub fn is_number(text: &str) -> bool {
    if !text.starts_with(['+', '-', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        return false;
    }
    let plain = text.replace('_', "");
    if text.starts_with('.') && plain != text {
        return false;
    }
    is_integer(&plain) || is_float(&plain)
}

/// Whether the text, without underscores, is an integer of 64 bits: decimal, or with a prefix 0x, 0o, 0b or 0.
pub fn is_integer(plain: &str) -> bool {
    let digits = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, lower[2..].strip_prefix(['+', '-']).unwrap_or(&lower[2..])),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    !digits.starts_with(['+', '-']) && u64::from_str_radix(digits, radix).is_ok()
}

fn is_float(plain: &str) -> bool {
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let well_formed = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| {
            let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent)
        });
    well_formed && plain.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Whether the text is a base-60 number: `12:30`, `1:59.5`. goyaml.v2 reads it as text but quotes it for other parsers.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    let Some((last, middle)) = rest.split_last() else {
        return false;
    };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    let sixtieth = |part: &str| match part.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [ten, digit] => (b'0'..=b'5').contains(ten) && digit.is_ascii_digit(),
        _ => false,
    };
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && middle.iter().all(|part| sixtieth(part))
        && sixtieth(last)
        && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// Whether the text is a date `2006-1-2`, alone or followed by a time: after `T` or `t` with a zone, or after a space
/// without one.
fn is_time(text: &str) -> bool {
    let Some((is_valid, rest)) = date(text) else {
        return false;
    };
    if !is_valid {
        return false;
    }
    match rest.chars().next() {
        None => true,
        Some(' ') => time_of_day(&rest[1..]).is_some_and(str::is_empty),
        Some('T' | 't') => time_of_day(&rest[1..]).is_some_and(is_zone),
        Some(_) => false,
    }
}

/// Parses the leading date. Returns whether it exists in the calendar, and the rest of the text.
fn date(text: &str) -> Option<(bool, &str)> {
    let year = text.get(..4).filter(|year| year.bytes().all(|b| b.is_ascii_digit()))?;
    let year: u32 = year.parse().ok()?;
    let (month, rest) = short_number(text[4..].strip_prefix('-')?)?;
    let (day, rest) = short_number(rest.strip_prefix('-')?)?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => 31,
    };
    Some(((1..=12).contains(&month) && (1..=days).contains(&day), rest))
}

/// Parses the leading time `15:4:5.999` and returns the rest of the text.
fn time_of_day(text: &str) -> Option<&str> {
    let (hour, rest) = short_number(text)?;
    let (minute, rest) = short_number(rest.strip_prefix(':')?)?;
    let (second, rest) = short_number(rest.strip_prefix(':')?)?;
    let rest = match rest.strip_prefix(['.', ',']) {
        Some(fraction) if fraction.starts_with(|c: char| c.is_ascii_digit()) => {
            fraction.trim_start_matches(|c: char| c.is_ascii_digit())
        }
        _ => rest,
    };
    (hour < 24 && minute < 60 && second < 60).then_some(rest)
}

/// Parses one or two digits and returns the rest of the text.
fn short_number(text: &str) -> Option<(u32, &str)> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    Some((text[..digits].parse().ok()?, &text[digits..]))
}

/// Whether the text is a zone: `Z` or `+07:00`.
fn is_zone(text: &str) -> bool {
    let Some(offset) = text.strip_prefix(['+', '-']) else {
        return text == "Z";
    };
    offset.len() == 5
        && offset.split_once(':').is_some_and(|(hours, minutes)| {
            let two = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
            two(hours) && two(minutes) && hours <= "24" && minutes < "60"
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_times_need_quotes() {
        for text in [
            "",
            "~",
            "NULL",
            "Y",
            "oFF".to_uppercase().as_str(),
            "0b101",
            "-0b1",
            "0x1F",
            "0O17",
            "017",
            "089",
            "1_2",
            "+.5",
            ".5",
            "1.",
            "-1e-3",
            "+.inf",
            ".NaN",
            "18446744073709551615",
            "99999999999999999999",
            "1:2",
            "+1:59.5_",
            "2001-1-2",
            "2001-01-02t03:04:05.6+07:30",
            "2001-01-02 03:04:05",
            "2004-02-29",
        ] {
            assert!(needs_quotes(text), "{text}");
        }
    }

    #[test]
    fn text_that_only_resembles_a_number_or_time_is_plain() {
        for text in [
            "yEs",
            "nULL",
            "inf",
            "nan",
            "0x",
            "0xg",
            "1e",
            "1e999",
            "_1",
            "+",
            "-",
            ".",
            "..5",
            "1.2.3",
            "1:60",
            "1:2:x",
            "2001-13-01",
            "2001-02-29",
            "2001-1",
            "2001-01-02 03:04:05Z",
            "2001-01-02T03:04:05",
            "10.0.0.1",
            "1 2",
            "<<",
        ] {
            assert!(!needs_quotes(text), "{text}");
        }
    }
}
