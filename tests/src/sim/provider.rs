//! Simulated provider of instances, and the production provisioner that uses it.
//!
//! Instances have numbers and tags: model, machine and nonce. Two exist from the start: one of another controller,
//! and one of an earlier controller of this model. The provider may fail with a reason, fail after it has acted, or
//! list instances that are a few seconds out of date. It never creates two instances under one nonce: nonces exist for
//! this purpose.

use crate::sim::fact::{Fact, InstanceEvent};
use crate::sim::identities::{MODEL, admin, token};
use crate::sim::mutants::Mutant;
use crate::sim::network::{SimCaller, SimNetwork};
use crate::sim::world::{Command, World};
use api::error::{ApiError, ErrorCode};
use api::{ClientFile, Handle, InModel, Request};
use cli::command_error::CommandError;
use cli::supervisor::provider::{CreatedInstance, InstanceList, InstanceSpec, Provider};
use cli::supervisor::provisioner::{Provisioner, ProvisionerEnvironment};
use state::terms::names::Uuid;
use state::terms::provider_kind::ProviderKind;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;

/// The pause between two attempts of the provisioner, as in the supervisor.
const RETRY_MS: u64 = 250;
/// A supervisor that died restarts within this time.
const RESTART_MS: u64 = 3_000;
/// The largest age of a listing.
const LATE_MS: u64 = 3_000;
/// The model of another controller.
const FOREIGN: Uuid = Uuid(0x2222_2222_2222_4222_8222_2222_2222_2222);

struct Instance {
    model: Uuid,
    machine: Uuid,
    nonce: Uuid,
    runs: bool,
    created_ms: u64,
    /// When it was terminated.
    terminated_ms: Option<u64>,
}

/// All instances of the provider. They outlive the provisioner.
#[derive(Clone)]
pub struct SimCloud {
    world: World,
    /// By number.
    instances: Arc<Mutex<BTreeMap<u64, Instance>>>,
    /// Signals that an instance stopped by itself.
    ended: Arc<Notify>,
}

impl SimCloud {
    pub fn new(world: World) -> SimCloud {
        let cloud = SimCloud { world, instances: Arc::default(), ended: Arc::default() };
        for model in [FOREIGN, MODEL] {
            let (machine, nonce) = (Uuid(cloud.world.random_u128()), Uuid(cloud.world.random_u128()));
            cloud.create(model, machine, nonce, InstanceEvent::Existed);
        }
        cloud
    }

    fn instances(&self) -> MutexGuard<'_, BTreeMap<u64, Instance>> {
        self.instances.lock().expect("one thread")
    }

    fn create(&self, model: Uuid, machine: Uuid, nonce: Uuid, what: InstanceEvent) {
        let mut instances = self.instances();
        let number = instances.len() as u64;
        let created_ms = self.world.now_ms();
        instances
            .insert(number, Instance { model, machine, nonce, runs: false, created_ms, terminated_ms: None });
        drop(instances);
        self.world.trace(|| format!("provider: instance {number} is created for machine {machine}"));
        self.world.note(Fact::Instance { number, model, machine, nonce, what });
    }

    /// Fails at random with this reason, as every call may.
    fn draw_failure(&self, what: &str) -> Result<(), CommandError> {
        match self.world.draws_fault(self.world.profile().provider_fails) {
            true => Err(CommandError::new(format!("{what} ({} ms)", self.world.now_ms()))),
            false => Ok(()),
        }
    }

    /// Ends all instances of a machine: they are terminated, or handed over and no longer part of the system.
    fn end_instances(&self, machine: Uuid, what: InstanceEvent) {
        let (world, mut instances) = (&self.world, self.instances());
        for (number, instance) in instances.iter_mut() {
            if instance.machine != machine || instance.terminated_ms.is_some() {
                continue;
            }
            (instance.runs, instance.terminated_ms) = (false, Some(world.now_ms()));
            let (number, model, nonce, what) = (*number, instance.model, instance.nonce, what.clone());
            world.trace(|| format!("provider: instance {number} of machine {machine}: {what:?}"));
            world.note(Fact::Instance { number, model, machine, nonce, what });
            world.command(Command::TerminateMachine(machine));
        }
    }

    /// Powers off the instance of a machine, which keeps its content. Returns whether it was running.
    pub fn end(&self, machine: Uuid) -> bool {
        let mut instances = self.instances();
        let running = instances.values_mut().find(|instance| instance.machine == machine && instance.runs);
        let ran = running.map(|instance| instance.runs = false).is_some();
        drop(instances);
        if ran {
            self.ended.notify_one();
        }
        ran
    }

    /// Deletes the instance of a machine with its content. Returns whether it was running.
    pub fn lose(&self, machine: Uuid) -> bool {
        let mut instances = self.instances();
        let Some((number, instance)) =
            instances.iter_mut().find(|(_, instance)| instance.machine == machine && instance.runs)
        else {
            return false;
        };
        (instance.runs, instance.terminated_ms) = (false, Some(self.world.now_ms()));
        let (number, model, nonce, what) = (*number, instance.model, instance.nonce, InstanceEvent::Lost);
        drop(instances);
        self.world.trace(|| format!("provider: instance {number} of machine {machine} is lost"));
        self.world.note(Fact::Instance { number, model, machine, nonce, what });
        self.ended.notify_one();
        true
    }

    /// Replaces the instance of a machine by one that another controller with the same backup has created,
    /// under its own nonce. Not if listings are stale, because then the two cannot be distinguished.
    pub fn start_elsewhere(&self, machine: Uuid) -> bool {
        if self.world.profile().started_elsewhere == 0
            || self.world.profile().stale_listing > 0
            || !self.lose(machine)
        {
            return false;
        }
        self.create(MODEL, machine, Uuid(self.world.random_u128()), InstanceEvent::Existed);
        true
    }

    /// Makes listings current: restoring the controller takes longer than a listing is stale.
    pub fn expire_stale_listings(&self) {
        for instance in self.instances().values_mut() {
            instance.created_ms = instance.created_ms.saturating_sub(LATE_MS);
            instance.terminated_ms =
                instance.terminated_ms.map(|terminated_ms| terminated_ms.saturating_sub(LATE_MS));
        }
    }
}

