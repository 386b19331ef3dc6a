//! The controller's data folder: identity, CA and certificates, store, archives, and the first user's client file.
//!
//! ```text
//! DIR/client.yaml              the first user's configuration: address, CA and token (0600)
//! DIR/controller/              0700
//!   identity.yaml              uuid and address; stored so that clients find a restarted controller
//!   ca.pem ca-key.pem server.pem server-key.pem
//!   secret-keys.yaml           what seals the contents of secrets; a backup of the store needs it
//!   store/ archives/           store/etcd.yaml instead of a database if the store is in etcd
//! ```
//! Every step is idempotent and runs at each start. Existing files are never replaced, so the next start completes a
//! start that was interrupted. Of a controller that has served before, only the server's certificate is made again: a new
//! identity, CA or store beside the others would lock out every agent, or show them an empty model, so a missing one is
//! refused ([`MissingFile`]). `program` opens the folder before it listens.

use crate::callers::Controller;
use crate::certificates;
use crate::environment::{self, Environment};
use crate::required_file::{FROM_A_BACKUP, UnusableFile, read_yaml, write_yaml};
use crate::store::Store;
use crate::store::sqlite::DATABASE;
use crate::tokens;
use anyhow::{Context, Result, bail};
use api::data_folder::{CREATED_FIRST, MARKS};
use api::etcd_file::ETCD_FILE;
use api::machine_folder::MACHINES_DIR;
use api::text::data_folder as text;
use api::{CONTROLLER_DIR, ClientFile, FIRST_USER};
use host::digest::sha256;
use host::file::{create_private_folder, exists, ignore_not_found};
use host::foreign_files;
use serde::{Deserialize, Serialize};
use state::documents::prelude::{TokenHolder, UserRole};
use state::documents::token;
use state::terms::names::Uuid;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file of [`ControllerIdentity`].
const IDENTITY: &str = "identity.yaml";
/// The first model (design 16).
const FIRST_MODEL: &str = "dev";

/// The content of `identity.yaml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ControllerIdentity {
    controller: Uuid,
    /// None until the controller has listened for the first time.
    address: Option<SocketAddr>,
}

#[cfg(feature = "etcd")]
impl ControllerIdentity {
    /// Its name in the controller's folder.
    pub(crate) const FILE: &str = IDENTITY;

    /// Reads the file of a controller's folder; none if there is none.
    pub(crate) fn read(folder: &Path) -> Result<Option<ControllerIdentity>> {
        read_yaml(&folder.join(IDENTITY), FROM_A_BACKUP)
    }

    /// Whether both are controllers of one system.
    pub(crate) fn is_same_system(&self, other: &ControllerIdentity) -> bool {
        self.controller == other.controller
    }

    /// The identity of a controller of the same system that has not listened yet.
    pub(crate) fn without_address(self) -> ControllerIdentity {
        ControllerIdentity { address: None, ..self }
    }
}

/// A file of a controller that has served before is missing, for example in a folder that was restored in part. Nothing
/// was changed.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot use {}: it is missing, but {} exists, so this is no new controller\n\
     hint: put the missing file back from a backup of the whole folder{}", file.display(), other.display(),
    if *is_store { "; to start with an empty store: pintle up --restored" } else { "" }
)]
pub struct MissingFile {
    /// The missing file.
    pub file: PathBuf,
    /// A file that proves that the controller is not new.
    pub other: PathBuf,
    /// Whether it is the database, without which an operator can start.
    pub is_store: bool,
}

/// Where the documents of a controller are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorePlace {
    /// In a database in the data folder.
    Folder,
    /// In etcd; the data folder records in which one.
    Etcd,
}

/// An opened data folder.
pub struct Installation {
    folder: PathBuf,
    identity: ControllerIdentity,
    /// The CA's certificate (PEM).
    pub ca: String,
    /// The server's certificate (PEM).
    pub certificate: String,
    /// The server's private key (PEM).
    pub key: String,
}

