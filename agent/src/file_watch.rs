//! Waits for changes of one file: at once where inotify is available, else until the next poll.
//!
//! A change is only a hint: the caller reads the file again and compares. The machine agent is the only process
//! of a machine that uses inotify, because a user may create few inotify instances (128 by default). It sends
//! SIGHUP to the unit agents, which also poll. Without inotify everything works, up to [`POLL`] later.

use nix::errno::Errno;
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use state::terms::health::Limit;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How often files are read without a notification: rarely enough to cost nothing, and soon enough for a
/// waiting operator.
pub const POLL: Duration = Duration::from_secs(5);

/// A watch on one file, until it is dropped.
pub struct FileWatch {
    changed: Arc<Notify>,
    /// Holds the watch of the kernel; `None` if inotify is not available.
    _watcher: Option<RecommendedWatcher>,
}

impl FileWatch {
    /// Watches the file `name` of `folder`, which need not exist.
    pub fn new(folder: &Path, name: &'static str) -> FileWatch {
        let changed = Arc::new(Notify::new());
        let watcher = watch(folder, name, Arc::clone(&changed));
        if let Err(error) = &watcher {
            let setting = api::text::fault::setting(Limit::Inotify).filter(|_| is_limit(error));
            let remedy = setting.map(|setting| format!(" (to change that, raise {setting})"));
            tracing::info!(
                "cannot use inotify for {}/{name}: {error}; polling every {POLL:?} instead{}",
                folder.display(),
                remedy.unwrap_or_default()
            );
        }
        FileWatch { changed, _watcher: watcher.ok() }
    }

    /// Completes when the file may have changed, after [`POLL`] at the latest.
    pub async fn changed(&self) {
        tokio::time::timeout(POLL, self.changed.notified()).await.ok();
    }
}

/// Whether a limit of inotify is the cause: the number of watches, or of instances (`EMFILE`, which is also that of open
/// files).
fn is_limit(error: &notify::Error) -> bool {
    match &error.kind {
        notify::ErrorKind::MaxFilesWatch => true,
        notify::ErrorKind::Io(error) => error.raw_os_error() == Some(Errno::EMFILE as i32),
        _ => false,
    }
}

fn watch(folder: &Path, name: &'static str, changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    // the library ends the process if its thread cannot be started
    let probe = std::thread::Builder::new().spawn(|| {});
    probe.map(std::thread::JoinHandle::join).map_err(notify::Error::io)?.ok();
    // the folder is watched, because the file is replaced by another file and may be absent at first
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // an error may hide a change; read accesses are events, too, and are ignored
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
    async fn a_change_is_detected_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let watch = FileWatch::new(folder.path(), "level");
        let before = Instant::now();
        std::fs::write(folder.path().join("other"), "1").expect("written");
        host::file::write_atomic_unsynced(&folder.path().join("level"), b"1").expect("written");
        watch.changed().await;
        assert!(before.elapsed() < POLL);
    }

    #[tokio::test(start_paused = true)]
    async fn without_inotify_the_file_is_polled() {
        let watch = FileWatch::new(Path::new("/nonexistent"), "level");
        let before = Instant::now();
        watch.changed().await;
        assert!(before.elapsed() >= POLL);
    }
}
