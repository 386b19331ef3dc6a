//! The setup of an end-to-end test: a running Pintle whose data is in a temporary folder.
//!
//! Dropping a [`Scene`] stops all programs and then deletes the folder. Each test creates its own.

use crate::host::Host;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A running host, and a folder for the test's own files beside the data folder.
pub struct Scene {
    host: Host,
    // fields are dropped in order: the host stops before its folder is deleted
    dir: TempDir,
}

impl std::ops::Deref for Scene {
    type Target = Host;
    fn deref(&self) -> &Host {
        &self.host
    }
}

impl Scene {
    /// Returns a path beside the data folder, for a file of the test.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("the folder exists as long as the scene").join(name)
    }

    /// Copies a charm, so that the test can modify it.
    pub fn copy_of(&self, charm: &Path, name: &str) -> PathBuf {
        let copy = self.beside(name);
        let copied = Command::new("cp").arg("-r").arg(charm).arg(&copy).status();
        assert!(copied.is_ok_and(|status| status.success()), "cp -r {}", charm.display());
        copy
    }
}

/// Starts Pintle in a new temporary folder.
pub fn scene() -> Scene {
    scene_with(TempDir::with_prefix("pintle-test-").expect("a temporary folder can be created"), &[])
}

/// Starts Pintle in `dir`, with additional environment variables for all of its programs.
pub fn scene_with(dir: TempDir, environment: &[(&str, OsString)]) -> Scene {
    up(dir, environment, false)
}

/// Like [`scene_with`], for a controller that the test kills while commands run: such commands are repeated.
pub fn scene_with_restarting_controller(dir: TempDir, environment: &[(&str, OsString)]) -> Scene {
    up(dir, environment, true)
}

fn up(dir: TempDir, environment: &[(&str, OsString)], controller_crashes: bool) -> Scene {
    let mut host = Host::new(&dir.path().canonicalize().expect("the folder was just created").join("data"));
    host.environment = environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    host.controller_crashes = controller_crashes;
    host.ok(&["up"]);
    Scene { host, dir }
}

/// Returns the path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}

/// Returns the hooks that a unit has run, in order and without arguments: `install`, `config-changed`, ...
pub fn hooks(host: &Host, unit: &str) -> Vec<String> {
    let runs = host.runs(unit).into_iter();
    runs.map(|(_, operation)| operation.split(' ').nth(1).unwrap_or_default().to_owned()).collect()
}
