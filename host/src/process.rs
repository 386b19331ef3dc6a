//! Processes that are identified by pid and start time, so that they can still be identified when their parent has
//! ended (security S36).
//!
//! The kernel reuses a pid, but not the pair of pid and start time: a signal never reaches a process that
//! received the pid later. A pid file holds the pair as `PID STARTTIME`.
//!
//! Used by the agents for hooks and shims, and by the `cli` supervisor for its daemons.

use crate::file::read_regular;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The largest pid file: two numbers.
const FILE_BYTES_MAX: u64 = 64;

/// One process, for its whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// The process id; it is reused after the process has ended.
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
    pub start: u64,
}

/// The fields of `/proc/PID/stat` that Pintle uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The process has ended and its parent has not waited for it yet.
    pub ended: bool,
    /// The pid of the parent process.
    pub parent: i32,
    /// The process group; 0 for the threads of the kernel.
    pub group: i32,
    /// The session.
    pub session: i32,
    /// Clock ticks since boot.
    pub start: u64,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.start)
    }
}

impl FromStr for Process {
    type Err = ();
    fn from_str(text: &str) -> Result<Process, ()> {
        let (pid, start) = text.trim().split_once(' ').ok_or(())?;
        Ok(Process { pid: pid.parse().map_err(drop)?, start: start.parse().map_err(drop)? })
    }
}

impl Process {
    /// The process that has this pid now. It may have ended without its parent having waited for it.
    pub fn find(pid: i32) -> Option<Process> {
        Stat::read(pid).map(|stat| Process { pid, start: stat.start })
    }

    /// The calling process.
    pub fn current() -> Process {
        let pid = std::process::id().try_into().expect("pids are positive i32s");
        Process::find(pid).expect("this process is in /proc")
    }

    /// The process that a pid file names, whether or not it still runs. None if the file is absent or damaged.
    pub fn read(path: &Path) -> Option<Process> {
        let (bytes, _) = read_regular(path, FILE_BYTES_MAX).ok()?;
        std::str::from_utf8(&bytes).ok()?.parse().ok()
    }

    /// The process that a pid file names, if it still runs.
    pub fn read_alive(path: &Path) -> Option<Process> {
        Process::read(path).filter(Process::is_alive)
    }