impl Installation {
    /// Opens a data folder; creates the files and folders of a new controller. `restored`: the operator states that the
    /// store was restored or is to start empty; a copy without identity and CA then gets its own (`--new-identity`).
    ///
    /// # Errors
    /// If something else has files in the folder, other users can access it, a file cannot be used ([`UnusableFile`]), or one
    /// is missing ([`MissingFile`]). Each error names the file or the folder.
    pub fn open(data: &Path, restored: bool) -> Result<Installation> {
        Installation::open_with_store(data, restored, StorePlace::Folder)
    }

    /// Like [`Installation::open`], for a store at this place.
    ///
    /// # Errors
    /// As there. A folder whose controller has served with a store at another place is refused.
    pub fn open_with_store(data: &Path, restored: bool, place: StorePlace) -> Result<Installation> {
        require_no_foreign_files(data)?;
        let folder = data.join(CONTROLLER_DIR);
        if !exists(&folder)? {
            require_complete(&folder, None, restored, place)?; // nothing is created if it refuses
        }
        create_private_folder(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let open = fs::metadata(&folder).with_context(|| format!("cannot open {}", folder.display()))?;
        let open = open.permissions().mode() & 0o077;
        if open != 0 {
            let path = folder.display();
            bail!("cannot use {path}: other users can access it\nhint: chmod 700 {path}");
        }
        let file = folder.join(IDENTITY);
        let identity: Option<ControllerIdentity> = read_yaml(&file, FROM_A_BACKUP)?;
        require_complete(&folder, identity.as_ref(), restored, place)?;
        let store = Installation::store_in(data);
        create_private_folder(&store).with_context(|| format!("cannot create {}", store.display()))?;
        let identity = match identity {
            Some(identity) => identity,
            None => {
                let fresh = ControllerIdentity {
                    controller: environment::uuid_v4(host::random::random_u128()),
                    address: None,
                };
                write_yaml(&file, &fresh)?;
                fresh
            }
        };
        let (ca, certificate, key) = certificates::open(&folder, identity.controller)?;
        Ok(Installation { folder: data.to_owned(), identity, ca, certificate, key })
    }

    /// The controller's uuid.
    pub fn controller(&self) -> Uuid {
        self.identity.controller
    }

    /// The folder of the charm archives in a data folder.
    pub fn archives_in(data: &Path) -> PathBuf {
        data.join(CONTROLLER_DIR).join("archives")
    }

    /// The folder of the store in a data folder.
    pub fn store_in(data: &Path) -> PathBuf {
        data.join(CONTROLLER_DIR).join("store")
    }

    /// The folder of the charm archives.
    pub fn archives(&self) -> PathBuf {
        Installation::archives_in(&self.folder)
    }

    /// The folder of the store.
    pub fn store(&self) -> PathBuf {
        Installation::store_in(&self.folder)
    }

    /// The file of the keys of secrets. It is outside the store's folder, so that a copy of the store opens no secret.
    pub fn secret_keys(&self) -> PathBuf {
        Installation::secret_keys_in(&self.folder)
    }

    /// The file of the keys of secrets in a data folder.
    pub fn secret_keys_in(data: &Path) -> PathBuf {
        data.join(CONTROLLER_DIR).join("secret-keys.yaml")
    }

    /// The address on which the controller listened last.
    pub fn address(&self) -> Option<SocketAddr> {
        self.identity.address
    }

    /// Stores the address on which the controller listens.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn store_address(&mut self, address: SocketAddr) -> Result<()> {
        if self.identity.address != Some(address) {
            self.identity.address = Some(address);
            let file = self.folder.join(CONTROLLER_DIR).join(IDENTITY);
            write_yaml(&file, &self.identity)?;
        }
        Ok(())
    }

