//! The files of resources on the disk of a unit: `resources/NAME/FILE` in its folder (spec/hook-tools.md 2.5).
//!
//! The agent fetches a file when resource-get requests it and the disk has no file with the expected digest, and replaces
//! it as a whole: a hook never reads a part of a file, and a file whose content differs from the expected digest is never
//! stored. Every user may read the files, because services of a charm run as other users.

use crate::blocking;
use crate::folder::public_dir;
use crate::ports::HookHost;
use commands::ResourceRequest;
use host::digest::{sha256, sha256_of};
use host::file::{open_regular, write_atomic};
use state::charm::Charm;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The folder of the files, in the folder of the unit.
pub const RESOURCES_DIR: &str = "resources";

/// Returns the path of a resource's file, which is fetched first if the disk has another one or none.
///
/// # Errors
/// A message for the charm: if a name is no plain name, the fetch fails, the content has another digest or cannot be stored,
/// or the path is not UTF-8.
pub async fn provide(
    unit_folder: &Path,
    request: &ResourceRequest,
    hook_host: &impl HookHost,
) -> Result<String, String> {
    let ResourceRequest { name, filename, sha256: expected } = request;
    if let Some(bad) = [name, filename].into_iter().find(|part| !is_plain_name(part)) {
        return Err(format!("cannot provide resource {name:?}: invalid file name {bad:?}"));
    }
    let folder = unit_folder.join(RESOURCES_DIR).join(name);
    let path = folder.join(filename);
    if !has_digest(path.clone(), expected.clone()).await {
        let content = hook_host.fetch_resource(request).await?;
        let (expected, destination) = (expected.clone(), path.clone());
        let stored = blocking::run(move || {
            let digest = sha256(&content);
            match digest == expected {
                true => store(&folder, &destination, &content).map_err(|error| error.to_string()),
                false => Err(format!("expected sha256 {expected}, got {digest}")),
            }
        });
        stored.await.map_err(|why| format!("cannot store resource {name:?}: {why}"))?;
    }
    // The mode is also set for a file that is there already: after a crash between the write and this line it is 0600.
    let readable = path.clone();
    blocking::run(move || fs::set_permissions(readable, Permissions::from_mode(0o644)))
        .await
        .map_err(|error| format!("cannot provide resource {name:?}: {error}"))?;
    path.into_os_string()
        .into_string()
        .map_err(|path| format!("cannot provide resource {name:?}: the path {path:?} is not UTF-8"))
}

/// Deletes the files of resources that the installed charm does not declare: those of its earlier revisions. What cannot
/// be deleted now is deleted after the next installation.
pub fn delete_undeclared(unit_folder: &Path, charm: &Charm) {
    for entry in fs::read_dir(unit_folder.join(RESOURCES_DIR)).into_iter().flatten().flatten() {
        let is_declared = entry.file_name().to_str().is_some_and(|name| charm.resources.contains_key(name));
        if !is_declared && let Err(error) = host::tree::remove(&entry.path()) {
            tracing::warn!("cannot delete {}: {error}", entry.path().display());
        }
    }
}

/// Whether this is the name of a file, and no path.
fn is_plain_name(name: &str) -> bool {
    !["", ".", ".."].contains(&name) && !name.contains(['/', '\0'])
}

async fn has_digest(path: PathBuf, expected: String) -> bool {
    blocking::run(move || {
        // a pipe that the charm has put there is not waited for
        let found = open_regular(&path).and_then(|(file, _)| sha256_of(file));
        found.is_ok_and(|found| found == expected)
    })
    .await
}

