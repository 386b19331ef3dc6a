//! Supervises the unit agents of this machine: starts them and restarts them, with back-off, when they end.
//!
//! Unit agents are separate processes: the machine agent may end and restart without affecting them. Implements
//! `ports::Deployments` for the machine agent, on top of `deployer`.

use crate::config::AgentConfig;
use crate::deployer::Deployer;
use crate::folder::UnitFolder;
use crate::ports::{Deployments, UnitToken};
use crate::service::{self, AgentExit};
use anyhow::Result;
use host::backoff::Backoff;
use state::terms::names::{UnitName, Uuid};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The delay before a unit agent that ended is started again: doubled up to 30 s while the agent keeps ending
/// soon after its start.
const RESTART_BACKOFF: Backoff = Backoff::new(200, 30_000);
/// An agent that ran longer than this resets the back-off.
const BACKOFF_RESET: Duration = Duration::from_secs(60);

/// The last start of a unit agent, for the back-off.
#[derive(Clone, Copy, Debug)]
struct Starts {
    started: Instant,
    backoff: Backoff,
}

/// The unit agents in the folders under `<machine>/agents`.
#[derive(Debug)]
pub struct UnitSupervisor {
    deployer: Deployer,
    starts: RefCell<BTreeMap<Uuid, Starts>>,
    /// A unit agent has ended, or its back-off has expired.
    changed: Arc<Notify>,
}

impl UnitSupervisor {
    /// A supervisor that has not started any agent yet.
    pub fn new(deployer: Deployer) -> UnitSupervisor {
        UnitSupervisor { deployer, starts: RefCell::default(), changed: Arc::default() }
    }

    fn notify_when(&self, exit: AgentExit) {
        let changed = Arc::clone(&self.changed);
        tokio::spawn(async move {
            exit.await;
            changed.notify_one();
        });
    }
}

impl Deployments for UnitSupervisor {
    type Folder = UnitFolder;

    fn folder(&self, name: &UnitName) -> UnitFolder {
        self.deployer.folder(name)
    }

    fn deployed(&self) -> BTreeMap<Uuid, UnitFolder> {
        self.deployer.deployed()
    }

    fn is_finished(&self, folder: &UnitFolder) -> bool {
        self.deployer.is_finished(folder)
    }

    async fn prepare(&self, unit: Uuid, name: &UnitName) -> Result<String> {
        Ok(self.deployer.prepare(unit, name)?.token)
    }

    fn token(&self, folder: &UnitFolder) -> Result<UnitToken> {
        let text = AgentConfig::read(folder.root())?.token;
        Ok(UnitToken { text, is_acknowledged: self.deployer.is_token_noted(folder) })
    }

    async fn note_token_set(&self, folder: &UnitFolder) -> Result<()> {
        self.deployer.note_token_set(folder)
    }

    fn ensure_running(&self, unit: Uuid, folder: &UnitFolder, assigned: bool) -> Result<()> {
        self.deployer.update_controllers(folder)?;
        if assigned {
            self.deployer.cancel_recall(folder)?;
        }
        if !self.deployer.may_run(folder) {
            return Ok(());
        }
        let mut all = self.starts.borrow_mut();
        let known = all.get(&unit).copied();
        if let Some(process) = service::running(folder) {
            if known.is_none() {
                // an earlier machine agent started it: it is watched, not restarted
                self.notify_when(Box::pin(service::wait_for_exit(process)));
                all.insert(unit, Starts { started: Instant::now(), backoff: RESTART_BACKOFF });
            }
            return Ok(());
        }
        let mut backoff = RESTART_BACKOFF;
        if let Some(known) = known {
            let (elapsed, delay) = (known.started.elapsed(), Duration::from_millis(known.backoff.delay_ms()));
            if elapsed < delay {
                self.notify_when(Box::pin(tokio::time::sleep(delay - elapsed)));
                return Ok(());
            }
            if elapsed <= BACKOFF_RESET {
                backoff = known.backoff;
                backoff.increase();
            }
        }
        let exit = self.deployer.start(folder)?;
        tracing::info!("started the agent of {folder}");
        all.insert(unit, Starts { started: Instant::now(), backoff });
        self.notify_when(exit);
        Ok(())
    }

    async fn stop(&self, folder: &UnitFolder) -> Result<()> {
        self.deployer.stop(folder).await
    }

    async fn delete(&self, unit: Uuid, folder: &UnitFolder) -> Result<()> {
        self.deployer.delete(folder)?;
        self.starts.borrow_mut().remove(&unit);
        Ok(())
    }

    async fn quarantine(&self, unit: Uuid, folder: &UnitFolder) -> Result<String> {
        let path = self.deployer.quarantine(folder, unit).await?;
        self.starts.borrow_mut().remove(&unit);
        Ok(path.display().to_string())
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }
}
