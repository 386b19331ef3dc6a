//! Design 6: no agent takes a unit over while another one, of another folder, has its stream open.

use crate::sim::checks::{Check, Commit, Fact, place};
use state::documents::draft::read;
use state::documents::keys::last_id;
use state::terms::names::Uuid;
use state::unit::local::Event;
use std::collections::{BTreeMap, BTreeSet};

/// A stream that is opened while an attach is under way is no stream of before.
const OPEN_MS: u64 = 1_000;

#[derive(Default)]
pub struct SessionTakeover {
    now_ms: u64,
    /// By nonce, the folders in which it was written down.
    nonces: BTreeMap<Uuid, BTreeSet<Uuid>>,
    /// By folder, whose agent has a stream open: the unit, and since when.
    streams: BTreeMap<Uuid, (Uuid, u64)>,
    /// By unit, the nonce of its newest session.
    sessions: BTreeMap<Uuid, Uuid>,
}

impl Check for SessionTakeover {
    fn name(&self) -> &'static str {
        "clones"
    }

    fn time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        match fact {
            Fact::Recorded { folder, events, .. } => {
                for event in events.iter() {
                    if let Event::Attaching { nonce } = event {
                        self.nonces.entry(*nonce).or_default().insert(*folder);
                    }
                }
            }
            Fact::Copied { folder, copy } => {
                for folders in self.nonces.values_mut().filter(|folders| folders.contains(folder)) {
                    folders.insert(*copy);
                }
            }
            Fact::Stream { folder, unit, open: true } => {
                self.streams.insert(*folder, (*unit, self.now_ms));
            }
            Fact::Stream { folder, open: false, .. } => drop(self.streams.remove(folder)),
            Fact::ControllerStarted => self.streams.clear(),
            _ => {}
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter().filter(|change| place(&change.key).0 == "session") {
            let Some(unit) = last_id(&change.key) else { continue };
            let Some(session) = read(commit.reader, &commit.model.session(unit)) else { continue };
            if self.sessions.insert(unit, session.nonce) == Some(session.nonce) {
                continue;
            }
            let Some(own) = self.nonces.get(&session.nonce) else { continue };
            let others = self.streams.iter().filter(|(folder, (of, since_ms))| {
                *of == unit && !own.contains(folder) && since_ms + OPEN_MS <= commit.now_ms
            });
            for (folder, _) in others {
                let epoch = session.epoch;
                found.push(format!("{unit}: epoch {epoch} is granted beside the open stream of {folder}"));
            }
        }
    }
}
