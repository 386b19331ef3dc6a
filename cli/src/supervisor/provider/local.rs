//! The `local` provider: a machine is a folder and an agent process on this host (design 16).
//!
//! Each machine has an address of its own on the loopback device. Machines share the file system and the packages of
//! the host, so this provider suits development and tests.

use super::bases;
use super::instance::{CreatedInstance, Instance, InstanceSpec, host_hardware};
use super::loop_devices;
use super::machine_folder::{address, hand_over, remove_folder};
use crate::command_error::CommandError;
use crate::data_dir::DataDir;
use crate::supervisor::agent_file;
use crate::supervisor::process;
use crate::supervisor::process_exits::ProcessExits;
use crate::supervisor::stop;
use crate::supervisor::supervised_process::{Program, SupervisedProcess};
use api::DesiredMachine;
use api::machine_folder::MACHINE_LOG;
use host::file::create_private_folder_in;
use host::process::Process;
use state::terms::health::MachineAgentExits;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;

/// The `local` provider of a data folder.
pub struct Local {
    pub(super) dir: DataDir,
    /// The executable `pintle-agent`.
    agent: PathBuf,
    /// The agents that are restarted when they exit, by machine.
    running: BTreeMap<Uuid, SupervisedProcess>,
    /// How one of them has ended has changed.
    exits_changed: Arc<Notify>,
    /// The agents that are no longer restarted and that nothing has seen exit. The next operation on the machine stops
    /// them first.
    released: BTreeMap<Uuid, Process>,
}

impl Local {
    /// A provider without running machines. `agent`: the executable `pintle-agent`.
    pub fn new(dir: DataDir, agent: PathBuf) -> Local {
        Local {
            dir,
            agent,
            running: BTreeMap::new(),
            exits_changed: Arc::default(),
            released: BTreeMap::new(),
        }
    }

    /// The address of a machine whose agent is supervised. An agent whose folder was deleted, or that ends at each start in
    /// a folder without its configuration, does not count as running, so the machine is created again.
    pub(super) fn running_address(&self, machine: Uuid) -> Option<String> {
        let agent = self.running.get(&machine)?;
        let folder = self.folder(machine);
        let is_failing = agent.exits().is_some_and(|exits| exits.is_failing());
        if is_failing && !agent_file::is_of(&folder, machine) {
            return None;
        }
        address(&folder)
    }

    /// Writes the record of an instance again if it is damaged. Returns the nonce of the instance, if it was.
    pub(super) fn restore_record(&self, machine: &DesiredMachine, model: Uuid) -> io::Result<Option<Uuid>> {
        let (folder, address) = (self.folder(machine.uuid), machine.address.clone());
        let Some(nonce) = machine.nonce else { return Ok(None) };
        if Instance::read(&folder).is_err_and(|error| error.kind() == io::ErrorKind::InvalidData) {
            Instance { model, nonce, address, ..Instance::default() }.write(&folder)?;
            return Ok(Some(nonce));
        }
        Ok(None)
    }

    /// Writes the folder of a machine. If it was deleted, what runs of its unit agents and hooks is ended before: the agents
    /// in the new folder would not know of them.
    pub(super) async fn create(&mut self, spec: &InstanceSpec<'_>) -> Result<CreatedInstance, CommandError> {
        let (machine, folder) = (spec.machine, self.folder(spec.machine.uuid));
        if self.running.contains_key(&machine.uuid) && !folder.exists() {
            self.stop_machine(machine.uuid).await?;
        }
        let write = || {
            create_private_folder_in(&self.dir.machines(), machine.uuid.to_string().as_ref())?;
            let (model, address) = (spec.model.uuid, machine.address.clone());
            let instance = Instance { model, nonce: spec.nonce, address, ..Instance::default() };
            if Instance::read(&folder)?.as_ref() != Some(&instance) {
                instance.write(&folder)?;
            }
            agent_file::write(&folder, machine, spec.model.uuid, spec.client)
        };
        let token = write().map_err(|error: io::Error| {
            CommandError::new(format!("cannot write {}: {error}", folder.display()))
        })?;
        let instance_id = format!("local-{}", machine.name);
        let base = bases::of_root(Path::new("/"));
        Ok(CreatedInstance {
            instance_id,
            address: machine.address.clone(),
            base,
            hardware: Some(host_hardware()),
            token,
        })
    }

    pub(super) async fn start(&mut self, machine: Uuid) -> Result<(), CommandError> {
        let folder = self.folder(machine);
        // The agent of a lost instance would keep running in a folder that is no longer listed.
        if let Some(agent) = self.release_agent(machine) {
            if let Some(left) = process::stop(&[agent], stop::AGENT_GRACE).await.first() {
                return Err(CommandError::not_stopped(*left));
            }
            self.released.remove(&machine);
        }
        let program = Program {
            path: self.agent.clone(),
            arguments: vec!["machine".to_owned(), "--data".to_owned(), folder.display().to_string()],
            log: folder.join(MACHINE_LOG),
            ..Program::default()
        };
        self.running.insert(machine, SupervisedProcess::start_observed(program, self.exits_changed.clone()));
        Ok(())
    }

    pub(super) async fn terminate(&mut self, machine: Uuid) -> Result<(), CommandError> {
        let folder = self.folder(machine);
        self.stop_machine(machine).await?;
        // a machine agent that was stopped has not detached its loop devices
        loop_devices::detach_below(&folder).await?;
        remove_folder(&folder)
            .map_err(|error| CommandError::new(format!("cannot remove {}: {error}", folder.display())))
    }

