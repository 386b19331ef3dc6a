//! `cargo sim`: simulated schedules by seed.
//!
//! `cargo sim --help` documents the arguments.

use anyhow::{Context, Result, bail};
use clap::Parser;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tests::model_check::{self, Bounds, UserRequest};
use tests::sim::campaign::{self, Totals};
use tests::sim::mutants::Mutant;
use tests::sim::profile::FaultProfile;
use tests::sim::shrink::{ShrinkResult, shrink};
use tests::sim::system;

/// A third of the time of a schedule is spent on allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Violations that are printed one by one. Further ones are only counted.
const SHOWN: usize = 10;
/// The last lines of the trace that `--shrink` prints; `--trace` prints all of it.
const TRACE_LINES_SHOWN: usize = 30;

const AFTER_HELP: &str = "\
Without --seed, --mutants or --model many schedules run. \
Exit code 1: a check found a violation, or a mutant was not detected. Exit code 2: the arguments are wrong.";

/// Simulated schedules of the whole system, each from one seed.
#[derive(Parser)]
#[command(name = "cargo sim", after_help = AFTER_HELP)]
struct Arguments {
    /// Many schedules: the seeds from A to before B [default: 1..201]
    #[arg(long, value_name = "A..B", value_parser = range)]
    seeds: Option<(u64, u64)>,
    /// Many schedules: N of them, starting where no earlier run was
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    fresh: Option<u64>,
    /// Many schedules: as many as start in this time, for example 60s
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    time: Option<Duration>,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// One schedule
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print the trace of the schedule
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Find the smallest profile of faults that still violates the same check
    #[arg(long, requires = "seed")]
    shrink: bool,
    /// Use these numbers of the fault profile instead of random ones
    #[arg(long, value_name = "NAME=N,...", value_delimiter = ',', value_parser = setting, requires = "seed")]
    mix: Vec<(String, u64)>,
    /// All mutants, each of which its check must detect
    #[arg(long)]
    mutants: bool,
    /// One mutant; with --seed: in that schedule
    #[arg(long, value_name = "NAME", value_parser = mutant)]
    mutant: Option<Mutant>,
    /// The exhaustive search of the lifecycle core, with its size
    #[arg(long)]
    model: bool,
}

impl Arguments {
    fn seeds(&self) -> Result<(u64, u64)> {
        Ok(match (self.seeds, self.fresh, self.time) {
            (Some(seeds), _, _) => seeds,
            (None, Some(count), _) => fresh().map(|from| (from, from + count))?,
            (None, None, Some(_)) => (fresh()?, u64::MAX),
            (None, None, None) => (1, 201),
        })
    }

    fn jobs(&self) -> usize {
        self.jobs.or(std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
    }
}

/// The first of a range of seeds that no earlier run has used.
fn fresh() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() * 1_000)
}

fn range(text: &str) -> Result<(u64, u64)> {
    let (from, to) = text.split_once("..").context("expected A..B")?;
    Ok((from.parse()?, to.parse()?))
}

fn seconds(text: &str) -> Result<Duration> {
    Ok(Duration::from_secs(text.trim_end_matches('s').parse()?))
}

fn setting(text: &str) -> Result<(String, u64)> {
    let (name, number) = text.split_once('=').context("expected NAME=NUMBER,...")?;
    Ok((name.to_owned(), number.parse()?))
}

fn mutant(name: &str) -> Result<Mutant> {
    let named = Mutant::all().into_iter().find(|mutant| mutant.name() == name);
    named.context("this build has no such mutant; `cargo sim` has all")
}

/// Prints an error as one line, without its location in this program.
fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|error| {
        eprintln!("ERROR {error:#}");
        ExitCode::from(2)
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    // a panic of the product is reported as a violation of its seed
    std::panic::set_hook(Box::new(|_| {}));
    if arguments.model {
        return Ok(model());
    }
    if arguments.mutants && !mutants::GENERATED {
        bail!("this build has no mutants of the product: run `cargo sim --mutants`");
    }
    if arguments.mutants || (arguments.mutant.is_some() && arguments.seed.is_none()) {
        return Ok(mutants(arguments.mutant, arguments.jobs()));
    }
    if let Some(seed) = arguments.seed {
        return one(seed, arguments);
    }
    many(arguments)
}

/// The exhaustive search: two applications of two units, their relation, one removal of each kind, and one crash.
fn model() -> ExitCode {
    let user_requests = vec![
        UserRequest::RemoveRelation,
        UserRequest::RemoveUnit("web/0"),
        UserRequest::RemoveApplication("db"),
        UserRequest::ForceUnit("web/1"),
    ];
    let started = Instant::now();
    match model_check::search(&Bounds { units: 2, user_requests, crash: true }) {
        Ok(space) => {
            let seconds = started.elapsed().as_secs();
            println!(
                "{} states, {} steps, {} at rest, no violation, {seconds} s",
                space.states, space.steps, space.at_rest
            );
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{}\n{}", violation.what, violation.steps.join("\n"));
            ExitCode::FAILURE
        }
    }
}

/// The fault profile of the seed, with the mix of the arguments.
fn profile(seed: u64, arguments: &Arguments) -> Result<FaultProfile> {
    let mut profile = FaultProfile::of(seed, arguments.mutant);
    for (name, number) in &arguments.mix {
        *profile.number(name).with_context(|| format!("the fault profile has no number {name}"))? = *number;
    }
    Ok(profile)
}

