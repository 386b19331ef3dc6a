//! A status that was computed with cached parts equals one that is computed without a cache.

use crate::support::*;
use api::{
    AddMachines, AddUnits, Claim, ConfigChange, Configure, ConfigureModel, Ends, Force, GetStatus, Handle,
    Integrate, RemoveApplication, RemoveMachine, RemoveRelation, RemoveUnit, Report, ResolveUnit,
    ResumeRelation, Status, SuspendRelation,
};
use controller::janitor::Janitor;
use controller::presence::{LATE_AFTER_MS, LOST_AFTER_MS};
use controller::status::{Sources, StatusCache, model_status};
use controller::{AuthenticatedCaller, Environment};
use state::documents::draft::{read, read_all};
use state::documents::prelude::{Kind, UnitDoc, last_id};
use state::terms::activity::Activity;
use state::terms::failure_reason::FailureReason;
use state::terms::hook_name::HookName;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::operation::{CharmRef, Hook, Operation};
use state::terms::position::Position;
use state::terms::status::WorkloadStatus;
use state::unit::hook_context::ReportContent;
use state::unit::record::{Outcome, RunReport};
use state::unit::resolve::Act;
use std::collections::{BTreeMap, BTreeSet};
use test_support::memory_store::MemoryStore;

type MemoryFixture = Fixture<MemoryStore, FakeEnvironment>;
type MemoryAgent = Agent<AuthenticatedCaller<MemoryStore, FakeEnvironment>>;

/// Steps of the walk. Each kind of step is taken some ten times.
const STEPS: u64 = 400;

/// Computes the status from the documents and the presence, without a cache.
async fn computed_anew(fixture: &MemoryFixture) -> Option<Status> {
    let (controller, model) = (&fixture.controller, fixture.model);
    let wall_ms = controller.environment.wall_ms();
    let presence = controller.presence.snapshot(controller.environment.monotonic_ms(), wall_ms);
    let generation = newest_position(controller).await.store_generation;
    let status = controller.read(move |reader| {
        let position = Position { store_generation: generation, revision: reader.revision() };
        let sources = Sources { reader, model, presence: &presence };
        model_status(&mut StatusCache::default(), &sources, position, wall_ms)
    });
    status.await
}

/// A generator of pseudo-random numbers, which are the same in each run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// A model to which random changes are made.
struct Walk {
    fixture: MemoryFixture,
    janitor: Janitor,
    agents: BTreeMap<UnitName, MemoryAgent>,
    relation: Option<(RelationNumber, Uuid)>,
    draws: Draws,
}

impl Walk {
    /// Returns a random unit that exists; none if there is no unit.
    async fn any_unit(&mut self) -> Option<UnitName> {
        let model = self.fixture.model;
        let units = self.fixture.controller.read(move |reader| {
            let units = read_all::<UnitDoc>(reader, &model.prefix(Kind::Unit));
            let units = units.into_iter().filter(|(key, _)| {
                last_id(key).is_some_and(|id| read(reader, &model.unit_life(id)).is_some())
            });
            units.map(|(_, doc)| doc.name).collect::<Vec<_>>()
        });
        let units = units.await;
        (!units.is_empty()).then(|| units[self.draws.below(units.len())].clone())
    }

