//! People: two of them at once, who deploy, relate, configure, refresh, resolve, run and remove at legal and illegal
//! moments, through the production handlers.

use crate::sim::checks::Fact;
use crate::sim::machine::admin;
use crate::sim::network::{SimSession, Wire};
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
use state::terms::names::{RelationNumber, UnitName, Uuid};
use std::collections::BTreeMap;
use std::future::Future;

/// Names that applications get.
const APPLICATIONS: [&str; 4] = ["db", "web", "cache", "mon"];
/// People who have seen fewer hooks than a standard schedule has go on, for so many times as many acts.
const PATIENCE: u64 = 6;
/// A model that is destroyed goes under faults for so long at most.
const GOING_MS: u64 = 60_000;
/// What people have done with instances that no machine wants.
const HARVEST_MODES: [&str; 4] = ["none", "unknown", "destroyed", "all"];
/// Teardown budgets that people set: about as long as a unit takes to go, long, and none.
const BUDGETS: [&str; 4] = ["15s", "1m", "5m", "off"];
/// Hooks of a standard schedule.
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

/// The charms there are: a server with peers, a client that answers, and a subordinate of both, of the server's by an
/// endpoint of its own too. `version` makes another archive of the same charm.
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

/// What a person removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    Unit(String),
    Application(String),
    Relation(RelationNumber),
    Machine(String),
}

/// One person.
#[derive(Clone)]
pub struct User {
    pub world: World,
    pub wire: Wire,
    pub model: String,
}

impl User {
    /// The beginning that every run has: two related applications, of three units at least.
    pub async fn found(&self) {
        if self.world.mix().budget > 0 {
            self.set_budget().await;
        }
        self.build().await;
    }

    /// What is missing of two related applications, and of their subordinate.
    async fn build(&self) {
        for (name, least) in [("db", 2), ("web", 1)] {
            let units = least + self.world.below(self.world.mix().units) as u32;
            self.deploy(name, units).await;
            self.world.sleep(self.world.below(3_000)).await;
        }
        self.integrate("db", "web").await;
        if self.world.mix().subordinate > 0 {
            self.deploy("mon", 0).await;
            self.integrate("db", "mon").await;
        }
    }

    /// Acts `acts` times, and on while hardly anything happened, then is done.
    pub async fn act(&self) {
        let acts = self.world.mix().acts;
        for done in 0..acts * PATIENCE {
            if done >= acts && self.world.hooks() >= HOOKS_MIN {
                return;
            }
            let pace = if self.world.chance_of(500) { 300 } else { 20_000 };
            self.world.sleep(self.world.below(pace)).await;
            self.act_once().await;
        }
    }

    /// Asks the controller, over the network that everybody has. None: refused, or no answer.
    async fn ask<T, F>(&self, ask: impl Fn(SimSession) -> F) -> Option<T>
    where
        F: Future<Output = Result<T, ApiError>>,
    {
        self.wire.ask(|session| ask(session.in_model(&self.model)), admin()).await?.ok()
    }