/// Replaces the file and deletes every other file in the folder: files under an earlier name, and temporary files that a
/// crash has left.
fn store(folder: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(resources) = folder.parent() {
        public_dir(resources)?;
    }
    public_dir(folder)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.path() == path && entry.file_type()?.is_file() {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    write_atomic(path, content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use commands::{SecretAnswer, SecretRequest};
    use state::terms::settings::{Bag, BagChange};
    use state::unit::record::RunReport;
    use state::unit::relation_view::BagRequest;
    use std::cell::Cell;

    /// A hook host that answers each fetch with this result, and counts them.
    struct FakeHookHost {
        content: Result<Vec<u8>, String>,
        count: Cell<usize>,
    }

    impl HookHost for FakeHookHost {
        fn report(&self, _: &RunReport) {}
        fn is_leader(&self) -> bool {
            false
        }
        async fn fetch_bag(&self, request: &BagRequest) -> Result<Option<Bag>, String> {
            panic!("{request:?}")
        }
        async fn write_leader_settings(&self, _: u64, _: u32, change: &BagChange) -> Result<(), String> {
            panic!("{change:?}")
        }
        async fn request_secret(&self, request: &SecretRequest) -> Result<SecretAnswer, String> {
            panic!("{request:?}")
        }
        async fn fetch_resource(&self, _: &ResourceRequest) -> Result<Vec<u8>, String> {
            self.count.set(self.count.get() + 1);
            self.content.clone()
        }
    }

    fn answering(content: &[u8]) -> FakeHookHost {
        FakeHookHost { content: Ok(content.to_vec()), count: Cell::new(0) }
    }

    fn request(filename: &str, content: &[u8]) -> ResourceRequest {
        ResourceRequest { name: "app".into(), filename: filename.into(), sha256: sha256(content) }
    }

    #[tokio::test]
    async fn a_file_is_fetched_once_and_again_when_its_digest_differs() {
        let unit = tempfile::tempdir().unwrap();
        let path = unit.path().join("resources/app/a.zip");
        let (first, second) = (answering(b"one"), answering(b"two"));
        for _ in 0..2 {
            let provided = provide(unit.path(), &request("a.zip", b"one"), &first).await;
            assert_eq!(provided.as_deref(), Ok(path.to_str().unwrap()));
        }
        assert_eq!((first.count.get(), fs::read(&path).unwrap().as_slice()), (1, &b"one"[..]));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        for folder in [path.parent().unwrap(), &unit.path().join(RESOURCES_DIR)] {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o755);
        }
        fs::write(&path, "changed by the charm").unwrap();
        provide(unit.path(), &request("a.zip", b"one"), &first).await.unwrap();
        assert_eq!((first.count.get(), fs::read(&path).unwrap().as_slice()), (2, &b"one"[..]));
        provide(unit.path(), &request("b.zip", b"two"), &second).await.unwrap();
        assert_eq!(fs::read(unit.path().join("resources/app/b.zip")).unwrap(), b"two");
        assert!(!path.exists(), "the file of the earlier name is removed");
    }

    #[tokio::test]
    async fn the_files_of_resources_that_the_charm_no_longer_declares_are_deleted() {
        let unit = tempfile::tempdir().unwrap();
        let host = answering(b"one");
        for name in ["app", "old"] {
            let named = ResourceRequest { name: name.into(), ..request("a.zip", b"one") };
            provide(unit.path(), &named, &host).await.unwrap();
        }
        let resources = [("app".to_owned(), state::charm::Resource::default())].into();
        delete_undeclared(unit.path(), &Charm { resources, ..Charm::default() });
        let path = |name: &str| unit.path().join(RESOURCES_DIR).join(name);
        assert!(path("app").join("a.zip").exists() && !path("old").exists());
    }

    #[tokio::test]
    async fn a_wrong_content_and_a_failed_fetch_leave_the_file_as_it_was() {
        let unit = tempfile::tempdir().unwrap();
        let path = unit.path().join("resources/app/a.zip");
        provide(unit.path(), &request("a.zip", b"one"), &answering(b"one")).await.unwrap();
        let unreachable = FakeHookHost { content: Err("no answer".to_owned()), count: Cell::new(0) };
        assert!(provide(unit.path(), &request("a.zip", b"two"), &answering(b"tw")).await.is_err());
        let failed = provide(unit.path(), &request("a.zip", b"two"), &unreachable).await;
        assert_eq!(failed, Err("no answer".to_owned()));
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }

    #[tokio::test]
    async fn a_name_that_is_a_path_is_refused_before_anything_is_fetched() {
        let unit = tempfile::tempdir().unwrap();
        let host = answering(b"one");
        for filename in ["", ".", "..", "../a", "/etc/a", "a\0"] {
            assert!(provide(unit.path(), &request(filename, b"one"), &host).await.is_err(), "{filename:?}");
        }
        let name = ResourceRequest { name: "../../x".into(), ..request("a", b"one") };
        assert!(provide(unit.path(), &name, &host).await.is_err());
        assert_eq!(host.count.get(), 0);
    }
}
