//! Processes of this host by pid and start time: a pid that was given to another process in the meantime never meets
//! a signal meant for the first.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often it is looked whether a process has gone.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long the kernel may take to end a process that was killed; longer means it hangs in a system call.
const KILL_TAKES: Duration = Duration::from_secs(5);

/// One process for its whole life. Written as `PID STARTTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: i32,
    /// Field 22 of /proc/PID/stat: clock ticks after boot.
    pub started: u64,
}

/// What /proc/PID/stat says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Dead, and only not yet waited for by its parent.
    pub ended: bool,
    pub parent: i32,
    pub group: i32,
    pub session: i32,
    pub started: u64,
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.started)
    }
}

impl Process {
    /// The living process of this pid.
    pub fn of(pid: i32) -> Option<Process> {
        let stat = Stat::of(pid).filter(|stat| !stat.ended)?;
        Some(Process { pid, started: stat.started })
    }

    /// The process a pid file names, if it lives.
    pub fn named_by(file: &Path) -> Option<Process> {
        let text = std::fs::read_to_string(file).ok()?;
        let mut words = text.split_whitespace();
        let process = Process { pid: words.next()?.parse().ok()?, started: words.next()?.parse().ok()? };
        process.is_alive().then_some(process)
    }

    pub fn stat(&self) -> Option<Stat> {
        Stat::of(self.pid).filter(|stat| !stat.ended && stat.started == self.started)
    }

    pub fn is_alive(&self) -> bool {
        self.stat().is_some()
    }

    fn signal(&self, signal: Signal) {
        // 1 is the system's, 0 and below are groups: a pid file that says so is nonsense.
        if self.pid > 1 && self.is_alive() {
            let _ = kill(Pid::from_raw(self.pid), signal); // gone in the meantime: what was wanted
        }
    }
}

impl Stat {
    fn of(pid: i32) -> Option<Stat> {
        Stat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name in brackets may itself hold blanks and brackets: fields are counted after the last one.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        // Field 3, the state, is the first here.
        let number = |field: usize| fields.get(field - 3)?.parse::<i64>().ok();
        let id = |field: usize| i32::try_from(number(field)?).ok();
        Some(Stat {
            ended: matches!(*fields.first()?, "Z" | "X"),
            parent: id(4)?,
            group: id(5)?,
            session: id(6)?,
            started: u64::try_from(number(22)?).ok()?,
        })
    }
}

/// All living processes.
fn all() -> BTreeMap<i32, Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, Stat::of(pid).filter(|stat| !stat.ended)?))).collect()
}

/// The living processes that see this folder of the host as their root, or a root that is laid over it: what is left
/// in a container when the process that made it was killed.
pub fn living_in(folder: &Path) -> Vec<Process> {
    let (root, upper) =
        (format!("{}/root", folder.display()), format!("upperdir={}/upper,", folder.display()));
    let lives_there = |pid: &i32| {
        let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let mut roots = mounts.lines().filter(|line| line.split(' ').nth(4) == Some("/"));
        roots.any(|line| line.contains(&upper) || line.split(' ').nth(3) == Some(&root))
    };
    let living = all().into_iter().filter(|(pid, _)| lives_there(pid));
    living.map(|(pid, stat)| Process { pid, started: stat.started }).collect()
}

/// The direct children of a process.
pub fn children(parent: Process) -> Vec<Process> {
    let living = all();
    let of = |(pid, stat): (&i32, &Stat)| Process { pid: *pid, started: stat.started };
    living.iter().filter(|(_, stat)| stat.parent == parent.pid).map(of).collect()
}

/// A hook shim with all that runs for its hook: what descends from it, and the process group of its child. What the
/// hook moved into a session of its own is the charm's and not among them (design 12).
pub fn hook_of(shim: Process) -> Vec<Process> {
    hook_members(shim.pid, &all()).into_iter().map(|(pid, started)| Process { pid, started }).collect()
}

fn hook_members(shim: i32, living: &BTreeMap<i32, Stat>) -> Vec<(i32, u64)> {
    let Some(own) = living.get(&shim) else {
        return Vec::new();
    };
    let mut sessions = BTreeSet::from([own.session]);
    let mut groups = BTreeSet::new();
    for (pid, child) in living.iter().filter(|(_, stat)| stat.parent == shim) {
        sessions.insert(child.session);
        if child.group == *pid {
            groups.insert(child.group);
        }
    }
    let mut members = BTreeSet::from([shim]);
    loop {
        let more = living.iter().filter(|(pid, stat)| {
            let related = members.contains(&stat.parent) || groups.contains(&stat.group);
            related && sessions.contains(&stat.session) && !members.contains(pid)
        });
        let more: Vec<i32> = more.map(|(pid, _)| *pid).collect();
        if more.is_empty() {
            return members.into_iter().map(|pid| (pid, living[&pid].started)).collect();
        }
        members.extend(more);
    }
}

/// Asks processes to end, and ends those that have not after `grace`. Answers the ones that are still there.
pub async fn stop(processes: &[Process], grace: Duration) -> Vec<Process> {
    processes.iter().for_each(|process| process.signal(Signal::SIGTERM));
    let left = gone_within(processes, grace).await;
    left.iter().for_each(|process| process.signal(Signal::SIGKILL));
    gone_within(&left, KILL_TAKES).await
}

/// Waits for processes to go; answers those that have not.
async fn gone_within(processes: &[Process], bound: Duration) -> Vec<Process> {
    let end = Instant::now() + bound;
    loop {
        let left: Vec<Process> = processes.iter().copied().filter(Process::is_alive).collect();
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_stat_line_is_read_past_any_name() {
        let line = "42 (a) b (c) S 7 42 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 1";
        let stat = Stat { ended: false, parent: 7, group: 42, session: 40, started: 987_654 };
        assert_eq!(Stat::parse(line), Some(stat));
        assert_eq!(Stat::parse("42 (x) Z"), None);
    }

    #[test]
    fn another_start_time_is_another_process() {
        let own = Process::of(std::process::id() as i32).expect("this very process");
        assert!(own.is_alive());
        assert!(!Process { started: own.started + 1, ..own }.is_alive());
    }

    #[test]
    fn a_hook_is_its_shim_child_and_group_but_not_what_left_the_session() {
        let stat = |parent, group, session| Stat { ended: false, parent, group, session, started: 1 };
        let living = BTreeMap::from([
            (10, stat(1, 10, 10)),  // the agent
            (20, stat(10, 10, 10)), // the shim
            (30, stat(20, 30, 10)), // the hook, leads a group
            (31, stat(30, 30, 10)), // its child
            (32, stat(1, 30, 10)),  // of its group, orphaned
            (33, stat(30, 33, 33)), // a daemon the charm started
            (34, stat(33, 33, 33)), // and its child
            (40, stat(10, 10, 10)), // a sibling
        ]);
        let pids: Vec<i32> = hook_members(20, &living).into_iter().map(|(pid, _)| pid).collect();
        assert_eq!(pids, [20, 30, 31, 32]);
        assert!(hook_members(99, &living).is_empty());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn who_does_not_hear_the_first_signal_hears_the_second() {
        let mut deaf = Command::new("sh")
            .args(["-c", "trap '' TERM; echo deaf; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut said = [0; 5];
        std::io::Read::read_exact(deaf.stdout.as_mut().expect("piped"), &mut said).expect("it traps now");
        let process = Process::of(deaf.id() as i32).expect("alive");
        assert_eq!(stop(&[process], Duration::from_millis(100)).await, []);
        assert!(!process.is_alive());
        let status = deaf.wait().expect("its parent");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }
}
