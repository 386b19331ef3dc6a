//! Durations as Go writes them, which Juju's users and clients write.

/// Parses a duration (`1h2m3.5s`, `250ms`) into nanoseconds. As in Go, `0` needs no unit. None if the text is not a
/// duration: it has a sign other than `+`, another number without a unit, or nothing.
pub fn parse_ns(text: &str) -> Option<f64> {
    let (mut rest, mut total) = (text.strip_prefix('+').unwrap_or(text), None);
    if rest == "0" {
        return Some(0.0);
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit_ns = match &rest[..end] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        rest = &rest[end..];
        total = Some(total.unwrap_or_default() + number * unit_ns);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_other_than_zero_needs_a_unit() {
        for (text, ns) in [("0", Some(0.0)), ("+0", Some(0.0)), ("0s", Some(0.0)), ("+1s", Some(1e9))] {
            assert_eq!(parse_ns(text), ns, "{text}");
        }
        for invalid in ["", "+", "-0", "00", "1", "0.0", "s"] {
            assert_eq!(parse_ns(invalid), None, "{invalid}");
        }
    }
}
