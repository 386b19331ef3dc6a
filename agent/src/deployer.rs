//! The units of this machine: their folders, the start and the end of their agents. Every step may be cut off by a
//! crash and done again (spec F.2).
//!
//! A unit is deployed here when its folder holds an `agent.yaml`; it is being recalled when it holds `recalling`.

use crate::config::{Config, FILE, Kind};
use crate::folder::{self, Folder};
use crate::hook_process::{end_leftovers, socket_dir};
use crate::service::{self, Ended, ServiceManager};
use anyhow::{Context, Result, bail};
use host::file::{ignore_not_found, write_atomic, write_atomic_unsynced};
use state::terms::names::{UnitName, Uuid};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const AGENT_LOCK: &str = "agent.lock";
/// The unit's agent has said that it is finished: it is not started again.
pub const FINISHED: &str = "finished";
/// Folders of units, by their tags.
const AGENTS: &str = "agents";
pub const RECALLING: &str = "recalling";
/// Folders of units that the controller does not know, and whose name another one has. No agent runs for them.
const UNKNOWN: &str = "unknown";
/// Folders of units that are gone, until they are removed.
const REMOVED: &str = "removed";
const TOKEN_SET: &str = "token-set";
/// What a hook left running is killed at once; what then takes longer hangs in a system call, and may for ever. The
/// machine's other units do not wait for it.
const LEFTOVERS_TAKE: Duration = Duration::from_secs(10);

/// The folders under `<machine>/agents`.
#[derive(Clone, Debug)]
pub struct Deployer {
    machine: PathBuf,
    config: Config,
    services: ServiceManager,
}

impl Deployer {
    pub fn new(machine: PathBuf, config: Config, services: ServiceManager) -> Deployer {
        Deployer { machine, config, services }
    }

    pub fn folder(&self, name: &UnitName) -> Folder {
        Folder::new(self.machine.join(AGENTS).join(name.tag()))
    }

    /// Units deployed here, with their folders. A folder by any other name than its unit's is a copy somebody made,
    /// and is not run.
    pub fn deployed(&self) -> BTreeMap<Uuid, Folder> {
        let entries = fs::read_dir(self.machine.join(AGENTS)).into_iter().flatten().flatten();
        let folders = entries.map(|entry| Folder::new(entry.path()));
        let unit_of = |folder: Folder| {
            let config = Config::read(folder.root()).ok()?;
            let name: UnitName = config.name.parse().ok()?;
            (name.tag() == folder.tag()).then_some((config.uuid, folder))
        };
        folders.filter_map(unit_of).collect()
    }

    /// Makes the folder, or takes back the one that was set aside; answers the token to be set, which is on disk
    /// first. `machine` is what people call this machine.
    ///
    /// 1. web/0 has outcomes to tell; the controller is restored from a wrong copy, and another web/0 takes its name.
    /// 2. The right copy is restored: the first one is assigned here again. What it remembers is in the folder that
    ///    was set aside; a new one beside it would run its hooks again.
    pub fn prepare(&self, unit: Uuid, name: &UnitName) -> Result<Config> {
        let folder = self.folder(name);
        if folder.root().exists() && !folder.file(FILE).exists() {
            // no unit's: what a crash left of an older holder of the name
            self.put_out_of_the_way(&folder)?;
        }
        let aside = self.aside(&folder, unit);
        if !folder.root().exists() && aside.exists() {
            folder::private_dir(&self.machine.join(AGENTS))?;
            fs::rename(&aside, folder.root()).with_context(|| aside.display().to_string())?;
            self.lead(&folder)?;
        }
        folder::private_dir(folder.root()).with_context(|| folder.root().display().to_string())?;
        if let Ok(known) = Config::read(folder.root())
            && known.uuid == unit
        {
            return Ok(known);
        }
        // what is noted is that a controller has the token of an earlier configuration, which cannot be read any more
        ignore_not_found(fs::remove_file(folder.file(TOKEN_SET)))?;
        let token = host::random::token();
        let config = Config {
            kind: Kind::Unit,
            uuid: unit,
            name: name.to_string(),
            token,
            machine: self.config.name.clone(),
            ..self.config.clone()
        };
        write_atomic(&folder.file(FILE), config.text().as_bytes())?;
        Ok(config)
    }

    /// The unit finds the controller where its machine does: the controller may have moved, or have another CA. Its
    /// agent sees the change and starts again.
    pub fn lead(&self, folder: &Folder) -> Result<()> {
        let known = Config::read(folder.root())?;
        let led = Config {
            controllers: self.config.controllers.clone(),
            server_name: self.config.server_name.clone(),
            ca: self.config.ca.clone(),
            ..known.clone()
        };
        if led != known {
            write_atomic(&folder.file(FILE), led.text().as_bytes())?;
            service::reread_files(folder);
        }
        Ok(())
    }

