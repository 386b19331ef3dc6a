//! Charm archives and files of resources in etcd: uploads, deletions and damage, and the cache in the data folder.

use super::*;
use controller::DiskThreads;
use controller::environment::Environment;
use controller::host_environment::HostEnvironment;
use controller::store::etcd::CHUNK_BYTES;
use controller::store::files::{FileError, StoreFiles};
use host::digest::sha256;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder with files, and what writes and reads them.
struct Scene {
    folder: TempDir,
    disk: DiskThreads,
}

impl Scene {
    fn new() -> Scene {
        Scene { folder: tempfile::tempdir().expect("a folder"), disk: DiskThreads::start().expect("threads") }
    }

    /// Writes a file, and returns its path and its digest.
    fn file(&self, content: &[u8]) -> (PathBuf, String) {
        let digest = sha256(content);
        let path = self.folder.path().join(&digest);
        std::fs::write(&path, content).expect("written");
        (path, digest)
    }

    async fn fetch(&self, files: &StoreFiles, digest: &str) -> Result<Option<Vec<u8>>, FileError> {
        let to = self.folder.path().join("fetched");
        std::fs::write(&to, []).expect("written");
        let is_there = files.fetch(digest, Some(&to), &self.disk).await?;
        Ok(is_there.then(|| std::fs::read(&to).expect("readable")))
    }
}

/// A content of so many chunks, of which the last one is short, and each is another one.
fn content(chunks: u64) -> Vec<u8> {
    let bytes = (chunks - 1) * CHUNK_BYTES + 5;
    (0..bytes).map(|offset| (offset / CHUNK_BYTES + offset % 251) as u8).collect()
}

async fn files_of(options: &Options) -> StoreFiles {
    another(options).await.files().expect("etcd keeps files")
}

/// The number of keys of files below the prefix.
fn keys(cluster: &EtcdCluster, options: &Options) -> usize {
    cluster.keys(&format!("{}/b/", options.prefix)).len()
}

#[tokio::test]
async fn a_file_that_one_controller_has_stored_is_read_by_another_one() {
    let (cluster, scene) = (EtcdCluster::shared(), Scene::new());
    let options = etcd_options(&cluster);
    let (one, other) = (another(&options).await, files_of(&options).await);
    let revision = one.newest_revision();
    for content in [content(3), content(2)[..CHUNK_BYTES as usize].to_vec(), Vec::new()] {
        let (path, digest) = scene.file(&content);
        assert_eq!(scene.fetch(&other, &digest).await.expect("readable"), None);
        one.files().expect("etcd keeps files").put(&digest, &path, &scene.disk).await.expect("stored");
        assert!(scene.fetch(&other, &digest).await.expect("readable") == Some(content));
        assert!(other.list().await.expect("listed")[&digest].is_complete);
    }
    assert_eq!(
        (keys(&cluster, &options), one.newest_revision()),
        (3 + 3 + 1, revision),
        "manifests and chunks"
    );
}

