//! Generates the file `version` of a charm folder that is part of a git work tree, as Juju does when it packs a folder:
//! the output of `git describe --dirty --always`.
//!
//! It is only information for people, so that nothing here is an error: without git, without a commit, in a work tree of
//! another user (which git refuses to read), or if git takes too long, the charm has no such file. Called by `read`.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::park_timeout;
use std::time::{Duration, Instant};

/// How long git may take. A description takes milliseconds, and seconds for the first comparison of a large work tree
/// with its index.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The longest description in bytes: four times a long tag with the number of commits and a digest.
const VERSION_BYTES_MAX: u64 = 256;
/// The variables by which git would describe another work tree, when Pintle is called by a hook of git.
const GIT_VARIABLES: [&str; 4] = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"];

/// The description of the work tree that contains `folder`. None if there is none.
pub(crate) fn describe(folder: &Path) -> Option<String> {
    describe_with(Path::new("git"), folder)
}

fn describe_with(git: &Path, folder: &Path) -> Option<String> {
    let mut command = Command::new(git);
    // the work tree may configure a monitor, which is a program, and another process may use its index
    command.args(["--no-optional-locks", "-c", "core.fsmonitor=false", "describe", "--dirty", "--always"]);
    for name in GIT_VARIABLES {
        command.env_remove(name);
    }
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let end = Instant::now() + GIT_TIMEOUT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => park_timeout(POLL_INTERVAL),
            Ok(None) | Err(_) => {
                child.kill().ok();
                child.wait().ok();
                return None;
            }
        }
    };
    let mut text = String::new();
    child.stdout.take()?.take(VERSION_BYTES_MAX).read_to_string(&mut text).ok()?;
    let text = text.trim_end();
    (status.success() && !text.is_empty() && !text.contains('\n')).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn without_git_or_with_one_that_fails_there_is_no_version() {
        let dir = tempfile::tempdir().unwrap();
        let git = dir.path().join("git");
        assert_eq!(describe_with(&git, dir.path()), None, "there is no such program");
        for (script, expected) in
            [("echo v1; exit 1", None), ("echo", None), ("echo a; echo b", None), ("echo v1", Some("v1"))]
        {
            fs::write(&git, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
            assert_eq!(describe_with(&git, dir.path()).as_deref(), expected, "{script}");
        }
    }
}
