//! The simulator in the ordinary test run: a fixed block of seeds, the same story twice, and planted faults that
//! their checks see.

use tests::sim::mutants::Mutant;
use tests::sim::{session, system};

/// A fixed block; `cargo sim` runs more.
const SEEDS: std::ops::Range<u64> = 1..21;

#[test]
fn no_promise_is_broken_in_a_fixed_block_of_seeds() {
    let mut broken = Vec::new();
    for seed in SEEDS {
        let report = session::run(seed, None);
        assert!(report.hooks > 0, "seed {seed} ran no hook: nothing was tested");
        broken.extend(report.violations.into_iter().map(|v| format!("seed {seed}: {}: {}", v.check, v.what)));
    }
    assert!(broken.is_empty(), "{}\nreplay: cargo sim --seed N --trace", broken.join("\n"));
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let (first, second) = (system::run(3, None, true), system::run(3, None, true));
    assert!(first.story.len() > 100, "a story of {} lines", first.story.len());
    for (number, (a, b)) in first.story.iter().zip(&second.story).enumerate() {
        assert_eq!(a, b, "line {number}");
    }
    assert_eq!(first.story.len(), second.story.len());
}

/// The cheapest of the planted faults; `cargo sim --mutants` plants all.
#[test]
fn planted_faults_are_seen_by_their_checks() {
    for mutant in [Mutant::ForgetsConfig, Mutant::FailedHookPublishes, Mutant::AcknowledgesBeforeSync] {
        let seen = session::kill(mutant, 1);
        assert!(seen.is_some(), "{mutant:?} was not seen by {}", mutant.target());
    }
}
