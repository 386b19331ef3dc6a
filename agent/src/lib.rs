//! What is done on a machine: the unit agent and the machine agent. This crate never decides what is next; it asks
//! `state` and does it.
//!
//! Reading order: `ports` (all the loops ask of the world), `uniter` (the unit loop), `machiner` (the machine loop);
//! then the world: `journal`, `view_cache`, `folder`, `file_watch` (local files), `hook_process`, `shim`, `tool_socket` (hooks), `clock`,
//! `tended`, `deployer`, `service` (who keeps agents running), `sd_notify`, `enrolment` and `retirement` (begin and end of a machine), `report` (for people).

pub mod clock;
pub mod config;
pub mod deployer;
pub mod enrolment;
pub mod file_watch;
pub mod folder;
pub mod hook_process;
pub mod inspect;
pub mod journal;
pub mod machine_agent;
pub mod outage;
pub mod ports;
pub mod program;
pub mod reboot;
pub mod sd_notify;
pub mod service;
pub mod shim;
pub mod tool_calls;
pub mod tool_socket;
pub mod uninstall;
pub mod unit_agent;
pub mod unit_supervisor;
pub mod view_cache;
