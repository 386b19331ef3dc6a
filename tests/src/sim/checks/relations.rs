//! I2, I3: what one unit is told of one relation and of each unit in it; of one that departs also who it is that goes.
//! Whoever is going has departed for all others, whatever its own agent does (spec E.2).

use super::{Check, Commit, Fact, place};
use crate::sim::checks::true_blockers::StuckSystem;
use state::documents::draft::read;
use state::documents::effective_life;
use state::documents::keys::last_id;
use state::terms::life::Life;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::version::Version;
use state::unit::local::{Event, Local, Run};
use state::unit::operation::{Hook, Operation, RelationEvent};
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
    /// Which of its memberships each of them joined with.
    joined: BTreeMap<UnitName, u64>,
    /// Of each application's settings, what changed delivered last.
    applications: BTreeMap<String, u64>,
    /// Its changed comes next.
    owed: Option<UnitName>,
}

#[derive(Default)]
pub struct RelationHooks {
    by_unit: BTreeMap<Uuid, BTreeMap<RelationNumber, Relation>>,
    /// A store was restored: what it counts may be lower than what it counted before (I47).
    restored: bool,
    /// Relations that were suspended at some time.
    suspended: BTreeSet<Uuid>,
    /// By unit, the newest departed: who it is about, and who goes.
    departed: BTreeMap<Uuid, (u64, UnitName, UnitName)>,
    /// From which revision on a unit is not Alive by itself.
    dying: BTreeMap<Uuid, u64>,
    /// Units that are there, and whether they are Alive by themselves.
    units: BTreeMap<Uuid, (UnitName, bool)>,
    /// By folder, what failed and may be run again as it was.
    failed: BTreeSet<Uuid>,
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
            RelationEvent::Joined { unit, version } => {
                self.joined.insert(unit.clone(), version.incarnation);
                let known = self.members.insert(unit.clone(), None).is_some();
                hold(!known, "a unit joins once");
                self.owed = Some(unit.clone());
            }
            RelationEvent::Changed { unit, version } => {
                let joined = self.joined.get(unit).is_none_or(|joined| *joined == version.incarnation);
                hold(joined, "who left and came back departs and joins");
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

impl RelationHooks {
    /// A unit that is shown that it goes says so to itself of all who stay. What failed, or was interrupted, is run again
    /// as it was.
    fn departs(&self, folder: Uuid, unit: Uuid, run: &Run) -> Option<String> {
        let Operation::Hook(Hook::Relation {
            event: RelationEvent::Departed { unit: other, departing }, ..
        }) = &run.operation
        else {
            return None;
        };
        let first = run.attempt == 1 && run.episode.is_none() && !self.failed.contains(&folder);
        let first = first && !matches!(run.cause.as_str(), "interrupted" | "resolved");
        let dying = self.dying.get(&unit).filter(|_| first && !self.restored)?;
        let shown = run.position.is_some_and(|position| position.revision >= *dying);
        (shown && other == departing)
            .then(|| format!("{folder} is going, and tells itself that {other} departs from it"))
    }
}

impl Check for RelationHooks {
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
            Operation::LeaveScope { relation, .. }
                if relations.get(relation).is_some_and(|known| known.created && !known.broken) =>
            {
                found.push(format!("{unit}: relation {relation} is left without broken"));
            }
            Operation::SetDead => {
                for (number, known) in relations.iter().filter(|(_, known)| !known.broken) {
                    if let Some((other, _)) = known.members.first_key_value() {
                        found.push(format!("{unit} ends, and {other} has not departed in relation {number}"));
                    }
                }
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

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Recorded { folder, of, events } = fact else { return };
        for event in events.iter() {
            match event {
                Event::Started(run) => found.extend(self.departs(*folder, *of, run)),
                Event::Finished(record) => {
                    if let Operation::Hook(Hook::Relation {
                        event: RelationEvent::Departed { unit, departing },
                        ..
                    }) = &record.operation
                    {
                        let departed = (record.sequence, unit.clone(), departing.clone());
                        self.departed.insert(*of, departed);
                    }
                    // an action is run beside a hook that failed, which stays what is run again
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
        for change in commit.changes.entries.iter().filter(|_| !self.restored) {
            let Some(unit) = last_id(&change.key) else { continue };
            if place(&change.key).0 == "unit-life" {
                let life = read(commit.reader, &commit.model.unit_life(unit));
                match read(commit.reader, &commit.model.unit(unit)) {
                    Some(doc) => drop(self.units.insert(unit, (doc.name, life == Some(Life::Alive)))),
                    None => drop(self.units.remove(&unit)),
                }
            }
            match place(&change.key).0 {
                "unit-life" if read(commit.reader, &commit.model.unit_life(unit)) != Some(Life::Alive) => {
                    self.dying.entry(unit).or_insert(commit.changes.revision);
                }
                "replica" => {
                    let sequence = read(commit.reader, &commit.model.replica(unit)).map(|r| r.sequence);
                    let departed = self.departed.get(&unit).filter(|(of, ..)| Some(*of) == sequence);
                    let Some((_, other, departing)) = departed else { continue };
                    let life = effective_life::unit_life(&mut { commit.reader }, commit.model, unit);
                    if other != departing && life == Some(Life::Alive) {
                        found.push(format!("{departing} departs from {other}, it is said, and is Alive"));
                    }
                }
                _ => {}
            }
        }
        let suspended = commit.changes.entries.iter().filter(|c| place(&c.key).0 == "relation-suspended");
        self.suspended.extend(suspended.filter_map(|change| last_id(&change.key)));
    }

    /// At rest, with obstacles standing: only whom one of them holds may still know somebody who is going.
    fn explain(&mut self, stuck: &StuckSystem<'_>, found: &mut Vec<String>) {
        let held = |id: Uuid| stuck.standing.iter().any(|obstacle| obstacle.concerned() == Some(id));
        let going: BTreeSet<&UnitName> =
            self.units.values().filter(|(_, alive)| !alive).map(|(name, _)| name).collect();
        let alive = |id: &Uuid| self.units.get(id).is_some_and(|(_, alive)| *alive);
        let told = stuck.agents.iter().filter(|agent| alive(&agent.unit) && !held(agent.unit));
        for agent in told.filter(|_| !self.restored) {
            for (number, relation) in &agent.local.relations {
                if let Some(other) = relation.members.keys().find(|other| going.contains(other)) {
                    let name = &agent.name;
                    found.push(format!("{name} has not heard that {other} is going, in relation {number}"));
                }
            }
        }
    }

    fn begin(&mut self, unit: Uuid, memory: &Local) {
        let known = memory.relations.iter().map(|(number, local)| {
            let owed = local.pending_changed.clone();
            let seen = |name: &UnitName, version: Version| (Some(name) != owed.as_ref()).then_some(version);
            let members = local.members.iter().map(|(name, version)| (name.clone(), seen(name, *version)));
            let joined = local.members.iter().map(|(name, version)| (name.clone(), version.incarnation));
            let relation = Relation {
                joined: joined.collect(),
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

    fn restored(
        &mut self,
        _reader: &dyn state::documents::draft::Reader,
        _model: state::documents::keys::Model,
    ) {
        self.restored = true;
    }
}
