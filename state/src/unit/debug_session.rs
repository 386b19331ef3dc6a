//! A debug session: a person runs hooks and actions of a unit by hand in a terminal, or watches them run
//! (`debug-hooks` and `debug-code`; spec/clients.md 3.2).
//!
//! The command writes the session into the folder of the unit and removes it when its terminal is closed. The agent's
//! `hook_process` reads it before each run.

use super::hook_context::HookTrigger;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The file in the folder of a unit that contains its debug session.
pub const DEBUG_SESSION_FILE: &str = "debug-session.json";

/// The file in the folder of a run that exists while the run is open in a window of the debug session: the environment of
/// its shell.
pub const DEBUGGED_RUN_FILE: &str = "debug.environment";

/// The debug session of a unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct DebugSession {
    /// The name of the tmux session, and of the socket of its server.
    pub tmux: String,
    /// The names of the hooks and actions that it concerns; empty for all.
    pub names: BTreeSet<String>,
    /// What happens to them.
    pub mode: DebugMode,
}

/// What happens to a hook or action in a debug session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DebugMode {
    /// A shell with its context is opened instead of it. The exit code of the shell is that of the run.
    Shell,
    /// The charm's program runs in the terminal, with this value of `JUJU_DEBUG_AT`.
    Code {
        /// The breakpoints at which the program stops; `all` for each.
        at: String,
    },
}

impl DebugSession {
    /// Whether a run happens in the session. Commands of `exec` and `juju-exec` never do, because no file of the charm
    /// runs.
    pub fn concerns(&self, trigger: &HookTrigger) -> bool {
        let path = trigger.dispatch_path();
        let name = path.as_ref().and_then(|path| path.split_once('/')).map(|(_, name)| name);
        name.is_some_and(|name| self.names.is_empty() || self.names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::hook_name::HookName;

    #[test]
    fn a_session_concerns_the_hooks_that_it_names_or_all() {
        let session = |names: &[&str]| DebugSession {
            tmux: "web-0".to_owned(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            mode: DebugMode::Shell,
        };
        let install = HookTrigger::Hook(HookName::Install);
        assert!(session(&[]).concerns(&install));
        assert!(session(&["install", "start"]).concerns(&install));
        assert!(!session(&["stop"]).concerns(&install));
    }
}
