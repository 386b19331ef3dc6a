//! The person's command: Juju's verbs and flags, plus `up`, `down` and `why`. It sees the controller's HTTPS API and
//! the files of its data folder, nothing else (design 16).
//!
//! Reading order: `arguments` (the verbs), `session` (whom a command talks to), `commands` (one file a verb),
//! `render` (tables, JSON, YAML), `supervisor` (what `up` starts and `down` stops).

pub mod arguments;
pub mod command_error;
pub mod commands;
pub mod data_dir;
pub mod last_write;
pub mod output;
pub mod render;
pub mod session;
pub mod supervisor;
pub mod terminal;
pub mod times;
