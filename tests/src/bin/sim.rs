//! `cargo sim`: simulated schedules by seed.
//!
//! `--seeds A..B` (default 1..201), `--seed N [--trace]`, `--time 60s`, `--mutants`.

use anyhow::{Context, Result, bail};
use std::cell::Cell;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tests::sim::mutants::Mutant;
use tests::sim::session::{self, Totals};
use tests::sim::system;

const SEEDS: (u64, u64) = (1, 201);
/// Violations shown one by one.
const SHOWN: usize = 10;

thread_local! {
    static RUNNING: Cell<u64> = const { Cell::new(0) };
}

struct Arguments {
    seeds: (u64, u64),
    seed: Option<u64>,
    trace: bool,
    time: Option<Duration>,
    mutants: bool,
    mutant: Option<Mutant>,
}

fn arguments() -> Result<Arguments> {
    let mut all = std::env::args().skip(1);
    let mut found =
        Arguments { seeds: SEEDS, seed: None, trace: false, time: None, mutants: false, mutant: None };
    while let Some(argument) = all.next() {
        let mut value = || all.next().with_context(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--seeds" => {
                let range = value()?;
                let (from, to) = range.split_once("..").context("--seeds wants A..B")?;
                found.seeds = (from.parse()?, to.parse()?);
            }
            "--seed" => found.seed = Some(value()?.parse()?),
            "--trace" => found.trace = true,
            "--time" => {
                let text = value()?;
                found.time = Some(Duration::from_secs(text.trim_end_matches('s').parse()?));
            }
            "--mutants" => found.mutants = true,
            "--mutant" => {
                let name = value()?;
                let named = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name);
                found.mutant = Some(named.with_context(|| format!("there is no mutant {name}"))?);
            }
            other => {
                bail!("unknown argument {other}; --seeds A..B, --seed N, --trace, --time 60s, --mutants")
            }
        }
    }
    Ok(found)
}

fn main() -> Result<ExitCode> {
    let arguments = arguments()?;
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("seed {}: the product panics; replay: cargo sim --seed {0} --trace", RUNNING.get());
        quiet(panic);
    }));
    if arguments.mutants {
        return Ok(mutants(arguments.mutant));
    }
    if let Some(seed) = arguments.seed {
        return Ok(one(seed, &arguments));
    }
    Ok(many(&arguments))
}

fn one(seed: u64, arguments: &Arguments) -> ExitCode {
    RUNNING.set(seed);
    let report = system::run(seed, arguments.mutant, arguments.trace);
    report.story.iter().for_each(|line| println!("{line}"));
    for violation in &report.violations {
        println!("VIOLATION {}: {}", violation.check, violation.what);
    }
    println!(
        "seed {seed}: {} units, {} hooks, {} commits, {} faults, {} polls, {} violations",
        report.units,
        report.hooks,
        report.commits,
        report.faults,
        report.polls,
        report.violations.len()
    );
    if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn many(arguments: &Arguments) -> ExitCode {
    let (began, mut totals) = (Instant::now(), Totals::default());
    let (mut seed, to) = arguments.seeds;
    let goes_on = |seed: u64| match arguments.time {
        Some(time) => began.elapsed() < time,
        None => seed < to,
    };
    while goes_on(seed) {
        RUNNING.set(seed);
        totals.add(&session::run(seed, arguments.mutant));
        seed += 1;
    }
    for (seed, what) in totals.violations.iter().take(SHOWN) {
        println!("seed {seed}: {what}\n    replay: cargo sim --seed {seed} --trace");
    }
    let per = |count: u64| count as f64 / totals.schedules.max(1) as f64;
    println!(
        "a schedule on average: {:.1} units, {:.0} hooks, {:.0} commits, {:.1} faults, {:.0} polls",
        per(totals.units),
        per(totals.hooks),
        per(totals.commits),
        per(totals.faults),
        per(totals.polls)
    );
    let seconds = began.elapsed().as_secs_f64();
    let (schedules, violations) = (totals.schedules, totals.violations.len());
    println!("{schedules} schedules, {violations} violations, {:.1} schedules/s", schedules as f64 / seconds);
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn mutants(only: Option<Mutant>) -> ExitCode {
    let mut survivors = 0;
    for mutant in Mutant::ALL.into_iter().filter(|mutant| only.is_none_or(|only| only == *mutant)) {
        match session::kill(mutant, 1) {
            Some((seed, what)) => println!("{mutant:?}: seed {seed}, {}: {what}", mutant.target()),
            None => {
                survivors += 1;
                println!(
                    "{mutant:?}: SURVIVES {} seeds unseen by {}",
                    session::MUTANT_SEEDS,
                    mutant.target()
                );
            }
        }
    }
    println!("{} mutants, {survivors} survivors", Mutant::ALL.len());
    if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
