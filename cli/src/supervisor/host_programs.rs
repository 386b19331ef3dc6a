//! Runs programs of the host that a provider requires, and reports missing ones with their packages.
//!
//! The error of a failed program contains its command line, its exit status and the last lines of its stderr. The
//! supervisor has other duties and runs programs with a time limit ([`run`]). A command in the foreground waits for a
//! program that takes long, such as debootstrap, as long as it writes lines ([`run_in_foreground`],
//! [`run_with_lines`]).

use crate::command_error::CommandError;
use api::text::fault::not_started;
use host::program::{HostProgram, last_lines};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
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

/// Runs a program until it exits, and returns its stdout. As [`run_with_lines`].
///
/// # Errors
/// As [`run_with_lines`].
pub fn run_in_foreground(program: &str, args: &[&str], limit: Duration) -> Result<String, CommandError> {
    let output = std::cell::RefCell::new(String::new());
    run_with_lines(program, args, limit, &|line| {
        output.borrow_mut().push_str(line);
        output.borrow_mut().push('\n');
    })?;
    Ok(output.into_inner())
}

/// Runs a program until it exits, and passes each line of its stdout to `line` at once. It is killed when it has written
/// no line for `limit`, because nobody may be there to interrupt it.
///
/// # Errors
/// If the program cannot be started, fails, or writes nothing for too long.
pub fn run_with_lines(
    program: &str,
    args: &[&str],
    limit: Duration,
    line: &dyn Fn(&str),
) -> Result<(), CommandError> {
    let text = format!("{program} {}", args.join(" "));
    let to_error =
        |error: std::io::Error| CommandError::new(format!("cannot run {text}: {}", not_started(&error)));
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(to_error)?;
    let start = |work: Box<dyn FnOnce() + Send>| std::thread::Builder::new().spawn(work);
    let (mut stderr, stdout) = (child.stderr.take(), child.stdout.take());
    let (send, output) = std::sync::mpsc::channel();
    let send_errors = send.clone();
    // An error of a send means that the program was given up.
    let lines = start(Box::new(move || {
        for read in BufReader::new(stdout.expect("it is piped")).split(b'\n') {
            let _ = send.send(read.map(Output::Line));
        }
    }));
    let errors = start(Box::new(move || {
        let mut bytes = Vec::new();
        drop(stderr.as_mut().expect("it is piped").read_to_end(&mut bytes));
        let _ = send_errors.send(Ok(Output::Errors(bytes)));
    }));
    if let Err(error) = lines.and(errors) {
        child.kill().map_err(to_error)?;
        return Err(CommandError::new(format!("cannot run {text}: {}", not_started(&error))));
    }
    let (mut errors, mut ended) = (String::new(), None);
    while ended.is_none() {
        match output.recv_timeout(limit) {
            Ok(read) => match read.map_err(to_error)? {
                Output::Line(bytes) => line(&String::from_utf8_lossy(&bytes)),
                Output::Errors(bytes) => errors = String::from_utf8_lossy(&bytes).into_owned(),
            },
            Err(RecvTimeoutError::Disconnected) => ended = Some(child.wait().map_err(to_error)?),
            Err(RecvTimeoutError::Timeout) => {
                child.kill().map_err(to_error)?;
                let text = format!("{text} has written nothing for {} s and was killed", limit.as_secs());
                return Err(CommandError::new(text));
            }
        }
    }
    match ended {
        Some(status) if !status.success() => {
            Err(CommandError::new(format!("{text}: {status}: {}", last_lines(&errors))))
        }
        Some(_) | None => Ok(()),
    }
}

/// What a program writes.
enum Output {
    /// A line of its stdout.
    Line(Vec<u8>),
    /// All of its stderr.
    Errors(Vec<u8>),
}

/// Whether a program is on the path.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Checks that programs are installed. `needed`: (program, Debian package); the error lists the missing ones.
pub fn require(needed: &[(&str, &str)]) -> Result<(), CommandError> {
    let missing: Vec<&(&str, &str)> = needed.iter().filter(|(program, _)| !is_installed(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    let hint = format!("on Debian: apt-get install {}", packages.join(" "));
    Err(CommandError::new(format!("not found on this host: {}", programs.join(", "))).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::program::QUICK;

    #[test]
    fn a_program_in_the_foreground_is_killed_when_it_writes_nothing() {
        let limit = Duration::from_millis(100);
        run_with_lines("sh", &["-c", "exec sleep 100000"], limit, &|_| {}).expect_err("it never ends");
        let output = run_in_foreground("sh", &["-c", "echo one; echo two; echo no >&2"], QUICK);
        assert_eq!(output.expect("it succeeds"), "one\ntwo\n");
        run_in_foreground("sh", &["-c", "exit 3"], QUICK).expect_err("it fails");
    }
}
