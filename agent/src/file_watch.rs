//! Tells when a file of a folder may have changed: at once where inotify is to be had, else at the next poll.
//!
//! A change is a hint only; the caller reads the file again and compares. The machine agent is the one process of a
//! machine that uses inotify, since a user has few instances (128 by default): it sends SIGHUP to the unit agents, which
//! poll besides. Without inotify everything still works, up to [`POLL`] later.

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How often files are read again without a hint: seldom enough to cost nothing, soon enough for a person who waits.
pub const POLL: Duration = Duration::from_secs(5);

/// Watches one file until it is dropped.
pub struct FileWatch {
    changed: Arc<Notify>,
    /// None where inotify is not to be had.
    watcher: Option<RecommendedWatcher>,
}

impl FileWatch {
    /// Watches the file `name` of `folder`, which need not exist.
    pub fn new(folder: &Path, name: &'static str) -> FileWatch {
        let changed = Arc::new(Notify::new());
        let watcher = watch(folder, name, Arc::clone(&changed));
        if let Err(error) = &watcher {
            tracing::info!("changes of {}/{name} are noticed after {POLL:?}: {error}", folder.display());
        }
        FileWatch { changed, watcher: watcher.ok() }
    }

    /// Whether changes are noticed at once.
    pub fn has_inotify(&self) -> bool {
        self.watcher.is_some()
    }

    /// Completes when the file may have changed, after [`POLL`] at the latest.
    pub async fn changed(&self) {
        tokio::time::timeout(POLL, self.changed.notified()).await.ok();
    }
}

fn watch(folder: &Path, name: &'static str, changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    // the folder, not the file: a file that is replaced is another one, and may be absent at first
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // an error may hide a change; reading is an event too, and is none
        let relevant = event.map_or(true, |event| {
            !event.kind.is_access() && event.paths.iter().any(|path| path.ends_with(name))
        });
        if relevant {
            changed.notify_one();
        }
    })?;
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test]
    async fn a_change_is_noticed_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let watch = FileWatch::new(folder.path(), "level");
        assert!(watch.has_inotify());
        let before = Instant::now();
        std::fs::write(folder.path().join("other"), "1").expect("written");
        host::file::write_atomic_unsynced(&folder.path().join("level"), b"1").expect("written");
        watch.changed().await;
        assert!(before.elapsed() < POLL);
    }

    #[tokio::test(start_paused = true)]
    async fn without_inotify_the_file_is_polled() {
        let watch = FileWatch::new(Path::new("/nonexistent"), "level");
        assert!(!watch.has_inotify());
        let before = Instant::now();
        watch.changed().await;
        assert!(before.elapsed() >= POLL);
    }
}
