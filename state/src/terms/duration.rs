//! Durations as Go writes them, which Juju's users and clients write.

/// Parses a duration (`1h2m3.5s`, `250ms`) into nanoseconds. None if the text is no duration: a sign other than `+`, a
/// number without a unit, or nothing.
pub fn parse_ns(text: &str) -> Option<f64> {
    let (mut rest, mut total) = (text.strip_prefix('+').unwrap_or(text), None);
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
