//! What `cargo swarm` measures: units that come up, a controller that is killed, relations, and a removal.
//!
//! Each step returns its figures; `print` in the binary formats them. After all steps [`Swarm::verify_nothing_lost`] compares the
//! store with the disks of all units.

use crate::swarm::charm::{self, COUNTER, OPTION, Side};
use crate::swarm::controller_process::ControllerProcess;
use crate::swarm::fleet::Fleet;
use crate::swarm::link::Counts;
use anyhow::{Context, Result, bail, ensure};
use api::{ConfigChange, Configure, ConfigureModel, Ends, GetStatus, Handle, Integrate, RemoveApplication};
use controller::installation::Installation;
use controller::store::Store;
use controller::store::sqlite::{Options, Sqlite};
use state::documents::draft::read;
use state::documents::prelude::{Model, ReplicaDoc};
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest time of one step.
const LONGEST: Duration = Duration::from_secs(1_800);
/// The interval at which the status is asked for while applications are removed.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// A controller with a fleet.
pub struct Swarm {
    data: PathBuf,
    scratch: PathBuf,
    controller: ControllerProcess,
    /// The machines and units.
    pub fleet: Fleet,
    applications: Vec<String>,
    memory_before_mb: f64,
}

/// The units that came up.
#[derive(Clone, Copy, Debug)]
pub struct CameUp {
    /// From the start of all agents until all units were at rest.
    pub took: Duration,
    /// The CPU time of the controller, in seconds.
    pub cpu_seconds: f64,
    /// How the requests of the agents have ended.
    pub counts: Counts,
}

/// The cost of idle agents.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// The resident memory of the controller before there were agents, and with them, in MB.
    pub memory_mb: (f64, f64),
    /// The CPU time of the controller, in milliseconds per second.
    pub cpu_ms: f64,
}

/// A controller that was killed and started again.
#[derive(Clone, Copy, Debug)]
pub struct Restarted {
    /// From the start of the new process until it answered.
    pub answered: Duration,
    /// From the start of the new process until all agents had received an event of their watch from it, and all records were
    /// acknowledged.
    pub back: Duration,
    /// The CPU time of the new process until then, in seconds.
    pub cpu_seconds: f64,
    /// How the requests of the agents have ended since the kill.
    pub counts: Counts,
}

/// Relations of one provider with all other units.
#[derive(Clone, Copy, Debug)]
pub struct Related {
    /// Until the provider and each requirer had run their joined hooks.
    pub took: Duration,
    /// Events of the watch of the provider, and the bytes of the largest one.
    pub events: (u64, u64),
}

/// Applications that were removed.
#[derive(Clone, Copy, Debug)]
pub struct Destroyed {
    /// The longest of the requests, one per application.
    pub request: Duration,
    /// Until the status had no application.
    pub took: Duration,
}

impl Swarm {
    /// Starts the program of a controller in `scratch`, and deploys `units`, in applications of `per_application` units. No
    /// agent runs.
    ///
    /// # Errors
    /// If the controller does not start or refuses a request.
    pub async fn new(program: &Path, scratch: &Path, units: usize, per_application: usize) -> Result<Swarm> {
        let data = scratch.join("data");
        std::fs::create_dir_all(&data)?;
        let mut controller = ControllerProcess::start(program, &data)?;
        let fleet = Fleet::new(controller.connection().await?).await?;
        let interval = ("update-status-hook-interval".to_owned(), "1000h".to_owned());
        let change = ConfigChange { set: [interval].into(), reset: Vec::new() };
        fleet.admin.handle(ConfigureModel { change }).await?;
        let applications: BTreeMap<String, usize> = (0..units.div_ceil(per_application))
            .map(|number| {
                let of_application = per_application.min(units - number * per_application);
                (format!("requirer{number}"), of_application)
            })
            .collect();
        let names = applications.keys().cloned().collect();
        let mut swarm = Swarm {
            data,
            scratch: scratch.to_owned(),
            controller,
            fleet,
            applications: names,
            memory_before_mb: 0.0,
        };
        let charm = charm::pack(scratch, Side::Requirer)?;
        swarm.fleet.deploy(&charm, &applications).await?;
        swarm.memory_before_mb = swarm.controller.memory_mb();
        Ok(swarm)
    }

    /// Starts all agents, and waits until all units are at rest.
    ///
    /// # Errors
    /// If a unit does not come up.
    pub async fn come_up(&self) -> Result<CameUp> {
        let cpu = self.controller.cpu_seconds();
        self.fleet.counts.take();
        self.fleet.start_agents();
        let took = self.fleet.wait_for_all("at rest", LONGEST, |unit| unit.is_at_rest()).await?;
        let cpu_seconds = self.controller.cpu_seconds() - cpu;
        Ok(CameUp { took, cpu_seconds, counts: self.fleet.counts.take() })
    }

    /// Measures the controller while all agents are idle.
    pub async fn idle(&self, during: Duration) -> Idle {
        let cpu = self.controller.cpu_seconds();
        tokio::time::sleep(during).await;
        let cpu_ms = (self.controller.cpu_seconds() - cpu) / during.as_secs_f64() * 1000.0;
        Idle { memory_mb: (self.memory_before_mb, self.controller.memory_mb()), cpu_ms }
    }

