//! The data folder of one local controller: its location, and the paths of the files in it.
//!
//! Only the files of the client and the supervisor are listed here; the controller's store and the machine agents'
//! data have their own modules. The folder must be accessible to its owner only (spec/security.md S32).

use crate::command_error::CommandError;
use api::ClientFile;
use api::etcd_file::local_etcd::FOLDER;
use api::machine_folder::MACHINES_DIR;
use host::file::create_private_folder;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A data folder, by its absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataDir(PathBuf);

impl DataDir {
    /// Returns the folder of `--data` or $PINTLE_DATA; by default `pintle` in $XDG_DATA_HOME or ~/.local/share.
    ///
    /// # Errors
    /// If no folder is given and neither $XDG_DATA_HOME nor $HOME is set.
    pub fn choose(given: Option<&Path>) -> Result<DataDir, CommandError> {
        DataDir::choose_in(given, |name| std::env::var_os(name))
    }

    /// The same with these variables of the environment.
    ///
    /// # Errors
    /// As there.
    pub fn choose_in(
        given: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<DataDir, CommandError> {
        // an empty PINTLE_DATA is as good as none
        let path = match given.filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => path.to_owned(),
            None => default_path(|name| variable(name).map(PathBuf::from)).ok_or_else(|| {
                CommandError::new("cannot choose a data folder: HOME is not set").hint("use --data DIR")
            })?,
        };
        let path = std::path::absolute(&path).map_err(|error| {
            CommandError::new(format!("cannot use data folder {}: {error}", path.display()))
        })?;
        Ok(DataDir(path))
    }

    /// The absolute path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Address, certificate and token with which the operator's commands connect to the controller
    /// ([`api::ClientFile`]).
    pub fn client_file(&self) -> PathBuf {
        self.0.join(ClientFile::FILE)
    }

    /// The name of the previously selected model, for `switch -`.
    pub fn previous_model(&self) -> PathBuf {
        self.0.join("previous-model")
    }

    /// The stored settings of `up`.
    pub fn settings(&self) -> PathBuf {
        self.0.join("up.yaml")
    }

    /// The lock file that the supervisor holds while it runs; contains its process ID.
    pub fn supervisor_lock(&self) -> PathBuf {
        self.0.join("supervisor.pid")
    }

    /// The file that identifies this folder, so that a copy is detected ([`crate::supervisor::identity`]).
    pub fn identity(&self) -> PathBuf {
        self.0.join("identity.yaml")
    }

    /// The mark of a store that is a copy or was restored from a backup. It exists until a controller has started with
    /// it.
    pub fn restored_mark(&self) -> PathBuf {
        self.0.join("restored")
    }

    /// The process ID of the controller.
    pub fn controller_pid(&self) -> PathBuf {
        self.0.join("controller.pid")
    }

    /// How the controller ended, while the supervisor starts it again
    /// ([`ProcessExits`](crate::supervisor::process_exits::ProcessExits)).
    pub fn controller_exits(&self) -> PathBuf {
        self.0.join("controller-exits.yaml")
    }

    /// The folder of the etcd that `up --store etcd` has started.
    pub fn etcd(&self) -> PathBuf {
        self.0.join(FOLDER)
    }

    /// The process ID of that etcd.
    pub fn etcd_pid(&self) -> PathBuf {
        self.0.join("etcd.pid")
    }

    /// The data folder of the second controller that `up --store etcd` has started.
    pub fn second_controller(&self) -> DataDir {
        DataDir(self.0.join("controller-2"))
    }

    /// The log file of a controller, the supervisor or etcd.
    pub fn log(&self, name: &str) -> PathBuf {
        self.0.join("log").join(format!("{name}.log"))
    }

    /// One folder per machine, named by its UUID: the data of the machine agent.
    pub fn machines(&self) -> PathBuf {
        self.0.join(MACHINES_DIR)
    }

    /// Folders of removed machines whose instances were kept (`--keep-instance`). Pintle no longer manages them.
    pub fn kept_instances(&self) -> PathBuf {
        self.0.join("kept")
    }

    /// What commands remember about each model ([`crate::model_notes`]).
    pub fn model_notes(&self) -> PathBuf {
        self.0.join("notes")
    }

    /// Installed Python packages of charms, kept between deployments.
    pub fn charm_cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    /// Creates the folder, accessible to its owner only.
    ///
    /// # Errors
    /// If the folder belongs to another user, or other users can write to it.
    pub fn create(&self) -> Result<(), CommandError> {
        let name = self.0.display();
        let to_error =
            |error: io::Error| CommandError::new(format!("cannot create data folder {name}: {error}"));
        create_private_folder(&self.0).map_err(to_error)?;
        let found = self.0.metadata().map_err(to_error)?;
        if found.uid() != nix::unistd::geteuid().as_raw() {
            return Err(CommandError::new(format!(
                "cannot use data folder {name}: it belongs to another user"
            ))
            .hint("use --data DIR"));
        }
        if found.permissions().mode() & 0o022 != 0 {
            let help = format!("chmod go-w {name}, or use --data DIR");
            let text = format!("cannot use data folder {name}: other users can write to it");
            return Err(CommandError::new(text).hint(help));
        }
        let folders = [self.0.join("log"), self.machines()];
        folders.iter().try_for_each(|folder| create_private_folder(folder)).map_err(to_error)
    }
}

fn default_path(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    // The XDG Base Directory Specification requires that a relative path is ignored.
    let data = variable("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(variable("HOME")?.join(".local/share")))?;
    Some(data.join("pintle"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_path_is_as_good_as_none() {
        let of = |given: Option<&str>| DataDir::choose(given.map(Path::new)).expect("HOME is set").0;
        assert_eq!(of(Some("")), of(None));
        assert_ne!(of(Some("x")), of(None));
    }

    #[test]
    fn the_default_folder_is_in_the_data_folder_of_the_user() {
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
    fn a_folder_that_other_users_can_write_to_is_rejected() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(&outer.path().join("data"))).expect("a path");
        dir.create().expect("made");
        assert_eq!(dir.path().metadata().expect("there").permissions().mode() & 0o777, 0o700);
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o722)).expect("own folder");
        let failure = dir.create().expect_err("writable by others");
        assert!(failure.message.contains(&dir.path().display().to_string()), "{failure:?}");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).expect("own folder");
        dir.create().expect("writable by its user alone");
    }
}
