//! Runs programs of the host with a time limit, so that a program that never ends cannot stop the loop that needs it.
//!
//! A program that exceeds its limit is killed and not waited for: a process that waits for a disk does not even end when
//! it is killed. The error names the program with its arguments and the last lines of its stderr.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The time limit of a program that reads or changes a setting of the host: it takes milliseconds, and a busy disk or kernel
/// lock may delay it for some seconds.
pub const QUICK: Duration = Duration::from_secs(30);
/// The time limit of a program that copies a file system: 10 GiB at 20 MiB/s.
pub const COPY: Duration = Duration::from_secs(10 * 60);
/// The lines of stderr in an error. The first line of some programs is a warning, and the last one of others a hint.
const LINES_MAX: usize = 3;

/// A program of the host, found in PATH, with its arguments.
#[derive(Clone, Debug)]
pub struct HostProgram {
    name: String,
    arguments: Vec<String>,
    input: String,
    limit: Duration,
}

impl HostProgram {
    /// A program without input, which may take this long.
    pub fn new<T: Into<String>>(
        name: &str,
        arguments: impl IntoIterator<Item = T>,
        limit: Duration,
    ) -> HostProgram {
        let arguments = arguments.into_iter().map(Into::into).collect();
        HostProgram { name: name.to_owned(), arguments, input: String::new(), limit }
    }

    /// The program with this text on its stdin.
    pub fn input(self, text: &str) -> HostProgram {
        HostProgram { input: text.to_owned(), ..self }
    }

    /// Runs the program until it ends, and returns its stdout.
    ///
    /// # Errors
    /// If it cannot be started, fails, or exceeds its limit.
    pub async fn run(&self) -> Result<String, ProgramError> {
        let mut stderr = Vec::new();
        let reason = match self.finish(&mut stderr).await {
            Ok((status, stdout)) if status.success() => {
                return Ok(String::from_utf8_lossy(&stdout).into_owned());
            }
            Ok((status, _)) => Failure::Exit(status),
            Err(failure) => failure,
        };
        let program = format!("{} {}", self.name, self.arguments.join(" ")).trim_end().to_owned();
        Err(ProgramError { program, reason, stderr: last_lines(&String::from_utf8_lossy(&stderr)) })
    }

    /// Runs the program, and returns its exit status and stdout.
    async fn finish(&self, stderr: &mut Vec<u8>) -> Result<(ExitStatus, Vec<u8>), Failure> {
        let mut command = tokio::process::Command::new(&self.name);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().map_err(Failure::Start)?;
        let (stdin, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (mut stdin, mut out, mut err) =
            (stdin.expect("it is piped"), out.expect("it is piped"), err.expect("it is piped"));
        let work = async {
            let mut stdout = Vec::new();
            let write = async move {
                // a program that does not read all input reports the reason itself
                stdin.write_all(self.input.as_bytes()).await.ok();
            };
            let ((), read, read_errors) =
                tokio::join!(write, out.read_to_end(&mut stdout), err.read_to_end(stderr));
            read.and(read_errors).map_err(Failure::Start)?;
            Ok((child.wait().await.map_err(Failure::Start)?, stdout))
        };
        tokio::time::timeout(self.limit, work).await.unwrap_or(Err(Failure::TimedOut(self.limit)))
    }
}

/// Why a program of the host did not do its work.
#[derive(Debug)]
pub struct ProgramError {
    /// The program with its arguments.
    program: String,
    reason: Failure,
    /// The last lines of its stderr.
    stderr: String,
}

#[derive(Debug)]
enum Failure {
    /// It could not be started, or its output could not be read.
    Start(io::Error),
    Exit(ExitStatus),
    /// It was killed after this time.
    TimedOut(Duration),
}

impl ProgramError {
    /// Whether the program was killed because it exceeded its limit.
    pub fn is_timeout(&self) -> bool {
        matches!(self.reason, Failure::TimedOut(_))
    }

    /// The error without the program and its arguments, for a program whose arguments are a script.
    pub fn without_arguments(&self) -> String {
        let stderr = if self.stderr.is_empty() { String::new() } else { format!(": {}", self.stderr) };
        match &self.reason {
            Failure::Start(error) => error.to_string(),
            Failure::Exit(status) => format!("{status}{stderr}"),
            Failure::TimedOut(limit) => format!("no end within {} s{stderr}", limit.as_secs()),
        }
    }

    /// The exit code with which the program reported a failure. None if it did not end by itself.
    pub fn exit_code(&self) -> Option<i32> {
        match &self.reason {
            Failure::Exit(status) => status.code(),
            Failure::Start(_) | Failure::TimedOut(_) => None,
        }
    }
}

impl Display for ProgramError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ProgramError { program, reason, stderr } = self;
        match reason {
            Failure::Start(error) => write!(f, "cannot run {program}: {error}")?,
            Failure::Exit(status) => write!(f, "{program}: {status}")?,
            Failure::TimedOut(limit) => {
                write!(f, "{program} did not end within {} s and was killed", limit.as_secs())?;
            }
        }
        if stderr.is_empty() { Ok(()) } else { write!(f, ": {stderr}") }
    }
}

impl Error for ProgramError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.reason {
            Failure::Start(error) => Some(error),
            Failure::Exit(_) | Failure::TimedOut(_) => None,
        }
    }
}

/// The last lines of what a program wrote, in one line.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES_MAX)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> HostProgram {
        HostProgram::new("sh", ["-c", script], limit)
    }

    #[tokio::test]
    async fn a_program_returns_its_output_or_the_last_lines_of_its_errors() {
        let upper = shell("tr a-z A-Z", QUICK).input("text").run().await;
        assert_eq!(upper.expect("it succeeds"), "TEXT");
        let failed = shell("for n in 1 2 3 4 5; do echo line $n >&2; done; exit 3", QUICK).run().await;
        let failed = failed.expect_err("it fails");
        assert_eq!(failed.exit_code(), Some(3));
        assert_eq!(failed.stderr, [3, 4, 5].map(|n| format!("line {n}")).join("; "));
        let missing = HostProgram::new("/no/such/program", [""; 0], QUICK).run().await;
        assert!(missing.expect_err("it does not exist").source().is_some());
    }

    /// The time limit passes as soon as nothing else can happen, because the clock is paused.
    #[tokio::test(start_paused = true)]
    async fn a_program_that_never_ends_is_killed_at_its_limit() {
        let slow = shell("exec sleep 100000", Duration::from_secs(7)).run().await.expect_err("it never ends");
        assert!(slow.is_timeout() && slow.to_string().contains("7 s"), "{slow}");
    }
}
