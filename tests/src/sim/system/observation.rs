//! Passes to the checks what happened in each step: the facts of the parts, and the commits of the store.

use super::parts::System;
use crate::sim::checks::check::{Commit, kind_of};
use crate::sim::fact::Fact;
use crate::sim::identities::MODEL;
use crate::sim::world::tasks::block_on;
use controller::store::{CommitChanges, Position, Store};
use state::documents::prelude::{Kind, Model};
use state::unit::local::Event;

impl System {
    pub(super) fn observe(&mut self, fact: Fact) {
        if let Fact::EventsPersisted { folder, events, .. } = &fact {
            self.changed_ms = self.world.now_ms();
            let name =
                |at| self.fleet.folder(at).map_or(String::new(), |folder| folder.location.name.to_string());
            self.world.trace(|| format!("{}: on disk: {}", name(*folder), event_text(events)));
        }
        self.checks.advance_time(self.world.now_ms());
        self.checks.observe(&fact);
    }

    pub(super) fn observe_commits(&mut self) {
        let newest = self.store.newest_revision();
        if newest == self.observed_revision {
            return;
        }
        self.changed_ms = self.world.now_ms();
        let after =
            Position { store_generation: self.store.store_generation(), revision: self.observed_revision };
        let changes = block_on(self.store.map().changes_after(after, usize::MAX));
        let changes = changes.expect("the change log contains the commits of one poll");
        for changes in &changes {
            self.commits += 1;
            self.world.trace(|| {
                let keys: Vec<&str> =
                    changes.entries.iter().map(|entry| kind_of(&entry.key).as_str()).collect();
                format!("store: revision {}: {}", changes.revision, keys.join(" "))
            });
            self.structural_commits_since_full_check += u64::from(is_structural(changes));
            let is_full_check =
                self.structural_commits_since_full_check >= self.world.profile().commits_per_full_check;
            if is_full_check {
                self.structural_commits_since_full_check = 0;
            }
            let (checks, now_ms, wall_ms) = (&mut self.checks, self.world.now_ms(), self.world.wall_ms());
            self.store.map().read_now(|reader| {
                let model = Model(MODEL);
                checks.commit(&Commit { model, changes, reader, is_full_check, now_ms, wall_ms });
            });
        }
        self.observed_revision = newest;
    }
}

/// Kinds of documents that do not affect the checks of all documents.
const UNCHECKED_KINDS: [Kind; 9] = [
    Kind::Replica,
    Kind::UnitStatus,
    Kind::AgentStatus,
    Kind::StatusLog,
    Kind::Log,
    Kind::Session,
    Kind::WorkloadVersion,
    Kind::ApplicationStatus,
    Kind::Sequence,
];

/// Whether documents other than the reports of units have changed.
fn is_structural(changes: &CommitChanges) -> bool {
    changes.entries.iter().any(|entry| !UNCHECKED_KINDS.contains(&kind_of(&entry.key)))
}

/// The events of a journal as text for the trace.
fn event_text(events: &[Event]) -> String {
    let line = |event: &Event| match event {
        Event::Started(run) => {
            format!(
                "started {} (run {}, attempt {}: {:?})",
                run.operation, run.number, run.attempt, run.reason
            )
        }
        Event::Finished(record) => {
            format!("record {}: {} {:?}", record.sequence, record.operation, record.outcome)
        }
        Event::Acknowledged { sequence, refusal, .. } => {
            format!("record {sequence} acknowledged, refusal {refusal:?}")
        }
        Event::Attaching { .. } => "attaching".to_owned(),
        Event::Attached { epoch, sequence, .. } => {
            format!("attached, epoch {epoch}, applied record {sequence}")
        }
        Event::ReplicaTaken { replica } => {
            format!("restored from the replica of record {}", replica.sequence)
        }
        Event::LeadershipChanged(generation) => format!("leader {generation:?}"),
        Event::RebootRequested(boot) => format!("requests a reboot of {boot}"),
        Event::UnrecordedReport(unrecorded) => {
            format!("run {} has {} unrecorded reports", unrecorded.run, unrecorded.reports.len())
        }
        Event::ReportAcknowledged { run } => format!("the reports of run {run} are acknowledged"),
    };
    events.iter().map(line).collect::<Vec<_>>().join("; ")
}
