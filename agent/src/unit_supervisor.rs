//! Supervises the unit agents of this machine: starts them and restarts them, with back-off, when they end.
//!
//! Unit agents are separate processes: the machine agent may end and restart without affecting them. Implements
//! `ports::Deployments` for the machine agent, on top of `deployer`, and passes the calls of `ports::StorageHost` and
//! `ports::AuthorizedKeys` on to `storage_pools` and `authorized_keys`.

use crate::config;
use crate::deletions::Deletions;
use crate::deployer::{Deployer, may_run};
use crate::folder::UnitFolder;
use crate::ports::{AuthorizedKeys, Deployments, StorageHost, UnitToken};
use crate::service::{self, AgentExit, EndedAgent};
use crate::storage_pools::StoragePools;
use crate::unrestored_storage::UnrestoredStorage;
use crate::{authorized_keys, blocking, clock, disk_usage, exit_code, fault, observation};
use anyhow::Result;
use api::text::fault::process_end;
use host::restart::{EndedBy, Restarts};
use state::machine::claims::Claim;
use state::terms::disk_usage::UnitDiskUsage;
use state::terms::health::{ProcessEnd, UnitAgentExit, UnitHealth};
use state::terms::names::{UnitName, Uuid};
use state::terms::ssh_key::SshKey;
use state::terms::storage::{MachineStorage, StorageId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The delay before a unit agent that failed is started again: doubled from 200 ms up to 30 s while the agent keeps
/// failing soon after its start.
const RESTARTS: Restarts = Restarts::new(200, 30_000);
/// An agent that ran longer than this has recovered: its earlier exits are not reported any more.
const RECOVERED_AFTER: Duration = Duration::from_secs(60);

/// The last start of a unit agent.
#[derive(Clone, Copy, Debug)]
struct LastStart {
    started: Instant,
    restarts: Restarts,
    /// When the agent may be started again; `None` while it runs.
    next: Option<Instant>,
}

/// When an agent ended, and what ended it.
#[derive(Clone, Copy, Debug)]
struct Ending {
    at: Instant,
    by: EndedBy,
}

/// The unit agents in the folders under `<machine>/agents`.
#[derive(Debug)]
pub struct UnitSupervisor {
    deployer: Deployer,
    starts: RefCell<BTreeMap<Uuid, LastStart>>,
    /// The agents that ended and were not started again.
    endings: Arc<Mutex<BTreeMap<Uuid, Ending>>>,
    /// How agents ended, until they have run for longer than [`RECOVERED_AFTER`].
    exits: Arc<Mutex<BTreeMap<Uuid, UnitAgentExit>>>,
    /// The folders of removed units.
    deletions: Deletions,
    /// A unit agent has ended, or its back-off has expired, or a folder was deleted.
    changed: Arc<Notify>,
}

impl UnitSupervisor {
    fn storage_pools(&self) -> StoragePools {
        StoragePools::new(self.deployer.machine_folder())
    }

    /// A supervisor that has not started any agent yet. It deletes the folders that an earlier agent has left.
    pub fn new(deployer: Deployer) -> UnitSupervisor {
        let changed = Arc::<Notify>::default();
        let deletions = Deletions::new(changed.clone());
        match deployer.removed_folders(None) {
            Ok(left) => left.into_iter().for_each(|folder| deletions.start(folder)),
            Err(error) => tracing::warn!("{error:#}"),
        }
        UnitSupervisor {
            deployer,
            starts: RefCell::default(),
            endings: Arc::default(),
            exits: Arc::default(),
            deletions,
            changed,
        }
    }

    fn notify_after(&self, delay: Duration) {
        let changed = Arc::clone(&self.changed);
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            changed.notify_one();
        });
    }

    /// Forgets a unit whose folder is no longer here.
    fn forget(&self, unit: Uuid) {
        self.starts.borrow_mut().remove(&unit);
        self.endings.lock().expect("no holder panics").remove(&unit);
        self.exits.lock().expect("no holder panics").remove(&unit);
    }

    /// Records how the agent ends, and then allows its next start.
    fn watch(&self, unit: Uuid, folder: &UnitFolder, exit: AgentExit) {
        let (changed, exits, started) = (Arc::clone(&self.changed), Arc::clone(&self.exits), Instant::now());
        let (endings, tag) = (Arc::clone(&self.endings), folder.tag());
        tokio::spawn(async move {
            let ended = exit.await;
            tracing::info!("the agent of {tag} ended {}", process_end(&ended.end));
            let ending = Ending { at: Instant::now(), by: ended_by(&ended.end) };
            record_end(&exits, unit, ended, started.elapsed() > RECOVERED_AFTER);
            endings.lock().expect("no holder panics").insert(unit, ending);
            changed.notify_one();
        });
    }
}

