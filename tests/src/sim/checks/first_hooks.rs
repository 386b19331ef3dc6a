//! Spec A.2, D.4: the order of a unit's first hooks. What it is told of relations that it has entered, and that it leads,
//! comes before its first config-changed.

use crate::sim::checks::{Check, Commit, Fact, place};
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{Model, last_id};
use state::terms::life::Life;
use state::terms::names::{RelationNumber, Uuid};
use state::unit::local::{Event, Local, Run};
use state::unit::operation::{Hook, Operation, RelationEvent};
use state::unit::record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// A link that was heard so lately is one on which hooks of relations begin: they do for 30 s.
const HEARD_MS: u64 = 25_000;

#[derive(Clone, Default)]
struct Folder {
    /// In this process of its agent.
    heard_ms: Option<u64>,
    /// config-changed has begun once.
    tried: bool,
    upgraded: bool,
    elected: Option<u64>,
    /// A scope that this process entered, as far as it knows: it did so on a view that is as new as its session.
    enters: Option<(RelationNumber, u64)>,
    /// Relations that were entered, whose created has not run; and when the link was last heard then.
    entered: BTreeMap<RelationNumber, (Uuid, u64)>,
}

#[derive(Default)]
pub struct FirstHooks {
    now_ms: u64,
    by_folder: BTreeMap<Uuid, Folder>,
    /// Relations that were suspended or going at some time.
    going: BTreeSet<Uuid>,
    was_restored: bool,
}

impl FirstHooks {
    fn begins(&mut self, folder: Uuid, run: &Run) -> Vec<String> {
        let known = self.by_folder.entry(folder).or_default();
        if std::mem::replace(&mut known.tried, true) || self.was_restored {
            return Vec::new();
        }
        let now_ms = self.now_ms;
        let waiting = known
            .entered
            .iter()
            .filter(|(_, (uuid, heard_ms))| now_ms - heard_ms <= HEARD_MS && !self.going.contains(uuid));
        let mut found: Vec<String> = waiting
            .map(|(number, _)| {
                format!("{folder}: config-changed begins before the created of relation {number}")
            })
            .collect();
        if run.leads.is_some() && run.leads != known.elected && !known.upgraded {
            found.push(format!("{folder}: config-changed begins before leader-elected"));
        }
        found
    }
}

impl Check for FirstHooks {
    fn name(&self) -> &'static str {
        "first"
    }

    fn time(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::StreamReceived { folder } => {
                self.by_folder.entry(*folder).or_default().heard_ms = Some(self.now_ms);
            }
            Fact::Loaded { folder, .. } => {
                let known = self.by_folder.entry(*folder).or_default();
                (known.heard_ms, known.enters) = (None, None);
                known.entered.clear();
            }
            Fact::Recorded { folder, events, .. } => {
                for event in events.iter() {
                    match event {
                        Event::Started(run)
                            if matches!(run.operation, Operation::Hook(Hook::ConfigChanged(_))) =>
                        {
                            found.extend(self.begins(*folder, run));
                        }
                        Event::Finished(record) => {
                            let Operation::EnterScope { relation, .. } = &record.operation else { continue };
                            let known = self.by_folder.entry(*folder).or_default();
                            known.enters = known.heard_ms.map(|heard_ms| (*relation, heard_ms));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn done(&mut self, folder: Uuid, record: &Record, _found: &mut Vec<String>) {
        let known = self.by_folder.entry(folder).or_default();
        match &record.operation {
            Operation::EnterScope { relation, uuid, place, .. } if !place.implicit => {
                let entered = known.enters.take().filter(|(entered, _)| entered == relation);
                known.entered.extend(entered.map(|(_, heard_ms)| (*relation, (*uuid, heard_ms))));
            }
            Operation::LeaveScope { relation, .. } => drop(known.entered.remove(relation)),
            Operation::Hook(Hook::Relation {
                relation,
                event: RelationEvent::Created | RelationEvent::Broken,
                ..
            }) => drop(known.entered.remove(relation)),
            Operation::Hook(Hook::UpgradeCharm) => known.upgraded = true,
            Operation::Hook(Hook::LeaderElected { generation }) => known.elected = *generation,
            _ => {}
        }
    }

    fn begin(&mut self, folder: Uuid, memory: &Local) {
        let known = Folder {
            tried: memory.installed,
            upgraded: memory.installed,
            elected: memory.leader,
            ..Folder::default()
        };
        self.by_folder.insert(folder, known);
    }

    fn copy(&mut self, folder: Uuid, copy: Uuid) {
        let known = self.by_folder.get(&folder).cloned().unwrap_or_default();
        self.by_folder
            .insert(copy, Folder { heard_ms: None, enters: None, entered: BTreeMap::new(), ..known });
    }

    fn restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let Some(id) = last_id(&change.key) else { continue };
            match place(&change.key).0 {
                "relation-suspended" => drop(self.going.insert(id)),
                "relation-life"
                    if read(commit.reader, &commit.model.relation_life(id)) != Some(Life::Alive) =>
                {
                    self.going.insert(id);
                }
                "application-life"
                    if read(commit.reader, &commit.model.application_life(id)) != Some(Life::Alive) =>
                {
                    let relations = read_all::<()>(commit.reader, &commit.model.relations_of(id));
                    self.going.extend(relations.iter().filter_map(|(key, ())| last_id(key)));
                }
                _ => {}
            }
        }
    }
}
