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

/// The one program behind every hook tool's name, beside this one.
pub fn hook_client() -> anyhow::Result<PathBuf> {
    let client = program().with_file_name("pintle-hook");
    if !client.is_file() {
        anyhow::bail!("{} is missing: it belongs beside pintle-agent", client.display());
    }
    Ok(client)
}

/// What /proc says of a pid.
struct Stat {
    state: char,
    group: i32,
    start: u64,
}

impl Stat {
    /// None when there is no such process.
    fn of(pid: i32) -> Option<Stat> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // the name, in parentheses, may hold anything
        let mut fields = stat[stat.rfind(')')? + 2..].split(' ');
        let state = fields.next()?.chars().next()?;
        let group = fields.nth(1)?.parse().ok()?;
        Some(Stat { state, group, start: fields.nth(16)?.parse().ok()? })
    }

    /// A zombie is over.
    fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

impl Process {
    /// The process of this pid now.
    pub fn of(pid: i32) -> Option<Process> {
        Stat::of(pid).map(|stat| Process { pid, start: stat.start })
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

    /// The living processes of a process group.
    pub fn in_group(group: i32) -> Vec<Process> {
        Process::living(|stat| stat.group == group)
    }

    /// The living processes that began at this tick or later. The kernel's own, which are of no group, are none.
    pub fn since(start: u64) -> Vec<Process> {
        Process::living(|stat| stat.start >= start && stat.group != 0)
    }

    fn living(wanted: impl Fn(&Stat) -> bool) -> Vec<Process> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let one = |pid| {
            let stat = Stat::of(pid).filter(|stat| wanted(stat) && stat.is_alive())?;
            Some(Process { pid, start: stat.start })
        };
        pids.filter_map(one).collect()
    }

    /// Runs or could run again.
    pub fn is_alive(&self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.start == self.start && stat.is_alive())
    }

    /// A variable of the environment it was started with; none when it has none, or is not ours to read.
    pub fn variable(&self, name: &str) -> Option<Vec<u8>> {
        let all = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        let mut each = all.split(|byte| *byte == 0);
        each.find_map(|one| Some(one.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec()))
    }

    /// Its environment is empty: it was given none, or is just being replaced by its program.
    pub fn shows_no_environment(&self) -> bool {
        fs::read(format!("/proc/{}/environ", self.pid)).is_ok_and(|all| all.is_empty())
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
