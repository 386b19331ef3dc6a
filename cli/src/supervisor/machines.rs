//! Which machine agents there should be: the provider's loop. Each round asks the controller for all machines and
//! makes it so; a round that fails is simply the next one's work.

use crate::data_dir::DataDir;
use crate::failure::Failure;
use crate::session::{client, read_client_file};
use crate::supervisor::agent_file;
use crate::supervisor::daemon::{Daemon, Program};
use crate::supervisor::stop;
use api::client::Client;
use api::operator::{ClientFile, MachineInfo, OperatorApi};
use state::life::Life;
use state::names::Uuid;
use state::unit::snapshot::Position;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::sleep;

/// The store moves with every hook that commits; machines come and go seldom. Ten looks a second are enough.
const ROUND_PAUSE: Duration = Duration::from_millis(100);
/// After a failure: the controller may be starting.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// What to do about one machine.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Start(Uuid),
    TakeAway(Uuid),
}

/// A machine that lives has an agent; one that is Dead is taken away. One the controller does not name is left
/// alone: absence is not death (design 7).
pub fn plan(machines: &[MachineInfo], running: &BTreeSet<Uuid>) -> Vec<Step> {
    let step = |machine: &MachineInfo| match machine.life {
        Life::Alive | Life::Dying if running.contains(&machine.uuid) => None,
        Life::Alive | Life::Dying => Some(Step::Start(machine.uuid)),
        Life::Dead => Some(Step::TakeAway(machine.uuid)),
    };
    machines.iter().filter_map(step).collect()
}

/// The machine agents of one data folder.
pub struct Machines {
    dir: DataDir,
    /// The program `pintle-agent`.
    agent: PathBuf,
    running: BTreeMap<Uuid, Daemon>,
}

impl Machines {
    pub fn new(dir: DataDir, agent: PathBuf) -> Machines {
        Machines { dir, agent, running: BTreeMap::new() }
    }

    /// Follows the controller for ever.
    pub async fn follow(&mut self) {
        let mut last = String::new();
        loop {
            let Err(failure) = self.follow_once().await;
            // Said once an outage, not once a try.
            if failure.message != last {
                eprintln!("machines: {}", failure.message);
                last = failure.message;
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn follow_once(&mut self) -> Result<std::convert::Infallible, Failure> {
        let file = read_client_file(&self.dir)?.ok_or_else(|| Failure::new("no controller yet"))?;
        let client = client(&file)?;
        let mut after: Option<Position> = None;
        loop {
            let models = client.models().await?;
            let model = models.first().ok_or_else(|| Failure::new("no model yet"))?;
            // The position is read before the machines: what happens in between is the next round's.
            let position = client.changes(&model.uuid.to_string(), after).await?;
            for model in client.models().await? {
                self.round(&client, &file, model.uuid).await?;
            }
            after = Some(position);
            sleep(ROUND_PAUSE).await;
        }
    }

    async fn round(&mut self, client: &Client, file: &ClientFile, model: Uuid) -> Result<(), Failure> {
        let machines = client.machines(&model.to_string()).await?;
        let running = self.running.keys().copied().collect();
        for step in plan(&machines, &running) {
            match step {
                Step::Start(uuid) => {
                    let machine =
                        machines.iter().find(|machine| machine.uuid == uuid).expect("it was planned");
                    self.start(client, file, model, machine).await?;
                }
                Step::TakeAway(uuid) => self.take_away(client, model, uuid).await?,
            }
        }
        Ok(())
    }

    async fn start(
        &mut self,
        client: &Client,
        file: &ClientFile,
        model: Uuid,
        machine: &MachineInfo,
    ) -> Result<(), Failure> {
        let folder = self.folder(machine.uuid);
        let broken =
            |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", folder.display()));
        make_folder(&folder).map_err(broken)?;
        let token = agent_file::write(&folder, machine, model, file).map_err(broken)?;
        client.machine_token(&model.to_string(), machine.uuid, &token).await?;
        let program = Program {
            path: self.agent.clone(),
            arguments: vec!["machine".to_owned(), "--data".to_owned(), folder.display().to_string()],
            log: folder.join("machine.log"),
            pid_file: None,
        };
        self.running.insert(machine.uuid, Daemon::start(program));
        eprintln!("machine {} ({}): started", machine.name, machine.uuid);
        Ok(())
    }

    /// The folder goes before the record: a take-away that was cut short is found Dead again and finished.
    async fn take_away(&mut self, client: &Client, model: Uuid, uuid: Uuid) -> Result<(), Failure> {
        let folder = self.folder(uuid);
        let agent = self.running.remove(&uuid).and_then(Daemon::release);
        let stopped = stop::machine(&folder, agent).await;
        if let Some(left) = stopped.left.first() {
            return Err(Failure::new(format!("machine {uuid}: process {} does not end", left.pid)));
        }
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::new(format!("cannot remove {}: {error}", folder.display())));
            }
            _ => {}
        }
        client.machine_removed(&model.to_string(), uuid).await?;
        eprintln!("machine {uuid}: removed");
        Ok(())
    }

    fn folder(&self, machine: Uuid) -> PathBuf {
        self.dir.machines().join(machine.to_string())
    }

    /// Lets go of all agents: none is started again. Answers the running ones, which the caller stops.
    pub fn release(self) -> Vec<crate::supervisor::process::Process> {
        self.running.into_values().filter_map(Daemon::release).collect()
    }
}

fn make_folder(folder: &Path) -> std::io::Result<()> {
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700).create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_have_agents_and_the_dead_are_taken_away() {
        let machine =
            |id, life| MachineInfo { uuid: Uuid(id), name: id.to_string(), address: String::new(), life };
        let machines = [
            machine(1, Life::Alive),
            machine(2, Life::Alive),
            machine(3, Life::Dying),
            machine(4, Life::Dead),
            machine(5, Life::Dead),
        ];
        // 1 and 5 run; 9 runs and is not known to the controller.
        let running = BTreeSet::from([Uuid(1), Uuid(5), Uuid(9)]);
        let steps = [2, 3].map(|id| Step::Start(Uuid(id))).into_iter();
        let steps: Vec<Step> = steps.chain([4, 5].map(|id| Step::TakeAway(Uuid(id)))).collect();
        assert_eq!(plan(&machines, &running), steps);
    }
}
