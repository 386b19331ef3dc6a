//! The end of the log of a daemon: why the daemon ended, according to the lines that it wrote itself.
//!
//! A line is an event (`TIME LEVEL TARGET: TEXT`, see `logging`), an error with which a program ends (`ERROR TEXT`, which
//! may continue in further lines), or what the loader, the argument parser or a panic has printed. This module changes
//! nothing.
//!
//! Used by the machine agent for its unit agents, and by the supervisor of `cli` for the controller.

use crate::file::open_regular;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// How much of the end of a log is searched for its last error.
const TAIL_BYTES: u64 = 8 << 10;
/// The lines of an error: what cannot be done, and its hint, of up to two lines each, and one in reserve.
const ERROR_LINES_MAX: usize = 5;

/// The length of a log, from which the lines of the next process begin.
pub fn bytes(log: &Path) -> u64 {
    fs::metadata(log).map_or(0, |found| found.len())
}

/// The last error in a log after `from` bytes: an event of level ERROR, a panic, or else the last line that is no
/// event, such as one that the loader or the argument parser has printed. Events of lower levels do not explain why a
/// program ended.
pub fn last_error_line(log: &Path, from: u64) -> Option<String> {
    error_lines(log, from)?.lines().next().map(str::to_owned)
}

/// As [`last_error_line`], with the lines that belong to it: up to the next event, and at most five.
pub fn error_lines(log: &Path, from: u64) -> Option<String> {
    let tail = tail(log, from)?;
    let lines: Vec<&str> = tail.lines().filter(|line| !line.trim().is_empty()).collect();
    let error = lines.iter().rposition(|line| is_error(line) || is_panic(line));
    let first = error.or_else(|| lines.iter().rposition(|line| event_level(line).is_none()))?;
    let further = lines[first + 1..].iter().take_while(|line| event_level(line).is_none());
    let all: Vec<&str> = [lines[first]].into_iter().chain(further.copied()).take(ERROR_LINES_MAX).collect();
    Some(all.join("\n"))
}

/// The complete lines that a log has after `from` bytes, of its last [`TAIL_BYTES`]. The rest of a line that begins before
/// has no level, so that it would count as what a loader has printed.
fn tail(log: &Path, from: u64) -> Option<String> {
    let (mut log, found) = open_regular(log).ok()?;
    let length = found.len();
    // a log that is shorter than it was has been rotated since; a longer one may have been, too
    let from = if from > length { 0 } else { from };
    let start = from.max(length.saturating_sub(TAIL_BYTES));
    // the byte before shows whether a line begins at `start`
    log.seek(SeekFrom::Start(start.saturating_sub(1))).ok()?;
    let mut tail = Vec::new();
    log.take(TAIL_BYTES + 1).read_to_end(&mut tail).ok()?;
    let first = match start {
        0 => 0,
        _ => tail.iter().position(|byte| *byte == b'\n').map_or(tail.len(), |end| end + 1),
    };
    Some(String::from_utf8_lossy(&tail[first..]).into_owned())
}

/// The level of an event of the log.
fn event_level(line: &str) -> Option<&str> {
    let level = line.split_whitespace().nth(1)?;
    ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].contains(&level).then_some(level)
}

/// Whether the line is an event of level ERROR, or an error with which the program has ended.
fn is_error(line: &str) -> bool {
    line.starts_with("ERROR") || event_level(line) == Some("ERROR")
}

/// Whether Rust printed the line when a thread panicked.
fn is_panic(line: &str) -> bool {
    line.starts_with("thread '") && line.contains(" panicked at ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str =
        "2026-01-02T03:04:05.678901Z  INFO unit: run 7 (install) finished: ok, no ERROR, nothing panicked\n";

    #[test]
    fn the_last_error_of_this_process_is_found_and_no_older_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("agent.log");
        assert_eq!(last_error_line(&log, 0), None);
        fs::write(&log, "ERROR old\n").expect("written");
        let from = bytes(&log);
        assert_eq!(last_error_line(&log, from), None);
        fs::write(&log, "ERROR old\nERROR its format is 2\nhint: update\n").expect("written");
        assert_eq!(last_error_line(&log, from).as_deref(), Some("ERROR its format is 2"));
        assert_eq!(last_error_line(&log, from + 22).as_deref(), Some("hint: update"));
    }

    #[test]
    fn an_event_below_error_is_no_reason_why_a_program_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("agent.log");
        let last = |text: &str| {
            fs::write(&log, text).expect("written");
            last_error_line(&log, 0)
        };
        assert_eq!(last(INFO), None);
        let error = "2026-01-02T03:04:05.678901Z ERROR unit: the disk failed";
        assert_eq!(last(&format!("{error}\n{INFO}")).as_deref(), Some(error));
        let panic = "thread 'main' (7) panicked at agent/src/main.rs:1:2:";
        assert_eq!(last(&format!("{INFO}{panic}\na message\n")).as_deref(), Some(panic));
        let raw = "error while loading shared libraries";
        assert_eq!(last(&format!("{raw}\n{INFO}")).as_deref(), Some(raw));
    }

    /// An agent that was killed has written more than the tail, and no error.
    #[test]
    fn the_rest_of_a_line_is_no_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("agent.log");
        fs::write(&log, INFO.repeat(200)).expect("written");
        assert!(bytes(&log) > 2 * TAIL_BYTES);
        for from in (0..bytes(&log)).step_by(7) {
            assert_eq!(last_error_line(&log, from), None, "after {from} bytes");
        }
        fs::write(&log, "x".repeat(20_000)).expect("written");
        assert_eq!(last_error_line(&log, 0), None, "a line longer than the tail");
        for before in 0..2 {
            let raw = format!("{}{}\n", "-".repeat(before) + "\n", "x".repeat(TAIL_BYTES as usize - 1));
            fs::write(&log, &raw).expect("written");
            let last = last_error_line(&log, 0).map(|line| line.len() as u64);
            assert_eq!(last, Some(TAIL_BYTES - 1), "a line as long as the tail");
        }
    }

    #[test]
    fn a_pipe_in_the_place_of_a_log_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("agent.log");
        nix::unistd::mkfifo(&log, nix::sys::stat::Mode::S_IRWXU).expect("a new pipe");
        assert_eq!(crate::file::tests::in_time(move || last_error_line(&log, 0)), None);
    }

    #[test]
    fn an_error_has_its_further_lines_and_no_event() {
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("controller.log");
        fs::write(&log, format!("{INFO}ERROR cannot use x\nhint: restore it\n{INFO}")).expect("written");
        assert_eq!(error_lines(&log, 0).as_deref(), Some("ERROR cannot use x\nhint: restore it"));
        fs::write(&log, format!("ERROR 0\n{}", "more\n".repeat(100))).expect("written");
        assert_eq!(error_lines(&log, 0).map(|lines| lines.lines().count()), Some(ERROR_LINES_MAX));
    }
}
