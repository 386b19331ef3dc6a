//! The arguments of `pintle-agent`: the agent of one unit, the agent of one machine, the commands that install, enrol
//! and uninstall a machine agent, those that inspect, replay or repair units, and those that other programs call
//! (`juju-exec`, `follow-runs`). `unit_program` and `machine_program` contain the processes of the agents.

use crate::enrolment::EnrolmentRequest;
use crate::follow_runs::FollowedRuns;
use crate::installed_programs::{self, require_hook_program};
use crate::recorded_runs::{self, DocumentFormat, REPLAY_TIMEOUT, ReplayOptions};
use crate::service::{Supervision, unit_files};
use crate::{fault, follow_runs, hook_process, inspect, juju_exec, machine_program, unit_program};
use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use host::escape::{one_line, without_controls};
use host::inherited;
use host::logging::{self, LogFilter};
use state::terms::names::Uuid;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs units of charms on a machine: one agent for the machine, and one for each unit.
#[derive(Parser)]
#[command(name = "pintle-agent", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the agent of one unit
    Unit {
        /// The folder of the unit
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
    /// Run the agent of one machine
    Machine {
        #[command(flatten)]
        data: Data,
        /// Run unit agents as systemd services, not as child processes
        #[arg(long)]
        systemd: bool,
    },
    /// Install the machine agent as a systemd service, on this host or into the system below ROOT
    Install {
        #[command(flatten)]
        data: Data,
        /// The root folder of the system to install into
        #[arg(long, value_name = "ROOT", requires = "program")]
        root: Option<PathBuf>,
        /// The path of pintle-agent in that system
        #[arg(long, value_name = "PROGRAM", requires = "root")]
        program: Option<PathBuf>,
    },
    /// Resume the uninstallation of a machine agent; its own service runs this
    #[command(hide = true)]
    Uninstall(Data),
    /// Enrol this host as a machine; "pintle add-machine manual" prints the whole command
    Enrol {
        /// The address of the controller (HOST:PORT)
        #[arg(value_name = "CONTROLLER")]
        controller: String,
        /// The name in the controller's certificate
        #[arg(value_name = "SERVER-NAME")]
        server_name: String,
        /// The uuid of the model
        #[arg(value_name = "MODEL")]
        model: String,
        /// The uuid of the machine
        #[arg(value_name = "MACHINE")]
        machine: String,
        /// The name of the machine
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Run commands in the context of a unit of this machine; juju-exec and juju-run are scripts that call this
    #[command(hide = true)]
    JujuExec {
        #[command(flatten)]
        data: Data,
        /// The arguments of juju-exec
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Print the runs of an application's units on this host while they run; pintle dev calls this
    #[command(hide = true)]
    FollowRuns {
        /// The folder of the folders of machines
        #[arg(value_name = "DIR")]
        machines: PathBuf,
        /// The uuid of the model
        #[arg(long)]
        model: Uuid,
        /// The application
        #[arg(long)]
        application: String,
        /// Runs that ended before this time, in milliseconds since 1970, are not printed
        #[arg(long, value_name = "TIME")]
        since: u64,
    },
    /// Show the stored state of a unit
    Show(UnitFolder),
    /// Show what a unit waits for
    Why(UnitFolder),
    /// List the recorded runs of a unit
    Runs {
        #[command(flatten)]
        folder: UnitFolder,
        #[command(flatten)]
        document: Document,
    },
    /// Show a recorded run of a unit: why it ran, and what it saw, called, changed and printed
    ShowRun {
        #[command(flatten)]
        run: UnitRun,
        #[command(flatten)]
        document: Document,
    },
    /// Run a recorded hook or action again in a copy of the charm, with the recorded answers, and show what differs
    Replay {
        #[command(flatten)]
        run: UnitRun,
        /// The longest time in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = REPLAY_TIMEOUT.as_secs(), value_parser = clap::value_parser!(u64).range(1..))]
        timeout: u64,
        /// Keep the copy of the charm, and the folder of the replayed run
        #[arg(long)]
        keep: bool,
    },
    /// Print a recorded hook or action as a test for pytest, with ops.testing
    ExportRun(UnitRun),
    /// End the hook, action or commands that a unit runs: SIGTERM, and SIGKILL after 5 seconds
    StopHook(UnitFolder),
    /// Reset a unit whose stored state was lost, so that it is installed again
    Resolve {
        #[command(flatten)]
        folder: UnitFolder,
        /// Confirm that the unit runs its installation again
        #[arg(long, required = true)]
        fresh: bool,
    },
}

#[derive(Args)]
struct Data {
    /// The folder of the machine agent
    #[arg(long = "data", value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Args)]
struct UnitRun {
    #[command(flatten)]
    folder: UnitFolder,
    /// The number of the run
    #[arg(value_name = "RUN")]
    number: u64,
}

#[derive(Args)]
struct Document {
    /// Print JSON or YAML instead of text
    #[arg(long, value_enum)]
    format: Option<DocumentFormat>,
}

#[derive(Args)]
struct UnitFolder {
    /// The folder of the unit
    #[arg(value_name = "DIR")]
    path: PathBuf,
}

/// The whole program. It is part of the library, so that it is not compiled a second time with the executable.
pub fn main() -> ExitCode {
    installed_programs::resolve_agent_program();
    let result = match Arguments::parse().command {
        Command::Unit { dir } => {
            run_async(|log_filter| unit_program::run(dir, log_filter)).or_else(fault::as_exit_code)
        }
        Command::Machine { data, systemd } => {
            let supervision = if systemd { Supervision::Systemd } else { Supervision::Children };
            run_async(|log_filter| machine_program::run(data.folder, supervision, log_filter))
        }
        Command::Install { data, root: Some(root), program: Some(program) } => {
            unit_files::install(&root, &program, &data.folder).map(|()| ExitCode::SUCCESS)
        }
        Command::Install { data, .. } => run_async(|_| machine_program::install(data.folder)),
        Command::Uninstall(data) => run_async(|_| machine_program::resume_uninstall(data.folder)),
        Command::Enrol { controller, server_name, model, machine, name } => {
            let enrol = |token_and_ca| {
                let request =
                    EnrolmentRequest { controller, server_name, model, machine, name, token_and_ca };
                run_async(|_| machine_program::enrol(request))
            };
            io::read_to_string(io::stdin()).context("cannot read stdin").and_then(enrol)
        }
        Command::JujuExec { data, words } => Ok(juju_exec::run(&data.folder, &words)),
        Command::FollowRuns { machines, model, application, since: since_ms } => {
            run_async(|_| follow_runs::run(FollowedRuns { machines, model, application, since_ms }))
        }
        Command::Show(folder) => run_async(|_| run_and_print(inspect::show(&folder.path))),
        Command::Why(folder) => {
            run_async(|_| run_and_print(inspect::why(&folder.path, require_hook_program())))
        }
        Command::Runs { folder, document } => {
            run_async(|_| run_and_print(async { recorded_runs::list(&folder.path, document.format) }))
        }
        Command::ShowRun { run, document } => run_async(async |_| {
            run_and_print(recorded_runs::show(&run.folder.path, run.number, document.format)).await
        }),
        Command::Replay { run, timeout, keep } => run_async(async |_| {
            let options = ReplayOptions { timeout: Duration::from_secs(timeout), keep };
            let (text, code) = recorded_runs::replay(&run.folder.path, run.number, options).await?;
            run_and_print(async { Ok(text) }).await.map(|_| code)
        }),
        Command::ExportRun(run) => run_async(async |_| {
            run_and_print(async { recorded_runs::export(&run.folder.path, run.number) }).await
        }),
        Command::StopHook(folder) => {
            run_async(async |_| run_and_print(hook_process::stop_running(&folder.path)).await)
        }
        Command::Resolve { folder, .. } => run_async(|_| unit_program::start_fresh(folder.path)),
    };
    result.unwrap_or_else(|error| {
        eprintln!("ERROR {error:#}");
        ExitCode::FAILURE
    })
}

fn run_async<F: Future<Output = Result<ExitCode>>>(main: impl FnOnce(LogFilter) -> F) -> Result<ExitCode> {
    inherited::protect();
    let main = main(logging::start());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(main)
}

async fn run_and_print(text: impl Future<Output = Result<String>>) -> Result<ExitCode> {
    // the text quotes what charms and programs have printed; a program that reads JSON or YAML gets it as it is
    let escape = if io::stdout().is_terminal() { one_line } else { without_controls };
    let lines: String = text.await?.lines().map(|line| format!("{}\n", escape(line))).collect();
    match io::stdout().write_all(lines.as_bytes()) {
        // the reader (for example `head`) needs no more
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot print"),
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}
