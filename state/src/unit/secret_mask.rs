//! Masks the contents of secrets in what a hook prints (security S43).
//!
//! The mask knows what the hook has read and written in this run, and replaces it line by line. It is best effort: a
//! value that the hook prints in another form, a value of less than [`MASKED_BYTES_MIN`], and one that a hook printed
//! before its agent was replaced, are not found. Used by the agent for the log of a hook that has ended.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Shorter values are not masked: they occur by chance, and masking `no` would make a log useless.
pub const MASKED_BYTES_MIN: usize = 4;
/// The most lines of values that a mask knows. A secret has 100 keys at most, and few hooks read ten secrets.
const LINES_MAX: usize = 1_000;
/// What is printed instead of a value.
const MASK: &str = "*****";

/// The lines of the values of secrets, the longest first, so that a value which contains another is masked as a whole.
#[derive(Clone, Debug, Default)]
pub struct SecretMask(BTreeSet<(Reverse<usize>, String)>);

impl SecretMask {
    /// Adds a value; each of its lines is masked, since output is masked line by line.
    pub fn add(&mut self, value: &str) {
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= MASKED_BYTES_MIN);
        for line in lines {
            if self.0.len() < LINES_MAX {
                self.0.insert((Reverse(line.len()), line.to_owned()));
            }
        }
    }

    /// The text with its values replaced; none if it contains none.
    pub fn masked(&self, text: &str) -> Option<String> {
        let contained = |(_, value): &&(Reverse<usize>, String)| text.contains(value.as_str());
        let mut found = self.0.iter().filter(contained).peekable();
        found.peek()?;
        Some(found.fold(text.to_owned(), |text, (_, value)| text.replace(value.as_str(), MASK)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_each_value_is_masked_and_other_text_is_kept() {
        let mut mask = SecretMask::default();
        for value in ["hunter2", "hunter2-long", "-----BEGIN KEY-----\nMIIabc\n", "no", "x y z"] {
            mask.add(value);
        }
        let masked = |text: &str| mask.masked(text);
        assert_eq!(masked("a=hunter2-long;hunter2;no").as_deref(), Some("a=*****;*****;no"));
        assert_eq!(masked("MIIabc\n(x y z)").as_deref(), Some("*****\n(*****)"));
        assert_eq!(masked("nothing"), None);
    }

    #[test]
    fn a_mask_is_bounded() {
        let mut mask = SecretMask::default();
        (0..2 * LINES_MAX).for_each(|n| mask.add(&format!("value {n}")));
        assert_eq!(mask.0.len(), LINES_MAX);
    }
}
