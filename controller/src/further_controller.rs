//! `pintle-controller add-controller`: the data folder of one more controller of the same system, whose store is in etcd.
//!
//! All controllers of a system are the same to clients and agents: they have the same uuid, which is the name in their
//! certificate, the same CA, and the same keys of secrets. The command copies these files, with what the folder records of
//! etcd and with the token of the first user, and nothing else: files of charms are in etcd. An operator moves the copy to
//! another host. The files were not put into etcd, sealed with a key that would have to be copied in their place: that key
//! would be as secret as they are, and everyone who reads the backups of etcd would have them beside the lock.
//!
//! A folder that is another one's is refused. To run the command again completes a copy, and changes nothing else. Called by
//! `program`; the controller may run.

use crate::installation::{ControllerIdentity, Installation};
use crate::required_file::{FROM_A_BACKUP, read_optional, read_yaml, write_yaml};
use anyhow::{Context, Result, bail};
use api::data_folder::FURTHER_CONTROLLER;
use api::etcd_file::{ETCD_FILE, EtcdFile};
use api::{CONTROLLER_DIR, ClientFile};
use host::file::{create_private_folder, write_atomic};
use std::path::Path;

/// The files of `controller/` that are the same for all controllers.
const SAME: [&str; 5] = ["ca-key.pem", "ca.pem", "server-key.pem", "server.pem", "secret-keys.yaml"];

/// Runs the command and prints its result. Returns the exit code.
pub fn run(data: &Path, to: &Path) -> i32 {
    match copy(data, to) {
        Ok(addresses) => {
            let (to, first) = (to.display(), addresses.join(", "));
            println!(
                "{to} is the data folder of one more controller\n\
                 move it to its host and start it there: pintle-controller --data {to} --listen ADDRESS:PORT\n\
                 then add its address to other_controllers in the client.yaml of {first}, and to controllers in the \
                 agent.yaml of manually provisioned machines"
            );
            0
        }
        Err(error) => {
            eprintln!("ERROR cannot add a controller: {error:#}");
            1
        }
    }
}

