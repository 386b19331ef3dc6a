//! I42: a journal is folded into the state before it is longer than it may be.

use crate::sim::checks::{Check, Fact};
use crate::sim::disk::JOURNAL_BYTES_MAX;

#[derive(Default)]
pub struct Bounds;

impl Check for Bounds {
    fn name(&self) -> &'static str {
        "bounds"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        if let Fact::Appended { folder, bytes } = fact
            && *bytes > JOURNAL_BYTES_MAX
        {
            found.push(format!("{folder}: a journal of {bytes} bytes, at most {JOURNAL_BYTES_MAX}"));
        }
    }
}
