//! The executable `pintle-agent`; see `agent::arguments`.

use std::process::ExitCode;

fn main() -> ExitCode {
    agent::arguments::main()
}
