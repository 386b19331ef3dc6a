//! The health of a unit agent, as its machine agent observes it: how its process ended, what prevents it from
//! continuing, and which damaged files of the unit were set aside.
//!
//! These are facts without English: `api::text::fault` prints them, with the setting or the change that helps. A
//! machine agent reports them to the controller, which explains and shows them (`pintle why`, `pintle status`);
//! `pintle-agent why` observes them itself.

use crate::terms::run_lock::RunLock;
use serde::{Deserialize, Serialize};

/// The most characters of a log line in a report.
const LINE_CHARS_MAX: usize = 300;
/// The most files that a report names as set aside.
const SET_ASIDE_MAX: usize = 8;

/// A limit of the host, or of the process, that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The open files of the process (EMFILE).
    Descriptors,
    /// The open files of the host (ENFILE).
    HostDescriptors,
    /// The processes of the user, of the service or of the host (EAGAIN at a start).
    Processes,
    /// The inotify instances or watches of the user. Files are polled instead.
    Inotify,
    /// The space of the file system (ENOSPC).
    DiskSpace,
    /// The inodes of the file system.
    DiskFiles,
    /// The user's quota of the file system (EDQUOT).
    DiskQuota,
    /// The size of one file of the process (EFBIG).
    FileSize,
    /// The memory of the host or of the service (ENOMEM).
    Memory,
    /// The local ports for outgoing connections (EADDRNOTAVAIL).
    Ports,
}

/// What prevents a unit agent from continuing, until a person removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A limit is reached.
    Limit(Limit),
    /// The disk returns errors.
    Disk,
    /// Another version of Pintle wrote the unit's folder.
    FolderFormat,
    /// The folder of the tool socket belongs to another user.
    SocketFolder,
    /// The folder holds an older state of the unit than the controller has recorded: it is a copy, or an older state was
    /// put back into it.
    OlderState,
    /// Storage of the unit could not be provided again after a boot, so that its hooks would find it empty. Its agent is not
    /// started.
    UnrestoredStorage,
    /// The user of the agent may not write in the unit's folder: its permissions or attributes, or a mount that is read-only,
    /// do not allow it.
    UnwritableFolder,
}

impl Fault {
    /// All faults.
    pub const ALL: &'static [Fault] = &[
        Fault::Limit(Limit::Descriptors),
        Fault::Limit(Limit::HostDescriptors),
        Fault::Limit(Limit::Processes),
        Fault::Limit(Limit::Inotify),
        Fault::Limit(Limit::DiskSpace),
        Fault::Limit(Limit::DiskFiles),
        Fault::Limit(Limit::DiskQuota),
        Fault::Limit(Limit::FileSize),
        Fault::Limit(Limit::Memory),
        Fault::Limit(Limit::Ports),
        Fault::Disk,
        Fault::FolderFormat,
        Fault::SocketFolder,
        Fault::OlderState,
        Fault::UnrestoredStorage,
        Fault::UnwritableFolder,
    ];
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ProcessEnd {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// It could not be started.
    NotStarted,
    /// It ended without a parent that could observe how.
    Unobserved,
}

/// One or more ends of a unit agent's process, without a longer run between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitAgentExit {
    /// How it ended the last time.
    pub end: ProcessEnd,
    /// What prevents it from continuing, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// The last error in its log, or else the last line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The time of the first end, in milliseconds of the wall clock of its machine.
    pub since_ms: i64,
    /// The time of the last end.
    pub at_ms: i64,
    /// The number of ends.
    pub count: u32,
}

/// One or more ends of a machine agent's process, without a longer run between them, as the supervisor behind `pintle up`
/// observes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineAgentExits {
    /// How it ended the last time.
    pub end: ProcessEnd,
    /// The last error that it has logged, or why it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The number of ends.
    pub count: u32,
}

impl MachineAgentExits {
    /// The same within its bounds and without control characters: the error is a line of a log.
    #[must_use]
    pub fn bounded(self) -> MachineAgentExits {
        MachineAgentExits { last_error: self.last_error.as_deref().map(bounded_line), ..self }
    }
}

/// What a machine agent observes of a unit agent. The default describes a unit agent without a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnitHealth {
    /// How its process ended; none if it has run for a longer time since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<UnitAgentExit>,
    /// What the unit's folder shows, whether or not the process runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// The damaged files of the unit's stored state that were set aside, and that nobody has deleted since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<String>,
    /// The processes that hold the hook locks and are none of Pintle's.
    #[serde(default, skip_serializing_if = "LockHolders::is_empty")]
    pub lock_holders: LockHolders,
}

/// The processes that hold the two hook locks under which a unit can run its hooks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockHolders {
    /// That of the lock of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<LockHolder>,
    /// That of the lock of the unit, which its hooks take with `parallel=true`, and its parallel actions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<LockHolder>,
}

impl LockHolders {
    /// Whether no process holds a lock.
    fn is_empty(&self) -> bool {
        *self == LockHolders::default()
    }

    /// The process that holds this lock; none for that of an execution group, which is not observed.
    pub fn holder(self, lock: &RunLock) -> Option<LockHolder> {
        match lock {
            RunLock::Machine => self.machine,
            RunLock::Unit => self.unit,
            RunLock::Group(_) => None,
        }
    }
}

/// A process on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockHolder {
    /// Its process id.
    pub pid: u32,
    /// The path of its program; empty if it is not known.
    pub program: String,
}

impl UnitHealth {
    /// What prevents the agent from continuing.
    pub fn fault(&self) -> Option<Fault> {
        self.fault.or_else(|| self.exit.as_ref()?.fault)
    }

    /// Whether the agent needs attention. A process that holds a hook lock is none of the agent's problems.
    pub fn has_problem(&self) -> bool {
        let UnitHealth { exit, fault, set_aside, lock_holders: _ } = self;
        exit.is_some() || fault.is_some() || !set_aside.is_empty()
    }

    /// The same report within its bounds and without control characters, because the reporter is not trusted.
    #[must_use]
    pub fn bounded(mut self) -> UnitHealth {
        self.set_aside.truncate(SET_ASIDE_MAX);
        self.set_aside.iter_mut().for_each(|name| *name = bounded_line(name));
        if let Some(exit) = &mut self.exit {
            exit.last_error = exit.last_error.as_deref().map(bounded_line);
        }
        for holder in [&mut self.lock_holders.machine, &mut self.lock_holders.unit].into_iter().flatten() {
            holder.program = bounded_line(&holder.program);
        }
        self
    }
}

/// A line with blanks instead of control characters, and of bounded length.
pub fn bounded_line(line: &str) -> String {
    line.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(LINE_CHARS_MAX).collect()
}