/// Copies what a further controller needs into a folder. Returns the addresses of the controllers before it.
///
/// # Errors
/// If the models are not in etcd, a file cannot be read or written, or the folder has a file of something else.
pub fn copy(data: &Path, to: &Path) -> Result<Vec<String>> {
    let etcd: Option<EtcdFile> = read_yaml(&data.join(ETCD_FILE), FROM_A_BACKUP)?;
    let etcd = etcd.with_context(|| {
        format!(
            "the models of {} are not in etcd\n\
             hint: several controllers need a store that all of them reach; to move it: pintle-controller migrate",
            data.display()
        )
    })?;
    let (from_folder, folder) = (data.join(CONTROLLER_DIR), to.join(CONTROLLER_DIR));
    let identity = ControllerIdentity::read(&from_folder)?.context("the controller was never started")?;
    let client_file = data.join(ClientFile::FILE);
    let client: Option<ClientFile> = read_yaml(&client_file, FROM_A_BACKUP)?;
    let client = client.with_context(|| format!("{} is missing", client_file.display()))?;
    let mut same = Vec::new();
    for name in SAME {
        let file = from_folder.join(name);
        let content = read_optional(&file)?.with_context(|| format!("{} is missing", file.display()))?;
        same.push((folder.join(name), content));
    }
    let mut addresses = vec![client.controller.clone()];
    addresses.extend(client.other_controllers.iter().cloned());
    // Nothing is written before everything that is there was compared.
    let known_identity = ControllerIdentity::read(&folder)?;
    let known_etcd: Option<EtcdFile> = read_yaml(&to.join(ETCD_FILE), FROM_A_BACKUP)?;
    let known_client: Option<ClientFile> = read_yaml(&to.join(ClientFile::FILE), FROM_A_BACKUP)?;
    let mut different = Vec::new();
    if known_identity.as_ref().is_some_and(|known| !known.is_same_system(&identity)) {
        different.push(folder.join(ControllerIdentity::FILE));
    }
    if known_etcd.as_ref().is_some_and(|known| known.store_generation != etcd.store_generation) {
        different.push(to.join(ETCD_FILE));
    }
    if known_client.as_ref().is_some_and(|known| known.token != client.token) {
        different.push(to.join(ClientFile::FILE));
    }
    for (file, content) in &same {
        if read_optional(file)?.is_some_and(|known| known != *content) {
            different.push(file.clone());
        }
    }
    if let Some(file) = different.first() {
        bail!(
            "{} is not that of this system\nhint: choose another folder, or delete this one if nothing uses it",
            file.display()
        );
    }
    for folder in [to.to_owned(), folder.clone(), Installation::store_in(to)] {
        create_private_folder(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    for (file, content) in &same {
        write_atomic(file, content.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if known_client.is_none() {
        let client = ClientFile { other_controllers: addresses.clone(), ..client };
        write_yaml(&to.join(ClientFile::FILE), &client)?;
    }
    if known_etcd.is_none() {
        // the newest process of the other folder may run, and is not that of this one
        write_yaml(&to.join(ETCD_FILE), &EtcdFile { handle: None, ..etcd })?;
    }
    if known_identity.is_none() {
        let mark = to.join(FURTHER_CONTROLLER);
        let text = "The machines of this system run on other hosts: pintle up is refused here.\n";
        write_atomic(&mark, text.as_bytes()).with_context(|| format!("cannot write {}", mark.display()))?;
    }
    // Last: a folder without it is no controller's, and is completed by the next run.
    if known_identity.is_none() {
        write_yaml(&folder.join(ControllerIdentity::FILE), &identity.without_address())?;
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::etcd_file::EtcdConnection;
    use state::terms::names::Uuid;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    /// The data folder of a controller that has served with a store in etcd.
    fn served() -> TempDir {
        let data = tempfile::tempdir().expect("a folder");
        let mut installation = Installation::open(data.path(), false).expect("a new controller");
        installation.store_address("127.0.0.1:17070".parse().expect("an address")).expect("stored");
        write_atomic(&installation.secret_keys(), b"keys: []\n").expect("written");
        let etcd = EtcdFile {
            cluster: "1".to_owned(),
            store_generation: Uuid(7),
            revision: 5,
            handle: Some("served".to_owned()),
            connection: Some(EtcdConnection {
                address: "etcd://127.0.0.1".to_owned(),
                prefix: EtcdConnection::DEFAULT_PREFIX.to_owned(),
                ca: None,
                certificate: None,
                key: None,
            }),
        };
        write_yaml(&data.path().join(ETCD_FILE), &etcd).expect("written");
        let client = ClientFile {
            controller: "127.0.0.1:17070".to_owned(),
            other_controllers: Vec::new(),
            server_name: installation.controller().to_string(),
            ca: installation.ca.clone(),
            user: "admin".to_owned(),
            token: "secret".to_owned(),
            model: "dev".to_owned(),
        };
        write_yaml(&data.path().join(ClientFile::FILE), &client).expect("written");
        data
    }

    fn files(folder: &Path) -> Vec<String> {
        let controller = folder.join(CONTROLLER_DIR);
        let mut files: Vec<String> = [folder, &controller, &controller.join("store")]
            .into_iter()
            .flat_map(|folder| fs::read_dir(folder).expect("readable"))
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.is_file())
            .map(|path| {
                assert_eq!(
                    fs::metadata(&path).expect("it exists").permissions().mode() & 0o077,
                    0,
                    "{path:?}"
                );
                path.strip_prefix(folder).expect("below").display().to_string()
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn a_copy_is_a_controller_of_the_same_system_without_an_address() {
        let (data, other) = (served(), tempfile::tempdir().expect("a folder"));
        let to = other.path().join("second");
        assert_eq!(copy(data.path(), &to).expect("copied"), ["127.0.0.1:17070"]);
        let mut expected = files(data.path());
        expected.push(FURTHER_CONTROLLER.to_owned());
        expected.sort();
        assert_eq!(files(&to), expected);
        let etcd: EtcdFile = read_yaml(&to.join(ETCD_FILE), "").expect("intact").expect("it exists");
        assert_eq!(etcd.handle, None, "it must not end what the first controller states");
        let place = crate::installation::StorePlace::Etcd;
        let [first, second] = [data.path(), &to]
            .map(|data| Installation::open_with_store(data, false, place).expect("complete"));
        assert_eq!((second.controller(), &second.certificate), (first.controller(), &first.certificate));
        assert_eq!((first.address().is_some(), second.address()), (true, None));
        let client: ClientFile =
            read_yaml(&to.join(ClientFile::FILE), "").expect("intact").expect("it exists");
        assert_eq!(
            (client.token.as_str(), client.other_controllers),
            ("secret", vec!["127.0.0.1:17070".to_owned()])
        );
    }

    /// The second controller has served meanwhile, and the first run was interrupted.
    #[test]
    fn the_command_again_completes_a_copy_and_keeps_what_the_other_controller_has_written() {
        let (data, other) = (served(), tempfile::tempdir().expect("a folder"));
        copy(data.path(), other.path()).expect("copied");
        let identity = other.path().join(CONTROLLER_DIR).join(ControllerIdentity::FILE);
        let client = other.path().join(ClientFile::FILE);
        for file in [&identity, &client] {
            let text = fs::read_to_string(file).expect("readable");
            fs::write(file, format!("{text}# its own\n")).expect("written");
        }
        fs::remove_file(other.path().join("controller/ca.pem")).expect("it exists");
        copy(data.path(), other.path()).expect("completed");
        assert!(other.path().join("controller/ca.pem").exists());
        for file in [&identity, &client] {
            assert!(fs::read_to_string(file).expect("readable").ends_with("# its own\n"));
        }
    }

    #[test]
    fn each_file_of_another_system_is_refused_and_nothing_is_written() {
        for name in
            ["identity.yaml", "ca.pem", "ca-key.pem", "server.pem", "server-key.pem", "secret-keys.yaml"]
        {
            let (data, other) = (served(), tempfile::tempdir().expect("a folder"));
            let (from, to) = (served(), other.path().join(CONTROLLER_DIR));
            fs::create_dir(&to).expect("made");
            fs::copy(from.path().join(CONTROLLER_DIR).join(name), to.join(name)).expect("copied");
            if name == "secret-keys.yaml" {
                fs::write(to.join(name), "keys: [] # others\n").expect("written");
            }
            let error = copy(data.path(), other.path()).expect_err("refused");
            assert!(error.to_string().contains(&to.join(name).display().to_string()), "{error}");
            assert_eq!(fs::read_dir(&to).expect("readable").count(), 1);
        }
    }

    #[test]
    fn a_controller_with_a_database_is_refused() {
        let data = served();
        fs::remove_file(data.path().join(ETCD_FILE)).expect("it exists");
        copy(data.path(), &data.path().join("to")).expect_err("it has its own store");
        assert!(!data.path().join("to").exists());
    }
}
