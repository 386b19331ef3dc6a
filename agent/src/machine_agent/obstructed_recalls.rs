//! Recalls that the machine agent cannot complete or confirm: a folder of the removed unit is left on the machine, or may
//! be.
//!
//! A folder may be impossible to stop or delete, for example because something is mounted in it. The agent deletes no folder that is quarantined, that is a copy, or whose unit it cannot determine, so that only a
//! person can remove it. The agent reports what it found (`pintle why machine/NAME` shows it) and tries again with a
//! back-off, because an attempt costs a few reads of each folder, and up to ten seconds while a killed
//! process does not end. Used by the machine agent's loop; performs no I/O.

use api::OBSTRUCTED_RECALL_RETRY_MAX_MS;
use host::backoff::Backoff;
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The time until a recall is tried again for the first time; it is doubled each time, up to
/// [`OBSTRUCTED_RECALL_RETRY_MAX_MS`].
const RETRY_FIRST_MS: u64 = 5_000;

/// The shortest pause before the next attempt: one lists and reads the folders of the machine.
const PAUSE_MIN_MS: u64 = 1_000;

/// The obstructed recalls of one machine.
pub(super) struct ObstructedRecalls {
    /// What prevents the confirmation, by unit.
    found: BTreeMap<Uuid, String>,
    /// What the controller has received in this watch.
    reported: BTreeMap<Uuid, String>,
    backoff: Backoff,
    next_ms: u64,
}

impl ObstructedRecalls {
    /// No recall is obstructed.
    pub(super) fn new() -> ObstructedRecalls {
        let backoff = Backoff::new(RETRY_FIRST_MS, OBSTRUCTED_RECALL_RETRY_MAX_MS);
        ObstructedRecalls { found: BTreeMap::new(), reported: BTreeMap::new(), backoff, next_ms: 0 }
    }

    /// Returns which of the open recalls must be attempted or confirmed now. Times are in milliseconds since boot.
    pub(super) fn due(&mut self, open: &BTreeSet<Uuid>, now_ms: u64) -> BTreeSet<Uuid> {
        self.found.retain(|unit, _| open.contains(unit));
        let is_due = now_ms >= self.next_ms;
        if self.found.is_empty() {
            self.backoff.reset();
        }
        if is_due {
            self.next_ms = now_ms.saturating_add(self.backoff.delay_ms());
            self.backoff.increase();
        }
        open.iter().filter(|unit| is_due || !self.found.contains_key(unit)).copied().collect()
    }

    /// The obstacle of a recall has ended: it is due at once.
    pub(super) fn retry_now(&mut self, unit: Uuid) {
        self.found.remove(&unit);
    }

    /// Records whether a recall is obstructed. Returns whether that has changed.
    pub(super) fn record(&mut self, unit: Uuid, obstacle: Option<String>) -> bool {
        match obstacle {
            Some(obstacle) => self.found.insert(unit, obstacle.clone()) != Some(obstacle),
            None => self.found.remove(&unit).is_some(),
        }
    }

    /// When the obstructed recalls are tried again; none if no recall is obstructed. That time may have passed: the last
    /// attempt took long, or there was none, because the machine agent has no view or could not list its folders. It is
    /// never now, so that the loop pauses in each case.
    pub(super) fn next_attempt_ms(&self, now_ms: u64) -> Option<u64> {
        let not_before = now_ms.saturating_add(PAUSE_MIN_MS);
        (!self.found.is_empty()).then(|| self.next_ms.max(not_before))
    }

    /// All obstacles, if the controller has not received exactly these in this watch; empty if none is left.
    pub(super) fn unreported(&self) -> Option<BTreeMap<Uuid, String>> {
        (self.found != self.reported).then(|| self.found.clone())
    }

    /// Stores what the controller has received in this watch; nothing at its start.
    pub(super) fn set_reported(&mut self, reported: BTreeMap<Uuid, String>) {
        self.reported = reported;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_obstructed_recall_is_tried_again_ever_more_rarely_and_others_at_once() {
        let (obstructed, other) = (Uuid(1), Uuid(2));
        let (one, both) = (BTreeSet::from([obstructed]), BTreeSet::from([obstructed, other]));
        let mut recalls = ObstructedRecalls::new();
        let mut tried_ms = Vec::new();
        for now_ms in (0..3_600_000).step_by(1_000) {
            if !recalls.due(&one, now_ms).is_empty() {
                tried_ms.push(now_ms);
                assert_eq!(recalls.record(obstructed, Some("a folder".to_owned())), now_ms == 0);
            }
        }
        assert_eq!(tried_ms[..4], [0, 5_000, 15_000, 35_000]);
        assert_eq!(tried_ms.len(), 12, "{tried_ms:?}");
        let next_ms = recalls.next_attempt_ms(3_600_000).expect("it is obstructed");
        assert!(next_ms > 3_600_000);
        // the attempt took longer than the delay, or there was none
        assert_eq!(
            recalls.next_attempt_ms(next_ms + 7),
            Some(next_ms + 1_007),
            "at once, but not without a pause"
        );
        assert_eq!(recalls.due(&both, 3_600_000), BTreeSet::from([other]));
        recalls.retry_now(obstructed);
        assert_eq!(recalls.due(&both, 3_600_000), both, "its folder was deleted meanwhile");
        assert!(recalls.record(obstructed, Some("another folder".to_owned())));
        assert!(!recalls.record(other, None));
        assert!(recalls.record(obstructed, None), "the folder is gone");
        assert_eq!(recalls.next_attempt_ms(3_600_000), None);
    }
}
