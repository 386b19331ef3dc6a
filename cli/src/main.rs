//! The executable `pintle`, also installed as `juju`.
//!
//! Parses the command line, runs the command, and reports an error on stderr with its exit code.

use cli::commands;
use cli::commands::Arguments;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::completion::complete();
    match Arguments::from_process().and_then(commands::dispatch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{}", failure.text());
            ExitCode::from(failure.code)
        }
    }
}
