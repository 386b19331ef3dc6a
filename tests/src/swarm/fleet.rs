//! The machines and the units of the load generator, and what the provisioner and the machine agents do for them.
//!
//! A unit agent that ends is started again, as a service manager does, unless its unit has finished; then the unit is
//! removed in the name of its machine. All agents run in the calling thread, in a `LocalSet`.

use crate::memory_unit::MemoryUnit;
use crate::swarm::charm::run_hook;
use crate::swarm::link::{CountedLink, Received, RequestCounts};
use agent::clock::HostClock;
use agent::unit_agent::{UnitAgent, UnitAgentEnd};
use anyhow::{Context, Result, anyhow, bail};
use api::client::{Client, ControllerConnection};
use api::{
    AddMachines, AddUnits, ConfirmRecall, Deploy, GetStatus, Handle, InModel, ListMachines, ListModels,
    ProvisioningReport, RemoveDeadUnit, ReportInstance, SetMachineToken, SetUnitToken, Status, UploadArchive,
};
use charms::read::CharmSource;
use state::charm::Charm;
use state::terms::names::{UnitName, Uuid};
use state::terms::provider_kind::ProviderKind;
use state::unit::local::Step;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Units of one simulated machine.
pub const UNITS_OF_MACHINE: usize = 10;
/// Machines that one request adds.
const MACHINES_ADDED: u32 = 500;
/// Requests of the user and of machines at the same time: fewer than a user may have connections.
const REQUESTS_AT_ONCE: usize = 32;
/// The interval at which a state that has no event is examined.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The delay before an agent that has ended starts again.
const RESTART_DELAY: Duration = Duration::from_millis(200);

type SwarmAgent = UnitAgent<MemoryUnit, CountedLink, MemoryUnit, HostClock>;

/// One unit, and its agent if that runs.
pub struct SwarmUnit {
    /// Its name.
    pub name: UnitName,
    /// Its uuid.
    pub uuid: Uuid,
    /// What its agents have stored.
    pub disk: MemoryUnit,
    /// What its agents have received.
    pub received: Arc<Received>,
    machine: Rc<SwarmMachine>,
    token: String,
    agent: RefCell<Option<Rc<SwarmAgent>>>,
    is_removed: Cell<bool>,
}

/// One machine.
struct SwarmMachine {
    name: String,
    client: Client,
    address: IpAddr,
}

/// All machines and units.
pub struct Fleet {
    /// The client of the first user, in the model of the units.
    pub admin: Client,
    /// The requests of all unit agents.
    pub counts: Arc<RequestCounts>,
    /// All units, in the order of their deployment.
    pub units: Vec<Rc<SwarmUnit>>,
    connection: ControllerConnection,
    model: Uuid,
    machines: Vec<Rc<SwarmMachine>>,
    free_places: usize,
}

impl SwarmUnit {
    /// Whether its first hooks have run and everything that it did was acknowledged.
    pub fn is_at_rest(&self) -> bool {
        let Some(agent) = self.agent.borrow().clone() else { return false };
        let local = agent.shared.local();
        local.started && local.outbox.is_empty() && local.step == Step::Idle && agent.shared.view().is_some()
    }

    /// Whether its agent has received an event of its watch after this time, and everything that it did was acknowledged.
    pub fn is_back_after(&self, time: Instant) -> bool {
        self.received.is_after(time) && self.is_at_rest()
    }

    /// The number of units of other applications that it has joined.
    pub fn joined(&self) -> usize {
        self.disk.joined()
    }

    /// Whether the unit was removed and its machine agent has confirmed that.
    pub fn is_removed(&self) -> bool {
        self.is_removed.get()
    }
}

impl Fleet {
    /// A fleet without machines and units, in the first model of a controller.
    ///
    /// # Errors
    /// If the controller does not answer.
    pub async fn new(connection: ControllerConnection) -> Result<Fleet> {
        let user = Client::user(&connection)?;
        let models = user.handle(ListModels).await?;
        let model = models.first().context("the controller has no model")?;
        Ok(Fleet {
            admin: user.in_model(&model.name),
            counts: Arc::default(),
            units: Vec::new(),
            model: model.uuid,
            connection,
            machines: Vec::new(),
            free_places: 0,
        })
    }

