//! The agents of a machine: the unit agent, which runs one unit's hooks, and the machine agent, which deploys
//! units.
//!
//! The crate performs decisions and never makes them: `state::unit::resolve::next` and
//! `state::machine::plan::plan` decide, and the loops here execute. The loops reach the host only through
//! `ports` and through the requests of `api`, so that the simulator can run them. The
//! queue of juju-exec commands (`requested_commands`) is an exception: it is empty in the simulator.
//!
//! Reading order:
//! * the program: `arguments`, `installed_programs`, `exit_code`;
//! * the interface to the host: `ports`;
//! * the loops: `unit_agent`, `machine_agent`, and their processes: `unit_program`, `machine_program`;
//! * local files: `folder`, `juju_paths`, `folder_port`, `journal`, `view_cache`, `config`, `file_watch`, `clock`,
//!   `blocking`;
//! * hooks: `hook_process`, `hook_tools`, `socket_dir`, `tool_socket`, `hook_session`;
//! * storage of a machine: `storage_pools`, `provided_storage`;
//! * commands beside the hooks: `juju_exec`, `requested_commands`;
//! * how unit agents are kept running: `unit_supervisor`, `deployer`, `service`, `sd_notify`, `reboot`,
//!   `reboot_request`;
//! * the start and the end of a machine: `enrolment`, `uninstall`;
//! * output for the operator: `inspect`, `follow_runs`, `recorded_runs`, `observation`, `disk_usage`, `fault`, `outage`.

#[cfg(test)]
#[path = "../../tests/support/src/skipped.rs"]
mod skipped;

pub mod arguments;
mod authorized_keys;
mod blocking;
pub mod clock;
pub mod config;
mod deletions;
pub mod deployer;
mod disk_usage;
pub mod enrolment;
mod exit_code;
pub mod fault;
pub mod file_watch;
pub mod folder;
pub mod folder_port;
pub mod follow_runs;
pub mod hook_process;
pub mod hook_session;
mod hook_tools;
pub mod inspect;
pub mod installed_programs;
pub mod journal;
pub mod juju_exec;
mod juju_paths;
pub mod machine_agent;
pub mod machine_program;
pub mod network_device;
pub mod observation;
pub mod outage;
pub mod ports;
mod provided_storage;
pub mod reboot;
pub mod reboot_request;
pub mod recorded_runs;
pub mod requested_commands;
mod run_lock_files;
pub mod sd_notify;
pub mod service;
pub mod socket_dir;
pub mod storage_pools;
pub mod tool_socket;
pub mod uninstall;
pub mod unit_agent;
pub mod unit_program;
pub mod unit_supervisor;
pub mod unrestored_storage;
pub mod view_cache;
#[cfg(test)]
mod without_waiting;
