//! Finds the python3 of this host. It installs the packages of charms, and on `local` machines it also runs their hooks.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The python3 of this host.
pub(crate) struct HostPython {
    /// For example `3.11`.
    pub version: String,
    /// The interpreter itself. The program in PATH may be a script of a version manager with side effects: the script
    /// of pyenv writes a folder after each `pip install`, and two installations at the same time fail.
    pub interpreter: PathBuf,
}

/// The python3 in PATH. None if there is none.
pub(crate) fn host_python() -> Option<HostPython> {
    let script = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)";
    let output = Command::new("python3").args(["-I", "-c", script]).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let (version, interpreter) = text.trim_end().split_once('\n')?;
    Some(HostPython { version: version.to_owned(), interpreter: interpreter.into() })
}
