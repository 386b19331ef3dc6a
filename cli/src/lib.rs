//! The command-line client `pintle`: Juju's commands and flags, plus `up`, `down` and `why`.
//!
//! The client accesses the controller through its HTTPS API, and the files of its data folder; nothing else
//! (design 16). It never reads the controller's store.
//!
//! Reading order:
//! * the command line: `arguments`, `completion` (what a shell offers), `command_error`;
//! * a command: `data_dir`, `session` (controller and model of a command), `model_notes`, `commands` (one file per command or
//!   noun), `charm_search`, `bundle`, `query` (of `wait-for`), `machine_access` with `local_paths` and `running_hook`
//!   (programs in a machine), `development` (what `dev` uses);
//! * output: `output`, `render` (tables, JSON, YAML), `command_flags` and `needed_flags` (the commands of hints), `times`, `progress`,
//!   `terminal_escape`, `terminal_width`;
//! * the processes that `up` starts and `down` stops: `supervisor`.

pub mod arguments;
pub mod bundle;
pub mod charm_search;
pub mod command_error;
pub mod command_flags;
pub mod commands;
pub mod completion;
pub mod data_dir;
pub mod development;
mod flag_forms;
mod local_paths;
pub mod machine_access;
pub mod model_notes;
pub mod needed_flags;
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
