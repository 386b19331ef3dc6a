//! The folders of the units on this machine, and the start and stop of the agents in them.
//!
//! Every operation may be interrupted by a crash at any point and is then repeated (spec F.2). A unit is
//! deployed here if its folder holds an `agent.yaml`; it is being recalled if the folder holds `recalling`.
//!
//! `unit_supervisor` calls this module for the machine agent.

use crate::config;
use crate::fault;
use crate::folder::{self, UnitFolder};
use crate::hook_process::kill_remaining_processes;
use crate::service::{self, AgentExit, Supervision};
use crate::socket_dir;
use anyhow::{Context, Result, bail};
use api::machine_folder::{AGENTS_DIR, FINISHED, QUARANTINE_DIR, RECALLING, TOKEN_ACCEPTED};
use api::{AgentConfig, AgentKind};
use hook_client::shim::{OUTCOME, SHIM_PID};
use host::file::{
    create_private_folder_in, exists, ignore_not_found, sync_folder, write_atomic, write_atomic_unsynced,
};
use host::mounts::verify_nothing_mounted;
use host::tree;
use state::machine::claims::Claim;
use state::terms::health::Fault;
use state::terms::names::{UnitName, Uuid};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Quarantined folders that are kept: those of four restored backups, with the 24 units of a machine each. A person
/// decides what is deleted, because nothing else has the state of these units.
pub const QUARANTINED_MAX: usize = 100;
/// The folder of removed units, until they are deleted.
const REMOVED_DIR: &str = "removed";
/// The time limit for ending the remaining processes of a hook. They are killed at once; a process that does not end
/// within this time hangs in a system call and must not delay the other units.
const REMAINING_PROCESSES_TIMEOUT: Duration = Duration::from_secs(10);

/// The units' folders under `<machine>/agents`.
#[derive(Clone, Debug)]
pub struct Deployer {
    machine: PathBuf,
    config: AgentConfig,
    supervision: Supervision,
}

impl Deployer {
    /// A deployer for the machine with this folder and configuration.
    pub fn new(machine: PathBuf, config: AgentConfig, supervision: Supervision) -> Deployer {
        Deployer { machine, config, supervision }
    }

    /// The folder of the machine.
    pub fn machine_folder(&self) -> &Path {
        &self.machine
    }

    /// The folder of the unit of this name, whether or not it exists.
    pub fn folder(&self, name: &UnitName) -> UnitFolder {
        UnitFolder::in_machine(&self.machine, &name.tag())
    }

    /// The folders that claim to belong to a unit. A folder whose name is not that of its unit is a copy, and is not
    /// run. A folder whose configuration cannot be used is left out, so that it does not hold up the other units: that
    /// a unit is left out does not prove that it has no folder ([`Deployer::verify_absent`]).
    ///
    /// # Errors
    /// If the folders cannot be listed, or a limit of the host prevents reading them.
    pub fn claims(&self) -> Result<Vec<Claim<UnitFolder>>> {
        let mut claims = Vec::new();
        for folder in folders_in(&self.machine.join(AGENTS_DIR))? {
            let config = match config::read(folder.root()) {
                Ok(config) => config,
                Err(error) if matches!(fault::of_error(&error), Some(Fault::Limit(_))) => return Err(error),
                Err(_) => continue,
            };
            if let Ok(name) = config.name.parse::<UnitName>()
                && name.tag() == folder.tag()
            {
                claims.push(Claim { unit: config.uuid, name, folder });
            }
        }
        Ok(claims)
    }

