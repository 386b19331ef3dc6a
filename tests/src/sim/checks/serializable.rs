//! I45: committed transactions, one after the other in the order of their revisions, each find what they read.

use crate::sim::checks::{Check, End};
use controller::store::map;

#[derive(Default)]
pub struct Serializable;

impl Check for Serializable {
    fn name(&self) -> &'static str {
        "serial"
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        if let Err((revision, conflict)) = map::replay(end.recorded) {
            found.push(format!("revision {revision} read what was not there: {}", conflict.0));
        }
    }
}
