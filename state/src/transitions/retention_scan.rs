//! Finds the oldest documents of a kind beyond a bound, over several sweeps.

use state::documents::draft::{Reader, StoredDocument};
use std::collections::BTreeSet;

/// The most keys that one scan collects: some 100 bytes each, 400 KiB.
const EXPIRED_MAX: usize = 4_000;

/// One pass through all documents of a kind, one page per sweep. It counts them and collects the oldest ones.
#[derive(Default)]
pub(super) struct ExpiryScan {
    /// The last key that was read.
    after: String,
    count: usize,
    bytes: u64,
    /// The revision, the key and the size of each of the oldest documents.
    oldest: BTreeSet<(u64, String, u64)>,
    /// The result of the last complete pass: the keys of the oldest documents beyond the limits. They are deleted
    /// before the next pass starts.
    pub(super) expired: Vec<String>,
    /// Whether the last pass found more than [`EXPIRED_MAX`] documents, so that the next pass starts at once.
    pub(super) needs_next_pass: bool,
}

/// The bounds beyond which documents expire, and the number of documents that are read at a time.
pub(super) struct ScanLimits {
    pub(super) documents_max: usize,
    pub(super) bytes_max: u64,
    pub(super) page: usize,
}

impl ExpiryScan {
    /// Reads the next page of documents. Those for which `counts` is true are subject to the bounds.
    pub(super) fn advance(
        &mut self,
        reader: &dyn Reader,
        prefix: &str,
        limits: ScanLimits,
        counts: impl Fn(&StoredDocument) -> bool,
    ) {
        if !self.expired.is_empty() {
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
            if self.oldest.len() > EXPIRED_MAX {
                self.oldest.pop_last();
            }
            self.after = stored.key;
        }
        if is_last {
            let (mut count, mut bytes, mut expired) = (self.count, self.bytes, Vec::new());
            for (_, key, size) in std::mem::take(&mut self.oldest) {
                if count <= limits.documents_max && bytes <= limits.bytes_max {
                    break;
                }
                (count, bytes) = (count - 1, bytes - size);
                expired.push(key);
            }
            let needs_next_pass = count > limits.documents_max || bytes > limits.bytes_max;
            *self = ExpiryScan { expired, needs_next_pass, ..ExpiryScan::default() };
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
        let mut scan = ExpiryScan::default();
        // a document takes nine bytes: eight of its key, one of its value
        scan.advance(&lines, "l/", ScanLimits { documents_max: 100, bytes_max: 63, page: 100 }, |_| true);
        assert_eq!(scan.expired, ["l/000009", "l/000008", "l/000007"]);
        assert!(!scan.needs_next_pass);
    }

    #[test]
    fn a_scan_reads_one_page_per_sweep_and_finds_the_oldest_documents_beyond_the_limit() {
        let lines = Lines { lines: 2_500, page_max: Cell::new(0) };
        let mut scan = ExpiryScan::default();
        for _ in 0..25 {
            scan.advance(&lines, "l/", limits(2_000, 100), |_| true);
            assert_eq!(scan.expired.len(), 0, "the result is unknown before the end of the pass");
        }
        scan.advance(&lines, "l/", limits(2_000, 100), |_| true);
        assert_eq!(scan.expired.len(), 500);
        assert_eq!((scan.expired[0].as_str(), scan.expired[499].as_str()), ("l/002499", "l/002000"));
        assert!(!scan.needs_next_pass);
        scan.advance(&lines, "l/", limits(2_000, 100), |_| true);
        assert_eq!(scan.count, 0, "expired documents are deleted before the next pass starts");
        assert_eq!(lines.page_max.get(), 100);
    }

    #[test]
    fn a_scan_that_finds_too_many_expired_documents_needs_another_round() {
        let lines = Lines { lines: EXPIRED_MAX + 20, page_max: Cell::new(0) };
        let mut scan = ExpiryScan::default();
        for _ in 0..=lines.lines / 1_000 {
            scan.advance(&lines, "l/", limits(10, 1_000), |_| true);
        }
        assert_eq!((scan.expired.len(), scan.needs_next_pass), (EXPIRED_MAX, true));
    }
}
