//! The first hooks of a unit run in the specified order (spec A.2, D.4).
//!
//! relation-created of the relations that the unit has entered, and leader-elected, run before the first
//! config-changed.

use super::check::{Check, Commit, kind_of};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{Kind, Model, last_id};
use state::terms::life::Life;
use state::terms::names::{RelationNumber, Uuid};
use state::terms::operation::{Hook, Operation, RelationEvent};
use state::unit::local::{Event, Local, Run};
use state::unit::record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Relation hooks start for 30 s after the last event of the stream. 25 s leave room for the decision and the
/// disk.
const LINK_FRESH_MS: u64 = 25_000;

#[derive(Clone, Default)]
struct Folder {
    /// When this process of the agent last received an event of its stream.
    received_ms: Option<u64>,
    /// Whether config-changed has started once.
    has_started_config_changed: bool,
    upgraded: bool,
    elected: Option<u64>,
    /// The scope that this process is entering, and when the stream was last received. Its view is as new as
    /// its session.
    entering: Option<(RelationNumber, u64)>,
    /// Entered relations whose relation-created has not run, and when the stream was last received before the
    /// entry.
    entered: BTreeMap<RelationNumber, (Uuid, u64)>,
}

#[derive(Default)]
pub struct FirstHooks {
    now_ms: u64,
    by_folder: BTreeMap<Uuid, Folder>,
    /// Relations that were suspended or not Alive at some time.
    departing_relations: BTreeSet<Uuid>,
    was_restored: bool,
}

impl FirstHooks {
    fn config_changed_started(&mut self, folder: Uuid, run: &Run) -> Vec<String> {
        let progress = self.by_folder.entry(folder).or_default();
        if std::mem::replace(&mut progress.has_started_config_changed, true) || self.was_restored {
            return Vec::new();
        }
        let now_ms = self.now_ms;
        let waiting = progress.entered.iter().filter(|(_, (uuid, received_ms))| {
            now_ms - received_ms <= LINK_FRESH_MS && !self.departing_relations.contains(uuid)
        });
        let mut found: Vec<String> = waiting
            .map(|(number, _)| {
                format!("{folder}: config-changed started before relation-created of relation {number}")
            })
            .collect();
        if run.leader_generation.is_some() && run.leader_generation != progress.elected && !progress.upgraded
        {
            found.push(format!("{folder}: config-changed started before leader-elected"));
        }
        found
    }
}

impl Check for FirstHooks {
    fn name(&self) -> &'static str {
        "first-hooks"
    }

    fn advance_time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::StreamReceived { folder } => {
                self.by_folder.entry(*folder).or_default().received_ms = Some(self.now_ms);
            }
            Fact::Loaded { folder, .. } => {
                let progress = self.by_folder.entry(*folder).or_default();
                (progress.received_ms, progress.entering) = (None, None);
                progress.entered.clear();
            }
            Fact::EventsPersisted { folder, events, .. } => {
                for event in events.iter() {
                    match event {
                        Event::Started(run)
                            if matches!(run.operation, Operation::Hook(Hook::ConfigChanged(_))) =>
                        {
                            found.extend(self.config_changed_started(*folder, run));
                        }
                        Event::Finished(record) => {
                            let Operation::EnterScope { relation, .. } = &record.operation else { continue };
                            let progress = self.by_folder.entry(*folder).or_default();
                            progress.entering =
                                progress.received_ms.map(|received_ms| (*relation, received_ms));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn record_done(&mut self, folder: Uuid, record: &Record, _found: &mut Vec<String>) {
        let progress = self.by_folder.entry(folder).or_default();
        match &record.operation {
            Operation::EnterScope { relation, uuid, local_endpoint, .. } if !local_endpoint.implicit => {
                let entered = progress.entering.take().filter(|(entered, _)| entered == relation);
                progress.entered.extend(entered.map(|(_, received_ms)| (*relation, (*uuid, received_ms))));
            }
            Operation::LeaveScope { relation, .. } => drop(progress.entered.remove(relation)),
            Operation::Hook(Hook::Relation {
                relation,
                event: RelationEvent::Created | RelationEvent::Broken,
                ..
            }) => drop(progress.entered.remove(relation)),
            Operation::Hook(Hook::UpgradeCharm) => progress.upgraded = true,
            Operation::Hook(Hook::LeaderElected { generation }) => progress.elected = *generation,
            _ => {}
        }
    }

    fn journal_started(&mut self, folder: Uuid, stored: &Local) {
        let progress = Folder {
            has_started_config_changed: stored.installed,
            upgraded: stored.installed,
            elected: stored.elected_generation,
            ..Folder::default()
        };
        self.by_folder.insert(folder, progress);
    }

    fn folder_copied(&mut self, folder: Uuid, copy: Uuid) {
        let progress = self.by_folder.get(&folder).cloned().unwrap_or_default();
        self.by_folder
            .insert(copy, Folder { received_ms: None, entering: None, entered: BTreeMap::new(), ..progress });
    }

    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let Some(id) = last_id(&change.key) else { continue };
            match kind_of(&change.key) {
                Kind::RelationSuspended => drop(self.departing_relations.insert(id)),
                Kind::RelationLife
                    if read(commit.reader, &commit.model.relation_life(id)) != Some(Life::Alive) =>
                {
                    self.departing_relations.insert(id);
                }
                Kind::ApplicationLife
                    if read(commit.reader, &commit.model.application_life(id)) != Some(Life::Alive) =>
                {
                    let relations = read_all::<()>(commit.reader, &commit.model.relations_of(id));
                    self.departing_relations.extend(relations.iter().filter_map(|(key, ())| last_id(key)));
                }
                _ => {}
            }
        }
    }
}
