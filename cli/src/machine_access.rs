//! How a program is run in a machine from this host, for `ssh`, `scp` and `debug-hooks`.
//!
//! A local machine is a folder of this host: the program runs as the same user in that folder. The namespaces of a
//! container are entered, which needs root, as its provider does. A manually provisioned machine is reached through its
//! own ssh server.

use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::local_paths;
use crate::supervisor::provider::Instance;
use api::machine_folder::CONTAINER_PID;
use api::{Status, UnitChoice, UnitStatus};
use clap::Args;
use host::process::Process;
use host::shell;
use nix::unistd::{User, geteuid};
use state::terms::names::UnitName;
use state::terms::refusal::EntityKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment of a program in a container, apart from the terminal.
const CONTAINER_ENVIRONMENT: [&str; 4] = [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "USER=root",
    "LANG=C.UTF-8",
];

/// The options of OpenSSH that accept any key of a machine.
const NO_KEY_CHECKS: [&str; 4] = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"];

/// A machine, and how this host reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineAccess {
    /// The folder of a local machine.
    Folder(PathBuf),
    /// The process 1 of a container, by its process id on this host.
    Container(u32),
    /// The address of a manually provisioned machine, with the options of OpenSSH.
    Remote(String, Vec<String>),
}

/// The arguments of every command that reaches a machine.
#[derive(Debug, Args)]
pub struct AccessArgs {
    /// Accept the key of a manually provisioned machine without a check
    #[arg(long)]
    pub no_host_key_checks: bool,
    /// Accepted without effect: the machines are reached directly
    #[arg(long)]
    pub proxy: bool,
    /// Refused: charms have no workload containers here
    #[arg(long, value_name = "CONTAINER")]
    pub container: Option<String>,
}

impl AccessArgs {
    /// The options of OpenSSH.
    ///
    /// # Errors
    /// If a workload container of a Kubernetes charm is named.
    pub fn options(&self) -> Result<Vec<String>, CommandError> {
        if let Some(name) = self.container.as_deref().filter(|name| *name != "charm") {
            let text = format!("container {name:?} not found: units have no containers here");
            return Err(CommandError::new(text));
        }
        let checks = self.no_host_key_checks.then_some(NO_KEY_CHECKS).into_iter().flatten();
        Ok(checks.map(str::to_owned).collect())
    }
}

/// A target of `ssh` or `scp`: `[user@]TARGET`.
pub struct Target<'a> {
    /// The user to log in as.
    pub user: Option<&'a str>,
    /// A unit (web/0, web/leader), or the name of a machine.
    pub name: &'a str,
}

impl<'a> Target<'a> {
    /// Splits the text of a target.
    pub fn new(text: &'a str) -> Target<'a> {
        match text.split_once('@') {
            Some((user, name)) => Target { user: Some(user), name },
            None => Target { user: None, name: text },
        }
    }
}

/// The name of the machine of a target.
fn machine_of(target: &str, status: &Status) -> Result<String, CommandError> {
    if status.machines.contains_key(target) {
        return Ok(target.to_owned());
    }
    let unit: UnitChoice = match target.parse() {
        Ok(unit) if target.contains('/') => unit,
        _ => return Err(CommandError::not_found(EntityKind::Machine, target)),
    };
    Ok(find_unit(&unit, status)?.1.machine.clone())
}

/// Finds a unit by its name, or the leader of an application.
///
/// # Errors
/// If there is no such application or unit.
pub fn find_unit<'a>(
    choice: &UnitChoice,
    status: &'a Status,
) -> Result<(&'a UnitName, &'a UnitStatus), CommandError> {
    let application = status.applications.get(choice.application());
    let application =
        application.ok_or_else(|| CommandError::not_found(EntityKind::Application, choice.application()))?;
    let found = application.units.iter().find(|(name, status)| match choice {
        UnitChoice::Name(wanted) => *name == wanted,
        UnitChoice::LeaderOf(_) => status.leader,
    });
    found
        .map(|(name, unit)| (name, &**unit))
        .ok_or_else(|| CommandError::not_found(EntityKind::Unit, choice.to_string()))
}

