//! `pintle`, also under the name `juju`: parse, dispatch, exit code.

use cli::arguments::Arguments;
use cli::commands;
use std::process::ExitCode;

fn main() -> ExitCode {
    match Arguments::of_process().and_then(commands::dispatch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{}", failure.text());
            ExitCode::from(failure.code)
        }
    }
}