/// The provider as one supervisor uses it.
struct SimProvider {
    cloud: SimCloud,
    /// Machines whose instance this supervisor has started.
    started: BTreeSet<Uuid>,
}

impl Provider for SimProvider {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Local
    }

    fn list(&self, model: Uuid) -> Result<InstanceList, CommandError> {
        let world = &self.cloud.world;
        self.cloud.draw_failure("cannot list the instances")?;
        let late_ms = if world.draws_fault(world.profile().stale_listing) { world.below(LATE_MS) } else { 0 };
        let at_ms = world.now_ms() - late_ms;
        let instances = self.cloud.instances();
        let listed = instances.values().filter(|instance| {
            instance.model == model
                && instance.created_ms <= at_ms
                && instance.terminated_ms.is_none_or(|terminated_ms| terminated_ms > at_ms)
        });
        Ok(listed.map(|instance| (instance.machine, Ok(instance.nonce))).collect())
    }

    fn running_address(&self, machine: Uuid) -> Option<String> {
        let instances = self.cloud.instances();
        let mut running =
            instances.iter().filter(|(_, instance)| instance.machine == machine && instance.runs);
        let (number, _) = running.next().filter(|_| self.started.contains(&machine))?;
        Some(address(*number))
    }

    async fn create(&mut self, spec: &InstanceSpec<'_>) -> Result<CreatedInstance, CommandError> {
        let (world, cloud) = (&self.cloud.world, &self.cloud);
        let (model, machine, nonce) = (spec.model.uuid, spec.machine.uuid, spec.nonce);
        let failed = |failure: CommandError| {
            let what = InstanceEvent::Failed(failure.message.clone());
            world.note(Fact::Instance { number: 0, model, machine, nonce, what });
            failure
        };
        cloud.draw_failure("no instance is free").map_err(failed)?;
        let same = |instance: &Instance| {
            instance.machine == machine && instance.nonce == nonce && instance.terminated_ms.is_none()
        };
        let existing = || {
            let instances = cloud.instances();
            instances.iter().rfind(|(_, instance)| same(instance)).map(|(number, _)| *number)
        };
        if existing().is_none() || world.profile().has(Mutant::NonceIsNotUnique) {
            cloud.create(model, machine, nonce, InstanceEvent::Created);
            cloud.draw_failure("the provider sent no response").map_err(failed)?;
        }
        let address = address(existing().expect("it is made"));
        Ok(CreatedInstance {
            instance_id: format!("simulated-{}", spec.machine.name),
            address,
            base: None,
            hardware: None,
            token: token(machine),
        })
    }

    async fn start(&mut self, spec: &InstanceSpec<'_>) -> Result<Option<Duration>, CommandError> {
        let (world, machine) = (&self.cloud.world, spec.machine.uuid);
        world.pause().await;
        let mut instances = self.cloud.instances();
        let existing = instances
            .iter_mut()
            .find(|(_, instance)| instance.machine == machine && instance.terminated_ms.is_none());
        let Some((number, instance)) = existing else {
            return Err(CommandError::new("there is no such instance"));
        };
        if !instance.runs {
            instance.runs = true;
            world.command(Command::StartMachine { machine, instance: *number });
        }
        drop(instances);
        self.started.insert(machine);
        Ok(None)
    }

    async fn terminate(&mut self, machine: Uuid) -> Result<(), CommandError> {
        let (world, cloud) = (&self.cloud.world, &self.cloud);
        world.pause().await;
        cloud.draw_failure("the instance does not end")?;
        self.started.remove(&machine);
        cloud.end_instances(machine, InstanceEvent::Terminated);
        world.pause().await;
        cloud.draw_failure("the provider sent no response")
    }

    async fn hand_over(&mut self, machine: Uuid) -> Result<(), CommandError> {
        let (world, cloud) = (&self.cloud.world, &self.cloud);
        world.pause().await;
        cloud.draw_failure("the instance is not let go")?;
        self.started.remove(&machine);
        cloud.end_instances(machine, InstanceEvent::HandedOver);
        world.pause().await;
        cloud.draw_failure("the provider sent no response")
    }

    async fn wait_for_change(&self) {
        self.cloud.ended.notified().await;
    }
}

