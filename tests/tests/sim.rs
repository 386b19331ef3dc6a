//! The simulator in the ordinary test run: a fixed block of seeds, a fresh block, one seed twice with the same trace,
//! and the cheapest mutants, which their checks must detect. `cargo sim` runs more.

use std::time::{SystemTime, UNIX_EPOCH};
use tests::sim::campaign::{self, Totals};
use tests::sim::mutants::Mutant;
use tests::sim::system;

/// The number of processors of the smallest supported machine.
const JOBS: usize = 2;
/// The number of seeds of the fixed block.
const FIXED: u64 = 40;
const FRESH: u64 = 8;

fn hold(totals: &Totals) {
    assert!(totals.hooks > totals.schedules, "hardly a hook ran: nothing was tested");
    let broken: Vec<String> =
        totals.violations.iter().map(|(seed, what)| format!("seed {seed}: {what}")).collect();
    assert!(broken.is_empty(), "{}\nreplay: cargo sim --seed N --trace, or --shrink", broken.join("\n"));
}

#[test]
fn no_promise_is_broken_in_a_fixed_block_of_seeds() {
    hold(&campaign::run_seeds(1, JOBS, |seed| seed <= FIXED));
}

#[test]
fn no_promise_is_broken_in_a_fresh_block_of_seeds() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    let from = now.as_secs() * 1_000;
    hold(&campaign::run_seeds(from, JOBS, |seed| seed < from + FRESH));
}

#[test]
fn the_same_seed_has_the_same_trace() {
    let (first, second) = (system::run(3, None, true), system::run(3, None, true));
    assert!(first.trace.len() > 100, "a trace of {} lines", first.trace.len());
    for (number, (a, b)) in first.trace.iter().zip(&second.trace).enumerate() {
        assert_eq!(a, b, "line {number}");
    }
    assert_eq!(first.trace.len(), second.trace.len());
}

/// The cheapest mutants; `cargo sim --mutants` runs all.
#[test]
fn mutants_are_detected_by_their_checks() {
    for mutant in [Mutant::ForgetsConfig, Mutant::FailedHookPublishes, Mutant::AcknowledgesBeforeSync] {
        let seen = campaign::find_killing_seed(mutant, 1);
        assert!(seen.is_some(), "{mutant:?} was not seen by {}", mutant.target());
    }
}