impl MachineAccess {
    /// Finds the machine of a target, and how this host reaches it. `options` are those of OpenSSH.
    ///
    /// # Errors
    /// If there is no such target, its machine does not run, or another user is given for a machine that is a folder of
    /// this host.
    pub fn find(
        target: &Target<'_>,
        options: &[String],
        status: &Status,
        dir: &DataDir,
    ) -> Result<MachineAccess, CommandError> {
        let name = machine_of(target.name, status)?;
        let machine =
            status.machines.get(&name).ok_or_else(|| CommandError::not_found(EntityKind::Machine, &name))?;
        let not_running = || {
            CommandError::new(format!("cannot reach machine {name}: it does not run"))
                .hint(format!("see: pintle why {name}"))
        };
        let folder = dir.machines().join(machine.uuid.to_string());
        if !folder.is_dir() {
            let is_here = Process::read_alive(&dir.controller_pid()).is_some();
            let is_loopback = machine.address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
            if machine.address.is_empty() || is_here && is_loopback {
                return Err(not_running());
            }
            // this host's own loopback address would lead to this host
            if is_loopback {
                let text = format!("cannot reach machine {name}: it is part of the controller's host");
                return Err(CommandError::new(text).hint("run the command there, or use: pintle exec"));
            }
            let user = target.user.map_or(String::new(), |user| format!("{user}@"));
            return Ok(MachineAccess::Remote(format!("{user}{}", machine.address), options.to_vec()));
        }
        let instance = Instance::read(&folder)
            .map_err(|error| CommandError::new(format!("cannot read {}: {error}", folder.display())))?;
        // the folder of a container that is being created has no process yet
        if instance.ok_or_else(not_running)?.root.is_none() {
            return match target.user.filter(|user| !is_own_user(user)) {
                Some(user) => Err(CommandError::usage(format!(
                    "cannot log in as {user}: machine {name} is a folder of this host, whose programs run as you"
                ))),
                None => Ok(MachineAccess::Folder(folder)),
            };
        }
        let nspawn = Process::read_alive(&folder.join(CONTAINER_PID));
        let container =
            nspawn.and_then(|process| first_child(process.pid)).filter(|pid| is_in_own_namespace(*pid));
        container.map(MachineAccess::Container).ok_or_else(not_running)
    }

    /// The command that runs a program in the machine.
    pub fn command(&self, words: &[String]) -> Command {
        match self {
            MachineAccess::Folder(folder) => {
                let mut command = Command::new(&words[0]);
                command.args(&words[1..]).current_dir(folder);
                command.env("PATH", local_paths::search_path(folder, std::env::var_os("PATH")));
                command
            }
            MachineAccess::Container(pid) => {
                let terminal = std::env::var("TERM").map(|term| format!("TERM={term}"));
                let mut command = Command::new("nsenter");
                command
                    .args([
                        "-t",
                        &pid.to_string(),
                        "-m",
                        "-u",
                        "-i",
                        "-n",
                        "-p",
                        "--",
                        "env",
                        "-i",
                        "-C",
                        "/root",
                    ])
                    .args(CONTAINER_ENVIRONMENT)
                    .args(terminal.ok())
                    .args(words);
                command
            }
            MachineAccess::Remote(address, options) => {
                let mut command = Command::new("ssh");
                command.args(options).arg(address);
                // one word is a line for the shell of the machine already
                command.arg(shell::line(words));
                command
            }
        }
    }

    /// The command that runs a line in a shell of the machine, or a shell for a person.
    pub fn shell(&self, user: Option<&str>, line: Option<&str>) -> Command {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match (self, user.filter(|user| *user != "root"), line) {
            (MachineAccess::Remote(address, options), _, line) => {
                let mut command = Command::new("ssh");
                command.args(options).arg(address).args(line);
                command
            }
            (MachineAccess::Container(_), Some(user), Some(line)) => {
                self.command(&words(&["su", "--login", user, "--command", line]))
            }
            (MachineAccess::Container(_), Some(user), None) => self.command(&words(&["su", "--login", user])),
            (MachineAccess::Folder(folder), _, Some(line)) => {
                self.command(&words(&["sh", "-c", &local_paths::line(folder, line)]))
            }
            (_, _, Some(line)) => self.command(&words(&["sh", "-c", line])),
            (MachineAccess::Container(_), None, None) => self.command(&words(&["bash", "--login"])),
            (MachineAccess::Folder(_), _, None) => {
                let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
                self.command(&words(&[&shell]))
            }
        }
    }
}

/// Whether the programs of this user have this name.
fn is_own_user(name: &str) -> bool {
    User::from_uid(geteuid()).is_ok_and(|own| own.is_some_and(|own| own.name == name))
}

/// Whether a process has another id in its own namespace: it is process 1 of a container that has started.
fn is_in_own_namespace(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.split_whitespace().count() > 1)
}

fn first_child(pid: i32) -> Option<u32> {
    let children =
        Path::new("/proc").join(pid.to_string()).join("task").join(pid.to_string()).join("children");
    std::fs::read_to_string(children).ok()?.split_whitespace().next()?.parse().ok()
}
