//! Shrinks a failing seed to the smallest profile that still fails.
//!
//! It removes the kinds of faults one by one and lowers the other numbers, as long as the same check still reports
//! a violation. Called by `cargo sim --shrink`.

use crate::sim::campaign;
use crate::sim::profile::FaultProfile;
use crate::sim::system::Report;

/// The smallest profile with which the seed still fails.
pub struct ShrinkResult {
    pub profile: FaultProfile,
    pub report: Report,
    /// The names and values that differ from the seed's own profile.
    pub changed: Vec<(&'static str, u64)>,
}

/// The simpler values to try for a number, simplest first.
fn simpler(name: &str, now: u64) -> Vec<u64> {
    let least = match name {
        "changes_kept" => return if now == 10_000 { Vec::new() } else { vec![10_000] },
        "commits_per_full_check" => return if now == 1 { Vec::new() } else { vec![1] },
        "units" | "operator_actions" => 1,
        _ => 0,
    };
    let mut tried = vec![least, least + (now.saturating_sub(least)) / 2];
    tried.retain(|value| *value < now);
    tried.dedup();
    tried
}

/// Shrinks the profile of a failing seed. `None`: the seed does not fail.
pub fn shrink(seed: u64, mut profile: FaultProfile) -> Option<ShrinkResult> {
    let own = profile.clone();
    let mut best = campaign::run_with_profile(seed, profile.clone());
    let check = best.violations.first()?.check;
    loop {
        let mut better = false;
        for name in FaultProfile::NAMES {
            let now = *profile.number(name).expect("a name of the profile");
            for value in simpler(name, now) {
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
    let mut own = own;
    let changed = FaultProfile::NAMES.iter().filter_map(|name| {
        let (was, is) = (*own.number(name)?, *profile.number(name)?);
        (was != is).then_some((*name, is))
    });
    let changed = changed.collect();
    Some(ShrinkResult { profile, report: best, changed })
}