    /// Kills the controller, starts it again, and waits until all agents are back. `is_busy`: all units run a hook when it
    /// is killed.
    ///
    /// # Errors
    /// If an agent does not come back.
    pub async fn restart(&mut self, is_busy: bool) -> Result<Restarted> {
        let hooks: Vec<usize> = self.fleet.units.iter().map(|unit| unit.disk.hooks()).collect();
        if is_busy {
            self.configure().await?;
            // a tenth of the units have run their hook
            let enough = self.fleet.units.len().div_ceil(10);
            let begin = Instant::now();
            let ran = |fleet: &Fleet| {
                let units = fleet.units.iter().zip(&hooks);
                units.filter(|(unit, before)| unit.disk.hooks() > **before).count()
            };
            while ran(&self.fleet) < enough {
                ensure!(begin.elapsed() < LONGEST, "no unit runs the hook of a changed setting");
                tokio::task::yield_now().await;
            }
        }
        self.fleet.counts.take();
        self.controller.kill()?;
        let killed = Instant::now();
        self.controller.restart()?;
        let started = Instant::now();
        self.controller.connection().await?;
        let answered = started.elapsed();
        let wanted: BTreeMap<Uuid, usize> = self
            .fleet
            .units
            .iter()
            .zip(&hooks)
            .map(|(unit, before)| (unit.uuid, before + usize::from(is_busy)))
            .collect();
        let is_back = |unit: &crate::swarm::fleet::SwarmUnit| {
            unit.is_back_after(killed) && unit.disk.hooks() >= wanted[&unit.uuid]
        };
        self.fleet.wait_for_all("back", LONGEST, is_back).await?;
        let back = started.elapsed();
        let (cpu_seconds, counts) = (self.controller.cpu_seconds(), self.fleet.counts.take());
        Ok(Restarted { answered, back, cpu_seconds, counts })
    }

    /// Changes a setting of all applications, so that each unit runs config-changed.
    async fn configure(&self) -> Result<()> {
        let level = self.fleet.units.first().map_or(0, |unit| unit.disk.hooks());
        for application in self.applications.clone() {
            let set = [(OPTION.to_owned(), level.to_string())].into();
            let change = ConfigChange { set, reset: Vec::new() };
            self.fleet.admin.handle(Configure { application, change }).await?;
        }
        Ok(())
    }

    /// Adds a provider with one unit, and relates all applications with it.
    ///
    /// # Errors
    /// If the units do not join.
    pub async fn relate(&mut self) -> Result<Related> {
        let requirers = self.fleet.units.len();
        let charm = charm::pack(&self.scratch, Side::Provider)?;
        self.fleet.deploy(&charm, &[("provider".to_owned(), 1)].into()).await?;
        self.fleet.start_agents();
        self.fleet.wait_for_all("at rest", LONGEST, |unit| unit.is_at_rest()).await?;
        let provider = self.fleet.units.last().context("it was deployed")?.clone();
        provider.received.take_sizes();
        let begin = Instant::now();
        for application in &self.applications {
            let ends = Ends { a: "provider".to_owned(), b: application.clone() };
            self.fleet.admin.handle(Integrate(ends)).await?;
        }
        let has_joined = |unit: &crate::swarm::fleet::SwarmUnit| {
            let wanted = if unit.uuid == provider.uuid { requirers } else { 1 };
            unit.joined() == wanted && unit.is_at_rest()
        };
        self.fleet.wait_for_all("joined", LONGEST, has_joined).await?;
        self.applications.push("provider".to_owned());
        Ok(Related { took: begin.elapsed(), events: provider.received.take_sizes() })
    }

    /// Removes all applications, and waits until they are gone.
    ///
    /// # Errors
    /// If a unit stays.
    pub async fn destroy(&mut self) -> Result<Destroyed> {
        let (begin, mut request) = (Instant::now(), Duration::ZERO);
        for application in self.applications.drain(..) {
            let begin = Instant::now();
            let remove = RemoveApplication { application, force: Default::default(), destroy_storage: false };
            self.fleet.admin.handle(remove).await?;
            request = request.max(begin.elapsed());
        }
        self.fleet.wait_for_all("removed", LONGEST, |unit| unit.is_removed()).await?;
        while !self.fleet.admin.handle(GetStatus).await?.applications.is_empty() {
            ensure!(begin.elapsed() < LONGEST, "applications stay");
            tokio::time::sleep(STATUS_INTERVAL).await;
        }
        Ok(Destroyed { request, took: begin.elapsed() })
    }

    /// Stops the controller, and compares its store with what each unit has done: every record of the unit was applied, and
    /// each hook counts once. Returns the number of records of all units.
    ///
    /// # Errors
    /// If a record was lost or applied twice.
    pub async fn verify_nothing_lost(mut self) -> Result<u64> {
        self.controller.stop()?;
        let store = Sqlite::open(&Installation::store_in(&self.data), Options::new(Uuid(1)))?;
        let model = Model(self.fleet.model());
        let mut records = 0;
        for unit in self.fleet.units.iter().filter(|unit| !unit.is_removed()) {
            let key = model.replica(unit.uuid);
            let replica: Option<ReplicaDoc> = store.read(move |reader| read(reader, &key)).await;
            let replica = replica.with_context(|| format!("{} has sent no record", unit.name))?.local;
            let (done, hooks) = (unit.disk.sequence(), unit.disk.hooks().to_string());
            let counted = replica.charm_state.get(COUNTER).cloned().unwrap_or_default();
            if (replica.sequence, &counted) != (done, &hooks) {
                let applied = replica.sequence;
                bail!("{}: {applied} of {done} records, {counted} of {hooks} hooks", unit.name);
            }
            records += done;
        }
        Ok(records)
    }
}