    /// Writes the pid file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        crate::file::write_atomic_unsynced(path, format!("{self}\n").as_bytes())
    }

    /// All processes that run.
    pub fn all() -> BTreeMap<Process, Stat> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let running = |pid| {
            let stat = Stat::read(pid).filter(|stat| !stat.ended)?;
            Some((Process { pid, start: stat.start }, stat))
        };
        pids.filter_map(running).collect()
    }

    /// The running processes of a process group.
    pub fn in_group(group: i32) -> Vec<Process> {
        Process::all()
            .into_iter()
            .filter(|(_, stat)| stat.group == group)
            .map(|(process, _)| process)
            .collect()
    }

    /// The running processes that were started at this tick or later. The threads of the kernel, which have no
    /// process group, are not included.
    pub fn started_since(start: u64) -> Vec<Process> {
        let later = |(_, stat): &(Process, Stat)| stat.start >= start && stat.group != 0;
        Process::all().into_iter().filter(later).map(|(process, _)| process).collect()
    }

    /// The state of this process in `/proc`. None if it has ended.
    pub fn stat(&self) -> Option<Stat> {
        Stat::read(self.pid).filter(|stat| !stat.ended && stat.start == self.start)
    }

    /// Whether the process runs. A stopped one does, a zombie does not.
    pub fn is_alive(&self) -> bool {
        self.stat().is_some()
    }

    /// The program that the process executes, also if its file was replaced or deleted since. None if it is not known: the
    /// process has ended, or is a thread of the kernel.
    pub fn program(&self) -> Option<PathBuf> {
        let path = fs::read_link(format!("/proc/{}/exe", self.pid)).ok()?;
        let bytes = path.as_os_str().as_encoded_bytes();
        let bytes = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
        Some(PathBuf::from(OsStr::from_bytes(bytes)))
    }

    /// The arguments that the process was started with, its own name first. Every user can read them. Empty if it has ended.
    pub fn arguments(&self) -> Vec<OsString> {
        let all = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let each = all.strip_suffix(b"\0").unwrap_or(&all).split(|byte| *byte == 0);
        each.map(|argument| OsStr::from_bytes(argument).to_owned()).collect()
    }

    /// Whether an argument of the process is a path to this file or folder.
    pub fn has_argument(&self, path: &Path) -> bool {
        let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
        let Some(wanted) = identity(path) else { return false };
        let arguments = self.arguments();
        let mut paths = arguments.iter().skip(1).map(Path::new).filter(|path| path.is_absolute());
        paths.any(|path| identity(path) == Some(wanted))
    }

    /// The working folder, also if it was deleted since. None if this user may not read it, or the process has ended.
    pub fn working_folder(&self) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/cwd", self.pid)).ok()
    }

    /// A variable of the environment that the process was started with. None if it is unset or not readable.
    pub fn variable(&self, name: &str) -> Option<Vec<u8>> {
        let all = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        let mut each = all.split(|byte| *byte == 0);
        each.find_map(|entry| Some(entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec()))
    }

    /// Whether the environment is empty: the process was started without one, or it is being replaced by its
    /// program (exec) at this moment.
    pub fn has_no_environment(&self) -> bool {
        fs::read(format!("/proc/{}/environ", self.pid)).is_ok_and(|all| all.is_empty())
    }

    /// Sends a signal, unless the process has ended. A pid of 1 or below is refused with `EPERM`: pid 1 must
    /// not be signalled, pids of 0 and below mean groups, and a pid file that names one of these is damaged.
    pub fn signal(&self, signal: Signal) -> nix::Result<()> {
        if !self.is_alive() {
            return Ok(());
        }
        ignore_ended(self.checked_pid().and_then(|pid| kill(pid, signal)))
    }

    fn checked_pid(&self) -> nix::Result<Pid> {
        if self.pid > 1 { Ok(Pid::from_raw(self.pid)) } else { Err(Errno::EPERM) }
    }
}

/// A process that has ended in the meantime needs no signal: this is not an error.
fn ignore_ended(result: nix::Result<()>) -> nix::Result<()> {
    if result == Err(Errno::ESRCH) { Ok(()) } else { result }
}

impl Stat {
    fn read(pid: i32) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name, in parentheses, may itself contain spaces and parentheses: fields are counted after the last one.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // proc(5) numbers the fields from 1; field 3, the state, is the first of these.
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Stat {
            ended: matches!(field(3)?, "Z" | "X"),
            parent: field(4)?.parse().ok()?,
            group: field(5)?.parse().ok()?,
            session: field(6)?.parse().ok()?,
            start: field(22)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_past_any_name() {
        let line = "42 (a) b (c) S 7 42 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 1";
        let stat = Stat { ended: false, parent: 7, group: 42, session: 40, start: 987_654 };
        assert_eq!(Stat::parse(line), Some(stat));
        assert_eq!(Stat::parse("42 (x) Z"), None);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let current = Process::current();
        assert!(current.is_alive() && Process::all().contains_key(&current));
        assert!(!Process { start: current.start + 1, ..current }.is_alive());
    }

    #[test]
    fn a_pid_file_names_the_process_that_wrote_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.pid");
        assert_eq!(Process::read(&path), None);
        Process::current().write(&path).expect("written");
        assert_eq!(Process::read_alive(&path), Some(Process::current()));
    }

    #[test]
    fn process_1_is_never_signalled() {
        let first = Process::find(1).expect("the first process runs");
        assert_eq!(first.signal(Signal::SIGKILL), Err(Errno::EPERM));
    }
}
