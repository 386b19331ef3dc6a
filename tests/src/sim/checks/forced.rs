//! A forced removal fences the agent of the unit and completes without it (I24, I27, I34).
//!
//! Once the controller acts in place of an agent, it accepts no record of that agent. It acts only for entities
//! whose removal is forced. When a schedule ends, no forced removal is left, whether the system is at rest or not, and
//! even if agents are down.

use super::check::{Check, Commit, FinalState, parts};
use super::stuck_system::StuckSystem;
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{ForcedRemovalDoc, Kind, Model, SessionDoc, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Forced {
    /// Entities whose removal is forced.
    forced: BTreeSet<Uuid>,
    /// Machines that are Dead: the provisioner terminates them when it runs.
    released: BTreeSet<Uuid>,
    /// Units that the controller has acted for.
    acted: BTreeSet<Uuid>,
    /// Units that are resynchronising: the batches before the record leave scopes as well.
    resyncing: BTreeSet<Uuid>,
}

/// Whether the session belongs to the controller, so that no record of the agent is accepted.
fn is_fenced(session: &SessionDoc) -> bool {
    session.nonce == Uuid(0)
}

impl Check for Forced {
    fn name(&self) -> &'static str {
        "forced"
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        if let Fact::RecordReceived { unit, is_resync: true, .. } = fact {
            self.resyncing.insert(*unit);
        }
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let forced = read_all::<ForcedRemovalDoc>(reader, &model.prefix(Kind::ForcedRemoval));
        self.forced = forced.iter().filter_map(|(key, _)| last_id(key)).collect();
        let sessions = read_all::<SessionDoc>(reader, &model.prefix(Kind::Session));
        let fenced = sessions.iter().filter(|(_, session)| is_fenced(session));
        self.acted = fenced.filter_map(|(key, _)| last_id(key)).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let recording_units: BTreeSet<Uuid> = commit
            .changes_of(Kind::Replica)
            .filter(|change| change.value.is_some())
            .filter_map(|c| last_id(&c.key))
            .collect();
        for unit in recording_units.intersection(&self.acted) {
            found.push(format!(
                "{unit}: a record is accepted after the controller acted in place of the agent"
            ));
        }
        let left_scopes = commit.changes_of(Kind::ScopeOf).filter(|change| change.value.is_none());
        // units leave a relation that is forced even if their own removal is not due yet
        let left_scopes =
            left_scopes.filter(|change| last_id(&change.key).is_none_or(|id| !self.forced.contains(&id)));
        let left_scopes = left_scopes.filter_map(|change| parts(&change.key).ids().first().copied());
        let by_its_agent = |unit: &Uuid| {
            let fenced = || {
                read(commit.reader, &commit.model.session(*unit)).is_some_and(|session| is_fenced(&session))
            };
            recording_units.contains(unit) || self.resyncing.contains(unit) && !fenced()
        };
        self.acted.extend(left_scopes.filter(|unit| self.forced.contains(unit) && !by_its_agent(unit)));
        self.resyncing.retain(|unit| !recording_units.contains(unit));
        for change in commit.changes_of(Kind::UnitLife) {
            let life: Option<Life> = change.value.as_ref().and_then(|text| text.parse().ok());
            let Some(unit) = last_id(&change.key).filter(|unit| !recording_units.contains(unit)) else {
                continue;
            };
            if life == Some(Life::Dead) {
                self.acted.insert(unit);
                if !self.forced.contains(&unit) {
                    found.push(format!("{unit}: is Dead without a record of its agent and without force"));
                }
            }
        }
        for change in commit.changes_of(Kind::ForcedRemoval) {
            let entity = last_id(&change.key).expect("it is of an entity");
            match change.value {
                Some(_) => drop(self.forced.insert(entity)),
                None => drop(self.forced.remove(&entity)),
            }
        }
        for change in commit.changes_of(Kind::MachineLife) {
            let life: Option<Life> = change.value.as_ref().and_then(|text| text.parse().ok());
            self.released.extend(last_id(&change.key).filter(|_| life == Some(Life::Dead)));
        }
    }

    /// The system rests although agents are down: nothing forced may wait for them.
    fn check_explanations(&mut self, _stuck: &StuckSystem<'_>, found: &mut Vec<String>) {
        for entity in self.forced.difference(&self.released) {
            found.push(format!("{entity}: its forced removal does not finish"));
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for (key, forced) in read_all::<ForcedRemovalDoc>(end.reader, &end.model.prefix(Kind::ForcedRemoval))
        {
            found.push(format!("{key} remains at the end: {forced:?}"));
        }
    }
}