    /// Verifies that no folder on this machine belongs to the unit, neither a deployed nor a quarantined one nor a
    /// copy, and that this remains so after a crash of the host. A folder whose unit cannot be determined may belong to
    /// any unit (design 7: absence is not evidence). What is left of a recalled folder is in [`Deployer::removed_folders`].
    ///
    /// # Errors
    /// If a folder belongs to the unit, the unit of a folder cannot be determined, or the folders cannot be listed or
    /// synced.
    pub fn verify_absent(&self, unit: Uuid) -> Result<()> {
        for parent in [AGENTS_DIR, QUARANTINE_DIR].map(|name| self.machine.join(name)) {
            for folder in folders_in(&parent)? {
                if !exists(&folder.file(AgentConfig::FILE))? && is_unused(&folder) {
                    continue;
                }
                let config = config::read(folder.root())
                    .with_context(|| format!("cannot determine the unit of {}", folder.root().display()))?;
                if config.uuid == unit {
                    bail!(
                        "cannot confirm the removal of unit {unit}: {} belongs to it",
                        folder.root().display()
                    );
                }
            }
            // a folder that was moved away must not be back after a crash
            ignore_not_found(sync_folder(&parent))
                .with_context(|| format!("cannot sync {}", parent.display()))?;
        }
        Ok(())
    }

    /// Creates the unit's folder, or restores the quarantined one, and returns its configuration. Its token is
    /// on disk before it is sent to the controller. A quarantined folder must be restored because it has the
    /// unit's state:
    ///
    /// 1. web/0 has outcomes to send. The controller is restored from a wrong backup, and another web/0 is
    ///    created.
    /// 2. The right backup is restored, and the first web/0 is assigned here again. In a new folder it would
    ///    run its hooks a second time.
    ///
    /// A folder whose configuration was deleted, is damaged or names another unit gets a new one and keeps everything else: the unit agent
    /// refuses it if it has the state of another unit.
    ///
    /// # Errors
    /// If a folder or file cannot be written, or an undamaged configuration cannot be read.
    pub fn prepare(&self, unit: Uuid, name: &UnitName) -> Result<AgentConfig> {
        let folder = self.folder(name);
        let quarantined = self.quarantine_path(&folder, unit);
        if !exists(folder.root())? && exists(&quarantined)? {
            folder::public_dir(&self.machine.join(AGENTS_DIR))?;
            fs::rename(&quarantined, folder.root())
                .with_context(|| format!("cannot move {}", quarantined.display()))?;
            self.update_controllers(&folder)?;
        }
        folder::public_dir(&self.machine.join(AGENTS_DIR))
            .and_then(|()| folder::public_dir(folder.root()))
            .with_context(|| format!("cannot create {}", folder.root().display()))?;
        match config::read(folder.root()) {
            Ok(known) if known.uuid == unit => return Ok(known),
            Ok(_) => {}
            Err(error) if config::is_absent_or_damaged(&error) => {}
            // a new token would replace one that the controller has accepted
            Err(error) => return Err(error),
        }
        // the file refers to the token of an earlier configuration, which cannot be read any more
        ignore_not_found(fs::remove_file(folder.file(TOKEN_ACCEPTED)))?;
        let token = host::random::token();
        let config = AgentConfig {
            kind: AgentKind::Unit,
            uuid: unit,
            name: name.to_string(),
            token,
            machine: self.config.name.clone(),
            ..self.config.clone()
        };
        write_atomic(&folder.file(AgentConfig::FILE), config::to_yaml(&config).as_bytes())?;
        Ok(config)
    }

    /// Writes the machine's controllers and CA into the unit's configuration: the controller may have moved or
    /// have another CA. The unit agent detects the change and restarts.
    ///
    /// # Errors
    /// If the configuration cannot be read or written.
    pub fn update_controllers(&self, folder: &UnitFolder) -> Result<()> {
        let known = config::read(folder.root())?;
        let updated = AgentConfig {
            controllers: self.config.controllers.clone(),
            server_name: self.config.server_name.clone(),
            ca: self.config.ca.clone(),
            ..known.clone()
        };
        if updated != known {
            write_atomic(&folder.file(AgentConfig::FILE), config::to_yaml(&updated).as_bytes())?;
            service::notify_of_changed_files(folder);
        }
        Ok(())
    }

    /// Whether the folder stores that the controller has accepted the unit's token.
    pub fn is_token_accepted(&self, folder: &UnitFolder) -> bool {
        folder.file(TOKEN_ACCEPTED).exists()
    }

