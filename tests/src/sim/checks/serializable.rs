//! Committed transactions that are replayed one by one, in the order of their revisions, read the same documents as
//! originally (I45).

use super::check::{Check, FinalState};
use test_support::memory_store::replay;

#[derive(Default)]
pub struct Serializable;

impl Check for Serializable {
    fn name(&self) -> &'static str {
        "serializable"
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        if let Err((revision, conflict)) = replay(end.recorded) {
            found.push(format!("revision {revision} is not serializable: {}", conflict.0));
        }
    }
}
