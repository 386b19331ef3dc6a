//! Machines as folders and processes of this host: each has an agent, and an address of its own on the loopback
//! device (design 16).

use super::{Instance, Listing, Made, Wish, hand_over, listed, machine_folders, make_folder, remove_folder};
use crate::data_dir::DataDir;
use crate::failure::Failure;
use crate::supervisor::agent_file::{self, AgentFile};
use crate::supervisor::daemon::{Daemon, Program};
use crate::supervisor::process::Process;
use crate::supervisor::stop;
use state::names::Uuid;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

pub struct Local {
    dir: DataDir,
    /// The program `pintle-agent`.
    agent: PathBuf,
    running: BTreeMap<Uuid, Daemon>,
}

impl Local {
    pub fn new(dir: DataDir, agent: PathBuf) -> Local {
        Local { dir, agent, running: BTreeMap::new() }
    }

    pub(super) fn found(&self, model: Uuid) -> io::Result<Listing> {
        let mut found = Listing::new();
        for (id, folder) in machine_folders(&self.dir.machines())? {
            match listed(&folder) {
                Ok(Some(instance)) if instance.model == model => drop(found.insert(id, Ok(instance.nonce))),
                Ok(None) if AgentFile::read(&folder).is_some_and(|file| file.model == model) => {
                    found.insert(id, Ok(None));
                }
                Err(failure) => drop(found.insert(id, Err(failure))),
                Ok(_) => {}
            }
        }
        Ok(found)
    }

    pub(super) fn is_running(&self, machine: Uuid) -> bool {
        self.running.contains_key(&machine)
    }

    pub(super) fn make(&mut self, wish: &Wish<'_>) -> Result<Made, Failure> {
        let (machine, folder) = (wish.machine, self.folder(wish.machine.uuid));
        let write = || {
            make_folder(&folder)?;
            let instance = Instance {
                model: wish.model.uuid,
                nonce: Some(wish.nonce),
                address: machine.address.clone(),
            };
            if Instance::read(&folder)?.as_ref() != Some(&instance) {
                instance.write(&folder)?;
            }
            agent_file::write(&folder, machine, wish.model.uuid, wish.client)
        };
        let token = write().map_err(|error: io::Error| {
            Failure::new(format!("cannot write {}: {error}", folder.display()))
        })?;
        let instance_id = format!("local-{}", machine.name);
        Ok(Made { instance_id, address: machine.address.clone(), token })
    }

    pub(super) fn start(&mut self, machine: Uuid) {
        let folder = self.folder(machine);
        let program = Program {
            path: self.agent.clone(),
            arguments: vec!["machine".to_owned(), "--data".to_owned(), folder.display().to_string()],
            log: folder.join("machine.log"),
            pid_file: None,
        };
        self.running.insert(machine, Daemon::start(program));
    }

    pub(super) async fn take_away(&mut self, machine: Uuid) -> Result<(), Failure> {
        let folder = self.folder(machine);
        let agent = self.running.remove(&machine).and_then(Daemon::release);
        let stopped = stop::machine(&folder, agent).await;
        if let Some(left) = stopped.left.first() {
            return Err(Failure::new(format!("process {} does not end", left.pid)));
        }
        remove_folder(&folder)
            .map_err(|error| Failure::new(format!("cannot remove {}: {error}", folder.display())))
    }

    /// Its agent has taken itself away; what is left of its process ends.
    pub(super) async fn hand_over(&mut self, machine: Uuid) -> Result<(), Failure> {
        let agent = self.running.remove(&machine).and_then(Daemon::release);
        let stopped = stop::machine(&self.folder(machine), agent).await;
        match stopped.left.first() {
            Some(left) => Err(Failure::new(format!("process {} does not end", left.pid))),
            None => hand_over(&self.dir, machine),
        }
    }

    pub(super) fn release(self) -> Vec<Process> {
        self.running.into_values().filter_map(Daemon::release).collect()
    }

    fn folder(&self, machine: Uuid) -> PathBuf {
        self.dir.machines().join(machine.to_string())
    }
}
