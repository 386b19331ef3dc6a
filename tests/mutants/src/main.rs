//! Starts the simulator: `cargo sim` runs this with the profile to build with and the simulator's arguments.
//!
//! Runs with mutants are built from the generated tree, all others from the repository itself, so that ordinary
//! schedules run exactly the code of the product.

use anyhow::{Context, Result};
use mutants::tree;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let profile = arguments.next().context("usage: simulate PROFILE [ARGUMENT...]")?;
    let arguments: Vec<String> = arguments.collect();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this program is in cargo's target folder")?;
    let mut root = repository.clone();
    if arguments.iter().any(|argument| argument == "--mutants" || argument == "--mutant") {
        root = target.join("mutants");
        tree::generate(&repository, &root)?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["run", "--quiet", "--profile", &profile, "--package", "tests", "--bin", "sim"]);
    build.arg("--manifest-path").arg(root.join("Cargo.toml")).arg("--target-dir").arg(target);
    Err(build.arg("--").args(arguments).exec()).context("cannot start cargo")
}