    /// Stores that the controller has accepted the unit's token.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn store_token_accepted(&self, folder: &UnitFolder) -> Result<()> {
        Ok(write_atomic_unsynced(&folder.file(TOKEN_ACCEPTED), b"")?)
    }

    /// See [`Deployments::is_finished`](crate::ports::Deployments::is_finished).
    pub fn is_finished(&self, folder: &UnitFolder) -> bool {
        may_run(folder).is_ok_and(|may_run| !may_run) || is_unused(folder)
    }

    /// Cancels a recall:
    /// 1. The controller is restored from a wrong backup, in which a unit is removed, so its recall is started.
    /// 2. The right backup is restored, and the unit is assigned here again.
    ///
    /// # Errors
    /// If the mark cannot be removed.
    pub fn cancel_recall(&self, folder: &UnitFolder) -> Result<()> {
        ignore_not_found(fs::remove_file(folder.file(RECALLING)))?;
        Ok(())
    }

    /// Starts the unit agent. The returned future completes when the agent has ended.
    ///
    /// # Errors
    /// If the agent cannot be started.
    pub fn start(&self, folder: &UnitFolder) -> Result<AgentExit> {
        self.supervision.start(folder)
    }

    /// Stops the unit agent and kills the remaining processes of its hooks. The agent is not started again.
    ///
    /// # Errors
    /// If the recall cannot be stored, the agent cannot be stopped, or a process of a hook does not end within 10 s.
    pub async fn stop(&self, folder: &UnitFolder) -> Result<()> {
        write_atomic_unsynced(&folder.file(RECALLING), b"")?;
        self.stop_processes(folder).await
    }

    /// Stops the agents and hooks of all folders below `agents/` and `quarantine/`, and removes their sockets. Which unit
    /// a folder belongs to need not be known. For a Dead machine, which starts no agent again.
    ///
    /// # Errors
    /// If the folders cannot be listed, or an agent or hook cannot be stopped; the others are stopped.
    pub async fn stop_all(&self) -> Result<()> {
        let mut errors = Vec::new();
        for parent in [AGENTS_DIR, QUARANTINE_DIR] {
            let folders = folders_in(&self.machine.join(parent)).unwrap_or_else(|error| {
                errors.push(format!("{error:#}"));
                Vec::new()
            });
            for folder in folders {
                let stopped = self.stop_processes(&folder).await;
                let stopped = stopped.and_then(|()| Ok(socket_dir::remove(&folder)?));
                errors.extend(stopped.err().map(|error| format!("{folder}: {error:#}")));
            }
        }
        match errors[..] {
            [] => Ok(()),
            _ => bail!("cannot stop all agents of this machine: {}", errors.join("; ")),
        }
    }

    async fn stop_processes(&self, folder: &UnitFolder) -> Result<()> {
        self.supervision.stop(folder).await?;
        for run in unfinished_runs(folder)? {
            if tokio::time::timeout(REMAINING_PROCESSES_TIMEOUT, kill_remaining_processes(&run))
                .await
                .is_err()
            {
                bail!("cannot stop the hook of {}: a killed process does not end", run.display());
            }
        }
        Ok(())
    }

    /// Stops the unit agent and moves the folder away from the unit's name. Returns the new path.
    ///
    /// # Errors
    /// If the agent cannot be stopped, or the folder cannot be moved, or [`QUARANTINED_MAX`] folders are there already.
    pub async fn quarantine(&self, folder: &UnitFolder, unit: Uuid) -> Result<PathBuf> {
        let quarantine = self.machine.join(QUARANTINE_DIR);
        if folders_in(&quarantine)?.len() >= QUARANTINED_MAX {
            bail!(
                "cannot quarantine {}: {} has {QUARANTINED_MAX} folders\nhint: delete those that are not needed",
                folder.root().display(),
                quarantine.display()
            );
        }
        self.stop_processes(folder).await?;
        folder::private_dir(&quarantine)?;
        let path = self.quarantine_path(folder, unit);
        fs::rename(folder.root(), &path)?;
        Ok(path)
    }

    /// The folder of the quarantined folders.
    pub fn quarantine_folder(&self) -> UnitFolder {
        UnitFolder::new(self.machine.join(QUARANTINE_DIR))
    }

    fn quarantine_path(&self, folder: &UnitFolder, unit: Uuid) -> PathBuf {
        self.machine.join(QUARANTINE_DIR).join(format!("{}-{unit}", folder.tag()))
    }

    /// Deletes the tool links and the socket of the unit, and moves its folder away from its name. Returns the new path, which
    /// is to be deleted: what is left after a crash is one of [`Deployer::removed_folders`].
    ///
    /// # Errors
    /// If something is mounted in the folder: nothing is deleted then. Or if a file or folder cannot be deleted or moved.
    /// The error names the folder.
    pub fn remove(&self, unit: Uuid, folder: &UnitFolder) -> Result<PathBuf> {
        let cannot_delete = |path: &Path| format!("cannot delete {}", path.display());
        ignore_not_found(verify_nothing_mounted(folder.root()))
            .and_then(|_| socket_dir::remove(folder))
            .and_then(|()| tree::remove(&folder.tools()))
            .with_context(|| cannot_delete(folder.root()))?;
        self.move_to_removed(unit, folder).with_context(|| cannot_delete(folder.root()))
    }

    /// Renames the folder before it is deleted, so that the unit's name never refers to a part of it.
    fn move_to_removed(&self, unit: Uuid, folder: &UnitFolder) -> io::Result<PathBuf> {
        let removed = self.machine.join(REMOVED_DIR);
        create_private_folder_in(&self.machine, REMOVED_DIR.as_ref())?;
        let name = format!("{}-{unit}-{}", folder.tag(), crate::clock::random_uuid());
        let path = removed.join(name);
        fs::rename(folder.root(), &path)?;
        Ok(path)
    }

    /// The folders of removed units that are not deleted yet: of this unit, or all of them.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn removed_folders(&self, unit: Option<Uuid>) -> Result<Vec<PathBuf>> {
        let is_meant =
            |folder: &UnitFolder| unit.is_none_or(|unit| folder.tag().contains(&format!("-{unit}-")));
        let folders = folders_in(&self.machine.join(REMOVED_DIR))?;
        Ok(folders.into_iter().filter(is_meant).map(|folder| folder.root().to_path_buf()).collect())
    }
}

