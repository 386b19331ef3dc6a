//! The data folder of one local controller: where it is, and the names of the files in it that are the command's and
//! the supervisor's.

use crate::command_error::Failure;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Nobody else may read what is in the folder (spec/security.md S32).
const FOLDER_MODE: u32 = 0o700;

/// A data folder, by its absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDir(PathBuf);

impl DataDir {
    /// `--data` or $PINTLE_DATA, else `pintle` among the user's data: $XDG_DATA_HOME or ~/.local/share.
    pub fn choose(given: Option<&Path>) -> Result<DataDir, Failure> {
        let path = match given {
            Some(path) => path.to_owned(),
            None => default_path(|name| std::env::var_os(name).map(PathBuf::from))
                .ok_or_else(|| Failure::new("no data folder: HOME is not set").hint("say --data DIR"))?,
        };
        let path = std::path::absolute(&path)
            .map_err(|error| Failure::new(format!("cannot use data folder {}: {error}", path.display())))?;
        Ok(DataDir(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// How people reach the controller and are trusted by it ([`api::ClientFile`]).
    pub fn client_file(&self) -> PathBuf {
        self.0.join("client.yaml")
    }

    /// The model that was the current one before: `switch -` goes back to it.
    pub fn previous_model(&self) -> PathBuf {
        self.0.join("previous-model")
    }

    /// What `up` was told.
    pub fn settings(&self) -> PathBuf {
        self.0.join("up.yaml")
    }

    /// Held by the supervisor while it lives; names it.
    pub fn supervisor_lock(&self) -> PathBuf {
        self.0.join("supervisor.pid")
    }

    pub fn controller_pid(&self) -> PathBuf {
        self.0.join("controller.pid")
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.0.join("log").join(format!("{name}.log"))
    }

    /// One folder a machine, by uuid: the machine agent's data.
    pub fn machines(&self) -> PathBuf {
        self.0.join("machines")
    }

    /// Folders of machines that are gone and whose instances were kept: their users', and nothing of Pintle's.
    pub fn kept(&self) -> PathBuf {
        self.0.join("kept")
    }

    /// One file a model: the last write of the person's commands to it.
    pub fn last_writes(&self) -> PathBuf {
        self.0.join("writes")
    }

    /// Installed Python packages of charms, kept from one deploy to the next.
    pub fn charm_cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    /// Makes the folder, for its owner only. One that belongs to somebody else, or that others may write, is refused.
    pub fn create(&self) -> Result<(), Failure> {
        let name = self.0.display();
        let broken = |error: io::Error| Failure::new(format!("cannot make data folder {name}: {error}"));
        make_private(&self.0).map_err(broken)?;
        let found = self.0.metadata().map_err(broken)?;
        if found.uid() != nix::unistd::geteuid().as_raw() {
            return Err(
                Failure::new(format!("data folder {name} belongs to another user")).hint("say --data DIR")
            );
        }
        if found.permissions().mode() & 0o022 != 0 {
            let help = format!("chmod go-w {name}, or say --data DIR");
            return Err(Failure::new(format!("data folder {name} may be written by others")).hint(help));
        }
        make_private(&self.0.join("log")).and_then(|()| make_private(&self.machines())).map_err(broken)
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

fn default_path(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    // As the XDG specification says: a relative path there is ignored.
    let data = variable("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(variable("HOME")?.join(".local/share")))?;
    Some(data.join("pintle"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_folder_lies_among_the_users_data() {
        let of = |xdg: Option<&str>| {
            default_path(|name| match name {
                "HOME" => Some("/home/ann".into()),
                _ => xdg.map(PathBuf::from),
            })
        };
        assert_eq!(of(Some("/data")), Some("/data/pintle".into()));
        assert_eq!(of(None), Some("/home/ann/.local/share/pintle".into()));
        assert_eq!(of(Some("relative")), Some("/home/ann/.local/share/pintle".into()));
        assert_eq!(default_path(|_| None), None);
    }

    #[test]
    fn a_folder_others_may_write_is_refused() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(&outer.path().join("data"))).expect("a path");
        dir.create().expect("made");
        assert_eq!(dir.path().metadata().expect("there").permissions().mode() & 0o777, 0o700);
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o722)).expect("own folder");
        let failure = dir.create().expect_err("writable by others");
        assert!(failure.message.ends_with("may be written by others"), "{failure:?}");
    }
}
