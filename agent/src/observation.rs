//! Observes a unit agent from outside: a full disk, damaged files that were set aside, the folder of its socket, and
//! the last error in its log.
//!
//! This module changes nothing. It is called for the reports of the machine agent (`unit_supervisor`, `service`) and by
//! `inspect`.

use crate::folder::UnitFolder;
use crate::folder_port::is_set_aside;
use api::machine_folder::SOCKET_DIR;
use nix::sys::statvfs::statvfs;
use state::terms::health::{Fault, Limit, UnitHealth, bounded_line};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The log of a unit agent.
pub const AGENT_LOG: &str = "agent.log";
/// A disk with less free space counts as full. An outcome, a record and the pid files of a hook need less.
const FREE_BYTES_MIN: u64 = 64 << 10;
/// How much of the end of a log is searched for its last error.
const TAIL_BYTES: u64 = 8 << 10;

/// The health of a unit agent according to its folder, whether or not the agent runs: a full disk, and damaged files
/// that were set aside.
pub fn observe(folder: &UnitFolder) -> UnitHealth {
    let entries = fs::read_dir(folder.root()).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut set_aside: Vec<String> = names.filter(|name| is_set_aside(name)).collect();
    set_aside.sort();
    UnitHealth { exit: None, fault: full_disk(folder.root()), set_aside }
}

/// The limit that the disk of a folder has reached for this user: space or inodes.
fn full_disk(folder: &Path) -> Option<Fault> {
    let found = statvfs(folder).ok()?;
    let free = if nix::unistd::geteuid().is_root() { found.blocks_free() } else { found.blocks_available() };
    if free.saturating_mul(found.fragment_size()) < FREE_BYTES_MIN {
        return Some(Fault::Limit(Limit::DiskSpace));
    }
    // a file system that creates inodes on demand reports a total of 0
    (found.files() > 0 && found.files_available() == 0).then_some(Fault::Limit(Limit::DiskFiles))
}

/// The fault of a unit whose socket folder belongs to another user.
pub fn foreign_socket_folder(folder: &UnitFolder) -> Option<Fault> {
    let owner = fs::metadata(folder.root()).ok()?.uid();
    let found = fs::metadata(folder.file(SOCKET_DIR)).ok()?;
    (found.uid() != owner).then_some(Fault::SocketFolder)
}

/// The length of a log, from which the lines of the next process begin.
pub fn log_bytes(folder: &UnitFolder) -> u64 {
    fs::metadata(folder.file(AGENT_LOG)).map_or(0, |found| found.len())
}

/// The last error in the log of a unit agent after `from` bytes: an event of level ERROR, a panic, or else the last
/// line that is no event, such as one that the loader or the argument parser has printed. Events of lower levels do not
/// explain why an agent ended.
pub fn last_error_line(folder: &UnitFolder, from: u64) -> Option<String> {
    let mut log = fs::File::open(folder.file(AGENT_LOG)).ok()?;
    let length = log.metadata().ok()?.len();
    // a log that is shorter than it was has been rotated since
    let from = if from > length { 0 } else { from };
    log.seek(SeekFrom::Start(from.max(length.saturating_sub(TAIL_BYTES)))).ok()?;
    let mut tail = Vec::new();
    log.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let tail = String::from_utf8_lossy(&tail);
    let written = || tail.lines().filter(|line| !line.trim().is_empty());
    let error = written().rfind(|line| is_error(line) || is_panic(line));
    error.or_else(|| written().rfind(|line| event_level(line).is_none())).map(bounded_line)
}

/// The level of an event of the log, whose line is `TIME LEVEL TARGET: TEXT`.
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

    #[test]
    fn the_last_error_of_this_process_is_found_and_no_older_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::new(dir.path().to_path_buf());
        assert_eq!(last_error_line(&folder, 0), None);
        fs::write(folder.file(AGENT_LOG), "ERROR old\n").expect("written");
        let from = log_bytes(&folder);
        assert_eq!(last_error_line(&folder, from), None);
        fs::write(folder.file(AGENT_LOG), "ERROR old\nERROR its format is 2\nhint: \u{7}update\n")
            .expect("written");
        assert_eq!(last_error_line(&folder, from).as_deref(), Some("ERROR its format is 2"));
        assert_eq!(last_error_line(&folder, from + 22).as_deref(), Some("hint: update"));
    }

    #[test]
    fn an_event_below_error_is_no_reason_why_an_agent_ended() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = UnitFolder::new(dir.path().to_path_buf());
        let last = |log: &str| {
            fs::write(folder.file(AGENT_LOG), log).expect("written");
            last_error_line(&folder, 0)
        };
        let info = "2026-01-02T03:04:05.678901Z  INFO unit: run 7 (install) finished: ok, no ERROR, nothing panicked\n";
        assert_eq!(last(info), None);
        let error = "2026-01-02T03:04:05.678901Z ERROR unit: the disk failed";
        assert_eq!(last(&format!("{error}\n{info}")).as_deref(), Some(error));
        let panic = "thread 'main' (7) panicked at agent/src/main.rs:1:2:";
        assert_eq!(last(&format!("{info}{panic}\na message\n")).as_deref(), Some(panic));
        let raw = "error while loading shared libraries";
        assert_eq!(last(&format!("{raw}\n{info}")).as_deref(), Some(raw));
    }
}