    /// Uploads a charm and deploys applications with it, whose units fill the machines one after the other. Their agents
    /// do not run yet. `applications`: the number of units of each.
    ///
    /// # Errors
    /// If a request is refused.
    pub async fn deploy(
        &mut self,
        charm: &CharmSource,
        applications: &BTreeMap<String, usize>,
    ) -> Result<()> {
        self.admin.handle(UploadArchive(charm.archive.clone())).await?;
        let mut placed: Vec<(String, Rc<SwarmMachine>)> = Vec::new();
        let all = applications.values().sum::<usize>();
        self.add_machines(all.saturating_sub(self.free_places).div_ceil(UNITS_OF_MACHINE)).await?;
        for (application, units) in applications {
            let deploy = Deploy {
                application: Some(application.clone()),
                sha256: charm.sha256.clone(),
                ..Deploy::default()
            };
            self.admin.handle(deploy).await?;
            for _ in 0..*units {
                let used = self.machines.len() * UNITS_OF_MACHINE - self.free_places;
                self.free_places -= 1;
                placed.push((application.clone(), self.machines[used / UNITS_OF_MACHINE].clone()));
            }
        }
        let admin = self.admin.clone();
        let added = in_parallel(placed, move |(application, machine)| {
            let admin = admin.clone();
            async move {
                let to = Some(machine.name.clone());
                let add = AddUnits { application, units: 1, to, attach_storage: Vec::new() };
                let mut names = admin.handle(add).await?.answer;
                Ok((names.pop().context("the unit has a name")?, machine))
            }
        });
        let added = added.await?;
        let status = self.admin.handle(GetStatus).await?;
        let declared = Arc::new(charm.charm.clone());
        let mut units = Vec::new();
        for (name, machine) in added {
            let uuid = uuid_in(&status, &name).context("an added unit is not in the status")?;
            units.push(Rc::new(unit(name, uuid, machine, declared.clone())));
        }
        let tokens = in_parallel(units.clone(), |unit| async move {
            let set = SetUnitToken { unit: unit.uuid, token: unit.token.clone() };
            Ok(unit.machine.client.handle(set).await?)
        });
        tokens.await?;
        self.units.extend(units);
        Ok(())
    }

    /// Adds machines as the provisioner does. Each has an address of its own in 127.0.0.0/8.
    async fn add_machines(&mut self, count: usize) -> Result<()> {
        let mut names = Vec::new();
        for first in (0..count).step_by(MACHINES_ADDED as usize) {
            let added = MACHINES_ADDED.min(u32::try_from(count - first)?);
            let add = AddMachines { count: added, manual: false, ..AddMachines::default() };
            names.extend(self.admin.handle(add).await?.answer);
        }
        let machines = self.admin.handle(ListMachines).await?;
        let uuids: BTreeMap<String, Uuid> =
            machines.into_iter().map(|machine| (machine.name, machine.uuid)).collect();
        let mut wanted = Vec::new();
        for (number, name) in (self.machines.len()..).zip(names) {
            let uuid = *uuids.get(&name).context("an added machine is not listed")?;
            let [_, a, b, c] = u32::try_from(number + 1)?.to_be_bytes();
            let address = IpAddr::V4(Ipv4Addr::new(127, 1 + a, b, c));
            wanted.push((name, uuid, address));
        }
        let (admin, connection, model) = (self.admin.clone(), self.connection.clone(), self.model);
        let added = in_parallel(wanted, move |(name, machine, address)| {
            let (admin, connection) = (admin.clone(), connection.clone());
            async move {
                let starting = ProvisioningReport::Starting { provider: ProviderKind::Local, nonce: machine };
                admin.handle(ReportInstance { machine, what: starting }).await?;
                let started = ProvisioningReport::Started {
                    instance_id: format!("swarm-{name}"),
                    address: address.to_string(),
                    base: None,
                    hardware: None,
                };
                admin.handle(ReportInstance { machine, what: started }).await?;
                let token = host::random::token();
                admin.handle(SetMachineToken { machine, token: token.clone() }).await?;
                let connection = ControllerConnection { token, local_address: Some(address), ..connection };
                let client = Client::agent(&connection, model, machine)?;
                Ok(Rc::new(SwarmMachine { name, client, address }))
            }
        });
        self.machines.extend(added.await?);
        self.free_places += count * UNITS_OF_MACHINE;
        Ok(())
    }

    /// The model of the units.
    pub fn model(&self) -> Uuid {
        self.model
    }

