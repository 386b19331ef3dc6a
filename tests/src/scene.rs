//! What end-to-end tests begin with: a whole Pintle in a folder that goes with the test.

use crate::host::Host;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A host of its own, and room for the test's own files beside its data.
pub struct Scene {
    host: Host,
    // dropped after the host has gone down
    dir: TempDir,
}

impl std::ops::Deref for Scene {
    type Target = Host;
    fn deref(&self) -> &Host {
        &self.host
    }
}

impl Scene {
    /// A path beside the data folder, which is the test's.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("it is there as long as the scene").join(name)
    }

    /// A copy of a charm, to be changed by the test.
    pub fn copy_of(&self, charm: &Path, name: &str) -> PathBuf {
        let copy = self.beside(name);
        let copied = Command::new("cp").arg("-r").arg(charm).arg(&copy).status();
        assert!(copied.is_ok_and(|status| status.success()), "cp -r {}", charm.display());
        copy
    }
}

/// Starts it all.
pub fn scene() -> Scene {
    scene_with(TempDir::with_prefix("pintle-test-").expect("there is room for a test"), &[])
}

/// The same, in a folder and with variables for all of its programs.
pub fn scene_with(dir: TempDir, environment: &[(&str, OsString)]) -> Scene {
    up(dir, environment, false)
}

/// The same, with a controller that dies under commands.
pub fn scene_with_restarting_controller(dir: TempDir, environment: &[(&str, OsString)]) -> Scene {
    up(dir, environment, true)
}

fn up(dir: TempDir, environment: &[(&str, OsString)], mortal: bool) -> Scene {
    let mut host = Host::new(&dir.path().canonicalize().expect("it was just made").join("data"));
    host.environment = environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    host.mortal = mortal;
    host.ok(&["up"]);
    Scene { host, dir }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are text")
}

/// Hooks of a unit without their arguments: `install`, `config-changed`, ...
pub fn hooks(host: &Host, unit: &str) -> Vec<String> {
    let runs = host.runs(unit).into_iter();
    runs.map(|(_, operation)| operation.split(' ').nth(1).unwrap_or_default().to_owned()).collect()
}
