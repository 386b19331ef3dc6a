//! The phases of a schedule, except obstructed removals.

use super::parts::System;
use super::steps::{MINUTE_MS, POLLS_MAX};
use crate::sim::checks::Violation;
use crate::sim::checks::check::FinalState;
use crate::sim::fact::Fact;
use crate::sim::identities::MODEL;
use crate::sim::world::tasks::{StepResult, block_on};
use controller::store::Store;
use state::documents::prelude::{Kind, Model};
use state::lifecycle::model;

/// Chaos lasts until the operators have finished their actions, and at most this long.
const CHAOS_MS: u64 = 200_000;
/// The time between two restarts of everything: a few connection attempts.
const BETWEEN_RESTARTS_MS: u64 = 10_000;
/// The number of rounds of "wait until the system rests, resolve failures" after which it must have converged.
const ROUNDS_MAX: u64 = 40;
/// After this many rounds following a restore, operators remove the units that still fail: they may have ended
/// before the restore.
const ROUNDS_BEFORE_REMOVAL: u64 = 5;

impl System {
    pub(super) fn run_phases(&mut self, target: Option<&'static str>) {
        let is_over = |system: &System| {
            let hit = |violation: &Violation| target.is_none_or(|target| violation.check == target);
            system.checks.violations.iter().any(hit)
        };
        let created = block_on(self.store.run(|draft| model::create(draft, MODEL, "dev", 0)));
        created.map(drop).expect("the first model can be made");
        self.start_provisioner_and_janitor();
        let chaos = is_over(self) || !self.run_chaos(&is_over);
        self.chaos_polls = self.tasks.polls;
        if chaos || !self.run_calm(&is_over) {
            return;
        }
        if self.world.profile().obstructed > 0 {
            self.run_obstructed(&is_over);
            if is_over(self) || !self.run_calm(&is_over) {
                return;
            }
        }
        self.check_final_state();
        if !is_over(self) {
            self.restart_everything(&is_over);
        }
    }

    /// Runs the operators under faults. False: a violation ended the schedule.
    fn run_chaos(&mut self, is_over: &impl Fn(&System) -> bool) -> bool {
        self.world.set_calm(false);
        let (first, second) = (self.operator(), self.operator());
        let mut acting = vec![
            self.tasks.start("operators", async move {
                first.create_applications().await;
                first.act().await;
                first.destroy().await;
            }),
            self.tasks.start("operators", async move {
                second.world.sleep(5_000).await;
                second.act().await;
                second.destroy().await;
            }),
        ];
        let until_ms = self.world.now_ms() + CHAOS_MS;
        let outage_ms = self.world.now_ms() + 10_000 + self.world.below(10_000);
        let mut outage = self.world.profile().outage_minutes;
        while !acting.is_empty() && self.world.now_ms() < until_ms {
            if outage > 0 && self.world.now_ms() >= outage_ms {
                let until_ms = self.world.now_ms() + outage * MINUTE_MS;
                self.world.trace(|| format!("network: {outage} minutes without the controller"));
                outage = 0;
                self.network.start_outage(until_ms);
                self.pass_time(until_ms, is_over);
            }
            let stepped = self.step(until_ms);
            if let StepResult::Polled { task, done: true } = stepped {
                acting.retain(|acting| *acting != task);
            }
            if is_over(self) || self.tasks.polls > POLLS_MAX {
                return !is_over(self);
            }
            self.inject_fault(stepped);
        }
        acting.into_iter().for_each(|task| self.tasks.drop_task(task));
        self.pass_frozen_time(is_over);
        !is_over(self)
    }

    /// Waits for agents that are frozen for much longer than chaos lasts, so that they resume among faults. All
    /// other agents resume when faults end.
    fn pass_frozen_time(&mut self, is_over: &impl Fn(&System) -> bool) {
        let until_ms = self.fleet.frozen_ms;
        if until_ms > self.world.now_ms() + CHAOS_MS {
            self.world.trace(|| "time passes until the frozen agents resume");
            self.pass_time(until_ms + MINUTE_MS, is_over);
        }
    }

    /// Ends all faults and waits until nothing changes, resolving failures. False: a violation ended the schedule.
    pub(super) fn run_calm(&mut self, is_over: &impl Fn(&System) -> bool) -> bool {
        self.world.trace(|| "calm: faults are over");
        self.world.set_calm(true);
        self.world.note(Fact::FaultsEnded);
        self.network.heal();
        self.tasks.resume_all();
        self.store.fill(0);
        self.fleet.machines().iter().for_each(|machine| machine.fill(0));
        for round in 0..ROUNDS_MAX {
            let (operator, restored) = (self.operator(), self.restored);
            self.tasks.start("operators", async move {
                operator.disable_timed_hooks(restored).await;
                if restored && round >= ROUNDS_BEFORE_REMOVAL {
                    operator.remove_failed_units().await;
                }
                operator.resolve().await;
            });
            if !self.wait_for_rest(is_over) {
                return !is_over(self) && self.tasks.polls > POLLS_MAX;
            }
            let (fleet, tasks) = (&mut self.fleet, &mut self.tasks);
            let repaired = self.store.map().read_now(|reader| fleet.repair(tasks, reader, restored));
            if !repaired && self.failed_units().is_empty() && !self.has_provisioning_error() {
                break;
            }
        }
        true
    }

    /// Whether a machine has a provisioning error.
    fn has_provisioning_error(&self) -> bool {
        let prefix = Model(MODEL).prefix(Kind::ProvisioningError);
        self.store.map().read_now(|reader| !reader.scan(&prefix, "", 1).is_empty())
    }

    /// Restarts every process, with nothing else changed.
    fn restart_everything(&mut self, is_over: &impl Fn(&System) -> bool) {
        self.world.trace(|| "restart of everything");
        self.world.note(Fact::OnlyRestarts);
        for _ in 0..2 {
            for folder in self.fleet.ids() {
                self.fleet.crash(&mut self.tasks, folder);
            }
            self.restart_controller();
            self.start_provisioner();
            self.pass_time(self.world.now_ms() + BETWEEN_RESTARTS_MS, is_over);
        }
        self.wait_for_rest(is_over);
    }

    fn check_final_state(&mut self) {
        let recorded = self.store.recorded();
        let is_at_rest = self.tasks.polls <= POLLS_MAX && self.failed_units().is_empty();
        let (fleet, checks) = (&self.fleet, &mut self.checks);
        self.store.map().read_now(|reader| {
            let agents = fleet.running_agents(reader);
            checks.check_final_state(&FinalState {
                model: Model(MODEL),
                reader,
                agents,
                is_at_rest,
                wall_ms: self.world.wall_ms(),
                recorded: &recorded,
            });
        });
    }
}
