//! The values that a hook reads do not change while it runs, except by its own writes (I5).
//!
//! No unit is visible as a member without its initial settings (I13).

use super::check::Check;
use crate::sim::fact::Fact;
use crate::sim::script::SETTINGS;
use state::terms::names::Uuid;
use std::collections::BTreeMap;

/// The values that the last run of each folder has read or written.
#[derive(Default)]
pub struct StableReads(BTreeMap<Uuid, (u64, BTreeMap<String, String>)>);

impl StableReads {
    fn values(&mut self, folder: Uuid, run: u64) -> &mut BTreeMap<String, String> {
        let known = self.0.entry(folder).or_default();
        if known.0 != run {
            *known = (run, BTreeMap::new());
        }
        &mut known.1
    }
}

impl Check for StableReads {
    fn name(&self) -> &'static str {
        "stable-reads"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            // a folder that was lost numbers its runs from 1 again
            Fact::HookStarted { folder, .. } => drop(self.0.remove(folder)),
            Fact::HookWrote { folder, run, what, text } => {
                self.values(*folder, *run).insert(what.clone(), text.clone());
            }
            Fact::HookRead { folder, run, what, text } => {
                if what.starts_with(SETTINGS) && !text.contains("private-address") {
                    found.push(format!("{folder}: run {run} reads {what} without an address: {text:?}"));
                }
                let known = self.values(*folder, *run).entry(what.clone()).or_insert_with(|| text.clone());
                if known != text {
                    found.push(format!(
                        "{folder}: run {run} reads {what}: {text:?}, but read {known:?} before"
                    ));
                }
            }
            _ => {}
        }
    }
}
