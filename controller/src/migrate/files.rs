//! Moves the charm archives and the files of resources with the documents: etcd keeps them in chunks, and with a database
//! they are in the data folder.

use crate::disk_threads::DiskThreads;
use crate::installation::Installation;
use crate::store::files::StoreFiles;
use anyhow::{Context, Result, bail};
use host::digest::sha256_of;
use host::file::sync_folder;
use state::documents::draft::StoredDocument;
use state::documents::prelude::{GLOBAL, KeyParts, Kind};
use std::fs::File;
use std::path::Path;

/// The digests of the charm archives and of the files of resources.
fn registered(documents: &[StoredDocument]) -> impl Iterator<Item = &str> {
    let prefix = GLOBAL.prefix(Kind::Archive);
    let keys = documents.iter().map(|stored| stored.key.as_str()).filter(move |key| key.starts_with(&prefix));
    keys.filter_map(|key| Some(KeyParts::of(key)?.rest))
}

/// Stores the files of the folder in etcd, and verifies them there.
pub(super) async fn put_files(files: &StoreFiles, documents: &[StoredDocument], folder: &Path) -> Result<()> {
    let disk = DiskThreads::start()?;
    for sha256 in registered(documents) {
        let cannot_store = || format!("cannot store the file {sha256} in etcd");
        files.put(sha256, &folder.join(sha256), &disk).await.with_context(cannot_store)?;
        if !files.fetch(sha256, None, &disk).await.with_context(cannot_store)? {
            bail!("another process has deleted the file {sha256} in etcd");
        }
    }
    Ok(())
}

/// Fetches the files that the folder lacks, or has only damaged, from etcd.
pub(super) async fn fetch_files(files: &StoreFiles, documents: &[StoredDocument], data: &Path) -> Result<()> {
    let (disk, folder) = (DiskThreads::start()?, Installation::archives_in(data));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let temporary = folder.join(".migrate"); // the next start deletes one that is left behind
    for sha256 in registered(documents) {
        let file = folder.join(sha256);
        if File::open(&file).and_then(sha256_of).is_ok_and(|digest| digest == sha256) {
            continue;
        }
        File::create(&temporary).with_context(|| format!("cannot create {}", temporary.display()))?;
        let fetched = files.fetch(sha256, Some(&temporary), &disk).await;
        if !fetched.with_context(|| format!("cannot fetch the file {sha256} from etcd"))? {
            bail!(
                "etcd lacks the file {sha256}\n\
                 hint: start the controller, and deploy, refresh or attach the same file again"
            );
        }
        let stored = File::open(&temporary).and_then(|file| file.sync_all());
        let stored = stored.and_then(|()| std::fs::rename(&temporary, &file));
        stored.with_context(|| format!("cannot store {}", file.display()))?;
    }
    sync_folder(&folder).with_context(|| format!("cannot sync {}", folder.display()))
}
