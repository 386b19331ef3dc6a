//! Compares keys in the natural order in which goyaml.v2 sorts them (spec/hook-tools.md 1.6, rule 2).

use std::cmp::Ordering;

/// Compares letters by code point and after all other characters, and runs of digits as numbers.
///
/// This is not a total order (`1` < `01` < `0a` < `1`), so the caller inserts keys one by one and does not call `sort`,
/// which may panic.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else {
        return a.len().cmp(&b.len());
    };
    let (left, right) = (a[at], b[at]);
    match (left.is_alphabetic(), right.is_alphabetic()) {
        (true, true) => return left.cmp(&right),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // The digits that differ may be inside of a number: after the common `a1`, the rests `00` and `1` of `a100` and `a11`
    // are compared as 100 and 11.
    let mut lead = 0;
    if left == '0' || right == '0' {
        let digits_before = a[..at].iter().rev().take_while(|c| c.is_ascii_digit());
        lead = u64::from(digits_before.into_iter().any(|c| *c != '0'));
    }
    let number = |chars: &[char]| {
        let digits = chars[at..].iter().map_while(|c| c.to_digit(10));
        digits.fold((lead, 0), |(value, length), digit| {
            (value.wrapping_mul(10).wrapping_add(u64::from(digit)), length + 1)
        })
    };
    number(&a).cmp(&number(&b)).then(left.cmp(&right))
}

#[cfg(test)]
mod tests {
    use super::natural_order;
    use std::cmp::Ordering;

    #[test]
    fn digits_are_numbers_and_letters_come_last() {
        let sorted = ["1", "2", "10", "B", "a", "a-b", "a1", "a01", "a2", "a10", "a10b", "aa", "b"];
        for (at, left) in sorted.iter().enumerate() {
            assert_eq!(natural_order(left, left), Ordering::Equal);
            for right in &sorted[at + 1..] {
                assert_eq!(natural_order(left, right), Ordering::Less, "{left} {right}");
                assert_eq!(natural_order(right, left), Ordering::Greater, "{right} {left}");
            }
        }
    }
}
