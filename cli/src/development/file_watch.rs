//! A watch on the files of a charm's folder, or on one file: it completes when a file that can be part of the charm, or that
//! file, has been saved.
//!
//! A change is only a hint: the caller reads the charm again and compares its digest. Editors and tools save in several
//! steps, so the watch waits until nothing has changed for a moment.

use crate::command_error::CommandError;
use api::text::fault::setting;
use charms::folder::can_be_packed;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use state::terms::health::Limit;
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// How long nothing must have changed: the steps of one save follow each other within a few milliseconds.
const QUIET: Duration = Duration::from_millis(100);
/// After this time no further wait for that begins: a tool that writes files without end must not prevent a deployment.
const QUIET_WAIT_MAX: Duration = Duration::from_millis(500);
/// How the names of files that are not part of a save begin or end: temporary files of editors, compiled Python.
const IGNORED_PREFIXES: [&str; 3] = [".#", "#", ".~"];
const IGNORED_SUFFIXES: [&str; 5] = ["~", ".swp", ".swx", ".tmp", ".pyc"];

/// A watch, until it is dropped.
pub struct FileWatch {
    changed: Arc<Notify>,
    /// When the first change was seen that was not returned yet.
    first: Cell<Option<Instant>>,
    folder: PathBuf,
    mode: RecursiveMode,
    /// Holds the watches of the kernel.
    watcher: RefCell<RecommendedWatcher>,
}

impl FileWatch {
    /// Watches the folder of a charm.
    ///
    /// # Errors
    /// If inotify is not available, or the folder cannot be read.
    pub fn of_charm(folder: &Path) -> Result<FileWatch, CommandError> {
        let root = folder.to_path_buf();
        FileWatch::new(folder, RecursiveMode::Recursive, move |path| {
            path.strip_prefix(&root).is_ok_and(|relative| can_be_packed(relative) && !is_temporary(relative))
        })
    }

    /// Watches one file, which an editor may replace by another one.
    ///
    /// # Errors
    /// As [`FileWatch::of_charm`].
    pub fn of_file(file: &Path) -> Result<FileWatch, CommandError> {
        let folder = file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let file = file.to_path_buf();
        FileWatch::new(&folder, RecursiveMode::NonRecursive, move |path| path == file)
    }

    fn new(
        folder: &Path,
        mode: RecursiveMode,
        is_relevant: impl Fn(&Path) -> bool + Send + 'static,
    ) -> Result<FileWatch, CommandError> {
        let to_error = |error: notify::Error| {
            let setting = setting(Limit::Inotify).unwrap_or_default();
            CommandError::new(format!("cannot watch {}: {error}", folder.display()))
                .hint(format!("if too many files are watched, raise {setting}"))
        };
        // the library ends the process if its thread cannot be started
        let probe = std::thread::Builder::new().spawn(|| {});
        probe.map(std::thread::JoinHandle::join).map_err(notify::Error::io).map_err(to_error)?.ok();
        let changed = Arc::new(Notify::new());
        let (notify, root) = (Arc::clone(&changed), folder.to_path_buf());
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // an error may hide a change; read accesses are events, too, and are ignored
            let relevant = event.map_or(true, |event| {
                !event.kind.is_access() && event.paths.iter().any(|path| *path == root || is_relevant(path))
            });
            if relevant {
                notify.notify_one();
            }
        })
        .map_err(to_error)?;
        watcher.watch(folder, mode).map_err(to_error)?;
        if let Some(parent) = folder.parent() {
            // the kernel watches a folder, not a name: the parent shows that another folder has the name
            watcher.watch(parent, RecursiveMode::NonRecursive).ok(); // it need not be readable
        }
        let (folder, watcher) = (folder.to_path_buf(), RefCell::new(watcher));
        Ok(FileWatch { changed, first: Cell::new(None), folder, mode, watcher })
    }

    /// Completes when a file was saved, once nothing changes for a moment. Returns when the first change was seen. The
    /// future may be dropped before it completes: the next call then returns that change.
    pub async fn changed(&self) -> Instant {
        let first = match self.first.get() {
            Some(first) => first,
            None => {
                self.changed.notified().await;
                Instant::now()
            }
        };
        self.first.set(Some(first));
        while first.elapsed() < QUIET_WAIT_MAX && timeout(QUIET, self.changed.notified()).await.is_ok() {}
        // the folder may be another one; if it is absent, its return is the next change
        self.watcher.borrow_mut().watch(&self.folder, self.mode).ok();
        self.first.set(None);
        first
    }
}

/// Whether changes of the file are ignored: an editor renames it to the saved file, or copies it.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // vim creates 4913 to find out whether it can write into the folder
    name == "4913"
        || IGNORED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || IGNORED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than any wait of the watch itself.
    const DEADLINE: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn a_save_in_a_subfolder_is_noticed_and_temporary_files_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it was just created");
        for name in [".git", "hooks"] {
            std::fs::create_dir(root.join(name)).expect("created");
        }
        let watch = FileWatch::of_charm(&root).expect("inotify is available");
        for name in [".git/index", "web.charm", "hooks/.install.swp", "hooks/install~", "4913"] {
            std::fs::write(root.join(name), "x").expect("written");
        }
        // events arrive in order: the wait must time out before hooks/install is written
        let name = root.join("hooks/install");
        let write = async {
            let ignored = timeout(QUIET_WAIT_MAX, watch.changed()).await;
            std::fs::write(&name, "#!/bin/sh\n").expect("written");
            ignored
        };
        assert!(write.await.is_err(), "nothing that belongs to the charm was saved");
        timeout(DEADLINE, watch.changed()).await.expect("the save is noticed");
    }

    #[tokio::test]
    async fn a_change_is_not_lost_when_the_caller_stops_waiting() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("it was just created");
        let watch = FileWatch::of_charm(&root).expect("inotify is available");
        std::fs::write(root.join("dispatch"), "x").expect("written");
        let is_seen = async {
            while watch.first.get().is_none() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = watch.changed() => panic!("nothing was quiet yet"),
            () = is_seen => {}
        }
        timeout(DEADLINE, watch.changed()).await.expect("the change is returned");
    }

    #[tokio::test]
    async fn a_folder_that_is_replaced_is_watched() {
        let parent = tempfile::tempdir().expect("a folder");
        let root = parent.path().canonicalize().expect("it was just created").join("charm");
        std::fs::create_dir(&root).expect("created");
        let watch = FileWatch::of_charm(&root).expect("inotify is available");
        std::fs::rename(&root, root.with_extension("old")).expect("renamed");
        std::fs::create_dir(&root).expect("created");
        timeout(DEADLINE, watch.changed()).await.expect("the other folder is noticed");
        std::fs::write(root.join("dispatch"), "x").expect("written");
        timeout(DEADLINE, watch.changed()).await.expect("a file in it is noticed");
    }

    #[tokio::test]
    async fn a_file_that_is_replaced_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().canonicalize().expect("it was just created").join("fakes.yaml");
        let watch = FileWatch::of_file(&file).expect("inotify is available");
        host::file::write_atomic_unsynced(&file, b"relations: []\n").expect("written");
        timeout(DEADLINE, watch.changed()).await.expect("the save is noticed");
    }
}