    fn name(&self) -> &'static str {
        let known = if self.world.mix().subordinate > 0 { 4 } else { 3 };
        APPLICATIONS[self.world.below(known) as usize]
    }

    async fn a_unit(&self) -> Option<String> {
        let units = self.units().await;
        units.get(self.world.below(units.len() as u64) as usize).map(UnitName::to_string)
    }

    async fn act_once(&self) {
        let name = self.name();
        if self.world.chance_of(self.world.mix().suspend_relation) {
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
                self.told(format!("config {name}"));
                let set = BTreeMap::from([("level".to_owned(), self.world.below(3).to_string())]);
                let change = ConfigChange { set, reset: Vec::new() };
                let ask = |session: SimSession| {
                    let change = change.clone();
                    async move { session.handle(Configure { application: name.to_owned(), change }).await }
                };
                self.ask(ask).await;
            }
            60..=69 => {
                let (a, b) = self.ends(name, self.name());
                let force = self.force();
                self.told(format!("remove-relation {a} {b}, force {force:?}"));
                let ask = |session: SimSession| {
                    let ends = RelationChoice::Ends(Ends { a: a.clone(), b: b.clone() });
                    async move { session.handle(RemoveRelation { relation: ends, force }).await }
                };
                self.ask(ask).await;
            }
            70..=79 => {
                let Some(unit) = self.a_unit().await else { return };
                let force = self.force();
                self.told(format!("remove-unit {unit}, force {force:?}"));
                let ask = |session: SimSession| {
                    let unit = unit.clone();
                    async move { session.handle(RemoveUnit { unit: unit.to_owned(), force }).await }
                };
                self.ask(ask).await;
            }
            80..=84 => {
                let force = self.force();
                self.told(format!("remove-application {name}, force {force:?}"));
                let ask = |session: SimSession| async move {
                    session.handle(RemoveApplication { application: name.to_owned(), force }).await
                };
                self.ask(ask).await;
            }
            85..=89 => self.refresh(name).await,
            90..=94 => self.resolve().await,
            _ => {
                let Some(unit) = self.a_unit().await else { return };
                self.told(format!("run {unit} act"));
                let ask = |session: SimSession| {
                    let params = BTreeMap::<_, Value>::new();
                    let run = Run { unit: unit.clone(), action: "act".to_owned(), params };
                    async move { session.handle(run).await }
                };
                self.ask(ask).await;
            }
        }
    }

    /// A model's end, where the mix has one: asked for by whoever has done all else, perhaps while another person
    /// still acts in it, and then again by that one. A while passes in which it goes under faults.
    pub async fn destroy(&self) {
        if self.world.mix().destroyed == 0 {
            return;
        }
        let force = self.force();
        self.told(format!("destroy-model, force {force:?}"));
        let ask = |session: SimSession| async move { session.handle(DestroyModel { force }).await };
        self.ask(ask).await;
        self.world.sleep(self.world.below(GOING_MS)).await;
    }

    /// How long units of the model may be Dying, or that they may be so for ever.
    async fn set_budget(&self) {
        let budget = BUDGETS[self.world.below(BUDGETS.len() as u64) as usize];
        self.told(format!("teardown-budget {budget}"));
        self.set_of_model("teardown-budget", budget).await;
    }

    /// One removal in four is by force.
    fn force(&self) -> Force {
        match self.world.below(8) {
            0 => Force::AfterWait,
            1 => Force::AtOnce,
            _ => Force::No,
        }
    }

    async fn add_machine(&self) {
        self.told("add-machine".to_owned());
        let add = AddMachines { count: 1, manual: false };
        let ask = |session: SimSession| {
            let add = add.clone();
            async move { session.handle(add).await }
        };
        self.ask(ask).await;
    }

    async fn retry_provisioning(&self) {
        let Some(machine) = self.a_machine().await else { return };
        self.told(format!("retry-provisioning {machine}"));
        let ask = |session: SimSession| {
            let machine = machine.clone();
            async move { session.handle(RetryProvisioning { machine: machine.to_owned() }).await }
        };
        self.ask(ask).await;
    }

    async fn set_harvest_mode(&self) {
        let mode = HARVEST_MODES[self.world.below(HARVEST_MODES.len() as u64) as usize];
        self.told(format!("provisioner-harvest-mode {mode}"));
        self.set_of_model("provisioner-harvest-mode", mode).await;
    }

    async fn set_of_model(&self, name: &str, value: &str) {
        let set = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let change = ConfigChange { set, reset: Vec::new() };
        let ask = |session: SimSession| {
            let change = change.clone();
            async move { session.handle(ConfigureModel { change }).await }
        };
        self.ask(ask).await;
    }

    async fn remove_machine(&self) {
        let Some(machine) = self.a_machine().await else { return };
        let (force, keep) = (self.force(), self.world.chance_of(250));
        self.told(format!("remove-machine {machine}, force {force:?}, its instance is kept: {keep}"));
        let ask = |session: SimSession| {
            let machine = machine.clone();
            async move {
                let store_generation = session.controller.store.store_generation();
                session
                    .handle(RemoveMachine { machine: machine.to_owned(), force, keep_instance: keep })
                    .await
                    .map(|_| store_generation)
            }
        };
        // 1. It is done, and the answer on its way. 2. The store is restored from before it: what the answer says is of
        // a history that is over (cargo sim 71014647).
        let answered = self.ask(ask).await;
        if keep && answered == Some(self.wire.store_generation()) {
            self.world.note(Fact::KeepInstanceAccepted { machine });
        }
    }

    fn told(&self, what: String) {
        self.world.tell(|| format!("user: {what}"));
    }

    /// A machine that is there already, for half of what is deployed.
    async fn a_machine(&self) -> Option<String> {
        let ask = |session: SimSession| async move { session.handle(ListMachines).await };
        let machines = self.ask(ask).await.unwrap_or_default();
        let at = self.world.below(machines.len() as u64) as usize;
        machines.get(at).map(|machine| machine.name.clone()).filter(|_| self.world.chance_of(500))
    }

    async fn upload(&self, name: &str, version: u64) -> Option<String> {
        let ask = |session: SimSession| async move {
            session.handle(UploadArchive(charm(name, version))).await.map(|uploaded| uploaded.sha256)
        };
        self.ask(ask).await
    }

    async fn deploy(&self, name: &str, units: u32) {
        if self.units().await.len() as u64 >= self.world.mix().units_max {
            return;
        }
        let to = if name == "mon" { None } else { self.a_machine().await };
        self.told(format!("deploy {name} -n {units} --to {to:?}"));
        let Some(sha256) = self.upload(name, 0).await else { return };
        let units = if to.is_some() { 1 } else { units };
        let ask = |session: SimSession| {
            let deploy = Deploy {
                application: Some(name.to_owned()),
                sha256: sha256.clone(),
                units,
                to: to.clone(),
                config: BTreeMap::new(),
            };
            async move { session.handle(deploy).await }
        };
        self.ask(ask).await;
    }

    async fn add_unit(&self, name: &str) {
        if self.units().await.len() as u64 >= self.world.mix().units_max {
            return;
        }
        let to = self.a_machine().await;
        self.told(format!("add-unit {name} --to {to:?}"));
        let ask = |session: SimSession| {
            let add = AddUnits { application: name.to_owned(), units: 1, to: to.clone() };
            async move { session.handle(add).await }
        };
        self.ask(ask).await;
    }

    async fn refresh(&self, name: &str) {
        self.told(format!("refresh {name}"));
        let Some(sha256) = self.upload(name, 1 + self.world.below(3)).await else { return };
        let forced = self.world.chance_of(300);
        let ask = |session: SimSession| {
            let (application, sha256) = (name.to_owned(), sha256.clone());
            let refresh = Refresh { application, sha256, forced, config: BTreeMap::new() };
            async move { session.handle(refresh).await }
        };
        self.ask(ask).await;
    }

    /// Two ends as a person names them: of a subordinate and its principal either the endpoint that all have, or
    /// none.
    fn ends(&self, a: &str, b: &str) -> (String, String) {
        let info = (a == "mon") != (b == "mon") && self.world.chance_of(500);
        let end = |name: &str| match (info, name) {
            (false, _) => name.to_owned(),
            (true, "mon") => "mon:host".to_owned(),
            (true, _) => format!("{name}:juju-info"),
        };
        (end(a), end(b))
    }

    /// A relation that is there, in half of the cases the other way round than it is.
    async fn suspend_or_resume(&self) {
        let ask = |session: SimSession| async move { session.handle(GetStatus).await };
        let relations = self.ask(ask).await.map(|status| status.relations).unwrap_or_default();
        let at = self.world.below(relations.len() as u64) as usize;
        let Some(number) = relations.get(at).map(|relation| relation.number) else { return };
        let suspend = self.world.chance_of(500);
        self.told(format!("{}-relation {number}", if suspend { "suspend" } else { "resume" }));
        let ask = |session: SimSession| async move {
            match suspend {
                true => {
                    session
                        .handle(SuspendRelation { relation: number, message: "for a while".to_owned() })
                        .await
                }
                false => session.handle(ResumeRelation { relation: number }).await,
            }
        };
        self.ask(ask).await;
        if suspend && self.world.chance_of(400) {
            // before everybody has seen it, perhaps
            self.world.sleep(500 + self.world.below(12_000)).await;
            self.told(format!("resume-relation {number}"));
            let resume = |session: SimSession| async move {
                session.handle(ResumeRelation { relation: number }).await
            };
            self.ask(resume).await;
        }
    }

    async fn integrate(&self, a: &str, b: &str) {
        let (a, b) = self.ends(a, b);
        self.told(format!("integrate {a} {b}"));
        let ask = |session: SimSession| {
            let ends = Ends { a: a.clone(), b: b.clone() };
            async move { session.handle(Integrate(ends)).await }
        };
        self.ask(ask).await;
    }

    /// Their names alone, which people look for at every act: a status works out what every agent would do next.
    async fn units(&self) -> Vec<UnitName> {
        let ask = |session: SimSession| async move {
            let units = |reader: &dyn Reader| read_all::<UnitDoc>(reader, &Model(MODEL).all(Kind::Unit));
            Ok(session.controller.read(units).await)
        };
        let units = self.ask(ask).await.unwrap_or_default();
        let mut names: Vec<UnitName> = units.into_iter().map(|(_, unit)| unit.name).collect();
        names.sort();
        names
    }

    /// Every unit that rests in an error is told to try again, or that it is done.
    pub async fn resolve(&self) {
        for unit in self.units().await {
            self.resolve_unit(&unit).await;
        }
    }

    pub async fn resolve_unit(&self, unit: &UnitName) {
        let retry = self.world.chance_of(500);
        let ask = |session: SimSession| {
            let unit = unit.to_string();
            async move { session.handle(ResolvedRequest { unit: unit.to_owned(), retry }).await }
        };
        if self.ask(ask).await.is_some() {
            self.told(format!("resolved {unit}, retry {retry}"));
        }
    }

    /// Every unit that rests in an error is removed, of a subordinate its principal.
    pub async fn remove_failing(&self) {
        let ask = |session: SimSession| async move { session.handle(GetStatus).await };
        let Some(status) = self.ask(ask).await else { return };
        let units = status.applications.into_values().flat_map(|application| application.units);
        for (unit, shown) in
            units.filter(|(_, unit)| unit.agent.current == "error" || unit.workload.current == "error")
        {
            let unit = shown.principal.unwrap_or(unit);
            self.told(format!("remove-unit {unit}"));
            let ask = |session: SimSession| {
                let unit = unit.to_string();
                async move { session.handle(RemoveUnit { unit: unit.to_owned(), force: Force::No }).await }
            };
            self.ask(ask).await;
        }
    }

    /// Before something is to be stuck: there are applications, and nothing goes on by itself.
    pub async fn prepare(&self) {
        self.told("nothing is retried or forced by itself".to_owned());
        self.set_of_model("automatically-retry-hooks", "false").await;
        self.set_of_model("teardown-budget", "off").await;
        self.build().await;
    }

    pub async fn remove(&self, what: Removal, force: Force) {
        self.told(format!("remove {what:?}, force {force:?}"));
        let ask = |session: SimSession| {
            let what = what.clone();
            async move {
                match what {
                    Removal::Unit(unit) => {
                        session.handle(RemoveUnit { unit: unit.to_owned(), force }).await.map(drop)
                    }
                    Removal::Application(name) => session
                        .handle(RemoveApplication { application: name.to_owned(), force })
                        .await
                        .map(drop),
                    Removal::Relation(number) => {
                        let choice = RelationChoice::Number(number);
                        session.handle(RemoveRelation { relation: choice, force }).await.map(drop)
                    }
                    Removal::Machine(name) => session
                        .handle(RemoveMachine { machine: name.to_owned(), force, keep_instance: false })
                        .await
                        .map(drop),
                }
            }
        };
        self.ask(ask).await;
    }

    pub async fn why(&self, entity: &str) -> Option<Why> {
        self.ask(
            |session: SimSession| async move { session.handle(GetWhy { entity: entity.to_owned() }).await },
        )
        .await
    }

    /// Timed hooks off: what runs from now on has a cause. And instances that a store which was put back knows nothing
    /// of are nobody else's: they go.
    pub async fn disable_timed_hooks(&self, restored: bool) {
        self.set_of_model("update-status-hook-interval", "0").await;
        if restored {
            self.set_of_model("provisioner-harvest-mode", "all").await;
        }
    }
}

/// The model of every run.
pub const MODEL: Uuid = Uuid(0x1111_1111_1111_4111_8111_1111_1111_1111);
