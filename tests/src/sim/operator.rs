//! Operators: two simulated people who act on the model at the same time through the production handlers.
//!
//! They deploy, integrate, configure, refresh, resolve, run actions and remove, at legal and at illegal moments.

use crate::sim::fact::Fact;
use crate::sim::identities::{MODEL, admin};
use crate::sim::network::{SimNetwork, SimSession};
use crate::sim::world::World;
use api::error::ApiError;
use api::{
    AddMachines, AddUnits, ConfigChange, Configure, ConfigureModel, Deploy, DestroyModel, Ends, Force,
    GetStatus, GetWhy, Handle, InModel, Integrate, ListMachines, Refresh, RelationChoice, RemoveApplication,
    RemoveMachine, RemoveRelation, RemoveUnit, ResolvedRequest, ResumeRelation, RetryProvisioning, Run,
    SuspendRelation, UploadArchive, Why,
};
use controller::store::Store;
use serde_json::{Value, json};
use state::charm::{Action, Charm, ConfigOption, Endpoint, OptionType, Role, Scope};
use state::documents::draft::{Reader, read_all};
use state::documents::keys::{Kind, Model, UnitDoc};
use state::terms::names::{RelationNumber, UnitName};
use state::terms::status::WorkloadStatus;
use std::collections::BTreeMap;
use std::future::Future;

/// The names of applications.
const APPLICATIONS: [&str; 4] = ["db", "web", "cache", "mon"];
/// Operators continue, up to this many times their number of actions, until as many hooks have run as in a
/// standard schedule.
const EXTRA_ROUNDS_MAX: u64 = 6;
/// The longest time under faults that a model has after destroy-model.
const DESTROY_UNDER_FAULTS_MS: u64 = 60_000;
/// The harvest modes that operators set.
const HARVEST_MODES: [&str; 4] = ["none", "unknown", "destroyed", "all"];
/// The teardown budgets that operators set: about as long as a removal takes, longer, and none.
const BUDGETS: [&str; 4] = ["15s", "1m", "5m", "off"];
/// The smallest number of hooks in a standard schedule.
pub const HOOKS_MIN: u64 = 40;

fn endpoint(name: &str, role: Role, interface: &str, scope: Scope) -> (String, Endpoint) {
    let end = Endpoint {
        name: name.into(),
        role,
        interface: interface.into(),
        scope,
        limit: None,
        optional: false,
    };
    (name.to_owned(), end)
}

/// The archive of a charm: a server with peers, a client that answers, or a subordinate of both, which the
/// server also offers its own endpoint. Each `version` has another digest.
pub fn charm(name: &str, version: u64) -> Vec<u8> {
    let endpoints = match name {
        "mon" => vec![
            endpoint("host", Role::Requirer, "juju-info", Scope::Container),
            endpoint("watched", Role::Requirer, "watch", Scope::Container),
        ],
        "web" => vec![endpoint("echo", Role::Requirer, "sql", Scope::Global)],
        _ => vec![
            endpoint("server", Role::Provider, "sql", Scope::Global),
            endpoint("ring", Role::Peer, "ring", Scope::Global),
            endpoint("watch", Role::Provider, "watch", Scope::Global),
        ],
    };
    let option =
        ConfigOption { kind: OptionType::String, default: Some(json!("a")), ..ConfigOption::default() };
    let action = Action { schema: json!({"type": "object", "properties": {}}), ..Action::default() };
    let charm = Charm {
        name: name.to_owned(),
        summary: format!("version {version}"),
        subordinate: name == "mon",
        endpoints: endpoints.into_iter().collect(),
        config: BTreeMap::from([("level".to_owned(), option)]),
        actions: BTreeMap::from([("act".to_owned(), action)]),
        ..Charm::default()
    };
    serde_json::to_vec(&charm).expect("plain data")
}

/// An entity that an operator removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SimRemoval {
    Unit(String),
    Application(String),
    Relation(RelationNumber),
    Machine(String),
}

