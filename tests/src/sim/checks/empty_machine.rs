//! A machine that loses its last unit is no longer Alive from that commit on, unless it has storage that is not being
//! removed (spec E.5).

use super::check::{Check, Commit, parts};
use state::documents::draft::read;
use state::documents::prelude::Kind;
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeSet;

#[derive(Default)]
pub struct EmptyMachine;

impl Check for EmptyMachine {
    fn name(&self) -> &'static str {
        "empty-machine"
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let deleted = commit.changes_of(Kind::UnitOn).filter(|change| change.value.is_none());
        let machines: BTreeSet<Uuid> =
            deleted.filter_map(|change| parts(&change.key).ids().first().copied()).collect();
        for machine in machines {
            let empty = commit.reader.scan(&commit.model.machine_units(machine), "", 1).is_empty();
            let life = read(commit.reader, &commit.model.machine_life(machine));
            let stored = read(commit.reader, &commit.model.machine_storage(machine)).unwrap_or_default();
            let keeps = stored.values().any(|life| *life == Life::Alive);
            if empty && !keeps && life == Some(Life::Alive) {
                found.push(format!("machine {machine} has no units left and is still Alive"));
            }
        }
    }
}
