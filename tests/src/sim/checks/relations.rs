//! Relation hooks of a unit follow the specified order, per relation and per remote unit (I2, I3).
//!
//! relation-departed also names the unit that departs. A unit that is being removed has departed for all other
//! units, whatever its own agent does (spec E.2).

use super::check::{Check, Commit, kind_of};
use super::stuck_system::StuckSystem;
use crate::sim::fact::Fact;
use state::documents::draft::read;
use state::documents::effective_life;
use state::documents::prelude::{Kind, last_id};
use state::terms::life::Life;
use state::terms::member_version::Version;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::operation::{Hook, Operation, RelationEvent};
use state::terms::start_reason::StartReason;
use state::unit::local::{Event, Local, Run};
use state::unit::record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// Which hooks of one relation a unit has run.
#[derive(Clone, Default)]
struct RelationProgress {
    /// A restored store assigns relation numbers again, so a number may identify another relation.
    uuid: Uuid,
    /// Whether it is a peer relation.
    is_peer: bool,
    created: bool,
    broken: bool,
    /// Joined units, with the version that their last relation-changed delivered.
    members: BTreeMap<UnitName, Option<Version>>,
    /// The incarnation of the membership with which each of them joined.
    joined: BTreeMap<UnitName, u64>,
    /// The counter that the last relation-changed about each application delivered.
    applications: BTreeMap<String, u64>,
    /// The unit whose relation-changed must run next.
    pending_changed: Option<UnitName>,
}

#[derive(Default)]
pub struct RelationHooks {
    by_unit: BTreeMap<Uuid, BTreeMap<RelationNumber, RelationProgress>>,
    /// The store was restored: its counters may be lower than before (I47).
    was_restored: bool,
    /// Relations that were suspended at some time.
    suspended: BTreeSet<Uuid>,
    /// The newest relation-departed of each unit: its record, the remote unit and the departing unit.
    departed: BTreeMap<Uuid, (u64, UnitName, UnitName)>,
    /// The revision from which a unit is no longer Alive by its own life.
    dying: BTreeMap<Uuid, u64>,
    /// Existing units, and whether they are Alive by their own life.
    units: BTreeMap<Uuid, (UnitName, bool)>,
    /// Folders with a failed hook, which may run again unchanged.
    failed: BTreeSet<Uuid>,
}

impl RelationProgress {
    fn apply(&mut self, event: &RelationEvent, restored: bool) -> Vec<&'static str> {
        let mut wrong = Vec::new();
        let mut require = |is_met: bool, what| {
            if !is_met {
                wrong.push(what);
            }
        };
        require(!self.broken, "no hook follows relation-broken");
        if let Some(pending) = &self.pending_changed {
            let is_expected = matches!(event, RelationEvent::Changed { unit, .. } if unit == pending);
            require(is_expected, "relation-changed follows its relation-joined directly");
        }
        require(
            self.created != matches!(event, RelationEvent::Created),
            "relation-created runs first and once",
        );
        match event {
            RelationEvent::Created => self.created = true,
            RelationEvent::Joined { unit, version } => {
                self.joined.insert(unit.clone(), version.incarnation);
                let was_member = self.members.insert(unit.clone(), None).is_some();
                require(!was_member, "relation-joined runs once per member");
                self.pending_changed = Some(unit.clone());
            }
            RelationEvent::Changed { unit, version } => {
                let joined = self.joined.get(unit).is_none_or(|joined| *joined == version.incarnation);
                require(joined, "a member that left and rejoined departs and joins again");
                let seen = self.members.insert(unit.clone(), Some(*version));
                require(seen.is_some(), "relation-changed runs only for joined members");
                let newer = restored || seen.flatten().is_none_or(|seen| seen < *version);
                require(newer, "each relation-changed delivers a newer version (I6)");
                self.pending_changed = None;
            }
            RelationEvent::Departed { unit, .. } => {
                let seen = self.members.remove(unit);
                require(
                    seen.is_some_and(|seen| seen.is_some()),
                    "relation-departed runs only after relation-joined and relation-changed",
                );
            }
            RelationEvent::Broken => {
                require(self.members.is_empty(), "all members depart before relation-broken");
                require(!self.is_peer, "relation-broken does not run for a peer relation");
                self.broken = true;
            }
            RelationEvent::ApplicationChanged { application, counter } => {
                let seen = self.applications.insert(application.clone(), *counter).unwrap_or(0);
                require(
                    restored || seen < *counter,
                    "each relation-changed delivers newer application settings (I6)",
                );
            }
        }
        wrong
    }
}