/// One operator.
#[derive(Clone)]
pub struct SimOperator {
    pub world: World,
    pub network: SimNetwork,
    pub model: String,
}

impl SimOperator {
    /// Creates what every run starts with: two integrated applications with at least three units.
    pub async fn create_applications(&self) {
        if self.world.profile().budget > 0 {
            self.set_budget().await;
        }
        self.build().await;
    }

    /// Creates the missing parts of two integrated applications and their subordinate.
    async fn build(&self) {
        for (name, units_min) in [("db", 2), ("web", 1)] {
            let units = units_min + self.world.below(self.world.profile().units) as u32;
            self.deploy(name, units).await;
            self.world.sleep(self.world.below(3_000)).await;
        }
        self.integrate("db", "web").await;
        if self.world.profile().subordinate > 0 {
            self.deploy("mon", 0).await;
            self.integrate("db", "mon").await;
        }
    }

    /// Performs the actions of the profile, and more while too few hooks have run.
    pub async fn act(&self) {
        let actions = self.world.profile().operator_actions;
        for done in 0..actions * EXTRA_ROUNDS_MAX {
            if done >= actions && self.world.hooks() >= HOOKS_MIN {
                return;
            }
            let pace = if self.world.chance_of(500) { 300 } else { 20_000 };
            self.world.sleep(self.world.below(pace)).await;
            self.act_once().await;
        }
    }

    /// Sends a request to the controller over the simulated network. `None`: refused, or no response.
    async fn request<T, F>(&self, call: impl Fn(SimSession) -> F) -> Option<T>
    where
        F: Future<Output = Result<T, ApiError>>,
    {
        self.network.request(|session| call(session.in_model(&self.model)), admin()).await?.ok()
    }

