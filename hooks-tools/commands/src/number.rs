//! Formats floats as Go does: the shortest digits that parse back to the same value, in the layouts of `%g` and JSON.

/// The layout of `%g`, which yaml.v2 writes. Exponents below -4 and from 6 use the scientific form (spec/hook-tools.md
/// 1.5).
pub fn general(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let (mantissa, exponent) = scientific(value);
    if value == 0.0 || (-4..6).contains(&exponent) {
        return value.to_string();
    }
    format!("{mantissa}e{}{:02}", sign(exponent), exponent.abs())
}

/// The layout of encoding/json: the scientific form only below 1e-6 and from 1e21, with an exponent without leading
/// zero.
pub fn json(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return value.to_string();
    }
    let (mantissa, exponent) = scientific(value);
    format!("{mantissa}e{}{}", sign(exponent), exponent.abs())
}

fn sign(exponent: i32) -> char {
    if exponent < 0 { '-' } else { '+' }
}

fn scientific(value: f64) -> (String, i32) {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').expect("LowerExp writes an exponent");
    (mantissa.to_owned(), exponent.parse().expect("LowerExp writes a decimal exponent"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_switches_to_an_exponent_at_a_million() {
        for (value, text) in [
            (0.0, "0"),
            (3.0, "3"),
            (-0.5, "-0.5"),
            (123456.0, "123456"),
            (1e6, "1e+06"),
            (-1_234_567.25, "-1.23456725e+06"),
            (0.00012, "0.00012"),
            (0.000012, "1.2e-05"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(general(value), text);
        }
    }

    #[test]
    fn json_writes_plain_numbers_up_to_1e21() {
        for (value, text) in
            [(1e20, "100000000000000000000"), (1.5e21, "1.5e+21"), (1e-6, "0.000001"), (1.5e-9, "1.5e-9")]
        {
            assert_eq!(json(value), text);
        }
    }
}
