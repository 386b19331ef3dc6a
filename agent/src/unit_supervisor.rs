//! The units of this machine as its agent tends them: their folders, and the agents in them, which are started again
//! when they end. Unit agents are processes of their own: the machine agent may end and start again beside them
//! without touching them.

use crate::config::Config;
use crate::deployer::Deployer;
use crate::folder::Folder;
use crate::ports::{Deployments, Token};
use crate::service::{self, Ended};
use anyhow::Result;
use host::backoff::Backoff;
use state::terms::names::{UnitName, Uuid};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A unit agent that dies is started again after this, doubled to the most while it keeps dying young.
const RESTART_BACKOFF: Backoff = Backoff::new(200, 30_000);
/// An agent that lived this long did not die young.
const GREW_UP: Duration = Duration::from_secs(60);

/// A unit agent's starts, for the back-off.
#[derive(Clone, Copy, Debug)]
struct Starts {
    started: Instant,
    backoff: Backoff,
}

/// The folders under `<machine>/agents`, and who runs in them.
#[derive(Debug)]
pub struct Tended {
    deployer: Deployer,
    starts: RefCell<BTreeMap<Uuid, Starts>>,
    /// A unit agent ended, or may be started again.
    changed: Arc<Notify>,
}

impl Tended {
    pub fn new(deployer: Deployer) -> Tended {
        Tended { deployer, starts: RefCell::default(), changed: Arc::default() }
    }

    fn notify_after(&self, over: Ended) {
        let changed = Arc::clone(&self.changed);
        tokio::spawn(async move {
            over.await;
            changed.notify_one();
        });
    }
}

impl Deployments for Tended {
    type Folder = Folder;

    fn folder(&self, name: &UnitName) -> Folder {
        self.deployer.folder(name)
    }

    fn deployed(&self) -> BTreeMap<Uuid, Folder> {
        self.deployer.deployed()
    }

    fn is_finished(&self, folder: &Folder) -> bool {
        self.deployer.is_finished(folder)
    }

    async fn prepare(&self, unit: Uuid, name: &UnitName) -> Result<String> {
        Ok(self.deployer.prepare(unit, name)?.token)
    }

    fn token(&self, folder: &Folder) -> Result<Token> {
        let text = Config::read(folder.root())?.token;
        Ok(Token { text, is_acknowledged: self.deployer.is_token_noted(folder) })
    }

    async fn note_token_set(&self, folder: &Folder) -> Result<()> {
        self.deployer.note_token_set(folder)
    }

    fn keep(&self, unit: Uuid, folder: &Folder, assigned: bool) -> Result<()> {
        self.deployer.lead(folder)?;
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
                // started by an earlier machine agent: watched, not touched
                self.notify_after(Box::pin(service::ended(process)));
                all.insert(unit, Starts { started: Instant::now(), backoff: RESTART_BACKOFF });
            }
            return Ok(());
        }
        let mut backoff = RESTART_BACKOFF;
        if let Some(known) = known {
            let (elapsed, delay) = (known.started.elapsed(), Duration::from_millis(known.backoff.delay_ms()));
            if elapsed < delay {
                self.notify_after(Box::pin(tokio::time::sleep(delay - elapsed)));
                return Ok(());
            }
            if elapsed <= GREW_UP {
                backoff = known.backoff;
                backoff.increase();
            }
        }
        let over = self.deployer.start(folder)?;
        tracing::info!("started the agent of {folder}");
        all.insert(unit, Starts { started: Instant::now(), backoff });
        self.notify_after(over);
        Ok(())
    }

    async fn stop(&self, folder: &Folder) -> Result<()> {
        self.deployer.stop(folder).await
    }

    async fn forget(&self, unit: Uuid, folder: &Folder) -> Result<()> {
        self.deployer.forget(folder)?;
        self.starts.borrow_mut().remove(&unit);
        Ok(())
    }

    async fn set_aside(&self, unit: Uuid, folder: &Folder) -> Result<String> {
        let kept = self.deployer.set_aside(folder, unit).await?;
        self.starts.borrow_mut().remove(&unit);
        Ok(kept.display().to_string())
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }
}