fn one(seed: u64, arguments: &Arguments) -> Result<ExitCode> {
    let profile = profile(seed, arguments)?;
    if arguments.shrink {
        return Ok(shrunk(seed, profile, arguments));
    }
    let report = match arguments.trace {
        true => {
            drop(std::panic::take_hook());
            system::run_with_profile(seed, profile, true)
        }
        false => campaign::run_with_profile(seed, profile),
    };
    report.trace.iter().for_each(|line| println!("{line}"));
    for violation in &report.violations {
        println!("VIOLATION {}: {}", violation.check, violation.what);
    }
    println!(
        "seed {seed}: {} units, {} hooks, {} commits, {} faults, {} polls ({} of them in chaos), {} violations",
        report.units,
        report.hooks,
        report.commits,
        report.faults,
        report.polls,
        report.chaos_polls,
        report.violations.len()
    );
    Ok(if report.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn shrunk(seed: u64, profile: FaultProfile, arguments: &Arguments) -> ExitCode {
    let Some(ShrinkResult { profile, report, changed }) = shrink(seed, profile) else {
        println!("seed {seed}: nothing fails");
        return ExitCode::SUCCESS;
    };
    let faults = FaultProfile::NAMES
        .iter()
        .filter(|name| profile.clone().number(name).is_some_and(|number| *number > 0));
    let mut given: BTreeMap<&str, u64> = arguments.mix.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    given.extend(changed);
    let given: Vec<String> = given.iter().map(|(name, number)| format!("{name}={number}")).collect();
    let trace = campaign::run_traced(seed, profile.clone()).trace;
    trace.iter().skip(trace.len().saturating_sub(TRACE_LINES_SHOWN)).for_each(|line| println!("{line}"));
    println!("remaining faults: {}", faults.copied().collect::<Vec<_>>().join(" "));
    for violation in &report.violations {
        println!("VIOLATION {}: {}", violation.check, violation.what);
    }
    println!("{} polls, {} hooks, {} faults", report.polls, report.hooks, report.faults);
    let mutant = profile.mutant.map_or(String::new(), |mutant| format!(" --mutant {}", mutant.name()));
    let given = if given.is_empty() { String::new() } else { format!(" --mix {}", given.join(",")) };
    println!("replay: cargo sim --seed {seed} --trace{mutant}{given}");
    ExitCode::FAILURE
}

fn many(arguments: &Arguments) -> Result<ExitCode> {
    let began = Instant::now();
    let (from, to) = arguments.seeds()?;
    if arguments.time.is_some() {
        println!("from seed {from} on");
    }
    let goes_on = |seed: u64| match arguments.time {
        Some(time) => began.elapsed() < time,
        None => seed < to,
    };
    let totals = campaign::run_seeds(from, arguments.jobs(), goes_on);
    report(&totals, began.elapsed().as_secs_f64());
    Ok(if totals.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(totals: &Totals, seconds: f64) {
    for (seed, what) in totals.violations.iter().take(SHOWN) {
        println!("seed {seed}: {what}\n    replay: cargo sim --seed {seed} --trace, or --shrink");
    }
    let (schedules, violations) = (totals.schedules, totals.violations.len());
    let per = |count: u64| count as f64 / schedules.max(1) as f64;
    if let Some((first, last)) = totals.seeds {
        let (standard, share) = (totals.standard, per(totals.standard) * 100.0);
        println!("seeds {first} to {last}: {standard} standard schedules, {share:.0} % of {schedules}");
    }
    println!(
        "a schedule on average: {:.1} units, {:.0} hooks, {:.0} commits, {:.1} faults, {:.0} polls ({:.0} in chaos)",
        per(totals.units),
        per(totals.hooks),
        per(totals.commits),
        per(totals.faults),
        per(totals.polls),
        per(totals.chaos_polls)
    );
    let hooks = totals.hooks as f64 / seconds;
    println!("{hooks:.0} hooks/s, {:.0} polls/s", totals.polls as f64 / seconds);
    let all: u64 = totals.spent.values().sum();
    let mut spent: Vec<_> =
        totals.spent.iter().map(|(whose, spent)| (spent * 100 / all.max(1), *whose)).collect();
    spent.sort_by(|a, b| b.cmp(a));
    let spent: Vec<String> = spent
        .iter()
        .filter(|(share, _)| *share > 0)
        .map(|(share, whose)| format!("{whose} {share} %"))
        .collect();
    println!("time: {}", spent.join(", "));
    println!("{schedules} schedules, {violations} violations, {:.1} schedules/s", schedules as f64 / seconds);
}

fn mutants(only: Option<Mutant>, jobs: usize) -> ExitCode {
    let all: Vec<Mutant> =
        Mutant::all().into_iter().filter(|mutant| only.is_none_or(|only| only == *mutant)).collect();
    let (next, survivors) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(mutant) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            match campaign::find_killing_seed(*mutant, 1) {
                Some((seed, what)) => println!("{}: seed {seed}, {}: {what}", mutant.name(), mutant.target()),
                None => {
                    survivors.fetch_add(1, Ordering::Relaxed);
                    let (seeds, target) = (campaign::MUTANT_SEEDS, mutant.target());
                    println!("{}: SURVIVES {seeds} seeds unseen by {target}", mutant.name());
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    let survivors = survivors.into_inner();
    println!("{} mutants, {survivors} survivors", all.len());
    if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
