//! The supervisor: the detached process that `pintle up` starts, one per data folder.
//!
//! It starts the controller, restarts it if it exits, and provisions machines through a provider (design 16): `local`
//! (a machine is a folder and a process) or `nspawn` (a machine is a container). It never manages units; the machine
//! agents do.
//!
//! Reading order: `identity` (a copy of a folder is refused) and `renewal` (what a copy must replace), `lock` (one
//! supervisor per folder), `supervised_process` (a process that is restarted), `process_exits` (how it ended),
//! `local_etcd` and `second_controller` (`up --store etcd`), `machines` and `provisioner` (which machines must exist), `reported_exits` (how their agents ended), `provider` (how
//! machines are created), `agent_file` (how an agent connects to its controller), `stop` (what `down` stops),
//! `replaced_programs` (what a running system does not use yet), `settings` (`up.yaml`), `network` (of containers), and
//! `process` and `host_programs` (processes and programs of the host).

pub mod agent_file;
pub mod host_programs;
pub mod identity;
pub mod local_etcd;
pub mod lock;
pub mod machines;
pub mod network;
pub mod process;
pub mod process_exits;
pub mod provider;
pub mod provisioner;
pub mod renewal;
pub mod replaced_programs;
pub mod reported_exits;
pub mod second_controller;
pub mod settings;
pub mod stop;
pub mod supervised_process;