/// What ended an agent. An agent that receives SIGTERM exits with a code of its own.
fn ended_by(end: &ProcessEnd) -> EndedBy {
    match end {
        ProcessEnd::Code(code) if *code == i32::from(exit_code::RESTART) => EndedBy::Signal,
        ProcessEnd::Signal(signal) => EndedBy::of_signal(Some(*signal)),
        ProcessEnd::Code(_) | ProcessEnd::NotStarted | ProcessEnd::Unobserved => EndedBy::Itself,
    }
}

/// Adds the end of an agent to the earlier ones, or replaces them if it had run for long. The end of an agent that has
/// finished, or restarts on purpose, is not recorded.
fn record_end(exits: &Mutex<BTreeMap<Uuid, UnitAgentExit>>, unit: Uuid, ended: EndedAgent, was_long: bool) {
    let mut exits = exits.lock().expect("no holder panics");
    if was_long {
        exits.remove(&unit);
    }
    let fault = match ended.end {
        ProcessEnd::Code(code) if code == 0 || code == i32::from(exit_code::RESTART) => return,
        ProcessEnd::Code(code) => exit_code::fault(code),
        ProcessEnd::Signal(_) | ProcessEnd::NotStarted | ProcessEnd::Unobserved => None,
    };
    let at_ms = clock::wall_ms();
    let EndedAgent { end, last_error } = ended;
    add_exit(&mut exits, unit, UnitAgentExit { end, fault, last_error, since_ms: at_ms, at_ms, count: 1 });
}

/// Replaces the last exit of an agent, and continues its count. The last error stays known until there is another one.
fn add_exit(exits: &mut BTreeMap<Uuid, UnitAgentExit>, unit: Uuid, mut exit: UnitAgentExit) {
    if let Some(before) = exits.get(&unit) {
        exit.since_ms = before.since_ms;
        exit.count = before.count.saturating_add(1);
        exit.last_error = exit.last_error.or_else(|| before.last_error.clone());
    }
    exits.insert(unit, exit);
}

impl StorageHost for UnitSupervisor {
    async fn provide_storage(&self, id: &StorageId, storage: &MachineStorage) -> Result<String> {
        self.storage_pools().provide_storage(id, storage).await
    }

    async fn release_storage(&self, id: &StorageId, storage: &MachineStorage) -> Result<()> {
        self.storage_pools().release_storage(id, storage).await
    }

    async fn delete_storage(&self, id: &StorageId, storage: &MachineStorage) -> Result<()> {
        self.storage_pools().delete_storage(id, storage).await
    }

    async fn restore_storage(&self) -> UnrestoredStorage {
        self.storage_pools().restore_storage().await
    }

    async fn release_all_storage(&self) -> Result<()> {
        self.storage_pools().release_all_storage().await
    }
}

impl AuthorizedKeys for UnitSupervisor {
    async fn set_ssh_keys(&self, keys: &[SshKey]) -> Result<()> {
        authorized_keys::reconcile(self.deployer.machine_folder(), keys).await
    }
}

impl Deployments for UnitSupervisor {
    type Folder = UnitFolder;

    fn folder(&self, name: &UnitName) -> UnitFolder {
        self.deployer.folder(name)
    }

    fn claims(&self) -> Result<Vec<Claim<UnitFolder>>> {
        self.deployer.claims()
    }

    fn verify_absent(&self, unit: Uuid) -> Result<()> {
        self.deployer.verify_absent(unit)?;
        self.deployer
            .removed_folders(Some(unit))?
            .iter()
            .try_for_each(|left| self.deletions.require_deleted(unit, left))
    }

    fn take_deleted(&self) -> BTreeSet<Uuid> {
        self.deletions.take_ended()
    }

    async fn wait_until_deleted(&self) {
        self.deletions.wait_until_idle().await;
    }

    fn is_finished(&self, folder: &UnitFolder) -> bool {
        self.deployer.is_finished(folder)
    }

    async fn prepare(&self, unit: Uuid, name: &UnitName) -> Result<String> {
        Ok(self.deployer.prepare(unit, name)?.token)
    }

    fn token(&self, folder: &UnitFolder) -> Result<UnitToken> {
        let text = config::read(folder.root())?.token;
        Ok(UnitToken { text, is_accepted: self.deployer.is_token_accepted(folder) })
    }

    async fn store_token_accepted(&self, folder: &UnitFolder) -> Result<()> {
        self.deployer.store_token_accepted(folder)
    }

