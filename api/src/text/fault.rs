//! The English of the health of a unit agent: how it ended, and for each fault what is wrong and what helps, with the
//! setting to change.
//!
//! Called for causes, for the messages of statuses, and for the logs of the agents.

use state::terms::health::{Fault, Limit, ProcessEnd};
use state::terms::names::UnitName;

/// Why a process or a thread could not be started, with the setting to change if the limit of processes is reached.
pub fn not_started(error: &std::io::Error) -> String {
    // only at a start does EAGAIN report a limit
    match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            format!("{error}; raise {}", setting(Limit::Processes).unwrap_or_default())
        }
        _ => error.to_string(),
    }
}

/// What is wrong: `the disk of its folder is full`.
pub fn state(fault: Fault) -> &'static str {
    match fault {
        Fault::Limit(Limit::Descriptors) => "the limit of open files of a process is reached",
        Fault::Limit(Limit::HostDescriptors) => "the limit of open files of the host is reached",
        Fault::Limit(Limit::Processes) => "the limit of processes is reached",
        Fault::Limit(Limit::Inotify) => "the limit of inotify instances or watches is reached",
        Fault::Limit(Limit::DiskSpace) => "the disk of its folder is full",
        Fault::Limit(Limit::DiskFiles) => "the file system of its folder has no free inodes",
        Fault::Limit(Limit::DiskQuota) => "the disk quota of its user is used up",
        Fault::Limit(Limit::FileSize) => "the limit of the size of a file is reached",
        Fault::Limit(Limit::Memory) => "no memory is left",
        Fault::Limit(Limit::Ports) => "no local port is left for a connection",
        Fault::Disk => "the disk of its folder returns errors",
        Fault::FolderFormat => "another version of Pintle wrote its folder",
        Fault::SocketFolder => "the folder of its tool socket belongs to another user",
        Fault::OlderState => "its folder holds an older state than the controller has recorded",
        Fault::UnrestoredStorage => "its storage cannot be provided again after a boot",
        Fault::UnwritableFolder => "its agent may not write in its folder",
    }
}

/// The duty as the text after `waits for a user to`.
pub(super) fn duty(fault: Fault) -> String {
    let verb = match fault {
        Fault::Limit(Limit::DiskSpace | Limit::DiskFiles | Limit::DiskQuota) => "make room",
        Fault::Limit(_) => "raise a limit",
        Fault::Disk => "repair the disk",
        Fault::FolderFormat => "change the version of pintle-agent",
        Fault::SocketFolder => "remove that folder",
        Fault::OlderState => "put the newest state back",
        Fault::UnrestoredStorage => "repair its storage",
        Fault::UnwritableFolder => "make its folder writable",
    };
    format!("{verb}: {}", state(fault))
}

/// The setting that raises the limit; none if no setting controls it.
pub fn setting(limit: Limit) -> Option<&'static str> {
    match limit {
        Limit::Descriptors => Some(
            "LimitNOFILE= of pintle-machine.service and pintle-unit@.service, or ulimit -n of the shell that runs pintle up",
        ),
        Limit::HostDescriptors => Some("fs.file-max with sysctl"),
        Limit::Processes => Some(
            "TasksMax= and LimitNPROC= of the service, ulimit -u of the shell that runs pintle up, or kernel.pid_max with sysctl",
        ),
        Limit::FileSize => Some("LimitFSIZE= of the service, or ulimit -f of the shell that runs pintle up"),
        Limit::Inotify => Some("fs.inotify.max_user_instances and fs.inotify.max_user_watches with sysctl"),
        Limit::Memory => Some("MemoryMax= of the service, or ulimit -v of the shell that runs pintle up"),
        Limit::Ports => Some("net.ipv4.ip_local_port_range with sysctl"),
        Limit::DiskSpace | Limit::DiskFiles | Limit::DiskQuota => None,
    }
}

/// The change that ends a fault of a unit. Afterwards the unit continues without further intervention.
pub(super) fn remedy(fault: Fault, unit: &UnitName, machine: Option<&str>) -> String {
    let folder = folder(unit, machine);
    let change = match fault {
        Fault::Limit(Limit::DiskSpace) => format!("free disk space in {folder} (df -h)"),
        Fault::Limit(Limit::DiskFiles) => format!("delete files on the file system of {folder} (df -i)"),
        Fault::Limit(Limit::DiskQuota) => {
            format!("raise the quota, or delete files of the user in {folder} (quota)")
        }
        Fault::Limit(Limit::Memory) => {
            format!(
                "free memory, or raise {}, on the host of {folder}",
                setting(Limit::Memory).unwrap_or_default()
            )
        }
        Fault::Limit(limit) => {
            format!("raise {}, on the host of {folder}", setting(limit).unwrap_or_default())
        }
        Fault::Disk => {
            format!("read the log of the kernel (dmesg) for errors of the disk of {folder}, and replace it")
        }
        Fault::FolderFormat => {
            format!(
                "install the version of pintle-agent that wrote state.yaml in {folder}; nothing was changed in it"
            )
        }
        Fault::OlderState => {
            return format!(
                "if {folder} is a copy of the unit's folder, delete it; otherwise put its newest journal.yaml and \
                 state.yaml back, or move both out of it, in this order: the unit then goes on with what the controller has recorded"
            );
        }
        Fault::UnrestoredStorage => {
            format!("repair what the last error names, on the host of {folder}")
        }
        Fault::UnwritableFolder => {
            format!(
                "let the user of pintle-agent write in {folder}: its owner and mode (ls -ld), its attributes (lsattr -d), \
                 or a mount that is read-only (findmnt -T)"
            )
        }
        Fault::SocketFolder => {
            format!("find what belongs to another user in {folder} (ls -ld run) and remove it")
        }
    };
    format!("{change}; the unit then goes on by itself")
}

/// `agents/unit-web-0 on machine 0`, without the machine if it is not known.
pub(super) fn folder(unit: &UnitName, machine: Option<&str>) -> String {
    match machine {
        Some(machine) => format!("agents/{} of machine {machine}", unit.tag()),
        None => format!("agents/{}", unit.tag()),
    }
}

/// How the agent ended: `ended 8 times, the last time with exit code 101`.
pub fn end(last: &ProcessEnd, count: u32) -> String {
    let last = process_end(last);
    match count {
        1 => format!("ended {last}"),
        many => format!("ended {many} times, the last time {last}"),
    }
}

/// How a process ended, after "it ended": `with exit code 101`.
pub fn process_end(end: &ProcessEnd) -> String {
    match end {
        ProcessEnd::Code(code) => format!("with exit code {code}"),
        ProcessEnd::Signal(signal) => format!("by signal {signal}"),
        ProcessEnd::NotStarted => "because it could not be started".to_owned(),
        ProcessEnd::Unobserved => "for a reason that nobody observed".to_owned(),
    }
}