    /// Makes one random change, or tries to.
    async fn step(&mut self) {
        let kind = self.draws.below(24);
        let Some(unit) = self.any_unit().await else {
            for application in ["web", "db"] {
                self.fixture
                    .admin
                    .handle(AddUnits {
                        attach_storage: Vec::new(),
                        application: application.to_owned(),
                        units: 2,
                        to: None,
                    })
                    .await
                    .ok();
            }
            return;
        };
        let (name, number) = (unit.to_string(), self.draws.below(1_000));
        let admin = self.fixture.admin.clone();
        match kind {
            0 => drop(
                admin
                    .handle(AddUnits {
                        attach_storage: Vec::new(),
                        application: unit.application.clone(),
                        units: 1,
                        to: None,
                    })
                    .await,
            ),
            1 => drop(
                admin
                    .handle(AddMachines { count: 1, manual: number % 2 == 0, ..AddMachines::default() })
                    .await,
            ),
            2 if self.relation.is_none() => {
                let ends = Ends { a: "web".to_owned(), b: "db".to_owned() };
                if let Ok(done) = admin.handle(Integrate(ends)).await {
                    let (model, key) = (self.fixture.model, done.answer.ends);
                    let id =
                        self.fixture.controller.read(move |reader| read(reader, &model.relation_key(&key)));
                    self.relation = Some((done.answer.number, id.await.expect("it was just created")));
                }
            }
            3 => self.fixture.advance(LATE_AFTER_MS / 2),
            4 if number % 4 == 0 => self.fixture.advance(LOST_AFTER_MS),
            5 => self.fixture.controller.environment.step_wall_clock(number as i64 - 500),
            6 if number % 3 == 0 => {
                let force = if number % 2 == 0 { Force::No } else { Force::AtOnce };
                admin
                    .handle(RemoveUnit { destroy_storage: false, unit: name.parse().expect("a unit"), force })
                    .await
                    .ok();
            }
            7 if number % 4 == 0 => {
                let remove = RemoveMachine {
                    machine: (number % 5).to_string(),
                    force: Force::AtOnce,
                    keep_instance: false,
                };
                admin.handle(remove).await.ok();
            }
            8 | 9 => drop(self.janitor.sweep(&self.fixture.controller).await),
            10 if number % 3 == 0 => {
                if let Some((relation, _)) = self.relation.take() {
                    let relation = api::RelationChoice::Number(relation);
                    admin.handle(RemoveRelation { relation, force: Force::AtOnce }).await.ok();
                }
            }
            11 => {
                if let Some((relation, _)) = self.relation {
                    let message = format!("paused {number}");
                    admin.handle(SuspendRelation { relation, message }).await.ok();
                }
            }
            12 => {
                if let Some((relation, _)) = self.relation {
                    admin.handle(ResumeRelation { relation }).await.ok();
                }
            }
            13 => {
                let mut change = ConfigChange::default();
                change.set.insert("teardown-budget".to_owned(), format!("{number}s"));
                admin.handle(ConfigureModel { change: change.clone() }).await.ok();
                admin.handle(Configure { application: unit.application, change }).await.ok();
            }
            14 => drop(
                admin
                    .handle(ResolveUnit { unit: name.parse().expect("a unit"), retry: number % 2 == 0 })
                    .await,
            ),
            _ => self.act_as_agent(unit, kind, number).await,
        }
    }

    /// Attaches the agent of a unit, or sends one of its requests.
    async fn act_as_agent(&mut self, name: UnitName, kind: usize, number: usize) {
        let Some(mut agent) = self.agents.remove(&name) else {
            let unit = self.fixture.unit(&name.to_string()).await;
            let caller = self
                .fixture
                .controller
                .caller(state::documents::prelude::TokenHolder::Unit { model: self.fixture.model, unit });
            let attach = api::Attach {
                nonce: Uuid(7),
                epoch: 0,
                store_generation: None,
                teardown_started: false,
                boot: String::new(),
            };
            if let Ok(attached) = caller.handle(attach).await {
                let (epoch, replica) = (attached.answer.epoch, attached.answer.replica);
                let (sequence, digest) =
                    replica.map_or_else(Default::default, |local| (local.sequence, local.digest));
                self.agents.insert(name, Agent { api: caller, epoch, sequence, digest });
            }
            return;
        };
        let epoch = agent.epoch;
        let is_accepted = match kind {
            15 => {
                agent.api.handle(Claim { epoch, release: number.is_multiple_of(3), view: None }).await.is_ok()
            }
            16 => {
                let executing = (!number.is_multiple_of(3)).then(|| Activity::hook(HookName::UpdateStatus));
                let run = agent.sequence + 1;
                let report = Report { epoch, run, reports: Vec::new(), executing, executing_for_ms: 5 };
                agent.api.handle(report).await.is_ok()
            }
            17 => {
                let mut record = agent.record(Operation::Hook(Hook::UpdateStatus));
                let message = format!("says {number}");
                let what = match number % 4 {
                    0 => ReportContent::ApplicationStatus { status: WorkloadStatus::Blocked, message },
                    _ => ReportContent::UnitStatus { status: WorkloadStatus::Active, message },
                };
                record.reports = vec![RunReport { number: 0, at_ms: 1, what }];
                self.commits(&mut agent, record).await
            }
            18 => {
                let mut record = agent.record(Operation::Hook(Hook::UpdateStatus));
                record.outcome = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
                self.commits(&mut agent, record).await
            }
            19 => match self.relation {
                Some((relation, _)) => {
                    let record = agent.settings_record(relation, "n", &number.to_string());
                    self.commits(&mut agent, record).await
                }
                None => true,
            },
            // The next operation of the unit.
            _ => match self.next(&name, &agent).await {
                Some(record) => self.commits(&mut agent, record).await,
                None => true,
            },
        };
        if is_accepted {
            self.agents.insert(name, agent);
        }
    }

