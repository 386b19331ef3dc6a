//! Processes named beyond the life of their parent: pid and start time, which no later process shares (security S36).

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

/// One process, in its pid file's form `PID STARTTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    /// Field 22 of `/proc/PID/stat`: clock ticks since boot.
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

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Notes where this program is before anybody replaces it: an upgrade renames a new one over it, and what is started
/// from then on is the new one.
pub fn remember_program() {
    program();
}

/// This program's path, to start it again as a shim or an agent.
pub fn program() -> &'static Path {
    PROGRAM.get_or_init(|| std::env::current_exe().expect("a process knows its program"))
}

/// State and start time of a pid, from /proc; none when there is no such process.
fn stat(pid: i32) -> Option<(char, u64)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // the name, in parentheses, may hold anything
    let mut fields = stat[stat.rfind(')')? + 2..].split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

impl Process {
    /// The process of this pid now.
    pub fn of(pid: i32) -> Option<Process> {
        stat(pid).map(|(_, start)| Process { pid, start })
    }

    pub fn this() -> Process {
        let pid = std::process::id().try_into().expect("pids are positive i32s");
        Process::of(pid).expect("this process is in /proc")
    }

    /// What a pid file names; none when it is absent or not whole.
    pub fn read(path: &Path) -> Option<Process> {
        fs::read_to_string(path).ok()?.parse().ok()
    }

    /// Writes the pid file beside and renames it: never half a file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension("new");
        fs::write(&beside, self.to_string())?;
        fs::rename(beside, path)
    }

    /// Runs or could run again; a zombie is over.
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|(state, start)| start == self.start && state != 'Z' && state != 'X')
    }

    /// Sends a signal, if it is still this process.
    pub fn signal(&self, signal: Signal) {
        if self.is_alive() {
            ignore_gone(kill(Pid::from_raw(self.pid), signal));
        }
    }

    /// Sends a signal to the process group this process leads.
    pub fn signal_group(&self, signal: Signal) {
        ignore_gone(killpg(Pid::from_raw(self.pid), signal));
    }
}

/// A process that ended by itself meanwhile is what was wanted.
fn ignore_gone(result: Result<(), Errno>) {
    match result {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(error) => tracing::warn!("cannot signal: {error}"),
    }
}
