//! Which running programs were replaced since they were started, so that `up` can say that they are older than those of
//! the command.
//!
//! Contents are compared and not versions: each build of a development version has the same version. `/proc/PID/exe` is
//! the file that runs, also if it was deleted. A process or a file that cannot be read is not reported.

use crate::commands::supervise::program;
use crate::data_dir::DataDir;
use crate::supervisor::lock;
use host::digest::sha256_of;
use host::process::Process;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The names of the running programs that differ from those in the folder of this command.
pub fn replaced(dir: &DataDir) -> Vec<&'static str> {
    let running = [
        ("pintle", lock::holder(dir), std::env::current_exe().ok()),
        ("pintle-controller", Process::read_alive(&dir.controller_pid()), program("pintle-controller").ok()),
    ];
    let differs = |process: Option<Process>, installed: Option<PathBuf>| {
        let running = PathBuf::from(format!("/proc/{}/exe", process?.pid));
        is_same(&running, &installed?).ok().map(|is_same| !is_same)
    };
    let replaced =
        running.into_iter().filter(|(_, process, file)| differs(*process, file.clone()) == Some(true));
    replaced.map(|(name, ..)| name).collect()
}

/// Whether two files have the same content.
fn is_same(a: &Path, b: &Path) -> io::Result<bool> {
    let (a, b) = (File::open(a)?, File::open(b)?);
    let (of_a, of_b) = (a.metadata()?, b.metadata()?);
    if (of_a.dev(), of_a.ino()) == (of_b.dev(), of_b.ino()) {
        return Ok(true);
    }
    Ok(of_a.len() == of_b.len() && sha256_of(a)? == sha256_of(b)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_differs_from_the_one_that_runs() {
        let this_program = std::env::current_exe().expect("a process knows its program");
        let running = Path::new("/proc/self/exe");
        let other = tempfile::NamedTempFile::new().expect("a file");
        std::fs::copy(&this_program, other.path()).expect("copied");
        let same = |path: &Path| is_same(running, path).expect("readable");
        assert!(same(&this_program) && same(other.path()), "the content counts");
        std::fs::write(other.path(), "another program").expect("written");
        assert!(!same(other.path()));
    }
}