    /// Creates the first model, the first user and the user's client file. The file is written before the token is
    /// stored: if the controller dies in between, no stored token is unknown to the user.
    ///
    /// # Errors
    /// If `client.yaml` is damaged or cannot be written, or the transaction fails.
    pub async fn create_first_user<S: Store, E: Environment>(
        &self,
        controller: &Controller<S, E>,
    ) -> Result<()> {
        let path = self.folder.join(ClientFile::FILE);
        let remedy = "put it back from a backup, or delete it: it is then written again, with a new token";
        let before: Option<ClientFile> = read_yaml(&path, remedy)?;
        let file = ClientFile {
            controller: self.identity.address.context("the controller does not listen yet")?.to_string(),
            other_controllers: before.as_ref().map_or_else(Vec::new, |f| f.other_controllers.clone()),
            server_name: self.identity.controller.to_string(),
            ca: self.ca.clone(),
            user: FIRST_USER.to_owned(),
            token: before
                .as_ref()
                .map_or_else(|| tokens::random_token(&controller.environment), |f| f.token.clone()),
            model: before.as_ref().map_or_else(|| FIRST_MODEL.to_owned(), |f| f.model.clone()),
        };
        if before.as_ref() != Some(&file) {
            write_yaml(&path, &file)?;
        }
        let (now_ms, model) =
            (controller.environment.wall_ms(), environment::random_uuid(&controller.environment));
        let sha256 = sha256(file.token.as_bytes());
        let created = controller.run(move |draft| {
            // before the first token is stored
            state::lifecycle::model::create_first(draft, model, FIRST_MODEL, now_ms)?;
            let admin = TokenHolder::User { name: FIRST_USER.to_owned(), role: UserRole::Admin };
            token::set(draft, user_id(FIRST_USER), &admin, &sha256)
        });
        created.await?;
        Ok(())
    }
}

/// Refuses a folder in which something else has files.
fn require_no_foreign_files(data: &Path) -> Result<()> {
    let cannot_read = || format!("cannot use {}", data.display());
    let files = foreign_files::find(data, MARKS, CREATED_FIRST).with_context(cannot_read)?;
    if !files.is_empty() {
        let (why, remedy) = (text::foreign_files(&files), text::other_folder(data));
        bail!(UnusableFile { file: data.to_owned(), why, remedy });
    }
    Ok(())
}

/// Returns the uuid that identifies a user in the documents `token-of`. Users have no documents of their own.
fn user_id(name: &str) -> Uuid {
    let hash = sha256(format!("user {name}").as_bytes());
    Uuid(u128::from_str_radix(&hash[..32], 16).expect("hex"))
}

/// Refuses a folder in which a file is missing that must not be made again.
///
/// The first start writes the identity, the key of the CA, the CA, then the store, and an address into the identity when
/// it listens. If it is interrupted, there is neither a store nor an address, and the next start makes what is missing.
fn require_complete(
    folder: &Path,
    identity: Option<&ControllerIdentity>,
    restored: bool,
    place: StorePlace,
) -> Result<()> {
    let [identity_file, ca, ca_key, server, server_key] =
        [IDENTITY, "ca.pem", "ca-key.pem", "server.pem", "server-key.pem"].map(|name| folder.join(name));
    let in_folder = [DATABASE, "generation.yaml"].map(|name| folder.join("store").join(name));
    let in_etcd = folder.parent().unwrap_or(folder).join(ETCD_FILE);
    if place == StorePlace::Etcd && exists(&in_folder[0])? && !exists(&in_etcd)? {
        bail!(UnusableFile {
            file: folder.parent().unwrap_or(folder).to_owned(),
            why: format!("its models are in {}, not in etcd", in_folder[0].display()),
            remedy: "move them: pintle-controller migrate; or start it without --store and PINTLE_STORE"
                .to_owned(),
        });
    }
    let [database, generation] = match place {
        StorePlace::Folder => in_folder,
        StorePlace::Etcd => [in_etcd.clone(), in_etcd],
    };
    let first = |files: &[&PathBuf]| -> Result<Option<PathBuf>> {
        for file in files {
            if exists(file)? {
                return Ok(Some((*file).clone()));
            }
        }
        Ok(None)
    };
    let missing = |file: &PathBuf, other: Option<PathBuf>| match other {
        Some(other) if !exists(file)? => {
            bail!(MissingFile { file: file.clone(), other, is_store: *file == database })
        }
        _ => Ok(()),
    };
    let store = first(&[&database, &generation])?.filter(|_| !restored);
    let has_served = identity.is_some_and(|identity| identity.address.is_some());
    let proof = store.or_else(|| has_served.then(|| identity_file.clone()));
    let own = first(&[&ca, &ca_key, &server, &server_key])?.or_else(|| proof.clone());
    let machine = any_machine(folder.parent().unwrap_or(folder))?.filter(|_| !restored);
    missing(&identity_file, own.or(machine))?;
    missing(&ca, proof.clone().or(first(&[&server])?))?;
    missing(&ca_key, proof.or(first(&[&ca])?))?;
    let is_recorded = place == StorePlace::Folder && exists(&generation)?; // the store itself refuses a missing database then
    missing(&database, Some(identity_file.clone()).filter(|_| has_served && !restored && !is_recorded))
}

