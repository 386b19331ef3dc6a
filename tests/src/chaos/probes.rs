//! Whether a user is answered: each second of a run a command that reads and one that writes are started.
//!
//! A command that has no answer within [`PATIENCE`] is killed, and counts as not answered.

use super::check::Answer;
use crate::scene::text;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a command is waited for.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two looks at a command.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs `pintle`; returns the time until it has succeeded, and none if it has failed or took too long.
pub fn run(program: &Path, data: &Path, arguments: &[&str]) -> Option<Duration> {
    let started = Instant::now();
    let mut command = Command::new(program);
    command.args(["--data", text(data)]).args(arguments);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    ended(child.ok()?, started).then(|| started.elapsed())
}

fn ended(mut child: Child, started: Instant) -> bool {
    while started.elapsed() < PATIENCE {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => std::thread::park_timeout(POLL_INTERVAL),
            Err(_) => break,
        }
    }
    child.kill().ok();
    child.wait().ok();
    false
}

/// The answers of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Second {
    /// The number of the second, and of the note that was written.
    pub number: u64,
    /// The time until the command that reads was answered.
    pub read: Option<Duration>,
    /// The time until the command that writes was answered.
    pub write: Option<Duration>,
}

impl Second {
    /// What is known about the note.
    pub fn answer(&self) -> Answer {
        if self.write.is_some() { Answer::Done } else { Answer::Unknown }
    }
}

/// How available the system was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Availability {
    /// The share of the seconds in which the answer took a second at most, in per cent.
    pub at_once: f64,
    /// The share of those in which there was an answer.
    pub answered: f64,
    /// The most seconds in a row in which there was none.
    pub longest_gap: u64,
}

/// Summarises the times until the answers of one kind of command.
pub fn availability(times: &[Option<Duration>]) -> Availability {
    let share = |count: usize| count as f64 * 100.0 / times.len().max(1) as f64;
    let at_once = times.iter().flatten().filter(|time| **time <= Duration::from_secs(1)).count();
    let (mut gap, mut longest_gap) = (0, 0);
    for time in times {
        gap = if time.is_some() { 0 } else { gap + 1 };
        longest_gap = longest_gap.max(gap);
    }
    Availability { at_once: share(at_once), answered: share(times.iter().flatten().count()), longest_gap }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn availability_counts_what_is_answered_at_once_at_all_and_not() {
        let [fast, slow] = [100, 3_000].map(|ms| Some(Duration::from_millis(ms)));
        let of = availability(&[fast, slow, None, None, fast, None, fast, fast]);
        assert_eq!(of, Availability { at_once: 50.0, answered: 62.5, longest_gap: 2 });
    }
}
