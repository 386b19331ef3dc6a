//! A watch on one file: it completes when the file may have changed, at once where inotify is available, else
//! at the next poll.
//!
//! A change is only a hint: the caller reads the file again and compares. The machine agent is the only process
//! of a machine that uses inotify, because a user may create few inotify instances (128 by default). It sends
//! SIGHUP to the unit agents, which also poll. Without inotify everything works, up to [`POLL`] later.

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent};
use state::terms::health::Limit;
use std::future;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;

/// How often files are read without a notification: rarely enough to cost nothing, and soon enough for a
/// waiting operator.
pub const POLL: Duration = Duration::from_secs(5);

/// A watch on one file, until it is dropped.
pub struct FileWatch {
    name: &'static str,
    /// The events of the file's folder; `None` if inotify is not available.
    events: Option<Events>,
}

/// An inotify instance, and a duplicate of its descriptor with which the runtime waits for events.
struct Events {
    inotify: Inotify,
    readiness: Receiver,
}

impl FileWatch {
    /// Watches the file `name` of `folder`, which need not exist. Must be called in a runtime.
    pub fn new(folder: &Path, name: &'static str) -> FileWatch {
        let events = Events::watch(folder);
        if let Err(error) = &events {
            let setting = api::text::fault::setting(Limit::Inotify).unwrap_or_default();
            tracing::info!(
                "cannot use inotify for {}/{name}: {error}; polling every {POLL:?} instead (to change that, raise {setting})",
                folder.display()
            );
        }
        FileWatch { name, events: events.ok() }
    }

    /// Completes when the file may have changed, after [`POLL`] at the latest.
    pub async fn changed(&self) {
        let event = async {
            match &self.events {
                Some(events) => events.until_of(self.name).await,
                None => future::pending().await,
            }
        };
        tokio::time::timeout(POLL, event).await.ok();
    }
}

impl Events {
    /// Watches a folder, because the file is replaced by another file and may be absent at first. Needs no thread, which
    /// may be refused (`ulimit -u`).
    fn watch(folder: &Path) -> io::Result<Events> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let moves = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_MOVED_FROM;
        let writes = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE | AddWatchFlags::IN_CLOSE_WRITE;
        inotify.add_watch(folder, moves | writes)?;
        let readiness = Receiver::from_owned_fd_unchecked(inotify.as_fd().try_clone_to_owned()?)?;
        Ok(Events { inotify, readiness })
    }

    /// Waits for an event of the file of this name.
    async fn until_of(&self, name: &str) {
        // an event without a name tells that events were lost
        let is_relevant = |event: &InotifyEvent| event.name.as_ref().is_none_or(|of| of == name);
        while self.readiness.readable().await.is_ok() {
            let is_changed = match self.inotify.read_events() {
                Ok(events) => events.iter().any(is_relevant),
                // all were read: the next call waits, unless an event has come meanwhile
                Err(_) => self.readiness.try_read(&mut [0; 4096]).is_ok(),
            };
            if is_changed {
                return;
            }
        }
        future::pending().await
    }
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
