//! Programs of the host that a provider needs: found or named, run, and quoted when they fail.

use crate::command_error::CommandError;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a program to its end; answers what it printed.
pub fn run(program: &str, args: &[&str]) -> Result<String, CommandError> {
    run_with_input(program, args, "")
}

/// The same, with something to read.
pub fn run_with_input(program: &str, args: &[&str], input: &str) -> Result<String, CommandError> {
    let line = || format!("{program} {}", args.join(" "));
    let broken = |error: std::io::Error| CommandError::new(format!("cannot run {}: {error}", line()));
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(broken)?;
    if let Some(mut stdin) = child.stdin.take() {
        // one that does not read to the end says in its own words why
        stdin.write_all(input.as_bytes()).ok();
    }
    let output = child.wait_with_output().map_err(broken)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.trim().lines().last().unwrap_or_default();
    Err(CommandError::new(format!("{}: {}: {last}", line(), output.status)))
}

/// Refuses when one of these is missing, with the package it is in.
pub fn require(needed: &[(&str, &str)]) -> Result<(), CommandError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let missing: Vec<&(&str, &str)> = needed.iter().filter(|(program, _)| !is_there(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    let hint = format!("on Debian: apt-get install {}", packages.join(" "));
    Err(CommandError::new(format!("not found on this host: {}", programs.join(", "))).hint(hint))
}
