//! The steps of a schedule: one poll or one jump in time, then its commands, facts and commits.

use super::parts::System;
use crate::sim::fact::Fact;
use crate::sim::identities::MODEL;
use crate::sim::world::Command;
use crate::sim::world::tasks::{MEASURED_EVERY, StepResult, nanoseconds};
use state::documents::draft::read;
use state::documents::prelude::Model;
use state::terms::life::Life;
use state::terms::names::UnitName;
use std::time::Instant;

pub(super) const MINUTE_MS: u64 = 60_000;
/// The system rests when nothing has changed for this long: 95 s are longer than a leader's lease (60 s), a silent watch
/// (25 s) and the longest pause of a loop (5 s) in sequence.
const REST_AFTER_MS: u64 = 70_000 + api::WATCH_SILENCE_MS;
/// The largest number of polls of one schedule: several times what an hour without a controller takes.
pub(super) const POLLS_MAX: u64 = 2_000_000;
impl System {
    /// The units in error.
    pub(super) fn failed_units(&self) -> Vec<UnitName> {
        self.store.map().read_now(|reader| self.fleet.failed_units(reader))
    }

    /// Lets time pass, with faults unless the system is calm.
    pub(super) fn pass_time(&mut self, until_ms: u64, is_over: &impl Fn(&System) -> bool) {
        loop {
            let stepped = self.step(until_ms);
            if stepped == StepResult::Quiet || is_over(self) || self.tasks.polls > POLLS_MAX {
                return;
            }
            if !self.world.is_calm() {
                self.inject_fault(stepped);
            }
        }
    }

    /// True once nothing has changed for [`REST_AFTER_MS`].
    pub(super) fn wait_for_rest(&mut self, is_over: &impl Fn(&System) -> bool) -> bool {
        self.changed_ms = self.world.now_ms();
        loop {
            let until_ms = self.changed_ms + REST_AFTER_MS;
            let stepped = self.step(until_ms);
            if is_over(self) || self.tasks.polls > POLLS_MAX {
                return false;
            }
            if stepped == StepResult::Quiet && self.world.now_ms() >= self.changed_ms + REST_AFTER_MS {
                return true;
            }
        }
    }

    /// Performs one poll or one jump in time, then its commands, facts and commits.
    pub(super) fn step(&mut self, until_ms: u64) -> StepResult {
        let stepped = self.tasks.step(until_ms);
        let started = self.tasks.polls.is_multiple_of(MEASURED_EVERY).then(Instant::now);
        let (commands, facts) = self.world.take_events();
        for command in commands {
            self.execute(command);
        }
        self.fleet.restart_ended(&mut self.tasks, stepped);
        for fact in facts {
            self.observe(fact);
        }
        self.observe_commits();
        if let Some(started) = started {
            *self.tasks.spent.entry("checks").or_default() += nanoseconds(started);
        }
        stepped
    }

    pub(super) fn execute(&mut self, command: Command) {
        let (fleet, tasks) = (&mut self.fleet, &mut self.tasks);
        match command {
            Command::StartMachine { machine, instance } => fleet.boot(tasks, machine, instance),
            Command::TerminateMachine(id) => fleet.terminate_machine(tasks, id),
            Command::EnsureRunning { machine, unit, name } => fleet.deploy(tasks, machine, unit, name),
            Command::Quarantine(unit) => fleet.quarantine(tasks, unit),
            Command::Reboot(id) => {
                fleet.machines().iter().filter(|m| m.id == id).for_each(|m| fleet.reboot(tasks, m));
            }
            Command::Recall(unit) => {
                // the folder was never created, so no agent has run
                let Some(machine) = fleet.folder(unit).map(|folder| folder.location.machine.id) else {
                    return;
                };
                let (life, buried) = self.store.map().read_now(|reader| {
                    let buried = |id| read(reader, &Model(MODEL).tombstone(id)).is_some();
                    (read(reader, &Model(MODEL).unit_life(unit)), buried(unit) || buried(machine))
                });
                let evidence = buried || life == Some(Life::Dead);
                self.world.note(Fact::Recalled { unit, evidence, known: life.is_some() });
                fleet.recall(tasks, unit);
            }
        }
    }
}
