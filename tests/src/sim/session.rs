//! Many runs: a range of seeds, or every planted fault until its check sees it.

use crate::sim::mutants::Mutant;
use crate::sim::system::{self, Report};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Seeds a planted fault may take to be seen.
pub const MUTANT_SEEDS: u64 = 400;

/// Counts of many runs.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub schedules: u64,
    pub hooks: u64,
    pub commits: u64,
    pub faults: u64,
    pub units: u64,
    pub polls: u64,
    /// Seed and what was broken, first violation of each run.
    pub violations: Vec<(u64, String)>,
}

impl Totals {
    pub fn add(&mut self, report: &Report) {
        self.schedules += 1;
        self.hooks += report.hooks;
        self.commits += report.commits;
        self.faults += report.faults;
        self.units += report.units as u64;
        self.polls += report.polls;
        if let Some(first) = report.violations.first() {
            self.violations.push((report.seed, format!("{}: {}", first.check, first.what)));
        }
    }
}

/// One run; a panic of the product is a violation too, where panics can be caught.
pub fn run(seed: u64, mutant: Option<Mutant>) -> Report {
    let ran = catch_unwind(AssertUnwindSafe(|| system::run(seed, mutant, false)));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        let what = text.unwrap_or_default();
        let violations = vec![crate::sim::checks::Violation { check: "panic", what }];
        Report { seed, violations, story: Vec::new(), hooks: 0, commits: 0, faults: 0, polls: 0, units: 0 }
    })
}

/// The first seed, of those from `from` on, in which the fault's own check sees it. A seed that breaks a promise
/// without the fault proves nothing about it.
pub fn kill(mutant: Mutant, from: u64) -> Option<(u64, String)> {
    let target = mutant.target();
    (from..from + MUTANT_SEEDS).find_map(|seed| {
        let report = run(seed, Some(mutant));
        let seen = report.violations.into_iter().find(|violation| violation.check == target)?;
        run(seed, None).violations.is_empty().then_some((seed, seen.what))
    })
}
