//! Waits until the hook lock is acquired, however long that takes.
//!
//! An error of the lock's file is logged once until the lock was acquired: the attempts follow each other within
//! milliseconds, each event of the unit starts another wait, and the error of a full or read-only disk lasts.

use host::backoff::Backoff;
use host::lock::Lock;
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The first delay between attempts to acquire the hook lock, in milliseconds.
const LOCK_POLL_FIRST_MS: u64 = 2;
/// The longest delay between these attempts, in milliseconds.
const LOCK_POLL_MAX_MS: u64 = 50;

/// Waits until the lock of this file is acquired. `holder` describes this process, and `logged` is the last error that was
/// logged.
pub(super) async fn acquire(path: &Path, holder: &str, logged: &RefCell<Option<String>>) -> Lock {
    let mut backoff = Backoff::new(LOCK_POLL_FIRST_MS, LOCK_POLL_MAX_MS);
    loop {
        match Lock::take(path, holder) {
            Ok(Ok(lock)) => {
                logged.take();
                return lock;
            }
            Ok(Err(_)) => {}
            Err(error) => {
                if let Some(line) = new_error(path, &error, logged) {
                    tracing::warn!("{line}");
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(backoff.delay_ms())).await;
        backoff.increase();
    }
}

/// Returns the line for the log, unless it was the last one.
fn new_error(path: &Path, error: &io::Error, logged: &RefCell<Option<String>>) -> Option<String> {
    let line = format!("cannot acquire the hook lock {}: {error}; retrying", path.display());
    let before = logged.replace(Some(line.clone()));
    (before.as_ref() != Some(&line)).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// 1. The disk is read-only. 2. Each event of the unit drops the wait and starts another one. 3. The lock is acquired.
    #[tokio::test(start_paused = true)]
    async fn an_error_is_logged_once_until_the_lock_was_acquired() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, logged) = (folder.path().join("absent/hook.lock"), RefCell::default());
        let mut lines = BTreeSet::new();
        for _ in 0..3 {
            let wait = acquire(&path, "a test", &logged);
            let waited = tokio::time::timeout(Duration::from_secs(1), wait).await;
            assert!(waited.is_err(), "the folder is absent");
            lines.extend(logged.borrow().clone());
            let again = new_error(&path, &Lock::take(&path, "a test").expect_err("it is absent"), &logged);
            assert_eq!(again, None, "it was logged in the first wait");
        }
        assert_eq!(lines.len(), 1);
        std::fs::create_dir(folder.path().join("absent")).expect("created");
        drop(acquire(&path, "a test", &logged).await);
        assert_eq!(logged.take(), None, "the next error is logged again");
    }
}
