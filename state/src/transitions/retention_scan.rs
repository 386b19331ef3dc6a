//! Finds the oldest documents of a kind beyond its limits in number and bytes, over several sweeps.
//!
//! Age does not matter: within the limits nothing is deleted. A scan reads one page per call, so that a large model
//! delays no other request. Called by the janitor for actions, tombstones and retired tokens, with the limits
//! of each.

use crate::documents::draft::{Reader, StoredDocument};
use std::collections::BTreeSet;

/// The most keys that one scan collects: some 100 bytes each, 400 KiB.
const EXCESS_MAX: usize = 4_000;

/// One pass through all documents of a kind, one page per sweep. It counts them and collects the oldest ones.
#[derive(Default)]
pub struct RetentionScan {
    /// The last key that was read.
    after: String,
    count: usize,
    bytes: u64,
    /// The revision, the key and the size of each of the oldest documents.
    oldest: BTreeSet<(u64, String, u64)>,
    /// The result of the last complete pass: the keys of the oldest documents beyond the limits, at most
    /// `EXCESS_MAX`. They are deleted before the next pass starts.
    pub excess: Vec<String>,
    /// Whether the documents that remain after [`excess`](RetentionScan::excess) still exceed a limit, so that the next
    /// pass starts at once.
    pub needs_next_pass: bool,
}

/// The limits beyond which the oldest documents are deleted, and the size of a page.
pub struct ScanLimits {
    /// The most documents that are kept.
    pub documents_max: usize,
    /// The most bytes that are kept, of keys and documents together.
    pub bytes_max: u64,
    /// The number of documents that are read at a time.
    pub page: usize,
}

impl RetentionScan {
    /// Reads the next page of documents. Those for which `counts` is true are subject to the limits.
    pub fn advance(
        &mut self,
        reader: &dyn Reader,
        prefix: &str,
        limits: ScanLimits,
        counts: impl Fn(&StoredDocument) -> bool,
    ) {
        if !self.excess.is_empty() {
            return;
        }
        let page = reader.scan(prefix, &self.after, limits.page);
        let is_last = page.len() < limits.page;
        for stored in page {
            if counts(&stored) {
                let bytes = (stored.key.len() + stored.value.len()) as u64;
                (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
                self.oldest.insert((stored.revision, stored.key.clone(), bytes));
            }
            if self.oldest.len() > EXCESS_MAX {
                self.oldest.pop_last();
            }
            self.after = stored.key;
        }
        if is_last {
            let (mut count, mut bytes, mut excess) = (self.count, self.bytes, Vec::new());
            for (_, key, size) in std::mem::take(&mut self.oldest) {
                if count <= limits.documents_max && bytes <= limits.bytes_max {
                    break;
                }
                (count, bytes) = (count - 1, bytes - size);
                excess.push(key);
            }
            let needs_next_pass = count > limits.documents_max || bytes > limits.bytes_max;
            *self = RetentionScan { excess, needs_next_pass, ..RetentionScan::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A reader of `lines` documents; the last one is the oldest. Records the size of the largest page.
    struct Lines {
        lines: usize,
        page_max: Cell<usize>,
    }

    impl Reader for Lines {
        fn revision(&self) -> u64 {
            u64::MAX
        }
        fn get(&self, _: &str) -> Option<StoredDocument> {
            None
        }
        fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
            let line = |n: usize| StoredDocument {
                key: format!("{prefix}{n:06}"),
                revision: (self.lines - n) as u64,
                value: "1".to_owned().into(),
            };
            let read: Vec<StoredDocument> =
                (0..self.lines).map(line).filter(|line| line.key.as_str() > after).take(limit).collect();
            self.page_max.set(self.page_max.get().max(read.len()));
            read
        }
    }

    fn limits(documents_max: usize, page: usize) -> ScanLimits {
        ScanLimits { documents_max, bytes_max: u64::MAX, page }
    }

    #[test]
    fn a_scan_finds_the_oldest_documents_beyond_the_bytes() {
        let lines = Lines { lines: 10, page_max: Cell::new(0) };
        let mut scan = RetentionScan::default();
        // a document takes nine bytes: eight of its key, one of its value
        scan.advance(&lines, "l/", ScanLimits { documents_max: 100, bytes_max: 63, page: 100 }, |_| true);
        assert_eq!(scan.excess, ["l/000009", "l/000008", "l/000007"]);
        assert!(!scan.needs_next_pass);
    }

    #[test]
    fn a_scan_reads_one_page_per_sweep_and_finds_the_oldest_documents_beyond_the_limit() {
        let lines = Lines { lines: 2_500, page_max: Cell::new(0) };
        let mut scan = RetentionScan::default();
        for _ in 0..25 {
            scan.advance(&lines, "l/", limits(2_000, 100), |_| true);
            assert_eq!(scan.excess.len(), 0, "the result is unknown before the end of the pass");
        }
        scan.advance(&lines, "l/", limits(2_000, 100), |_| true);
        assert_eq!(scan.excess.len(), 500);
        assert_eq!((scan.excess[0].as_str(), scan.excess[499].as_str()), ("l/002499", "l/002000"));
        assert!(!scan.needs_next_pass);
        scan.advance(&lines, "l/", limits(2_000, 100), |_| true);
        assert_eq!(scan.count, 0, "they are deleted before the next pass starts");
        assert_eq!(lines.page_max.get(), 100);
    }

    #[test]
    fn a_scan_that_collects_all_that_it_can_needs_another_pass() {
        let lines = Lines { lines: EXCESS_MAX + 20, page_max: Cell::new(0) };
        let mut scan = RetentionScan::default();
        for _ in 0..=lines.lines / 1_000 {
            scan.advance(&lines, "l/", limits(10, 1_000), |_| true);
        }
        assert_eq!((scan.excess.len(), scan.needs_next_pass), (EXCESS_MAX, true));
    }
}
