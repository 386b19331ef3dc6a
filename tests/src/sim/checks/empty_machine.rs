//! Spec E.5: a machine whose last unit goes is no longer Alive, from that commit on.

use crate::sim::checks::{Check, Commit, place};
use state::documents::draft::read;
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeSet;

#[derive(Default)]
pub struct EmptyMachine;

impl Check for EmptyMachine {
    fn name(&self) -> &'static str {
        "emptied"
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let gone = commit.changes.entries.iter().filter(|change| change.value.is_none());
        let machines: BTreeSet<Uuid> = gone
            .filter_map(|change| match place(&change.key) {
                ("unit-on", rest) => rest.split('/').next()?.parse().ok(),
                _ => None,
            })
            .collect();
        for machine in machines {
            let empty = commit.reader.scan(&commit.model.machine_units(machine), "", 1).is_empty();
            let life = read(commit.reader, &commit.model.machine_life(machine));
            if empty && life == Some(Life::Alive) {
                found.push(format!("machine {machine} has lost its last unit, and is Alive"));
            }
        }
    }
}
