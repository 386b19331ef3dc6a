//! Runs programs of the host that a provider requires, and reports missing ones with their packages.
//!
//! The error of a failed program contains its command line, its exit status and the last lines of its stderr. The
//! supervisor has other duties and runs programs with a time limit ([`run`]). A command in the foreground, which its
//! user can interrupt, waits for a program that takes long, such as debootstrap ([`run_in_foreground`],
//! [`run_with_lines`]).

use crate::command_error::CommandError;
use host::program::{HostProgram, last_lines};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs a program until it exits, and returns its stdout. It is killed after `limit`.
///
/// # Errors
/// If the program cannot be started, fails, or exceeds its limit.
pub async fn run(program: &str, args: &[&str], limit: Duration) -> Result<String, CommandError> {
    run_with_input(program, args, "", limit).await
}

/// Like [`run`], with `input` on stdin.
///
/// # Errors
/// As [`run`].
pub async fn run_with_input(
    program: &str,
    args: &[&str],
    input: &str,
    limit: Duration,
) -> Result<String, CommandError> {
    let ran = HostProgram::new(program, args.iter().copied(), limit).input(input).run().await;
    ran.map_err(|error| CommandError::new(error.to_string()))
}

/// Runs a program until it exits, and returns its stdout. Without a time limit: its user can interrupt it.
///
/// # Errors
/// If the program cannot be started, or fails.
pub fn run_in_foreground(program: &str, args: &[&str]) -> Result<String, CommandError> {
    let output = std::cell::RefCell::new(String::new());
    run_with_lines(program, args, &|line| {
        output.borrow_mut().push_str(line);
        output.borrow_mut().push('\n');
    })?;
    Ok(output.into_inner())
}

/// Runs a program until it exits, and passes each line of its stdout to `line` at once. Without a time limit, as
/// [`run_in_foreground`].
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
    let last = last_lines(&errors);
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
