//! I2, I3: what one unit is told of one relation and of each unit in it.

use super::{Check, Commit, place};
use state::model::keys::last_id;
use state::names::{RelationNumber, UnitName, Uuid};
use state::unit::local::Local;
use state::unit::operation::{Hook, Operation, RelationEvent, Version};
use state::unit::record::Record;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Default)]
struct Relation {
    /// A store that was restored counts its relations from lower: a number may name another one then.
    uuid: Uuid,
    /// Between the units of one application.
    peer: bool,
    created: bool,
    broken: bool,
    /// Joined units, and what changed delivered last.
    members: BTreeMap<UnitName, Option<Version>>,
    /// Of each application's settings, what changed delivered last.
    applications: BTreeMap<String, u64>,
    /// Its changed comes next.
    owed: Option<UnitName>,
}

#[derive(Default)]
pub struct Relations {
    by_unit: BTreeMap<Uuid, BTreeMap<RelationNumber, Relation>>,
    /// A store was restored: what it counts may be lower than what it counted before (I47).
    restored: bool,
    /// Relations that were suspended at some time.
    suspended: BTreeSet<Uuid>,
}

impl Relation {
    fn take(&mut self, event: &RelationEvent, restored: bool) -> Vec<&'static str> {
        let mut wrong = Vec::new();
        let mut hold = |holds: bool, what| {
            if !holds {
                wrong.push(what);
            }
        };
        hold(!self.broken, "nothing follows broken");
        if let Some(owed) = &self.owed {
            let paid = matches!(event, RelationEvent::Changed { unit, .. } if unit == owed);
            hold(paid, "changed follows its joined directly");
        }
        hold(self.created != matches!(event, RelationEvent::Created), "created comes first, and once");
        match event {
            RelationEvent::Created => self.created = true,
            RelationEvent::Joined { unit, .. } => {
                let known = self.members.insert(unit.clone(), None).is_some();
                hold(!known, "a unit joins once");
                self.owed = Some(unit.clone());
            }
            RelationEvent::Changed { unit, version } => {
                let seen = self.members.insert(unit.clone(), Some(*version));
                hold(seen.is_some(), "only joined units change");
                let newer = restored || seen.flatten().is_none_or(|seen| seen < *version);
                hold(newer, "each changed shows a newer version (I6)");
                self.owed = None;
            }
            RelationEvent::Departed { unit, .. } => {
                let seen = self.members.remove(unit);
                hold(seen.is_some_and(|seen| seen.is_some()), "only units that joined and changed depart");
            }
            RelationEvent::Broken => {
                hold(self.members.is_empty(), "all have departed before broken");
                hold(!self.peer, "a peer relation never breaks");
                self.broken = true;
            }
            RelationEvent::ApplicationChanged { application, counter } => {
                let seen = self.applications.insert(application.clone(), *counter).unwrap_or(0);
                hold(
                    restored || seen < *counter,
                    "each changed shows newer settings of the application (I6)",
                );
            }
        }
        wrong
    }
}

impl Check for Relations {
    fn name(&self) -> &'static str {
        "relations"
    }

    fn done(&mut self, unit: Uuid, record: &Record, found: &mut Vec<String>) {
        let relations = self.by_unit.entry(unit).or_default();
        match &record.operation {
            Operation::EnterScope { relation, uuid, place, .. } => {
                let known = relations.entry(*relation).or_default();
                // what a restored store knows again begins again, and so does what was suspended
                let again = self.restored || self.suspended.contains(uuid);
                if known.uuid != *uuid || (known.broken && again) {
                    *known = Relation { uuid: *uuid, ..Relation::default() };
                }
                known.peer = place.peer;
            }
            Operation::Hook(hook @ Hook::Relation { relation, event, .. }) => {
                let wrong = relations.entry(*relation).or_default().take(event, self.restored);
                found.extend(wrong.into_iter().map(|wrong| {
                    let about = event.remote_unit().map_or(String::new(), |remote| format!(" for {remote}"));
                    format!("{unit}: {}{about} in relation {relation}: {wrong}", hook.name())
                }));
            }
            _ => {}
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, _found: &mut Vec<String>) {
        let suspended = commit.changes.entries.iter().filter(|c| place(&c.key).0 == "relation-suspended");
        self.suspended.extend(suspended.filter_map(|change| last_id(&change.key)));
    }

    fn begin(&mut self, unit: Uuid, memory: &Local) {
        let known = memory.relations.iter().map(|(number, local)| {
            let owed = local.changed_owed.clone();
            let seen = |name: &UnitName, version: Version| (Some(name) != owed.as_ref()).then_some(version);
            let members = local.members.iter().map(|(name, version)| (name.clone(), seen(name, *version)));
            let relation = Relation {
                uuid: local.uuid,
                peer: local.place.peer,
                created: local.created && !local.place.implicit,
                broken: false,
                members: members.collect(),
                applications: local.applications.clone(),
                owed: owed.clone(),
            };
            (*number, relation)
        });
        self.by_unit.insert(unit, known.collect());
    }

    fn copy(&mut self, from: Uuid, to: Uuid) {
        if let Some(relations) = self.by_unit.get(&from).cloned() {
            self.by_unit.insert(to, relations);
        }
    }

    fn restored(&mut self, _reader: &dyn state::model::draft::Reader, _model: state::model::keys::Model) {
        self.restored = true;
    }
}
