//! Runs many seeds: a range of seeds on several threads, or one mutant until its check detects it.
//!
//! A panic of the product counts as a violation. Called by `cargo sim` and by the tests in `tests/sim.rs`.

use crate::sim::checks::Violation;
use crate::sim::mutants::Mutant;
use crate::sim::profile::FaultProfile;
use crate::sim::system::{self, Report};
use crate::sim::world::tasks::TimeSpent;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds that are tried to detect a mutant. The rarest schedule, a grant that moves away and returns while a
/// record made under it waits, occurs in about one seed in 300: 2,000 seeds miss it once in 800 times.
pub const MUTANT_SEEDS: u64 = 2_000;

/// The sums of the reports of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub schedules: u64,
    /// The first and the last seed.
    pub seeds: Option<(u64, u64)>,
    /// Schedules of the standard size of issue 3.
    pub standard: u64,
    pub hooks: u64,
    pub commits: u64,
    pub faults: u64,
    pub units: u64,
    pub polls: u64,
    pub chaos_polls: u64,
    pub spent: TimeSpent,
    /// The seed and the first violation of each failed run.
    pub violations: Vec<(u64, String)>,
}

impl Totals {
    pub fn add(&mut self, report: &Report) {
        self.schedules += 1;
        let (first, last) = self.seeds.unwrap_or((report.seed, report.seed));
        self.seeds = Some((first.min(report.seed), last.max(report.seed)));
        self.standard += u64::from(report.is_standard());
        self.hooks += report.hooks;
        self.commits += report.commits;
        self.faults += report.faults;
        self.units += report.units;
        self.polls += report.polls;
        self.chaos_polls += report.chaos_polls;
        report.spent.iter().for_each(|(whose, spent)| *self.spent.entry(whose).or_default() += spent);
        if let Some(first) = report.violations.first() {
            self.violations.push((report.seed, format!("{}: {}", first.check, first.what)));
        }
    }
}

/// Runs one seed with its own profile. A panic of the product is a violation, too, where panics can be caught.
pub fn run(seed: u64, mutant: Option<Mutant>) -> Report {
    run_with_profile(seed, FaultProfile::of(seed, mutant))
}

pub fn run_with_profile(seed: u64, profile: FaultProfile) -> Report {
    run_catching_panic(seed, profile, false)
}

/// Runs one seed with its trace. A schedule that panics has no trace.
pub fn run_traced(seed: u64, profile: FaultProfile) -> Report {
    run_catching_panic(seed, profile, true)
}

fn run_catching_panic(seed: u64, profile: FaultProfile, traced: bool) -> Report {
    let ran = catch_unwind(AssertUnwindSafe(|| system::run_with_profile(seed, profile, traced)));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        let violations = vec![Violation { check: "panic", what: text.unwrap_or_default() }];
        Report { seed, violations, ..Report::default() }
    })
}

/// Runs the seeds from `from` on `jobs` threads while `has_more` is true for the next seed.
pub fn run_seeds(from: u64, jobs: usize, has_more: impl Fn(u64) -> bool + Sync) -> Totals {
    let (next, totals) = (AtomicU64::new(from), Mutex::new(Totals::default()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !has_more(seed) {
                return;
            }
            let report = run(seed, None);
            totals.lock().expect("nobody panics with the totals").add(&report);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let mut totals = totals.into_inner().expect("nobody panics with the totals");
    totals.violations.sort();
    totals
}

/// Finds the first seed from `from` on in which the target check detects the mutant. A seed with a violation
/// without the mutant proves nothing and is skipped.
pub fn find_killing_seed(mutant: Mutant, from: u64) -> Option<(u64, String)> {
    let target = mutant.target();
    (from..from + MUTANT_SEEDS).find_map(|seed| {
        let report = run(seed, Some(mutant));
        let seen = report.violations.into_iter().find(|violation| violation.check == target)?;
        let profile = FaultProfile { mutant: None, ..FaultProfile::of(seed, Some(mutant)) };
        run_with_profile(seed, profile).violations.is_empty().then_some((seed, seen.what))
    })
}
