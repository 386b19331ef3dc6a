//! People: two of them at once, who deploy, relate, configure, refresh, resolve, run and remove at legal and illegal
//! moments, through the production handlers.

use crate::sim::machine::admin;
use crate::sim::network::Wire;
use crate::sim::world::World;
use api::operator::{AddUnits, ConfigChange, Deploy, Ends, OperatorApi, Refresh, RelationChoice, Run};
use serde_json::{Value, json};
use state::charm::{Action, Charm, ConfigOption, Endpoint, OptionType, Role, Scope};
use state::names::{UnitName, Uuid};
use std::collections::BTreeMap;

/// Names that applications get.
const APPLICATIONS: [&str; 4] = ["db", "web", "cache", "mon"];
/// More units than this nobody adds.
const UNITS_MAX: usize = 6;

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

/// The charms there are: a server with peers, a client that answers, and a subordinate. `version` makes another
/// archive of the same charm.
pub fn charm(name: &str, version: u64) -> Vec<u8> {
    let endpoints = match name {
        "mon" => vec![endpoint("host", Role::Requirer, "juju-info", Scope::Container)],
        "web" => vec![endpoint("echo", Role::Requirer, "sql", Scope::Global)],
        _ => vec![
            endpoint("server", Role::Provider, "sql", Scope::Global),
            endpoint("ring", Role::Peer, "ring", Scope::Global),
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

/// One person.
#[derive(Clone)]
pub struct User {
    pub world: World,
    pub wire: Wire,
    pub model: String,
}

impl User {
    /// The beginning that every run has: two related applications.
    pub async fn found(&self) {
        for name in ["db", "web"] {
            self.deploy(name, 1 + self.world.below(2) as u32).await;
            self.world.sleep(self.world.below(3_000)).await;
        }
        self.integrate("db", "web").await;
    }

    /// Acts `acts` times, then is done.
    pub async fn act(&self) {
        for _ in 0..self.world.mix().acts {
            let pace = if self.world.hits(500) { 300 } else { 20_000 };
            self.world.sleep(self.world.below(pace)).await;
            self.act_once().await;
        }
    }

    fn name(&self) -> &'static str {
        let known = if self.world.mix().subordinate { 4 } else { 3 };
        APPLICATIONS[self.world.below(known) as usize]
    }

    async fn act_once(&self) {
        let session = self.wire.session(admin());
        let (model, name) = (&self.model, self.name());
        match self.world.below(100) {
            0..=14 => self.deploy(name, 1 + self.world.below(2) as u32).await,
            15..=24 => {
                self.told(format!("add-unit {name}"));
                if self.units().await.len() < UNITS_MAX {
                    let add = AddUnits { application: name.to_owned(), units: 1, to: None };
                    session.add_units(model, add).await.ok();
                }
            }
            25..=44 => self.integrate(name, self.name()).await,
            45..=59 => {
                self.told(format!("config {name}"));
                let value = self.world.below(3).to_string();
                let change =
                    ConfigChange { set: BTreeMap::from([("level".to_owned(), value)]), reset: Vec::new() };
                session.configure(model, name, change).await.ok();
            }
            60..=69 => {
                let (a, b) = (name.to_owned(), self.name().to_owned());
                self.told(format!("remove-relation {a} {b}"));
                let ends = RelationChoice::Ends(Ends { a, b });
                session.remove_relation(model, ends, false).await.ok();
            }
            70..=79 => {
                let units: Vec<String> =
                    self.units().await.into_iter().map(|unit| unit.to_string()).collect();
                if let Some(unit) = units.get(self.world.below(units.len() as u64) as usize) {
                    self.told(format!("remove-unit {unit}"));
                    session.remove_unit(model, unit, false).await.ok();
                }
            }
            80..=84 => {
                self.told(format!("remove-application {name}"));
                session.remove_application(model, name, false).await.ok();
            }
            85..=89 => self.refresh(name).await,
            90..=94 => self.resolve().await,
            _ => {
                let units: Vec<String> =
                    self.units().await.into_iter().map(|unit| unit.to_string()).collect();
                if let Some(unit) = units.get(self.world.below(units.len() as u64) as usize) {
                    self.told(format!("run {unit} act"));
                    let run = Run {
                        unit: unit.clone(),
                        action: "act".to_owned(),
                        params: BTreeMap::<_, Value>::new(),
                    };
                    session.run(model, run).await.ok();
                }
            }
        }
    }

    fn told(&self, what: String) {
        self.world.tell(|| format!("user: {what}"));
    }

    async fn deploy(&self, name: &str, units: u32) {
        self.told(format!("deploy {name} -n {units}"));
        if self.units().await.len() >= UNITS_MAX {
            return;
        }
        let session = self.wire.session(admin());
        let Ok(uploaded) = session.upload_archive(charm(name, 0)).await else { return };
        let deploy = Deploy {
            application: Some(name.to_owned()),
            sha256: uploaded.sha256,
            units,
            to: None,
            config: BTreeMap::new(),
        };
        session.deploy(&self.model, deploy).await.ok();
    }

    async fn refresh(&self, name: &str) {
        self.told(format!("refresh {name}"));
        let session = self.wire.session(admin());
        let Ok(uploaded) = session.upload_archive(charm(name, 1 + self.world.below(3))).await else { return };
        let refresh = Refresh {
            application: name.to_owned(),
            sha256: uploaded.sha256,
            forced: self.world.hits(300),
            config: BTreeMap::new(),
        };
        session.refresh(&self.model, refresh).await.ok();
    }

    async fn integrate(&self, a: &str, b: &str) {
        self.told(format!("integrate {a} {b}"));
        let ends = Ends { a: a.to_owned(), b: b.to_owned() };
        self.wire.session(admin()).integrate(&self.model, ends).await.ok();
    }

    async fn units(&self) -> Vec<UnitName> {
        let Ok(status) = self.wire.session(admin()).status(&self.model).await else { return Vec::new() };
        status.applications.into_values().flat_map(|application| application.units.into_keys()).collect()
    }

    /// Every unit that rests in an error is told to try again, or that it is done.
    pub async fn resolve(&self) {
        for unit in self.units().await {
            let retry = self.world.hits(500);
            let session = self.wire.session(admin());
            if session.resolved(&self.model, &unit.to_string(), retry).await.is_ok() {
                self.told(format!("resolved {unit}, retry {retry}"));
            }
        }
    }

    /// Timed hooks off: what runs from now on has a cause.
    pub async fn quieten(&self) {
        let set = BTreeMap::from([("update-status-hook-interval".to_owned(), "0".to_owned())]);
        let change = ConfigChange { set, reset: Vec::new() };
        self.wire.session(admin()).configure_model(&self.model, change).await.ok();
    }
}

/// The model of every run.
pub const MODEL: Uuid = Uuid(0x1111_1111_1111_4111_8111_1111_1111_1111);