#[tokio::test]
async fn an_upload_that_dies_half_way_is_not_read_and_is_deleted_like_an_unused_file() {
    let (cluster, scene) = (EtcdCluster::shared(), Scene::new());
    let options = etcd_options(&cluster);
    let files = files_of(&options).await;
    let (path, digest) = scene.file(&content(64));
    let has_chunk = async || {
        while cluster.keys(&format!("{}/b/c/", options.prefix)).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    {
        let mut upload = std::pin::pin!(files.put(&digest, &path, &scene.disk));
        let started = async {
            has_chunk().await;
            // Another janitor deletes what it has, and it begins again.
            delete_once_seen(&files, &digest).await;
            has_chunk().await;
            assert_eq!(
                cluster.keys(&format!("{}/b/m/", options.prefix)).len(),
                1,
                "no chunk without a manifest"
            );
        };
        tokio::select! { _ = &mut upload => panic!("it has 64 chunks"), () = started => {} }
    }
    let state = files.list().await.expect("listed")[&digest];
    assert!(!state.is_complete && keys(&cluster, &options) > 1);
    assert_eq!(scene.fetch(&files, &digest).await.expect("readable"), None);
    assert!(!files.record_needed(&digest).await.expect("answered"), "a client must upload it");
    assert!(!files.delete(&digest, state.revision).await.expect("answered"), "it was needed since");
    let state = files.list().await.expect("listed")[&digest];
    assert!(files.delete(&digest, state.revision).await.expect("answered"));
    assert_eq!(keys(&cluster, &options), 0);
}

/// A file that a janitor deletes while it is uploaded is complete afterwards, or absent.
#[tokio::test]
async fn a_file_that_was_uploaded_or_looked_up_again_is_not_deleted() {
    let (cluster, scene) = (EtcdCluster::shared(), Scene::new());
    let options = etcd_options(&cluster);
    let (files, janitor) = (files_of(&options).await, files_of(&options).await);
    let content = content(2);
    let (path, digest) = scene.file(&content);
    let upload = || files.put(&digest, &path, &scene.disk);
    upload().await.expect("stored");
    for look_up in [true, false] {
        let seen = janitor.list().await.expect("listed")[&digest].revision;
        match look_up {
            true => assert!(files.record_needed(&digest).await.expect("answered")),
            false => upload().await.expect("stored"),
        }
        assert!(!janitor.delete(&digest, seen).await.expect("answered"), "{look_up}");
        assert!(scene.fetch(&janitor, &digest).await.expect("readable").as_ref() == Some(&content));
    }
    for _ in 0..10 {
        let (uploaded, ()) = tokio::join!(upload(), delete_once_seen(&janitor, &digest));
        assert!(matches!(uploaded, Ok(()) | Err(FileError::Deleted)), "{uploaded:?}");
    }
    let state = janitor.list().await.expect("listed").get(&digest).copied();
    match scene.fetch(&files, &digest).await.expect("never damaged") {
        Some(read) => assert!(read == content && state.is_some_and(|state| state.is_complete)),
        None => assert!(state.is_none_or(|state| !state.is_complete)),
    }
}

/// Deletes the file once, as soon as it is listed.
async fn delete_once_seen(janitor: &StoreFiles, digest: &str) {
    loop {
        if let Some(state) = janitor.list().await.expect("listed").get(digest)
            && janitor.delete(digest, state.revision).await.expect("answered")
        {
            return;
        }
    }
}

#[tokio::test]
async fn a_damaged_or_missing_chunk_is_found_and_an_upload_repairs_it() {
    let (cluster, scene) = (EtcdCluster::shared(), Scene::new());
    let options = etcd_options(&cluster);
    let files = files_of(&options).await;
    let content = content(3);
    let (path, digest) = scene.file(&content);
    let upload = || files.put(&digest, &path, &scene.disk);
    upload().await.expect("stored");
    let chunk = &cluster.keys(&format!("{}/b/c/", options.prefix))[1];
    for damage in [&["put", chunk, "x"][..], &["del", chunk]] {
        assert!(cluster.etcdctl(damage));
        let read = scene.fetch(&files, &digest).await;
        assert!(matches!(read, Err(FileError::Damaged)), "{damage:?}");
        upload().await.expect("stored");
        assert!(scene.fetch(&files, &digest).await.expect("readable").as_ref() == Some(&content));
    }
    std::fs::write(&path, b"other").expect("written");
    assert!(matches!(upload().await, Err(FileError::Damaged)), "the file in the folder is damaged");
    let kept = scene.fetch(&files, &digest).await.expect("readable");
    assert!(kept.as_ref() == Some(&content), "the file in the store stays as it is");
}

/// A file that a controller of another store generation uploads is not taken.
#[tokio::test]
async fn a_controller_of_an_older_store_generation_stores_no_file() {
    let (cluster, scene) = (EtcdCluster::shared(), Scene::new());
    let options = etcd_options(&cluster);
    let before = files_of(&options).await;
    let restored = Options { restored: true, new_generation: OTHER_GENERATION, ..options.clone() };
    let after = files_of(&restored).await;
    let (path, digest) = scene.file(b"x");
    assert!(matches!(before.put(&digest, &path, &scene.disk).await, Err(FileError::Outage(_))));
    after.put(&digest, &path, &scene.disk).await.expect("stored");
}

/// A controller with a folder of its own.
fn controller_in(folder: &Path, files: &StoreFiles, cache_bytes_max: u64) -> HostEnvironment {
    HostEnvironment::new(folder.to_owned())
        .expect("a folder")
        .with_shared_files(files.clone(), cache_bytes_max)
}

fn cached(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("readable").flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn each_controller_serves_each_file_and_its_folder_is_a_bounded_cache() {
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    let files = files_of(&options).await;
    let [one_folder, other_folder] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let one = controller_in(one_folder.path(), &files, 1 << 30);
    let other = controller_in(other_folder.path(), &files, 10);
    let contents = [b"first".to_vec(), b"second".to_vec(), b"third".to_vec()];
    for content in &contents {
        one.store_resource(content.clone()).await.expect("stored");
    }
    assert_eq!(cached(one_folder.path()).len(), 3);
    for content in contents.iter().chain(&contents) {
        assert_eq!(other.stored_file(&sha256(content)).await.as_ref(), Some(content));
        assert!(cached(other_folder.path()).contains(&sha256(content)), "the newest one stays");
        assert!(cached(other_folder.path()).len() <= 2, "10 bytes are two of them at most");
    }
    assert_eq!(other.stored_file(&sha256(b"absent")).await, None);

    // Damage of the cache is repaired; damage of the store is not.
    let digest = sha256(&contents[2]);
    std::fs::write(other_folder.path().join(&digest), b"THIRD").expect("written");
    assert_eq!(other.stored_file(&digest).await, None, "found while it was read");
    assert_eq!(other.stored_file(&digest).await.as_ref(), Some(&contents[2]));
    std::fs::write(other_folder.path().join(&digest), b"THIRD").expect("written");
    assert!(other.has_stored_file(&digest).await);
    let listed = other.stored_files().await;
    other.delete_stored_file(&digest, listed[&digest]).await;
    assert!(!one.has_stored_file(&digest).await, "the folder alone is not enough");
    assert!(!cached(other_folder.path()).contains(&digest));
}

/// The folder of a controller that has used etcd before it kept files, or whose etcd was restored from an older backup.
#[tokio::test]
async fn a_start_stores_the_files_that_only_the_folder_has() {
    let cluster = EtcdCluster::shared();
    let options = etcd_options(&cluster);
    let files = files_of(&options).await;
    let folder = tempfile::tempdir().expect("a folder");
    let (used, unused) = (sha256(b"used"), sha256(b"unused"));
    std::fs::write(folder.path().join(&used), b"used").expect("written");
    std::fs::write(folder.path().join(&unused), b"unused").expect("written");
    let controller = controller_in(folder.path(), &files, 0);
    controller.complete_shared_files([used.clone()].into()).await;
    let (listed, stored) = (controller.stored_files().await, files.list().await.expect("answered"));
    assert!(stored.contains_key(&used) && !stored.contains_key(&unused));
    assert_eq!(listed[&unused], 0, "the janitor deletes it like the others that nothing uses");
    // Only what the store has is deleted from the cache.
    controller.store_resource(b"other".to_vec()).await.expect("stored");
    let mut expected = [unused, sha256(b"other")];
    expected.sort();
    assert_eq!(cached(folder.path()), expected);
    assert_eq!(controller.stored_file(&used).await.as_deref(), Some(b"used".as_slice()));
}
