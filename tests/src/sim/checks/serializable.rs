//! I45: committed transactions, one after the other in the order of their revisions, each find what they read.

use crate::sim::checks::{Check, FinalState};
use controller::store::memory;

#[derive(Default)]
pub struct Serializable;

impl Check for Serializable {
    fn name(&self) -> &'static str {
        "serializable"
    }

    fn at_rest(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        if let Err((revision, conflict)) = memory::replay(end.recorded) {
            found.push(format!("revision {revision} read what was not there: {}", conflict.0));
        }
    }
}