    pub fn is_token_noted(&self, folder: &Folder) -> bool {
        folder.file(TOKEN_SET).exists()
    }

    pub fn note_token_set(&self, folder: &Folder) -> Result<()> {
        Ok(write_atomic_unsynced(&folder.file(TOKEN_SET), b"")?)
    }

    /// See [`Deployments::is_finished`](crate::ports::Deployments::is_finished).
    pub fn is_finished(&self, folder: &Folder) -> bool {
        !self.may_run(folder) || is_empty(folder)
    }

    /// The unit's agent has not said that it is finished, and nobody takes the folder away.
    pub fn may_run(&self, folder: &Folder) -> bool {
        !folder.file(FINISHED).exists() && !folder.file(RECALLING).exists()
    }

    /// 1. A unit's recall was begun: the controller, restored from a wrong copy, said that it was removed. 2. The right
    ///    copy is restored, and the unit is to run here.
    pub fn cancel_recall(&self, folder: &Folder) -> Result<()> {
        ignore_not_found(fs::remove_file(folder.file(RECALLING)))?;
        Ok(())
    }

    /// Begins the agent; what is answered is over when the agent is.
    pub fn start(&self, folder: &Folder) -> Result<Ended> {
        self.services.start(folder)
    }

    /// Ends the agent and what is left of its hooks. From here on it is not started again.
    pub async fn stop(&self, folder: &Folder) -> Result<()> {
        write_atomic_unsynced(&folder.file(RECALLING), b"")?;
        self.end(folder).await
    }

    async fn end(&self, folder: &Folder) -> Result<()> {
        self.services.end(folder).await?;
        for run in runs(folder) {
            if tokio::time::timeout(LEFTOVERS_TAKE, end_leftovers(&run)).await.is_err() {
                bail!("{}: a killed hook does not end", run.display());
            }
        }
        Ok(())
    }

    /// Ends the agent, and takes the folder, whole, from the unit's name; answers where it is.
    pub async fn set_aside(&self, folder: &Folder, unit: Uuid) -> Result<PathBuf> {
        self.end(folder).await?;
        folder::private_dir(&self.machine.join(UNKNOWN))?;
        let kept = self.aside(folder, unit);
        fs::rename(folder.root(), &kept)?;
        Ok(kept)
    }

    fn aside(&self, folder: &Folder, unit: Uuid) -> PathBuf {
        self.machine.join(UNKNOWN).join(format!("{}-{unit}", folder.tag()))
    }

    /// Deletes everything of the unit.
    pub fn forget(&self, folder: &Folder) -> Result<()> {
        if let Ok(sockets) = socket_dir(folder) {
            ignore_not_found(fs::remove_dir_all(sockets))?;
        }
        ignore_not_found(fs::remove_dir_all(folder.tools()))?;
        self.put_out_of_the_way(folder)?;
        Ok(())
    }

    /// One rename takes the folder from its name, whole; a crash after it leaves what the next start removes.
    fn put_out_of_the_way(&self, folder: &Folder) -> Result<()> {
        let aside =
            self.machine.join(REMOVED).join(format!("{}-{}", folder.tag(), crate::clock::fresh_uuid()));
        fs::create_dir_all(self.machine.join(REMOVED))?;
        fs::rename(folder.root(), &aside)?;
        Ok(fs::remove_dir_all(aside)?)
    }

    /// Removes what an earlier agent took out of the way and could not remove.
    pub fn sweep(&self) {
        if let Err(error) = ignore_not_found(fs::remove_dir_all(self.machine.join(REMOVED))) {
            tracing::warn!("{}: {error}", self.machine.join(REMOVED).display());
        }
    }
}

/// Whether the folder holds nothing but the unit's identity: no agent has been started in it.
fn is_empty(folder: &Folder) -> bool {
    let own = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name == FILE || name == RECALLING || host::file::is_temporary(&name)
    };
    let entries =
        fs::read_dir(folder.root()).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    entries.is_ok_and(|entries| entries.iter().all(own))
}

/// Run folders that may still have a process: those with a pid and without an outcome.
fn runs(folder: &Folder) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.root().join("hooks")).into_iter().flatten().flatten();
    let unfinished =
        |path: &Path| path.join(crate::shim::SHIM_PID).exists() && !path.join(crate::shim::OUTCOME).exists();
    entries.map(|entry| entry.path()).filter(|path| unfinished(path)).collect()
}
