//! No agent takes over a unit while an agent in another folder has its stream open (design 6).

use super::check::{Check, Commit};
use crate::sim::fact::Fact;
use state::documents::draft::read;
use state::documents::prelude::{Kind, last_id};
use state::terms::names::Uuid;
use state::unit::local::Event;
use std::collections::{BTreeMap, BTreeSet};

/// A stream that was opened less than this before the commit may belong to an attach in progress.
const OPEN_MS: u64 = 1_000;

#[derive(Default)]
pub struct SessionTakeover {
    now_ms: u64,
    /// The folders that journaled each nonce.
    nonces: BTreeMap<Uuid, BTreeSet<Uuid>>,
    /// Folders whose agent has a stream open: the unit, and since when.
    open_streams: BTreeMap<Uuid, (Uuid, u64)>,
    /// The nonce of the newest session, by unit.
    sessions: BTreeMap<Uuid, Uuid>,
}

impl Check for SessionTakeover {
    fn name(&self) -> &'static str {
        "session-takeover"
    }

    fn advance_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        match fact {
            Fact::EventsPersisted { folder, events, .. } => {
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
                self.open_streams.insert(*folder, (*unit, self.now_ms));
            }
            Fact::Stream { folder, open: false, .. } => drop(self.open_streams.remove(folder)),
            Fact::ControllerStarted => self.open_streams.clear(),
            _ => {}
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes_of(Kind::Session) {
            let Some(unit) = last_id(&change.key) else { continue };
            let Some(session) = read(commit.reader, &commit.model.session(unit)) else { continue };
            if self.sessions.insert(unit, session.nonce) == Some(session.nonce) {
                continue;
            }
            let Some(own) = self.nonces.get(&session.nonce) else { continue };
            let others = self.open_streams.iter().filter(|(folder, (of, since_ms))| {
                *of == unit && !own.contains(folder) && since_ms + OPEN_MS <= commit.now_ms
            });
            for (folder, _) in others {
                let epoch = session.epoch;
                found.push(format!("{unit}: epoch {epoch} is granted while the stream of {folder} is open"));
            }
        }
    }
}