    fn ensure_running(&self, unit: Uuid, folder: &UnitFolder, assigned: bool) -> Result<()> {
        self.deployer.update_controllers(folder)?;
        if assigned {
            self.deployer.cancel_recall(folder)?;
        }
        if !may_run(folder)? {
            return Ok(());
        }
        let mut all = self.starts.borrow_mut();
        let known = all.get(&unit).copied();
        if let Some(process) = service::running(folder) {
            let has_ended = self.endings.lock().expect("no holder panics").remove(&unit).is_some();
            if has_ended || known.is_none_or(|known| known.next.is_some()) {
                // an earlier machine agent has started it, or systemd has, before this one did: it is watched, not
                // restarted
                tracing::info!("found the running agent of {folder}");
                self.watch(unit, folder, Box::pin(service::wait_for_exit(process, folder.clone())));
                let restarts = known.map_or(RESTARTS, |known| known.restarts);
                all.insert(unit, LastStart { started: Instant::now(), restarts, next: None });
            }
            return Ok(());
        }
        let mut restarts = RESTARTS;
        if let Some(mut known) = known {
            if known.next.is_none() {
                // an agent that was just started may not have written its pid file yet: its watch notifies of its end
                let mut endings = self.endings.lock().expect("no holder panics");
                let Some(ending) = endings.remove(&unit) else { return Ok(()) };
                let ran_ms = ending.at.duration_since(known.started).as_millis();
                let delay_ms = known.restarts.delay_ms(u64::try_from(ran_ms).unwrap_or(u64::MAX), ending.by);
                tracing::info!(delay_ms, "restarting the agent of {folder}");
                known.next = Some(ending.at + Duration::from_millis(delay_ms));
                all.insert(unit, known);
            }
            let left =
                known.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()));
            if !left.is_zero() {
                self.notify_after(left);
                return Ok(());
            }
            restarts = known.restarts;
        }
        let exit = self.deployer.start(folder).inspect_err(|error| {
            let mut exits = self.exits.lock().expect("no holder panics");
            add_exit(&mut exits, unit, fault::not_started(error, clock::wall_ms()));
        })?;
        tracing::info!("started the agent of {folder}");
        all.insert(unit, LastStart { started: Instant::now(), restarts, next: None });
        self.watch(unit, folder, exit);
        Ok(())
    }

    async fn stop(&self, folder: &UnitFolder) -> Result<()> {
        self.deployer.stop(folder).await
    }

    async fn stop_all(&self) -> Result<()> {
        self.deployer.stop_all().await
    }

    async fn delete(&self, unit: Uuid, folder: &UnitFolder) -> Result<()> {
        self.deletions.start(self.deployer.remove(unit, folder)?);
        self.forget(unit);
        Ok(())
    }

    async fn quarantine(&self, unit: Uuid, folder: &UnitFolder) -> Result<String> {
        let path = self.deployer.quarantine(folder, unit).await?;
        self.forget(unit);
        Ok(path.display().to_string())
    }

    fn is_to_be_started(&self, folder: &UnitFolder) -> bool {
        service::running(folder).is_none() && may_run(folder).unwrap_or(true)
    }

    fn health(&self, unit: Uuid, folder: &UnitFolder) -> UnitHealth {
        let started = self.starts.borrow().get(&unit).map(|start| start.started.elapsed());
        let runs_long =
            service::running(folder).is_some() && started.is_some_and(|ran| ran > RECOVERED_AFTER);
        let exits = self.exits.lock().expect("no holder panics");
        let exit = exits.get(&unit).filter(|_| !runs_long && may_run(folder).unwrap_or(true)).cloned();
        UnitHealth { exit, ..observation::observe(folder) }
    }

    async fn disk_usage(&self, folder: &UnitFolder) -> UnitDiskUsage {
        let folder = folder.clone();
        // a charm may have thousands of files
        blocking::run(move || disk_usage::measure(&folder)).await
    }

    async fn quarantined_bytes(&self) -> u64 {
        self.disk_usage(&self.deployer.quarantine_folder()).await.total_bytes()
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_of_an_agent_is_kept_until_another_one_is_known() {
        let exits = Mutex::default();
        let end = |last_error: Option<&str>| {
            let ended = EndedAgent { end: ProcessEnd::Code(90), last_error: last_error.map(str::to_owned) };
            record_end(&exits, Uuid(1), ended, false);
            let exit = exits.lock().unwrap()[&Uuid(1)].clone();
            (exit.count, exit.last_error)
        };
        assert_eq!(end(Some("first")), (1, Some("first".to_owned())));
        assert_eq!(end(None), (2, Some("first".to_owned())));
        assert_eq!(end(Some("other")), (3, Some("other".to_owned())));
    }

    #[test]
    fn an_agent_that_is_killed_or_terminated_has_not_failed() {
        let by_external_signal =
            [ProcessEnd::Signal(9), ProcessEnd::Signal(15), ProcessEnd::Code(i32::from(exit_code::RESTART))];
        assert_eq!(by_external_signal.map(|end| ended_by(&end)), [EndedBy::Signal; 3]);
        let failed =
            [ProcessEnd::Code(1), ProcessEnd::Signal(6), ProcessEnd::NotStarted, ProcessEnd::Unobserved];
        assert_eq!(failed.map(|end| ended_by(&end)), [EndedBy::Itself; 4]);
    }
}
