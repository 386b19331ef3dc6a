//! The command-line client `pintle`: Juju's commands and flags, plus `up`, `down` and `why`.
//!
//! The client accesses the controller through its HTTPS API, and the files of its data folder; nothing else
//! (design 16). It never reads the controller's store.
//!
//! Reading order: `arguments` (command line), `session` (controller and model of a command), `commands` (one file per
//! command), `charm_search` (charm directories), `render` (tables, JSON, YAML), `command_flags` (the
//! commands of hints), `completion` (what a shell offers), `development` (what `dev`
//! uses), `supervisor` (the processes that `up` starts and `down` stops).

pub mod arguments;
pub mod bundle;
pub mod charm_search;
pub mod command_error;
pub mod command_flags;
pub mod commands;
pub mod completion;
pub mod data_dir;
pub mod development;
mod local_paths;
pub mod machine_access;
pub mod model_notes;
pub mod openssh_options;
pub mod output;
pub mod progress;
pub mod query;
pub mod render;
pub mod running_hook;
pub mod session;
pub mod supervisor;
pub mod terminal_escape;
mod terminal_width;
pub mod times;