/// The address of an instance: each has its own.
pub fn address(instance: u64) -> String {
    format!("10.{}.{}.{}", instance >> 16 & 255, instance >> 8 & 255, instance & 255)
}

struct SimHost(World);

impl ProvisionerEnvironment for SimHost {
    fn wall_ms(&self) -> i64 {
        self.0.wall_ms()
    }
    async fn sleep(&self, pause: Duration) {
        self.0.sleep(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)).await;
    }
    fn random_uuid(&self) -> Uuid {
        Uuid(self.0.random_u128())
    }
    fn log(&self, line: &str) {
        self.0.trace(|| format!("provisioner: {line}"));
    }
}

/// The link of the provisioner to the controller. Its requests are lost like those of operators, and fail when
/// the controller restarts.
#[derive(Clone)]
struct ProvisionerLink {
    world: World,
    network: SimNetwork,
    model: String,
}

impl InModel for ProvisionerLink {
    fn in_model(&self, model: &str) -> ProvisionerLink {
        ProvisionerLink { model: model.to_owned(), ..self.clone() }
    }
}

impl<R: Request + Clone> Handle<R> for ProvisionerLink
where
    SimCaller: Handle<R>,
{
    async fn handle(&self, request: R) -> Result<R::Response, ApiError> {
        let unreachable = || Err(ApiError::new(ErrorCode::Unreachable, "the connection broke"));
        self.world.pause().await;
        let call = |session: SimCaller| {
            let request = request.clone();
            async move { session.in_model(&self.model).handle(request).await }
        };
        let answer = {
            let (restarted, asked) =
                (pin!(self.network.restarted()), pin!(self.network.request(call, admin())));
            tokio::select! {
                biased;
                () = restarted => None,
                answer = asked => answer,
            }
        };
        self.world.pause().await;
        answer.unwrap_or_else(unreachable)
    }
}

/// Runs the provisioner. It starts a moment after the previous one died.
pub async fn run_provisioner(world: World, network: SimNetwork, cloud: SimCloud) {
    world.note(Fact::ProvisionerStarted);
    world.sleep(world.below(RESTART_MS)).await;
    let text = String::new;
    let file = ClientFile {
        other_controllers: Vec::new(),
        controller: text(),
        server_name: text(),
        ca: text(),
        user: text(),
        token: text(),
        model: text(),
    };
    let provider = SimProvider { cloud, started: BTreeSet::new() };
    let mut provisioner = Provisioner::new(provider, SimHost(world.clone()));
    let link = ProvisionerLink { world: world.clone(), network, model: String::new() };
    loop {
        let Err(failure) = provisioner.follow(&link, &file).await;
        world.trace(|| format!("provisioner: {}", failure.message));
        world.note(Fact::ProvisionerStarted);
        world.sleep(RETRY_MS).await;
    }
}
