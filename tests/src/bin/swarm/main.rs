//! `cargo swarm --units N`: thousands of unit agents in one process, against a real controller. `docs/how-to/measure-scale.md`
//! says what the figures mean.

use anyhow::{Context, Result};
use clap::Parser;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::host::programs;
use tests::swarm::link::Counts;
use tests::swarm::scenario::Swarm;

/// Descriptors of each process for one unit: two connections, and as many again while old ones are being closed.
const DESCRIPTORS_OF_UNIT: u64 = 4;
/// Descriptors that each process needs for other things.
const OTHER_DESCRIPTORS: u64 = 4_096;

/// Runs unit agents in one process against a controller that it starts, kills and starts again.
#[derive(Parser)]
struct Arguments {
    /// The number of units
    #[arg(long, default_value_t = 100)]
    units: usize,
    /// The number of units of one application. The view of a unit contains the status of each unit of its application,
    /// so that the cost of larger ones is quadratic
    #[arg(long, default_value_t = 50)]
    per_application: usize,
    /// How long idle agents are measured, in seconds; each sends a request every 15 s
    #[arg(long, default_value_t = 30)]
    idle: u64,
    /// Also relate all units with one provider
    #[arg(long)]
    relation: bool,
    /// Also remove all applications in the end
    #[arg(long)]
    destroy: bool,
    /// The program of the controller; none for the one of this build
    #[arg(long, value_name = "PATH")]
    controller: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    raise_limit(arguments.units)?;
    let scratch = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    runtime.block_on(tasks.run_until(run(&arguments, scratch.path())))
}

/// Raises the limit of open files of this process and of the controller that it starts.
fn raise_limit(units: usize) -> Result<()> {
    let wanted = units as u64 * DESCRIPTORS_OF_UNIT + OTHER_DESCRIPTORS;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let limit = wanted.max(hard);
    setrlimit(Resource::RLIMIT_NOFILE, limit, limit).with_context(|| {
        format!("cannot raise the limit of open files from {hard} to {limit}: run it as root")
    })
}

async fn run(arguments: &Arguments, scratch: &Path) -> Result<()> {
    let units = arguments.units;
    let program = arguments.controller.clone().unwrap_or_else(|| programs().join("pintle-controller"));
    let mut swarm = Swarm::new(&program, scratch, units, arguments.per_application).await?;
    let came_up = swarm.come_up().await?;
    println!(
        "{units} units came up in {:.1} s; controller {:.1} s of CPU; {}",
        came_up.took.as_secs_f64(),
        came_up.cpu_seconds,
        text(&came_up.counts)
    );
    let idle = swarm.idle(Duration::from_secs(arguments.idle)).await;
    let (before, with) = idle.memory_mb;
    println!(
        "idle: controller {with:.1} MB resident, {before:.1} MB before the agents, {:.1} KB per agent; {:.1} ms of CPU a \
         second, {:.1} us per agent",
        (with - before) / units as f64 * 1000.0,
        idle.cpu_ms,
        idle.cpu_ms / units as f64 * 1000.0
    );
    for is_busy in [false, true] {
        let restarted = swarm.restart(is_busy).await?;
        println!(
            "killed while the units {}: answers after {:.2} s, all back after {:.2} s; controller {:.1} s of CPU; {}",
            if is_busy { "run a hook" } else { "are idle" },
            restarted.answered.as_secs_f64(),
            restarted.back.as_secs_f64(),
            restarted.cpu_seconds,
            text(&restarted.counts)
        );
    }
    if arguments.relation {
        let related = swarm.relate().await?;
        let (events, largest) = related.events;
        println!(
            "one provider and {units} requirers joined in {:.1} s; the provider received {events} events, the largest of \
             {largest} bytes",
            related.took.as_secs_f64()
        );
    }
    if arguments.destroy {
        let destroyed = swarm.destroy().await?;
        println!(
            "all applications were gone after {:.1} s; the slowest request took {:.1} ms",
            destroyed.took.as_secs_f64(),
            destroyed.request.as_secs_f64() * 1000.0
        );
    }
    let records = swarm.verify_nothing_lost().await?;
    println!("nothing was lost: the store has all {records} records of the units that are left, each once");
    Ok(())
}

fn text(counts: &Counts) -> String {
    format!(
        "requests: {} answered, {} without a response and {} without room (both are sent again), {} refused",
        counts.answered, counts.unreachable, counts.unavailable, counts.refused
    )
}
