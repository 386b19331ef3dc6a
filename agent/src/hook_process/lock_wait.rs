//! Waits for the hook lock.
//!
//! An error of the lock's file is logged once in each wait: the attempts follow each other within milliseconds, and the
//! error of a full or read-only disk lasts.

use host::backoff::Backoff;
use host::lock::Lock;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The delay between attempts to acquire the hook lock.
const LOCK_POLL_FIRST_MS: u64 = 2;
const LOCK_POLL_MAX_MS: u64 = 50;

/// Waits until the lock of this file is acquired. `holder` describes this process.
pub(super) async fn acquire(path: &Path, holder: &str) -> Lock {
    let mut backoff = Backoff::new(LOCK_POLL_FIRST_MS, LOCK_POLL_MAX_MS);
    let mut is_logged = false;
    loop {
        match Lock::take(path, holder) {
            Ok(Ok(lock)) => return lock,
            Ok(Err(_)) => {}
            Err(error) => {
                if let Some(line) = first_error(path, &error, &mut is_logged) {
                    tracing::warn!("{line}");
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(backoff.delay_ms())).await;
        backoff.increase();
    }
}

/// Returns the line for the log, if no error of this wait was logged before.
fn first_error(path: &Path, error: &io::Error, is_logged: &mut bool) -> Option<String> {
    let is_first = !std::mem::replace(is_logged, true);
    is_first.then(|| format!("cannot acquire the hook lock {}: {error}; retrying", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_logged_once_in_a_wait() {
        let (path, error) = (Path::new("/x/hook.lock"), io::Error::from(io::ErrorKind::StorageFull));
        let mut is_logged = false;
        let lines: Vec<String> = (0..100).filter_map(|_| first_error(path, &error, &mut is_logged)).collect();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("/x/hook.lock") && lines[0].contains(&error.to_string()));
    }
}
