//! The paths of the installed programs: `pintle-agent`, which starts itself as a unit agent, and `pintle-hook`, and
//! the PATH of hooks.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The PATH of a hook after the folder of the tools: that of jujud as a service of Ubuntu. It does not depend on the
/// shell that started Pintle, so that a charm finds the same programs everywhere.
pub const HOOK_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin";

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Determines this program's path at its start. An upgrade renames a new program over this path, so that
/// programs started afterwards are the new one.
pub fn resolve_agent_program() {
    agent_program();
}

/// This program's path, to start it again as an agent.
pub fn agent_program() -> &'static Path {
    PROGRAM.get_or_init(|| std::env::current_exe().expect("the path of the program is available"))
}

/// The name of the agents' program.
pub const AGENT_PROGRAM: &str = "pintle-agent";

/// The name of the program behind every hook tool and the shim.
pub const HOOK_PROGRAM: &str = "pintle-hook";

/// The path of `pintle-hook`, the program behind every hook tool and the shim, which is installed beside this program.
/// It may be missing.
pub fn hook_program() -> PathBuf {
    agent_program().with_file_name(HOOK_PROGRAM)
}

/// As [`hook_program`].
///
/// # Errors
/// If it is missing.
pub fn require_hook_program() -> anyhow::Result<PathBuf> {
    let program = hook_program();
    if !program.is_file() {
        anyhow::bail!(
            "cannot start: {} is missing\nhint: install pintle-hook beside pintle-agent",
            program.display()
        );
    }
    Ok(program)
}
