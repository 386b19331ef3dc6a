//! The shortest story of a failing seed: kinds of faults are taken away one by one, and the numbers made smaller, for
//! as long as the same check still sees something.

use crate::sim::campaign;
use crate::sim::profile::FaultProfile;
use crate::sim::system::Report;

/// A mix with which the seed still fails, and how.
pub struct ShrinkResult {
    pub mix: FaultProfile,
    pub report: Report,
    /// Of the mix: names and values that differ from the seed's own.
    pub changed: Vec<(&'static str, u64)>,
}

/// What a number may be made instead of what it is, simplest first.
fn simpler(name: &str, now: u64) -> Vec<u64> {
    let least = match name {
        "changes_kept" => return if now == 10_000 { Vec::new() } else { vec![10_000] },
        "checked_every" => return if now == 1 { Vec::new() } else { vec![1] },
        "units" | "acts" => 1,
        _ => 0,
    };
    let mut tried = vec![least, least + (now.saturating_sub(least)) / 2];
    tried.retain(|value| *value < now);
    tried.dedup();
    tried
}

/// Shrinks what `seed` does with `mix`; none: nothing fails.
pub fn shrink(seed: u64, mut mix: FaultProfile) -> Option<ShrinkResult> {
    let own = mix.clone();
    let mut best = campaign::run_mixed(seed, mix.clone());
    let check = best.violations.first()?.check;
    loop {
        let mut better = false;
        for name in FaultProfile::NAMES {
            let now = *mix.number(name).expect("a name of the mix");
            for value in simpler(name, now) {
                let mut tried = mix.clone();
                *tried.number(name).expect("a name of the mix") = value;
                let report = campaign::run_mixed(seed, tried.clone());
                if report.violations.first().is_some_and(|violation| violation.check == check) {
                    (mix, best, better) = (tried, report, true);
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
        let (was, is) = (*own.number(name)?, *mix.number(name)?);
        (was != is).then_some((*name, is))
    });
    let changed = changed.collect();
    Some(ShrinkResult { mix, report: best, changed })
}