    /// Hands the machine over. The agent has uninstalled itself; any process that still runs is stopped.
    pub(super) async fn hand_over(&mut self, machine: Uuid) -> Result<(), CommandError> {
        self.stop_machine(machine).await?;
        hand_over(&self.dir, machine)
    }

    /// The machines whose agents end at each start, and how.
    pub(super) fn failing_agents(&self) -> BTreeMap<Uuid, MachineAgentExits> {
        let failing = self.running.iter().filter_map(|(machine, agent)| {
            let ProcessExits { end, error, count } = agent.exits().filter(ProcessExits::is_failing)?;
            Some((*machine, MachineAgentExits { end, last_error: error, count }))
        });
        failing.collect()
    }

    /// Completes when an agent has ended, or has recovered from its ends.
    pub(super) async fn wait_for_exits(&self) {
        self.exits_changed.notified().await;
    }

    pub(super) fn release(self) -> Vec<Process> {
        let running = self.running.into_values().filter_map(SupervisedProcess::release);
        running.chain(self.released.into_values()).collect()
    }

    /// Ends the supervision of a machine's agent. Returns its process, which may still run.
    fn release_agent(&mut self, machine: Uuid) -> Option<Process> {
        if let Some(agent) = self.running.remove(&machine).and_then(SupervisedProcess::release) {
            self.released.insert(machine, agent);
        }
        self.released.get(&machine).copied()
    }

    /// Stops all processes of a machine.
    async fn stop_machine(&mut self, machine: Uuid) -> Result<(), CommandError> {
        let agent = self.release_agent(machine);
        let stopped = stop::stop_machine(&self.folder(machine), agent).await;
        if let Some(left) = stopped.left.first() {
            return Err(CommandError::not_stopped(*left));
        }
        self.released.remove(&machine);
        Ok(())
    }

    fn folder(&self, machine: Uuid) -> PathBuf {
        self.dir.machines().join(machine.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::agent_file::client_file;
    use api::ModelInfo;
    use state::terms::life::Life;
    use state::terms::status::ModelState;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::time::Duration;

    /// The newest process whose ID is in the file, other than `known`.
    async fn newest(file: &Path, known: Option<Process>) -> Process {
        loop {
            let text = fs::read_to_string(file).unwrap_or_default();
            let process = text.lines().last().and_then(|pid| Process::find(pid.parse().ok()?));
            match process {
                Some(process) if Some(process) != known => return process,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// 1. The agent of a machine is to be stopped, and does not exit in time: the operation fails.
    /// 2. The provisioner starts the machine again.
    #[tokio::test(flavor = "current_thread")]
    async fn an_agent_that_did_not_exit_is_stopped_before_the_next_one_starts() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(&outer.path().join("data"))).expect("a path");
        let mut agent =
            tokio::process::Command::new("sleep").arg("1000").spawn().expect("sleep is installed");
        let process = Process::find(agent.id().expect("it runs") as i32).expect("it runs");
        let mut local = Local::new(dir, PathBuf::from("/bin/true"));
        local.released.insert(Uuid(7), process);
        let (started, _) = tokio::join!(local.start(Uuid(7)), agent.wait());
        started.expect("started");
        assert!(!process.is_alive(), "the old agent was stopped");
        assert!(local.released.is_empty());
    }

    /// 1. A machine runs. 2. Its folder is deleted. 3. The provisioner lists the machines again.
    #[tokio::test(flavor = "current_thread")]
    async fn a_machine_whose_folder_was_deleted_is_created_again_and_its_old_agent_stopped() {
        let outer = tempfile::tempdir().expect("a folder");
        let dir = DataDir::choose(Some(&outer.path().join("data"))).expect("a path");
        let (program, pids) = (outer.path().join("agent"), outer.path().join("pids"));
        let script = format!("#!/bin/sh\necho $$ >> {}\nexec sleep 1000\n", pids.display());
        fs::write(&program, script).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let machine = DesiredMachine {
            uuid: Uuid(7),
            name: "0".to_owned(),
            address: "127.0.0.1".to_owned(),
            has_units: true,
            nonce: Some(Uuid(70)),
            ..DesiredMachine::default()
        };
        let (name, life) = ("dev".to_owned(), Life::Alive);
        let model = ModelInfo {
            uuid: Uuid(1),
            name,
            life,
            state: ModelState::Available,
            controller: Uuid(9),
            created_ms: 0,
            has_machines: true,
            development: false,
        };
        let client = client_file("127.0.0.1:1");
        let spec = InstanceSpec { machine: &machine, model: &model, nonce: Uuid(70), client: &client };

        let mut local = Local::new(dir.clone(), program);
        dir.create().expect("a data folder");
        local.create(&spec).await.expect("made");
        local.start(Uuid(7)).await.expect("started");
        let first = newest(&pids, None).await;
        assert_eq!(local.running_address(Uuid(7)).as_deref(), Some("127.0.0.1"));
        fs::remove_dir_all(dir.machines().join(Uuid(7).to_string())).expect("the folder exists");
        assert_eq!(local.running_address(Uuid(7)), None);
        local.create(&spec).await.expect("made");
        local.start(Uuid(7)).await.expect("started");
        let second = newest(&pids, Some(first)).await;
        assert!(local.running_address(Uuid(7)).is_some());
        assert!(!first.is_alive(), "the old agent was stopped");
        assert_eq!(process::stop(&local.release(), Duration::ZERO).await, []);
        assert!(!second.is_alive());
    }
}
