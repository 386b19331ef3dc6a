//! No relation hook starts or is retried while the link has been silent for too long, whatever triggered it (spec
//! B.6.7).
//!
//! A hook that was interrupted runs again regardless.

use super::check::Check;
use crate::sim::fact::Fact;
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation};
use state::unit::local::Event;
use std::collections::BTreeMap;

/// Three lost heartbeats and a reconnect (30 s), and one second between the decision and the start of the hook:
/// for the disk, and for other tasks that run first.
const SILENT_MS: u64 = 30_000 + 1_000;

#[derive(Clone, Default)]
struct Folder {
    /// When this process of the agent last received an event of its stream, or the confirmation of its view.
    received_ms: Option<u64>,
    /// The run of a relation hook that was decided and has not started its process.
    decided_run: Option<u64>,
    /// Whether a run has started and not finished.
    has_open_run: bool,
    /// Whether the agent was frozen or its folder damaged: it may now start what it decided before.
    is_late: bool,
}

#[derive(Default)]
pub struct LinkFreshness {
    now_ms: u64,
    by_folder: BTreeMap<Uuid, Folder>,
}

impl LinkFreshness {
    fn folder(&mut self, folder: Uuid) -> &mut Folder {
        self.by_folder.entry(folder).or_default()
    }
}

impl Check for LinkFreshness {
    fn name(&self) -> &'static str {
        "link-freshness"
    }

    fn advance_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let now_ms = self.now_ms;
        match fact {
            Fact::StreamReceived { folder } | Fact::ViewConfirmed { folder } => {
                self.folder(*folder).received_ms = Some(now_ms);
            }
            Fact::Loaded { folder, .. } => {
                let progress = self.folder(*folder);
                (progress.received_ms, progress.decided_run) = (None, None);
            }
            Fact::JournalStarted { folder, .. } => {
                *self.folder(*folder) = Folder { is_late: true, ..Folder::default() };
            }
            Fact::Frozen { folder } => self.folder(*folder).is_late = true,
            Fact::Copied { copy, .. } => self.folder(*copy).is_late = true,
            Fact::EventsPersisted { folder, events, .. } => {
                let progress = self.folder(*folder);
                for event in events.iter() {
                    match event {
                        Event::Started(run) => {
                            let of_relation = matches!(run.operation, Operation::Hook(Hook::Relation { .. }));
                            let decided = run.attempt == 1 && !progress.has_open_run;
                            progress.decided_run = (of_relation && decided).then_some(run.number);
                            progress.has_open_run = true;
                        }
                        Event::Finished(_) => progress.has_open_run = false,
                        Event::ReplicaTaken { .. } => progress.is_late = true,
                        _ => {}
                    }
                }
            }
            Fact::HookStarted { folder, run, .. } => {
                let progress = self.folder(*folder);
                let late = std::mem::take(&mut progress.is_late);
                let silent_ms = progress.received_ms.map(|received_ms| now_ms - received_ms);
                let is_checked = progress.decided_run.take() == Some(*run) && !late;
                if is_checked && silent_ms.is_none_or(|silent_ms| silent_ms > SILENT_MS) {
                    let silence = silent_ms.map_or("no event was received".to_owned(), |silent_ms| {
                        format!("the last event was received {silent_ms} ms earlier")
                    });
                    found.push(format!("{folder}: the relation hook of run {run} starts although {silence}"));
                }
            }
            _ => {}
        }
    }
}
