//! `cargo chaos`: kills, stops and cuts off members of etcd, controllers and agents while units work.
//! `docs/how-to/test-pintle.md` says what it needs, and what its lines mean.

use anyhow::Result;
use clap::Parser;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;
use tests::chaos::plan::Sizes;
use tests::chaos::run::run;
use tests::chaos::system::prepare_namespace;
use tests::host::is_root;

/// The variable of the process that is in the network namespace.
const IN_NAMESPACE: &str = "PINTLE_CHAOS_NAMESPACE";

/// Kills, stops and cuts off processes at random, and exits with 1 if an effect was lost or done twice.
#[derive(Parser)]
struct Arguments {
    /// How long faults strike, in minutes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// The number of controllers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    controllers: u8,
    /// The number of members of etcd
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    members: u8,
    /// The number of units that pass balls to each other; an odd number is rounded up
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(2..=100))]
    units: u8,
    /// The seed of the faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let is_in_namespace = std::env::var_os(IN_NAMESPACE).is_some();
    // root in a container may lack the capability
    let probe = || Command::new("unshare").args(["--net", "true"]).status();
    if is_root() && !is_in_namespace && probe().is_ok_and(|status| status.success()) {
        let mut command = Command::new("unshare");
        command.args(["--net", "--"]).arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
        // It returns only if the program cannot be started.
        let error = command.env(IN_NAMESPACE, "1").exec();
        println!("no network namespace: {error}");
    }
    let can_cut_off = is_in_namespace && prepare_namespace();
    if !can_cut_off {
        println!("nothing is cut off: that needs root, unshare, ip and nft");
    }
    let sizes = Sizes {
        members: arguments.members.into(),
        controllers: arguments.controllers.into(),
        units: usize::from(arguments.units).next_multiple_of(2),
        can_cut_off,
    };
    let outcome = run(arguments.seed, Duration::from_secs_f64(arguments.minutes * 60.0), sizes)?;
    outcome.violations.iter().for_each(|violation| println!("VIOLATION {violation}"));
    println!("{}", outcome.summary);
    Ok(if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
