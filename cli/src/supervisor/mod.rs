//! What runs behind `pintle up`: one detached process for a data folder that starts the controller and a machine
//! agent for each machine, and starts again what dies. It is the `local` provider: a machine is a folder and a
//! process (design 16). It decides nothing about units: those are the machine agents'.
//!
//! Reading order: `lock` (one for a folder), `daemon` (a child that is kept running), `machines` with `provisioner`
//! (which machines there should be), `agent_file` (how an agent knows its controller), `stop` (what `down` stops), `process`.

pub mod agent_file;
pub mod daemon;
pub mod lock;
pub mod machines;
pub mod network;
pub mod process;
pub mod provider;
pub mod provisioner;
pub mod settings;
pub mod stop;
pub mod tools;