impl RelationHooks {
    /// Reports a violation if a unit that has received its own removal names the other unit as the departing one. A
    /// hook that failed or was interrupted runs again unchanged.
    fn wrong_departing_unit(&self, folder: Uuid, unit: Uuid, run: &Run) -> Option<String> {
        let Operation::Hook(Hook::Relation {
            event: RelationEvent::Departed { unit: other, departing }, ..
        }) = &run.operation
        else {
            return None;
        };
        let first = run.attempt == 1 && run.episode.is_none() && !self.failed.contains(&folder);
        let first = first && !matches!(run.reason, StartReason::Interrupted | StartReason::Resolved);
        let dying = self.dying.get(&unit).filter(|_| first && !self.was_restored)?;
        let shown = run.position.is_some_and(|position| position.revision >= *dying);
        (shown && other == departing)
            .then(|| format!("{folder}: a dying unit runs relation-departed with {other} as departing unit"))
    }
}

impl Check for RelationHooks {
    fn name(&self) -> &'static str {
        "relations"
    }

    fn record_done(&mut self, unit: Uuid, record: &Record, found: &mut Vec<String>) {
        let relations = self.by_unit.entry(unit).or_default();
        match &record.operation {
            Operation::EnterScope { relation, uuid, local_endpoint, .. } => {
                let known = relations.entry(*relation).or_default();
                // a relation that a restored store recreated starts again, and so does one that was suspended
                let again = self.was_restored || self.suspended.contains(uuid);
                if known.uuid != *uuid || (known.broken && again) {
                    *known = RelationProgress { uuid: *uuid, ..RelationProgress::default() };
                }
                known.is_peer = local_endpoint.peer;
            }
            Operation::LeaveScope { relation, .. }
                if relations.get(relation).is_some_and(|known| known.created && !known.broken) =>
            {
                found.push(format!("{unit}: leaves relation {relation} without relation-broken"));
            }
            Operation::SetDead => {
                for (number, known) in relations.iter().filter(|(_, known)| !known.broken) {
                    if let Some((other, _)) = known.members.first_key_value() {
                        found.push(format!(
                            "{unit}: becomes Dead before {other} has departed in relation {number}"
                        ));
                    }
                }
            }
            Operation::Hook(hook @ Hook::Relation { relation, event, .. }) => {
                let wrong = relations.entry(*relation).or_default().apply(event, self.was_restored);
                found.extend(wrong.into_iter().map(|wrong| {
                    let about = event.remote_unit().map_or(String::new(), |remote| format!(" for {remote}"));
                    format!("{unit}: {}{about} in relation {relation}: {wrong}", hook.name())
                }));
            }
            _ => {}
        }
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::EventsPersisted { folder, unit, events } = fact else { return };
        for event in events.iter() {
            match event {
                Event::Started(run) => found.extend(self.wrong_departing_unit(*folder, *unit, run)),
                Event::Finished(record) => {
                    if let Operation::Hook(Hook::Relation {
                        event: RelationEvent::Departed { unit: remote, departing },
                        ..
                    }) = &record.operation
                    {
                        let departed = (record.sequence, remote.clone(), departing.clone());
                        self.departed.insert(*unit, departed);
                    }
                    // an action runs beside a failed hook, which is still the one to run again
                    let action = matches!(record.operation, Operation::Action { .. });
                    match record.outcome.advances() {
                        _ if action => {}
                        true => drop(self.failed.remove(folder)),
                        false => drop(self.failed.insert(*folder)),
                    }
                }
                Event::Acknowledged { refusal: Some(_), .. } => drop(self.failed.insert(*folder)),
                _ => {}
            }
        }
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter().filter(|_| !self.was_restored) {
            let Some(unit) = last_id(&change.key) else { continue };
            if kind_of(&change.key) == Kind::UnitLife {
                let life = read(commit.reader, &commit.model.unit_life(unit));
                match read(commit.reader, &commit.model.unit(unit)) {
                    Some(doc) => drop(self.units.insert(unit, (doc.name, life == Some(Life::Alive)))),
                    None => drop(self.units.remove(&unit)),
                }
            }
            match kind_of(&change.key) {
                Kind::UnitLife if read(commit.reader, &commit.model.unit_life(unit)) != Some(Life::Alive) => {
                    self.dying.entry(unit).or_insert(commit.changes.revision);
                }
                Kind::Replica => {
                    let sequence = read(commit.reader, &commit.model.replica(unit)).map(|r| r.local.sequence);
                    let departed = self.departed.get(&unit).filter(|(of, ..)| Some(*of) == sequence);
                    let Some((_, other, departing)) = departed else { continue };
                    let life = effective_life::unit_life(&mut { commit.reader }, commit.model, unit);
                    if other != departing && life == Some(Life::Alive) {
                        found
                            .push(format!("{departing} is reported as departing from {other}, but is Alive"));
                    }
                }
                _ => {}
            }
        }
        let suspended = commit.changes_of(Kind::RelationSuspended);
        self.suspended.extend(suspended.filter_map(|change| last_id(&change.key)));
    }

    /// The system rests with obstacles in place: only a unit that is obstructed itself may still have a member
    /// that is being removed.
    fn check_explanations(&mut self, stuck: &StuckSystem<'_>, found: &mut Vec<String>) {
        let is_obstructed =
            |id: Uuid| stuck.obstacles.iter().any(|obstacle| obstacle.obstructed_entity() == Some(id));
        let dying: BTreeSet<&UnitName> =
            self.units.values().filter(|(_, alive)| !alive).map(|(name, _)| name).collect();
        let alive = |id: &Uuid| self.units.get(id).is_some_and(|(_, alive)| *alive);
        let informed = stuck.agents.iter().filter(|agent| alive(&agent.unit) && !is_obstructed(agent.unit));
        for agent in informed.filter(|_| !self.was_restored) {
            for (number, relation) in &agent.local.relations {
                if let Some(other) = relation.members.keys().find(|other| dying.contains(other)) {
                    let name = &agent.name;
                    found.push(format!(
                        "{name}: still has member {other}, which is being removed, in relation {number}"
                    ));
                }
            }
        }
    }

    fn journal_started(&mut self, unit: Uuid, stored: &Local) {
        let known = stored.relations.iter().map(|(number, local)| {
            let pending_changed = local.pending_changed.clone();
            let seen = |name: &UnitName, version: Version| {
                (Some(name) != pending_changed.as_ref()).then_some(version)
            };
            let members = local.members.iter().map(|(name, version)| (name.clone(), seen(name, *version)));
            let joined = local.members.iter().map(|(name, version)| (name.clone(), version.incarnation));
            let relation = RelationProgress {
                joined: joined.collect(),
                uuid: local.uuid,
                is_peer: local.local_endpoint.peer,
                created: local.created && !local.local_endpoint.implicit,
                broken: false,
                members: members.collect(),
                applications: local.applications.clone(),
                pending_changed: pending_changed.clone(),
            };
            (*number, relation)
        });
        self.by_unit.insert(unit, known.collect());
    }

    fn folder_copied(&mut self, from: Uuid, to: Uuid) {
        if let Some(relations) = self.by_unit.get(&from).cloned() {
            self.by_unit.insert(to, relations);
        }
    }

    fn store_restored(
        &mut self,
        _reader: &dyn state::documents::draft::Reader,
        _model: state::documents::prelude::Model,
    ) {
        self.was_restored = true;
    }
}