    async fn next(&self, name: &UnitName, agent: &MemoryAgent) -> Option<state::unit::record::Record> {
        let (unit, model) = (self.fixture.unit(&name.to_string()).await, self.fixture.model);
        let next = self
            .fixture
            .controller
            .read(move |reader| state::status::unit::next_act(reader, model, unit, String::new()));
        match next.await {
            None => {
                // each charm of this fixture has the name of its application, also as its digest
                let charm = name.application.clone();
                let endpoint = if charm == "web" { "db" } else { "server" };
                let (url, endpoints) = (format!("local:{charm}-0"), BTreeSet::from([endpoint.to_owned()]));
                Some(agent.record(Operation::InstallCharm(CharmRef {
                    url,
                    revision: 0,
                    sha256: charm,
                    endpoints,
                    resources: String::new(),
                })))
            }
            Some(Act::Start(run)) => Some(agent.record(run.operation)),
            Some(Act::RecordOutcome(recorded)) => Some(agent.record(recorded.operation)),
            Some(_) => None,
        }
    }

    async fn commits(&self, agent: &mut MemoryAgent, record: state::unit::record::Record) -> bool {
        let (sequence, digest) = (record.sequence, record.digest());
        let is_applied = agent.api.handle(api::Commit { epoch: agent.epoch, record }).await.is_ok();
        if is_applied {
            (agent.sequence, agent.digest) = (sequence, digest);
        }
        is_applied
    }
}

#[tokio::test]
async fn a_status_with_cached_parts_equals_one_without_a_cache() {
    for seed in 0..4 {
        let fixture = Fixture::in_memory().await;
        fixture.deploy("web", 2).await;
        fixture.deploy("db", 2).await;
        let (janitor, agents) = (Janitor::default(), BTreeMap::new());
        let mut walk = Walk { fixture, janitor, agents, relation: None, draws: Draws(seed) };
        let mut shown = BTreeSet::new();
        for step in 0..STEPS {
            walk.step().await;
            let status = walk.fixture.admin.handle(GetStatus).await.expect("the model is there");
            assert_eq!(
                Some(&status),
                computed_anew(&walk.fixture).await.as_ref(),
                "seed {seed}, step {step}"
            );
            for unit in status.applications.values().flat_map(|app| app.units.values()) {
                shown.insert((unit.workload.current.as_str(), unit.agent.current.as_str()));
            }
        }
        assert!(shown.len() >= 8, "too few statuses were reached: {shown:?}");
        let remove =
            RemoveApplication { destroy_storage: false, application: "web".to_owned(), force: Force::AtOnce };
        walk.fixture.admin.handle(remove).await.ok();
        let status = walk.fixture.admin.handle(GetStatus).await.expect("the model is there");
        assert_eq!(Some(status), computed_anew(&walk.fixture).await);
    }
}