/// The folder of a machine beside the controller's folder: only a controller that has served creates machines.
fn any_machine(data: &Path) -> Result<Option<PathBuf>> {
    let machines = data.join(MACHINES_DIR);
    let entries = ignore_not_found(fs::read_dir(&machines));
    let mut entries =
        entries.with_context(|| format!("cannot read {}", machines.display()))?.into_iter().flatten();
    let found = entries.next().transpose().with_context(|| format!("cannot read {}", machines.display()))?;
    Ok(found.map(|entry| entry.path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::{Options, Sqlite};

    /// A controller that has served.
    fn served() -> tempfile::TempDir {
        let data = tempfile::tempdir().expect("a folder");
        let mut installation = Installation::open(data.path(), false).expect("a new controller");
        drop(Sqlite::open(&installation.store(), Options::new(Uuid(1))).expect("a new store"));
        installation.store_address("127.0.0.1:17070".parse().expect("an address")).expect("stored");
        data
    }

    fn missing(data: &Path, restored: bool) -> Option<String> {
        let refused = Installation::open(data, restored).err()?;
        let missing: MissingFile = refused.downcast().expect("a missing file");
        Some(missing.file.file_name().expect("a name").to_string_lossy().into_owned())
    }

    fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let files = fs::read_dir(folder).expect("readable").map(|file| file.expect("a file").path());
        let mut files: Vec<_> = files.filter_map(|file| Some((file.clone(), fs::read(file).ok()?))).collect();
        files.sort();
        files
    }

    #[test]
    fn each_missing_file_of_a_controller_that_has_served_is_refused_by_name_and_nothing_changes() {
        for name in ["identity.yaml", "ca.pem", "ca-key.pem"] {
            for restored in [false, true] {
                let data = served();
                let folder = data.path().join(CONTROLLER_DIR);
                fs::remove_file(folder.join(name)).expect("it exists");
                let before = contents(&folder);
                assert_eq!(missing(data.path(), restored).as_deref(), Some(name), "{restored}");
                assert!(contents(&folder) == before, "{name}");
            }
        }
        let data = served();
        fs::remove_dir_all(Installation::store_in(data.path())).expect("it exists");
        assert_eq!(missing(data.path(), false).as_deref(), Some(DATABASE));
        assert_eq!(missing(data.path(), true), None, "the operator states it");
    }

    /// An operator restores a part of a backup, and forgets the controller's folder.
    #[test]
    fn a_folder_with_machines_and_without_its_controller_is_refused_and_nothing_is_created() {
        let data = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(data.path().join(MACHINES_DIR).join("1")).expect("made");
        fs::write(data.path().join(ClientFile::FILE), "").expect("written");
        assert_eq!(missing(data.path(), false).as_deref(), Some(IDENTITY));
        assert!(!data.path().join(CONTROLLER_DIR).exists());
        assert_eq!(missing(data.path(), true), None);
    }

    #[test]
    fn a_store_alone_gets_a_new_identity_only_if_the_operator_states_it() {
        let data = served();
        for (file, _) in contents(&data.path().join(CONTROLLER_DIR)) {
            fs::remove_file(file).expect("it exists");
        }
        assert_eq!(missing(data.path(), false).as_deref(), Some("identity.yaml"));
        assert_eq!(missing(data.path(), true), None);
    }

    #[test]
    fn a_controller_that_has_served_with_a_store_elsewhere_is_refused() {
        let data = served();
        let refused = Installation::open_with_store(data.path(), false, StorePlace::Etcd).err();
        let refused: UnusableFile = refused.expect("refused").downcast().expect("it names the folder");
        assert_eq!(refused.file, data.path());
        fs::write(data.path().join(ETCD_FILE), "").expect("written");
        fs::remove_file(Installation::store_in(data.path()).join("generation.yaml")).expect("it exists");
        fs::remove_file(Installation::store_in(data.path()).join(DATABASE)).expect("it exists");
        Installation::open_with_store(data.path(), false, StorePlace::Etcd).expect("it is complete");
        assert_eq!(self::missing(data.path(), false).as_deref(), Some(DATABASE), "and not the other way");
    }

    #[test]
    fn the_certificate_of_the_server_is_made_again() {
        for name in ["server.pem", "server-key.pem"] {
            let data = served();
            let before = Installation::open(data.path(), false).expect("complete");
            fs::remove_file(data.path().join(CONTROLLER_DIR).join(name)).expect("it exists");
            let after = Installation::open(data.path(), false).expect("it is made again");
            assert_eq!(after.ca, before.ca);
            assert_ne!((after.certificate, after.key), (before.certificate, before.key));
        }
    }

    #[test]
    fn a_first_start_that_was_interrupted_is_completed() {
        let names = ["identity.yaml", "ca-key.pem", "ca.pem", "server-key.pem", "server.pem"];
        for kept in 0..names.len() {
            let data = tempfile::tempdir().expect("a folder");
            Installation::open(data.path(), false).expect("a new controller");
            for name in &names[kept..] {
                fs::remove_file(data.path().join(CONTROLLER_DIR).join(name)).expect("it exists");
            }
            assert_eq!(missing(data.path(), false), None, "{kept}");
        }
    }

    #[test]
    fn a_folder_of_something_else_is_refused_and_nothing_is_created() {
        let data = tempfile::tempdir().expect("a folder");
        let checkout = data.path().join(".git");
        fs::create_dir(&checkout).expect("made");
        let refused = Installation::open(data.path(), false).err().expect("a folder of something else");
        let refused: UnusableFile = refused.downcast().expect("it names the folder");
        assert_eq!(refused.file, data.path());
        assert!(refused.why.contains(".git"), "{refused}");
        assert_eq!(fs::read_dir(data.path()).expect("readable").count(), 1);
        fs::remove_dir(checkout).expect("it exists");
        fs::create_dir(data.path().join("lost+found")).expect("made");
        Installation::open(data.path(), false).expect("a new file system");
        fs::write(data.path().join("notes.txt"), "").expect("written");
        Installation::open(data.path(), false).expect("it is the folder of a controller");
    }

    /// A link that refers to itself stands for any file that cannot be seen, for example on a damaged disk.
    #[test]
    fn a_store_that_cannot_be_seen_is_not_taken_for_that_of_a_new_controller() {
        let data = tempfile::tempdir().expect("a folder");
        let store = Installation::store_in(data.path());
        fs::create_dir_all(&store).expect("made");
        fs::set_permissions(data.path().join(CONTROLLER_DIR), fs::Permissions::from_mode(0o700))
            .expect("set");
        std::os::unix::fs::symlink(DATABASE, store.join(DATABASE)).expect("linked");
        let refused = Installation::open(data.path(), false).err().expect("the store may be there");
        assert!(!refused.is::<MissingFile>(), "nothing is known to be missing");
        assert!(!data.path().join(CONTROLLER_DIR).join(IDENTITY).exists(), "no other identity is made");
    }
}
