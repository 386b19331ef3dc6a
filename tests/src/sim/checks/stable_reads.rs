//! I5, I13: what a hook reads stays as it read it first, but for what it has written itself; and nobody is a member
//! without its initial settings.

use crate::sim::checks::{Check, Fact};
use crate::sim::script::SETTINGS;
use state::terms::names::Uuid;
use std::collections::BTreeMap;

/// Of the last run of each folder, what it knows.
#[derive(Default)]
pub struct Snapshot(BTreeMap<Uuid, (u64, BTreeMap<String, String>)>);

impl Snapshot {
    fn known(&mut self, folder: Uuid, run: u64) -> &mut BTreeMap<String, String> {
        let known = self.0.entry(folder).or_default();
        if known.0 != run {
            *known = (run, BTreeMap::new());
        }
        &mut known.1
    }
}

impl Check for Snapshot {
    fn name(&self) -> &'static str {
        "snapshot"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            // a folder that was lost counts its runs anew
            Fact::HookStarted { folder, .. } => drop(self.0.remove(folder)),
            Fact::HookWrote { folder, run, what, text } => {
                self.known(*folder, *run).insert(what.clone(), text.clone());
            }
            Fact::HookRead { folder, run, what, text } => {
                if what.starts_with(SETTINGS) && !text.contains("private-address") {
                    found.push(format!("{folder}: run {run} reads {what}: no address in {text:?}"));
                }
                let known = self.known(*folder, *run).entry(what.clone()).or_insert_with(|| text.clone());
                if known != text {
                    found.push(format!("{folder}: run {run} reads {what}: {text:?}, and knew {known:?}"));
                }
            }
            _ => {}
        }
    }
}
