//! Deletes folders of removed units beside the loop of the machine agent: a charm may have made millions of files.
//!
//! One thread deletes one folder after the other, and ends when there is none left. If no thread can be started, the folder
//! is deleted in the call. A deletion that is interrupted by the end of the agent is started again by the next one.
//! Must only be given folders that were moved away from the name of their unit. Called by `unit_supervisor`.

use crate::fault;
use anyhow::{Result, bail};
use host::tree;
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;
use tokio::sync::Notify;

/// How long the loop of the machine agent waits for one deletion: a folder with some thousand files is deleted meanwhile, and
/// its recall is confirmed at once.
const WAIT: Duration = Duration::from_millis(100);

/// The folders that are being deleted.
#[derive(Debug)]
pub struct Deletions {
    state: Arc<SharedState>,
    /// Is notified when a deletion has ended that somebody has asked for before ([`Deletions::require_deleted`]).
    ended: Arc<Notify>,
}

#[derive(Debug, Default)]
struct SharedState {
    state: Mutex<State>,
    has_ended: Condvar,
    /// Is notified when the thread has nothing left to delete.
    idle: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The folders to delete, with the number of files and folders in them that are deleted.
    pending: BTreeMap<PathBuf, Arc<AtomicU64>>,
    /// Why the last deletion of a folder has failed.
    failed: BTreeMap<PathBuf, String>,
    /// The folders whose deletion was asked for while it took long, with their units.
    awaited: BTreeMap<PathBuf, Uuid>,
    /// The units of which such a deletion has ended.
    ended: BTreeSet<Uuid>,
    /// Whether the thread runs.
    is_running: bool,
}

impl Deletions {
    /// No folder is being deleted. `ended` is notified of the end of a deletion that was asked for before.
    pub fn new(ended: Arc<Notify>) -> Deletions {
        Deletions { state: Arc::default(), ended }
    }

    /// Deletes a folder in the background, unless it is being deleted already.
    pub fn start(&self, folder: PathBuf) {
        let is_first = {
            let mut state = lock(&self.state);
            state.failed.remove(&folder);
            state.pending.entry(folder).or_default();
            !std::mem::replace(&mut state.is_running, true)
        };
        if !is_first {
            return;
        }
        let (state, ended) = (self.state.clone(), self.ended.clone());
        let thread = Builder::new().name("deletion".to_owned()).spawn(move || run(&state, &ended));
        if let Err(error) = thread {
            let why = fault::with_setting(&error);
            tracing::warn!("cannot start a thread: {why}; the agent waits for a deletion");
            run(&self.state, &self.ended);
        }
    }

    /// Deletes what is left of a folder of the unit, and waits for that a moment ([`WAIT`]).
    ///
    /// # Errors
    /// While it is being deleted, with the progress: [`Deletions::take_ended`] has the unit later. Or why it could not be
    /// deleted.
    pub fn require_deleted(&self, unit: Uuid, folder: &Path) -> Result<()> {
        // a slow attempt has failed since the last call: its reason is reported before it is repeated
        let failed = lock(&self.state).failed.remove(folder);
        if let Some(why) = failed {
            bail!("cannot delete {}: {why}", folder.display());
        }
        self.start(folder.to_owned());
        let state = lock(&self.state);
        let is_pending = |state: &mut State| state.pending.contains_key(folder);
        let waited = self.state.has_ended.wait_timeout_while(state, WAIT, is_pending);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let deleted = state.pending.get(folder).map(|deleted| deleted.load(Ordering::Relaxed));
        if let Some(deleted) = deleted {
            state.awaited.insert(folder.to_owned(), unit);
            bail!("{} is being deleted: {deleted} files so far", folder.display());
        }
        match state.failed.remove(folder) {
            Some(why) => bail!("cannot delete {}: {why}", folder.display()),
            None => Ok(()),
        }
    }

    /// The units of which [`Deletions::require_deleted`] has failed because a deletion took long, and has been completed
    /// since the last call. One that has failed is tried again with the back-off of its recall.
    pub fn take_ended(&self) -> BTreeSet<Uuid> {
        std::mem::take(&mut lock(&self.state).ended)
    }

    /// Completes when nothing is being deleted any more. What could not be deleted is logged and left.
    pub async fn wait_until_idle(&self) {
        let mut idle = pin!(self.state.idle.notified());
        idle.as_mut().enable(); // before the look, so that an end after it is noticed
        let is_running = lock(&self.state).is_running;
        if is_running {
            idle.await;
        }
    }
}

/// Deletes all folders.
fn run(shared: &SharedState, ended: &Notify) {
    loop {
        let (folder, deleted) = {
            let mut state = lock(shared);
            let next = state.pending.iter().next().map(|(folder, deleted)| (folder.clone(), deleted.clone()));
            match next {
                Some(next) => next,
                None => {
                    state.is_running = false;
                    shared.idle.notify_waiters();
                    return;
                }
            }
        };
        let outcome = tree::remove_counting(&folder, &deleted);
        let mut state = lock(shared);
        state.pending.remove(&folder);
        let awaited = state.awaited.remove(&folder).filter(|_| outcome.is_ok());
        state.ended.extend(awaited);
        if let Err(error) = outcome {
            tracing::warn!("cannot delete {}: {error}", folder.display());
            state.failed.insert(folder, error.to_string());
        }
        drop(state);
        shared.has_ended.notify_all();
        if awaited.is_some() {
            ended.notify_one();
        }
    }
}

fn lock(shared: &SharedState) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_folder_is_deleted_and_an_error_is_reported_until_it_can_be() {
        let machine = tempfile::tempdir().expect("a folder");
        let (folder, deletions) = (machine.path().join("removed"), Deletions::new(Arc::default()));
        fs::create_dir_all(folder.join("a/b")).expect("made");
        deletions.start(folder.clone());
        deletions.require_deleted(Uuid(7), &folder).expect("it is deleted within the wait");
        assert!(!folder.exists());
        fs::write(machine.path().join("file"), "").expect("written");
        let impossible = machine.path().join("file/removed");
        let error =
            deletions.require_deleted(Uuid(7), &impossible).expect_err("it cannot be seen").to_string();
        assert!(error.contains("file/removed"), "{error}");
    }

    #[tokio::test]
    async fn a_long_deletion_is_not_waited_for_and_its_progress_is_reported() {
        let machine = tempfile::tempdir().expect("a folder");
        let (folder, ended) = (machine.path().join("removed"), Arc::new(Notify::new()));
        let deletions = Deletions::new(ended.clone());
        {
            let mut state = lock(&deletions.state);
            state.pending.insert(folder.clone(), Arc::new(AtomicU64::new(300_000)));
            state.is_running = true; // by a thread that still works
        }
        let error = deletions.require_deleted(Uuid(7), &folder).expect_err("it takes long").to_string();
        assert!(error.contains("removed") && error.contains("300000"), "{error}");
        assert!(deletions.take_ended().is_empty(), "it is not deleted yet");
        {
            // the thread ends while it is waited for
            let mut idle = pin!(deletions.wait_until_idle());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(idle.as_mut().poll(&mut context).is_pending());
            run(&deletions.state, &ended);
            idle.await;
        }
        ended.notified().await;
        assert_eq!(deletions.take_ended(), BTreeSet::from([Uuid(7)]), "its recall can be confirmed");
        assert!(deletions.take_ended().is_empty(), "once");
        deletions.require_deleted(Uuid(7), &folder).expect("it is deleted");
    }
}
