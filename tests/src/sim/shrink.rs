//! Shrinks the profile of a failing seed.
//!
//! It removes the kinds of faults one by one and lowers the other numbers, as long as the first violation is of the same
//! check, until no single change of this kind is possible. Called by `cargo sim --shrink`.

use crate::sim::campaign;
use crate::sim::profile::FaultProfile;
use crate::sim::system::Report;

/// A smaller profile with which the seed still fails.
pub struct ShrinkResult {
    pub profile: FaultProfile,
    pub report: Report,
    /// The names and values that differ from the seed's own profile.
    pub changed: Vec<(&'static str, u64)>,
}

/// The simpler values to try for a number, simplest first: of the two numbers that are no faults, the values of
/// production and of a check of every commit.
fn simpler_values(name: &str, current: u64) -> Vec<u64> {
    let least = match name {
        "changes_kept" => return if current == 10_000 { Vec::new() } else { vec![10_000] },
        "commits_per_full_check" => return if current == 1 { Vec::new() } else { vec![1] },
        "units" | "operator_actions" => 1,
        _ => 0,
    };
    let mut tried = vec![least, least + (current.saturating_sub(least)) / 2];
    tried.retain(|value| *value < current);
    tried.dedup();
    tried
}

/// Shrinks the profile of a failing seed. `None`: the seed does not fail.
pub fn shrink(seed: u64, mut profile: FaultProfile) -> Option<ShrinkResult> {
    let mut original = profile.clone();
    let mut best = campaign::run_with_profile(seed, profile.clone());
    let check = best.violations.first()?.check;
    loop {
        let mut better = false;
        for name in FaultProfile::NAMES {
            let current = *profile.number(name).expect("a name of the profile");
            for value in simpler_values(name, current) {
                let mut tried = profile.clone();
                *tried.number(name).expect("a name of the profile") = value;
                let report = campaign::run_with_profile(seed, tried.clone());
                if report.violations.first().is_some_and(|violation| violation.check == check) {
                    (profile, best, better) = (tried, report, true);
                    break;
                }
            }
        }
        if !better {
            break;
        }
    }
    let changed = FaultProfile::NAMES.iter().filter_map(|name| {
        let (was, is) = (*original.number(name)?, *profile.number(name)?);
        (was != is).then_some((*name, is))
    });
    let changed = changed.collect();
    Some(ShrinkResult { profile, report: best, changed })
}
