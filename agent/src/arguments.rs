//! The arguments of `pintle-agent`: the agent of one unit, the agent of one machine, and commands that inspect or
//! repair their folders. `unit_program` and `machine_program` contain the processes.

use crate::installed_programs::{self, hook_client};
use crate::service::{Supervision, systemd};
use crate::{fault, inspect, machine_program, unit_program};
use anyhow::Result;
use host::inherited;
use host::logging::{self, Level};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: pintle-agent unit --dir DIR
           Run the agent of one unit.
       pintle-agent machine --data DIR [--systemd]
           Run the agent of one machine. With --systemd, unit agents are systemd services.
       pintle-agent install --data DIR [--root ROOT --program PROGRAM]
           Install the machine agent as a systemd service, on this host or into the system below ROOT.
       pintle-agent enrol CONTROLLER SERVER-NAME MODEL MACHINE NAME
           Enrol this host as a machine. \"pintle add-machine manual\" prints the whole command.
       pintle-agent show DIR
           Show the stored state of a unit.
       pintle-agent why DIR
           Show what a unit waits for.
       pintle-agent resolve DIR --fresh
           Let a unit whose state was lost start from the beginning.";

/// The whole program. It is compiled here, with the library, and not once more with the executable.
pub fn main() -> ExitCode {
    installed_programs::store_path();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["unit", "--dir", dir] => {
            run_async(|level| unit_program::run(PathBuf::from(dir), level)).or_else(fault::as_exit_code)
        }
        ["machine", "--data", dir] => {
            run_async(|level| machine_program::run(PathBuf::from(dir), Supervision::Children, level))
        }
        ["machine", "--data", dir, "--systemd"] => {
            run_async(|level| machine_program::run(PathBuf::from(dir), Supervision::Systemd, level))
        }
        ["enrol", controller, server_name, model, machine, name] => {
            let arguments = [controller, server_name, model, machine, name].map(|text| (*text).to_owned());
            run_async(|_| machine_program::enrol(arguments))
        }
        ["uninstall", "--data", dir] => run_async(|_| machine_program::resume_uninstall(PathBuf::from(dir))),
        ["install", "--data", dir] => run_async(|_| machine_program::install(PathBuf::from(dir))),
        ["install", "--data", dir, "--root", root, "--program", program] => {
            systemd::install(Path::new(root), Path::new(program), Path::new(dir)).map(|()| ExitCode::SUCCESS)
        }
        ["show", dir] => run_async(|_| run_and_print(inspect::show(Path::new(dir)))),
        ["why", dir] => run_async(|_| run_and_print(inspect::why(Path::new(dir), hook_client()))),
        ["resolve", dir, "--fresh"] => run_async(|_| unit_program::start_fresh(PathBuf::from(dir))),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("ERROR {error:#}");
        ExitCode::FAILURE
    })
}

fn run_async<F: Future<Output = Result<ExitCode>>>(main: impl FnOnce(Level) -> F) -> Result<ExitCode> {
    inherited::protect();
    let main = main(logging::start());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(main)
}

async fn run_and_print(text: impl Future<Output = Result<String>>) -> Result<ExitCode> {
    print!("{}", text.await?);
    Ok(ExitCode::SUCCESS)
}
