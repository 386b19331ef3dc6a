//! `pintle`, also under the name `juju`: parse, dispatch, exit code.

use clap::Parser;
use cli::arguments::Arguments;
use cli::commands;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Usage errors and help end here, with 2 and 0.
    let arguments = Arguments::parse();
    match commands::dispatch(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{}", failure.text());
            ExitCode::from(failure.code)
        }
    }
}
