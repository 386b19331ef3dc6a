//! The names in the folder of a machine that more than one program uses: the agents write what they name, and the
//! supervisor behind `up` stops processes by them and removes secrets from a copy of a data folder.
//!
//! The names that only the agents use are constants beside the code that writes the files.

/// The folder of a machine that is not a folder of another host: a container or a manually provisioned host.
pub const DATA_DIR: &str = "/var/lib/pintle";
/// In a data folder of `pintle up`: the folders of its machines, which are named by the uuids of the machines.
pub const MACHINES_DIR: &str = "machines";
/// The script that runs `pintle-agent`, wherever it is installed on the machine.
pub const AGENT_SCRIPT: &str = "tools/pintle-agent";
/// The folder of the folders of the units, which are named by the tags of the units.
pub const AGENTS_DIR: &str = "agents";
/// The folder of quarantined units: the controller has no record of them, and another unit has their name. No
/// agent runs for them.
pub const QUARANTINE_DIR: &str = "quarantine";
/// The folder of the storage of a machine, with a folder for each instance.
pub const STORAGE_DIR: &str = "storage";
/// In the folder of an instance of storage: the file of a block device.
pub const DEVICE_FILE: &str = "device.img";
/// The pid file of the machine agent.
pub const MACHINE_PID: &str = "machine.pid";
/// The file that the machine agent locks while it runs.
pub const MACHINE_LOCK: &str = "machine.lock";
/// The log of the machine agent of a machine that is a folder of this host.
pub const MACHINE_LOG: &str = "machine.log";
/// The pid file of the process of a container.
pub const CONTAINER_PID: &str = "nspawn.pid";
/// The log of the console of a container.
pub const CONSOLE_LOG: &str = "console.log";
/// In the folder of a unit: the pid file of its agent.
pub const AGENT_PID: &str = "agent.pid";
/// In the folder of a unit: the file that its agent locks while it runs.
pub const AGENT_LOCK: &str = "agent.lock";
/// In the folder of a unit: the file that a finished unit agent writes: the agent is not started again.
pub const FINISHED: &str = "finished";
/// In the folder of a unit: the file that marks a unit which is being recalled.
pub const RECALLING: &str = "recalling";
/// In the folder of a unit: the folders of its runs.
pub const RUNS_DIR: &str = "hooks";
/// In the folder of a run: the pid file of its shim. The shim stands alone and has a constant of its own, which a test
/// compares with this one.
pub const SHIM_PID: &str = "shim.pid";
/// In the folder of a unit: the folder of its tool socket, or a link to it.
pub const SOCKET_DIR: &str = "run";
/// In the folder of a unit: stores that the controller has accepted the token of the unit.
pub const TOKEN_ACCEPTED: &str = "token-set";
