//! One schedule: the whole system, simulated from one seed.
//!
//! A schedule has phases: chaos with faults; calm until nothing changes; optionally obstructed removals and calm again;
//! the checks of the final state; and restart of everything with nothing changed. It ends after its first violation;
//! with a mutant, after the first violation of the check that must detect it.
//!
//! `parts` has the parts of the system, `steps` its steps, `phases` the phases, `obstructed` the optional one;
//! `controller_faults` applies the faults of the controller and the provider; `observation` passes facts and commits to
//! the checks.

mod controller_faults;
mod observation;
mod obstructed;
mod parts;
mod phases;
mod steps;

use crate::sim::checks::Violation;
use crate::sim::mutants::{Mutant, MutantGuard};
use crate::sim::operator::HOOKS_MIN;
use crate::sim::profile::FaultProfile;
use crate::sim::world::World;
use crate::sim::world::tasks::TimeSpent;
use parts::System;

/// The smallest numbers of applications, units, hooks and faults of a standard schedule: a schedule that counts as one,
/// because it is large enough to show an error of several units and faults together.
const STANDARD: (u64, u64, u64, u64) = (2, 3, HOOKS_MIN, 5);

/// The result of a schedule.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seed: u64,
    pub violations: Vec<Violation>,
    pub trace: Vec<String>,
    pub hooks: u64,
    pub commits: u64,
    pub faults: u64,
    pub polls: u64,
    /// Applications that ever had a unit deployed, and those units.
    pub applications: u64,
    pub units: u64,
    /// The duration of chaos in polls.
    pub chaos_polls: u64,
    pub spent: TimeSpent,
}

impl Report {
    pub fn is_standard(&self) -> bool {
        let (applications, units, hooks, faults) = STANDARD;
        let sized = self.applications >= applications && self.units >= units && self.hooks >= hooks;
        sized && self.faults >= faults
    }
}

/// Runs one seed with its own profile.
pub fn run(seed: u64, mutant: Option<Mutant>, traced: bool) -> Report {
    run_with_profile(seed, FaultProfile::of(seed, mutant), traced)
}

/// Runs one seed with the given profile.
pub fn run_with_profile(seed: u64, profile: FaultProfile, traced: bool) -> Report {
    let _guard = MutantGuard::of(profile.mutant);
    let target = profile.mutant.map(Mutant::target);
    let world = World::new(seed, profile, traced);
    let mut system = System::new(world.clone());
    system.run_phases(target);
    let report = Report {
        seed,
        violations: std::mem::take(&mut system.checks.violations),
        trace: world.trace_lines(),
        hooks: world.hooks(),
        commits: system.commits,
        faults: world.faults(),
        polls: system.tasks.polls,
        applications: system.fleet.applications.len() as u64,
        units: system.fleet.units,
        chaos_polls: system.chaos_polls,
        spent: std::mem::take(&mut system.tasks.spent),
    };
    drop(system);
    report
}
