//! Runs programs of the host that a provider requires, and reports missing ones with their packages.
//!
//! The error of a failed program contains its command line, its exit status and the last line of its stderr.

use crate::command_error::CommandError;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// Runs a program until it exits, and returns its stdout.
///
/// # Errors
/// If the program cannot be started, or fails.
pub fn run(program: &str, args: &[&str]) -> Result<String, CommandError> {
    run_with_input(program, args, "")
}

/// Like [`run`], with `input` on stdin.
///
/// # Errors
/// If the program cannot be started, or fails.
pub fn run_with_input(program: &str, args: &[&str], input: &str) -> Result<String, CommandError> {
    let line = || format!("{program} {}", args.join(" "));
    let to_error = |error: std::io::Error| CommandError::new(format!("cannot run {}: {error}", line()));
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(to_error)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read all input reports the reason itself, so the write error is ignored.
        stdin.write_all(input.as_bytes()).ok();
    }
    let output = child.wait_with_output().map_err(to_error)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.trim().lines().last().unwrap_or_default();
    Err(CommandError::new(format!("{}: {}: {last}", line(), output.status)))
}

/// Runs a program until it exits, and passes each line of its stdout to `line` at once.
///
/// # Errors
/// If the program cannot be started, or fails.
pub fn run_with_lines(program: &str, args: &[&str], line: &dyn Fn(&str)) -> Result<(), CommandError> {
    let text = format!("{program} {}", args.join(" "));
    let to_error = |error: std::io::Error| CommandError::new(format!("cannot run {text}: {error}"));
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(to_error)?;
    let mut errors = child.stderr.take().expect("it is piped");
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        drop(errors.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    });
    for read in BufReader::new(child.stdout.take().expect("it is piped")).split(b'\n') {
        line(&String::from_utf8_lossy(&read.map_err(to_error)?));
    }
    let status = child.wait().map_err(to_error)?;
    let errors = errors.join().unwrap_or_default();
    let last = errors.trim().lines().last().unwrap_or_default();
    if status.success() { Ok(()) } else { Err(CommandError::new(format!("{text}: {status}: {last}"))) }
}

/// Checks that programs are installed. `needed`: (program, Debian package); the error lists the missing ones.
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