    /// Starts the agents of all units that have none.
    pub fn start_agents(&self) {
        for unit in self.units.iter().filter(|unit| unit.agent.borrow().is_none() && !unit.is_removed()) {
            let (unit, counts) = (unit.clone(), self.counts.clone());
            let token = unit.token.clone();
            let local_address = Some(unit.machine.address);
            let connection = ControllerConnection { token, local_address, ..self.connection.clone() };
            let model = self.model;
            tokio::task::spawn_local(async move {
                // an error is shown as a unit that never comes to rest
                if let Err(error) = run_agents(&unit, &connection, model, counts).await {
                    eprintln!("{}: {error:#}", unit.name);
                }
            });
        }
    }

    /// Waits until all units have a property. Returns how long that took.
    ///
    /// # Errors
    /// If it takes longer than `longest`. The error names some of the others.
    pub async fn wait_for_all(
        &self,
        what: &str,
        longest: Duration,
        has: impl Fn(&SwarmUnit) -> bool,
    ) -> Result<Duration> {
        let begin = Instant::now();
        loop {
            let Some(first) = self.units.iter().find(|unit| !has(unit)) else { return Ok(begin.elapsed()) };
            if begin.elapsed() > longest {
                let count = self.units.iter().filter(|unit| !has(unit)).count();
                let local = first.disk.local();
                bail!(
                    "{count} of {} units are not {what} after {longest:?}, for example {}: {:?}, {} records unsent",
                    self.units.len(),
                    first.name,
                    local.step,
                    local.outbox.len()
                );
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

fn unit(name: UnitName, uuid: Uuid, machine: Rc<SwarmMachine>, charm: Arc<Charm>) -> SwarmUnit {
    SwarmUnit {
        disk: MemoryUnit::new(uuid, name.clone(), charm, run_hook),
        // one provider is enough to show how large its views are
        received: Arc::new(Received::new(name.application == "provider")),
        name,
        uuid,
        machine,
        token: host::random::token(),
        agent: RefCell::default(),
        is_removed: Cell::new(false),
    }
}

fn uuid_in(status: &Status, name: &UnitName) -> Option<Uuid> {
    Some(status.applications.get(&name.application)?.units.get(name)?.uuid)
}

/// Runs one agent of a unit after the other, until the unit has finished. Then acts as its machine agent.
async fn run_agents(
    unit: &Rc<SwarmUnit>,
    connection: &ControllerConnection,
    model: Uuid,
    counts: Arc<RequestCounts>,
) -> Result<()> {
    let client = Client::agent(connection, model, unit.uuid)?;
    loop {
        let (client, counts, received) = (client.clone(), counts.clone(), unit.received.clone());
        let link = CountedLink { client, counts, received };
        let ports = (unit.disk.clone(), link, unit.disk.clone(), HostClock::new(Path::new("")));
        let agent = Rc::new(UnitAgent::new(ports, unit.disk.local(), None));
        unit.agent.replace(Some(agent.clone()));
        let end = agent.run().await;
        unit.agent.replace(None);
        match end {
            UnitAgentEnd::Finished => break,
            UnitAgentEnd::AttachAgain(_) => tokio::time::sleep(RESTART_DELAY).await,
            end @ (UnitAgentEnd::Fenced(_)
            | UnitAgentEnd::OlderState(_)
            | UnitAgentEnd::Diverged(_)
            | UnitAgentEnd::Disk(_)) => return Err(anyhow!("the agent ended: {end:?}")),
        }
    }
    let machine = &unit.machine.client;
    machine.handle(RemoveDeadUnit { unit: unit.uuid }).await?;
    machine.handle(ConfirmRecall { unit: unit.uuid }).await?;
    unit.is_removed.set(true);
    Ok(())
}

/// Calls `call` for each item, a bounded number at the same time. Returns the results in the order of the items.
async fn in_parallel<I: 'static, T: 'static, F>(items: Vec<I>, call: impl Fn(I) -> F) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>> + 'static,
{
    let (mut calls, mut results) = (JoinSet::new(), BTreeMap::new());
    for (number, item) in items.into_iter().enumerate() {
        if calls.len() >= REQUESTS_AT_ONCE
            && let Some(done) = calls.join_next().await
        {
            let (number, result): (usize, Result<T>) = done?;
            results.insert(number, result?);
        }
        let call = call(item);
        calls.spawn_local(async move { (number, call.await) });
    }
    while let Some(done) = calls.join_next().await {
        let (number, result) = done?;
        results.insert(number, result?);
    }
    Ok(results.into_values().collect())
}