/// Whether the unit agent may run: it has not finished, and the unit is not being recalled.
///
/// # Errors
/// If this cannot be determined.
pub fn may_run(folder: &UnitFolder) -> io::Result<bool> {
    Ok(!exists(&folder.file(FINISHED))? && !exists(&folder.file(RECALLING))?)
}

/// The folders in `parent`. There are none if it does not exist or is no folder.
fn folders_in(parent: &Path) -> Result<Vec<UnitFolder>> {
    let list = || {
        let entries = match fs::read_dir(parent) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            entries => entries?,
        };
        let entries = entries.collect::<io::Result<Vec<_>>>()?;
        let folders = entries.iter().map(fs::DirEntry::path).filter(|path| !path.is_file());
        Ok(folders.map(UnitFolder::new).collect())
    };
    list().map_err(|error: io::Error| {
        anyhow::Error::new(error).context(format!("cannot list {}", parent.display()))
    })
}

/// Whether the folder holds at most the unit's configuration, the mark of a recall, and temporary files: no agent has been
/// started in it.
fn is_unused(folder: &UnitFolder) -> bool {
    let is_configuration = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name == AgentConfig::FILE || name == RECALLING || host::file::is_temporary(&name)
    };
    let entries =
        fs::read_dir(folder.root()).and_then(|entries| entries.collect::<std::io::Result<Vec<_>>>());
    entries.is_ok_and(|entries| entries.iter().all(is_configuration))
}

/// The run folders that may still have a process: those with a pid file and without an outcome.
fn unfinished_runs(folder: &UnitFolder) -> io::Result<Vec<PathBuf>> {
    let mut unfinished = Vec::new();
    // what is no folder contains no runs
    let entries = match fs::read_dir(folder.runs()) {
        Err(error) if error.kind() == ErrorKind::NotADirectory => None,
        entries => ignore_not_found(entries)?,
    };
    for entry in entries.into_iter().flatten() {
        let path = entry?.path();
        if exists(&path.join(SHIM_PID))? && !exists(&path.join(OUTCOME))? {
            unfinished.push(path);
        }
    }
    Ok(unfinished)
}
