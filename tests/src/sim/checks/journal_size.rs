//! A journal is compacted before it exceeds its maximum size (I42).

use super::check::Check;
use crate::sim::disk::JOURNAL_BYTES_MAX;
use crate::sim::fact::Fact;

#[derive(Default)]
pub struct JournalSize;

impl Check for JournalSize {
    fn name(&self) -> &'static str {
        "journal-size"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        if let Fact::Appended { folder, bytes } = fact
            && *bytes > JOURNAL_BYTES_MAX
        {
            found
                .push(format!("{folder}: the journal has {bytes} bytes, the maximum is {JOURNAL_BYTES_MAX}"));
        }
    }
}
