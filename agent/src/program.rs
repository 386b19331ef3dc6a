//! Where the installed programs are: `pintle-agent`, which starts itself again as a shim or as a unit agent, and
//! `pintle-hook`.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Stores this program's path before an upgrade renames a new program over it: what is started from then on is the
/// new program.
pub fn remember() {
    path();
}

/// This program's path, to start it again as a shim or an agent.
pub fn path() -> &'static Path {
    PROGRAM.get_or_init(|| std::env::current_exe().expect("a process knows its program"))
}

/// The program behind every hook tool's name. It is installed in the folder of this program.
pub fn hook_client() -> anyhow::Result<PathBuf> {
    let client = path().with_file_name("pintle-hook");
    if !client.is_file() {
        anyhow::bail!("{} is missing: it belongs beside pintle-agent", client.display());
    }
    Ok(client)
}