    fn name(&self) -> &'static str {
        let count = if self.world.profile().subordinate > 0 { 4 } else { 3 };
        APPLICATIONS[self.world.below(count) as usize]
    }

    async fn random_unit(&self) -> Option<String> {
        let units = self.units().await;
        units.get(self.world.below(units.len() as u64) as usize).map(UnitName::to_string)
    }

    async fn act_once(&self) {
        let name = self.name();
        if self.world.chance_of(self.world.profile().suspend_relation) {
            return self.suspend_or_resume().await;
        }
        match self.world.below(100) {
            0..=14 => self.deploy(name, 1 + self.world.below(2) as u32).await,
            15..=24 => self.add_unit(name).await,
            25..=41 => self.integrate(name, self.name()).await,
            42 => self.add_machine().await,
            43 => self.retry_provisioning().await,
            44 => self.set_harvest_mode().await,
            45..=47 => self.suspend_or_resume().await,
            48..=49 => self.remove_machine().await,
            50 => self.set_budget().await,
            51..=59 => {
                self.trace(format!("config {name}"));
                let set = BTreeMap::from([("level".to_owned(), self.world.below(3).to_string())]);
                let change = ConfigChange { set, reset: Vec::new() };
                let call = |session: SimSession| {
                    let change = change.clone();
                    async move { session.handle(Configure { application: name.to_owned(), change }).await }
                };
                self.request(call).await;
            }
            60..=69 => {
                let (a, b) = self.ends(name, self.name());
                let force = self.force();
                self.trace(format!("remove-relation {a} {b}, force {force:?}"));
                let call = |session: SimSession| {
                    let ends = RelationChoice::Ends(Ends { a: a.clone(), b: b.clone() });
                    async move { session.handle(RemoveRelation { relation: ends, force }).await }
                };
                self.request(call).await;
            }
            70..=79 => {
                let Some(unit) = self.random_unit().await else { return };
                let force = self.force();
                self.trace(format!("remove-unit {unit}, force {force:?}"));
                let call = |session: SimSession| {
                    let unit = unit.clone();
                    async move { session.handle(RemoveUnit { unit: unit.to_owned(), force }).await }
                };
                self.request(call).await;
            }
            80..=84 => {
                let force = self.force();
                self.trace(format!("remove-application {name}, force {force:?}"));
                let call = |session: SimSession| async move {
                    session.handle(RemoveApplication { application: name.to_owned(), force }).await
                };
                self.request(call).await;
            }
            85..=89 => self.refresh(name).await,
            90..=94 => self.resolve().await,
            _ => {
                let Some(unit) = self.random_unit().await else { return };
                self.trace(format!("run {unit} act"));
                let call = |session: SimSession| {
                    let params = BTreeMap::<_, Value>::new();
                    let run = Run { unit: unit.clone(), action: "act".to_owned(), params };
                    async move { session.handle(run).await }
                };
                self.request(call).await;
            }
        }
    }

    /// Destroys the model if the profile says so, as the last action of each operator: the other one may still
    /// act in the model and then repeats the request. The removal runs under faults for a while.
    pub async fn destroy(&self) {
        if self.world.profile().destroyed == 0 {
            return;
        }
        let force = self.force();
        self.trace(format!("destroy-model, force {force:?}"));
        let call = |session: SimSession| async move { session.handle(DestroyModel { force }).await };
        self.request(call).await;
        self.world.sleep(self.world.below(DESTROY_UNDER_FAULTS_MS)).await;
    }

    /// Sets the teardown budget of the model, or turns it off.
    async fn set_budget(&self) {
        let budget = BUDGETS[self.world.below(BUDGETS.len() as u64) as usize];
        self.trace(format!("teardown-budget {budget}"));
        self.set_model_config("teardown-budget", budget).await;
    }

    /// The force of a removal: one in four is forced.
    fn force(&self) -> Force {
        match self.world.below(8) {
            0 => Force::AfterWait,
            1 => Force::AtOnce,
            _ => Force::No,
        }
    }

    async fn add_machine(&self) {
        self.trace("add-machine".to_owned());
        let add = AddMachines { count: 1, manual: false };
        let call = |session: SimSession| {
            let add = add.clone();
            async move { session.handle(add).await }
        };
        self.request(call).await;
    }

    async fn retry_provisioning(&self) {
        let Some(machine) = self.random_machine().await else { return };
        self.trace(format!("retry-provisioning {machine}"));
        let call = |session: SimSession| {
            let machine = machine.clone();
            async move { session.handle(RetryProvisioning { machine: machine.to_owned() }).await }
        };
        self.request(call).await;
    }

    async fn set_harvest_mode(&self) {
        let mode = HARVEST_MODES[self.world.below(HARVEST_MODES.len() as u64) as usize];
        self.trace(format!("provisioner-harvest-mode {mode}"));
        self.set_model_config("provisioner-harvest-mode", mode).await;
    }

    async fn set_model_config(&self, name: &str, value: &str) {
        let set = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let change = ConfigChange { set, reset: Vec::new() };
        let call = |session: SimSession| {
            let change = change.clone();
            async move { session.handle(ConfigureModel { change }).await }
        };
        self.request(call).await;
    }

    async fn remove_machine(&self) {
        let Some(machine) = self.random_machine().await else { return };
        let (force, keep_instance) = (self.force(), self.world.chance_of(250));
        self.trace(format!("remove-machine {machine}, force {force:?}, keep instance {keep_instance}"));
        let call = |session: SimSession| {
            let machine = machine.clone();
            async move {
                let store_generation = session.controller.store.store_generation();
                session
                    .handle(RemoveMachine { machine: machine.to_owned(), force, keep_instance })
                    .await
                    .map(|_| store_generation)
            }
        };
        // 1. The request is committed and its response on the way. 2. The store is restored from a backup of
        // before it: the response is about a store generation that is over (cargo sim 71014647).
        let answered = self.request(call).await;
        if keep_instance && answered == Some(self.network.store_generation()) {
            self.world.note(Fact::KeepInstanceAccepted { machine });
        }
    }

    fn trace(&self, what: String) {
        self.world.trace(|| format!("operator: {what}"));
    }

    /// In half of the cases an existing machine.
    async fn random_machine(&self) -> Option<String> {
        let call = |session: SimSession| async move { session.handle(ListMachines).await };
        let machines = self.request(call).await.unwrap_or_default();
        let at = self.world.below(machines.len() as u64) as usize;
        machines.get(at).map(|machine| machine.name.clone()).filter(|_| self.world.chance_of(500))
    }

    async fn upload(&self, name: &str, version: u64) -> Option<String> {
        let call = |session: SimSession| async move {
            session.handle(UploadArchive(charm(name, version))).await.map(|uploaded| uploaded.sha256)
        };
        self.request(call).await
    }

    async fn deploy(&self, name: &str, units: u32) {
        if self.units().await.len() as u64 >= self.world.profile().units_max {
            return;
        }
        let to = if name == "mon" { None } else { self.random_machine().await };
        self.trace(format!("deploy {name} -n {units} --to {to:?}"));
        let Some(sha256) = self.upload(name, 0).await else { return };
        let units = if to.is_some() { 1 } else { units };
        let call = |session: SimSession| {
            let deploy = Deploy {
                application: Some(name.to_owned()),
                sha256: sha256.clone(),
                units,
                to: to.clone(),
                config: BTreeMap::new(),
            };
            async move { session.handle(deploy).await }
        };
        self.request(call).await;
    }

    async fn add_unit(&self, name: &str) {
        if self.units().await.len() as u64 >= self.world.profile().units_max {
            return;
        }
        let to = self.random_machine().await;
        self.trace(format!("add-unit {name} --to {to:?}"));
        let call = |session: SimSession| {
            let add = AddUnits { application: name.to_owned(), units: 1, to: to.clone() };
            async move { session.handle(add).await }
        };
        self.request(call).await;
    }

    async fn refresh(&self, name: &str) {
        self.trace(format!("refresh {name}"));
        let Some(sha256) = self.upload(name, 1 + self.world.below(3)).await else { return };
        let forced = self.world.chance_of(300);
        let call = |session: SimSession| {
            let (application, sha256) = (name.to_owned(), sha256.clone());
            let refresh = Refresh { application, sha256, forced, config: BTreeMap::new() };
            async move { session.handle(refresh).await }
        };
        self.request(call).await;
    }

    /// Two ends as an operator names them: for a subordinate and its principal either with the implicit
    /// endpoint or with none.
    fn ends(&self, a: &str, b: &str) -> (String, String) {
        let info = (a == "mon") != (b == "mon") && self.world.chance_of(500);
        let end = |name: &str| match (info, name) {
            (false, _) => name.to_owned(),
            (true, "mon") => "mon:host".to_owned(),
            (true, _) => format!("{name}:juju-info"),
        };
        (end(a), end(b))
    }

    /// Suspends or resumes an existing relation, whatever state it is in.
    async fn suspend_or_resume(&self) {
        let call = |session: SimSession| async move { session.handle(GetStatus).await };
        let relations = self.request(call).await.map(|status| status.relations).unwrap_or_default();
        let at = self.world.below(relations.len() as u64) as usize;
        let Some(number) = relations.get(at).map(|relation| relation.number) else { return };
        let suspend = self.world.chance_of(500);
        self.trace(format!("{}-relation {number}", if suspend { "suspend" } else { "resume" }));
        let call = |session: SimSession| async move {
            match suspend {
                true => {
                    session
                        .handle(SuspendRelation {
                            relation: number,
                            message: "suspended by the simulator".to_owned(),
                        })
                        .await
                }
                false => session.handle(ResumeRelation { relation: number }).await,
            }
        };
        self.request(call).await;
        if suspend && self.world.chance_of(400) {
            // perhaps before all units have observed the suspension
            self.world.sleep(500 + self.world.below(12_000)).await;
            self.trace(format!("resume-relation {number}"));
            let resume = |session: SimSession| async move {
                session.handle(ResumeRelation { relation: number }).await
            };
            self.request(resume).await;
        }
    }

    async fn integrate(&self, a: &str, b: &str) {
        let (a, b) = self.ends(a, b);
        self.trace(format!("integrate {a} {b}"));
        let call = |session: SimSession| {
            let ends = Ends { a: a.clone(), b: b.clone() };
            async move { session.handle(Integrate(ends)).await }
        };
        self.request(call).await;
    }

    /// The names of all units, without the cost of a status, which computes the next step of every agent.
    async fn units(&self) -> Vec<UnitName> {
        let call = |session: SimSession| async move {
            let units = |reader: &dyn Reader| read_all::<UnitDoc>(reader, &Model(MODEL).all(Kind::Unit));
            Ok(session.controller.read(units).await)
        };
        let units = self.request(call).await.unwrap_or_default();
        let mut names: Vec<UnitName> = units.into_iter().map(|(_, unit)| unit.name).collect();
        names.sort();
        names
    }

    /// Resolves every unit in error: the hook is retried or skipped.
    pub async fn resolve(&self) {
        for unit in self.units().await {
            self.resolve_unit(&unit).await;
        }
    }

    pub async fn resolve_unit(&self, unit: &UnitName) {
        let retry = self.world.chance_of(500);
        let call = |session: SimSession| {
            let unit = unit.to_string();
            async move { session.handle(ResolvedRequest { unit: unit.to_owned(), retry }).await }
        };
        if self.request(call).await.is_some() {
            self.trace(format!("resolved {unit}, retry {retry}"));
        }
    }

    /// Removes every unit in error; for a subordinate its principal.
    pub async fn remove_failed_units(&self) {
        let call = |session: SimSession| async move { session.handle(GetStatus).await };
        let Some(status) = self.request(call).await else { return };
        let units = status.applications.into_values().flat_map(|application| application.units);
        for (unit, shown) in
            units.filter(|(_, unit)| unit.workload.current == WorkloadStatus::Error)
        {
            let unit = shown.principal.unwrap_or(unit);
            self.trace(format!("remove-unit {unit}"));
            let call = |session: SimSession| {
                let unit = unit.to_string();
                async move { session.handle(RemoveUnit { unit: unit.to_owned(), force: Force::No }).await }
            };
            self.request(call).await;
        }
    }

    /// Prepares obstructed removals: creates applications and disables automatic retries and the teardown
    /// budget.
    pub async fn prepare(&self) {
        self.trace("disable automatic retries and the teardown budget".to_owned());
        self.set_model_config("automatically-retry-hooks", "false").await;
        self.set_model_config("teardown-budget", "off").await;
        self.build().await;
    }

    pub async fn remove(&self, what: SimRemoval, force: Force) {
        self.trace(format!("remove {what:?}, force {force:?}"));
        let call = |session: SimSession| {
            let what = what.clone();
            async move {
                match what {
                    SimRemoval::Unit(unit) => {
                        session.handle(RemoveUnit { unit: unit.to_owned(), force }).await.map(drop)
                    }
                    SimRemoval::Application(name) => session
                        .handle(RemoveApplication { application: name.to_owned(), force })
                        .await
                        .map(drop),
                    SimRemoval::Relation(number) => {
                        let choice = RelationChoice::Number(number);
                        session.handle(RemoveRelation { relation: choice, force }).await.map(drop)
                    }
                    SimRemoval::Machine(name) => session
                        .handle(RemoveMachine { machine: name.to_owned(), force, keep_instance: false })
                        .await
                        .map(drop),
                }
            }
        };
        self.request(call).await;
    }

    pub async fn why(&self, entity: &str) -> Option<Why> {
        self.request(|session: SimSession| async move {
            session.handle(GetWhy { entity: entity.to_owned() }).await
        })
        .await
    }

    /// Disables timed hooks, so that every further hook has a cause. After a restore also harvests the
    /// instances that the restored store does not contain: no other controller owns them.
    pub async fn disable_timed_hooks(&self, restored: bool) {
        self.set_model_config("update-status-hook-interval", "0").await;
        if restored {
            self.set_model_config("provisioner-harvest-mode", "all").await;
        }
    }
}
