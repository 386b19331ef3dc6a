//! Spec B.6.7: no hook of a relation begins, or is retried, on a link that was silent for long, whoever asks for it. One
//! that was interrupted is run again all the same.

use crate::sim::checks::{Check, Fact};
use state::terms::names::Uuid;
use state::unit::local::Event;
use state::unit::operation::{Hook, Operation};
use std::collections::BTreeMap;

/// Three lost heartbeats and a reconnect; and a second for what lies between a decision and its hook: the disk, and
/// others who go first.
const SILENT_MS: u64 = 30_000 + 1_000;

#[derive(Clone, Default)]
struct Folder {
    /// In this process of its agent.
    heard_ms: Option<u64>,
    /// The run of a relation's hook that is about to begin, and was decided on the link.
    begins: Option<u64>,
    /// A run was begun and has no end.
    open: bool,
    /// It was frozen or harmed: what it decided before it may do now.
    is_late: bool,
}

#[derive(Default)]
pub struct LinkFreshness {
    now_ms: u64,
    by_folder: BTreeMap<Uuid, Folder>,
}

impl LinkFreshness {
    fn at(&mut self, folder: Uuid) -> &mut Folder {
        self.by_folder.entry(folder).or_default()
    }
}

impl Check for LinkFreshness {
    fn name(&self) -> &'static str {
        "fresh"
    }

    fn time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let now_ms = self.now_ms;
        match fact {
            Fact::StreamReceived { folder } => self.at(*folder).heard_ms = Some(now_ms),
            Fact::Loaded { folder, .. } => {
                let known = self.at(*folder);
                (known.heard_ms, known.begins) = (None, None);
            }
            Fact::JournalStarted { folder, .. } => {
                *self.at(*folder) = Folder { is_late: true, ..Folder::default() };
            }
            Fact::Frozen { folder } => self.at(*folder).is_late = true,
            Fact::Copied { copy, .. } => self.at(*copy).is_late = true,
            Fact::Recorded { folder, events, .. } => {
                let known = self.at(*folder);
                for event in events.iter() {
                    match event {
                        Event::Started(run) => {
                            let of_relation = matches!(run.operation, Operation::Hook(Hook::Relation { .. }));
                            let decided = run.attempt == 1 && !known.open;
                            known.begins = (of_relation && decided).then_some(run.number);
                            known.open = true;
                        }
                        Event::Finished(_) => known.open = false,
                        Event::ReplicaTaken { .. } => known.is_late = true,
                        _ => {}
                    }
                }
            }
            Fact::HookStarted { folder, run, .. } => {
                let known = self.at(*folder);
                let late = std::mem::take(&mut known.is_late);
                let silent_ms = known.heard_ms.map(|heard_ms| now_ms - heard_ms);
                let begins = known.begins.take() == Some(*run) && !late;
                if begins && silent_ms.is_none_or(|silent_ms| silent_ms > SILENT_MS) {
                    found.push(format!(
                        "{folder}: run {run} of a relation's hook begins, its link silent for {silent_ms:?} ms"
                    ));
                }
            }
            _ => {}
        }
    }
}
