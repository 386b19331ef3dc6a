//! The model of these tests: web/0 is hostile and leads its application; web/1 and db/0 are honest.

use crate::mutation::Foreign;
use crate::support::*;
use api::{
    Attach, Claim, Commit, Deploy, EnqueueAction, FetchArchive, FetchResource, Handle, OpenSecret,
    ReadSecret, Report, ReportStorage, SealSecret, SealedSecret, UploadArchive, WatchUnit,
    WriteLeaderSettings,
};
use controller::store::Store;
use controller::{AuthenticatedCaller, Controller};
use serde::Serialize;
use serde_json::{Value, json};
use state::agents::secret_read::SecretRead;
use state::charm::{Action, Charm, Endpoint, Role, Scope, Storage, StorageType};
use state::documents::draft::read;
use state::documents::prelude::{Model, TokenHolder};
use state::terms::activity::Activity;
use state::terms::commands::{CommandsRequest, RelationContext};
use state::terms::failure_reason::FailureReason;
use state::terms::hook_name::{HookName, RelationEventName};
use state::terms::member_version::MemberVersion;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{CharmRef, ConfigDigest, Hook, Operation, RelationEvent};
use state::terms::outcome::Timer;
use state::terms::owner::Owner;
use state::terms::position::Position;
use state::terms::process_result::{ProcessResult, StreamOutput};
use state::terms::secret::{RotatePolicy, SecretContent, SecretEvent, SecretId, SecretOwnerKind};
use state::terms::start_reason::StartReason;
use state::terms::status::WorkloadStatus;
use state::terms::storage::{AttachedStorage, StorageEvent, StorageId, StorageReport};
use state::transitions::leader_settings::LeaderWrite;
use state::unit::hook_log::{HookHandler, HookLog};
use state::unit::local::{Episode, Local, Run, Step};
use state::unit::record::{Outcome, Record, RunReport};
use state::unit::relation_view::BagRequest;
use state::unit::secrets::{AccessChange, SecretRemoval, SecretWrite};
use state::unit::writes::{BagWrites, Level, Reboot, ReportContent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use test_support::memory_store::MemoryStore;

pub type Api = AuthenticatedCaller<MemoryStore, FakeEnvironment>;

/// The state of an agent's session, without its connection.
#[derive(Clone)]
pub struct Place {
    pub unit: Uuid,
    pub epoch: u64,
    pub sequence: u64,
    pub digest: String,
}

/// A model in which web/0 is hostile and leads its application; web/1 and db/0 are honest.
pub struct World {
    pub store: MemoryStore,
    pub environment: FakeEnvironment,
    pub model: Model,
    pub hostile: Place,
    pub honest: Place,
    pub application: Uuid,
    /// The other application.
    pub database: Uuid,
    /// A secret of the hostile unit, and its sealed content.
    pub secret: (SecretId, String),
    pub relation: (u32, Uuid),
    /// The machine of the hostile unit, whose token is hostile, too.
    pub machine: Uuid,
    /// Storage of the hostile unit: its id and the instance.
    pub storage: (StorageId, Uuid),
    /// Archives that were never assigned to the hostile unit: one of another charm, and one of its own charm.
    pub forbidden: Vec<String>,
    pub web: String,
    pub web_local: Local,
}

fn place<A>(unit: Uuid, agent: &Agent<A>) -> Place {
    Place { unit, epoch: agent.epoch, sequence: agent.sequence, digest: agent.digest.clone() }
}

fn charm_of(name: &str, summary: &str) -> Charm {
    let (endpoint, role) = if name == "db" { ("server", Role::Provider) } else { ("db", Role::Requirer) };
    let endpoint = Endpoint {
        name: endpoint.to_owned(),
        role,
        interface: "sql".to_owned(),
        scope: Scope::Global,
        limit: None,
        optional: false,
    };
    Charm {
        name: name.to_owned(),
        summary: summary.to_owned(),
        endpoints: [(endpoint.name.clone(), endpoint)].into(),
        actions: [("backup".to_owned(), Action::default())].into(),
        storage: [("data".to_owned(), Storage::default())].into(),
        ..Charm::default()
    }
}

pub fn install(sha256: &str, endpoint: &str) -> Operation {
    Operation::InstallCharm(CharmRef {
        sha256: sha256.to_owned(),
        url: "local:web-0".to_owned(),
        revision: 0,
        endpoints: BTreeSet::from([endpoint.to_owned()]),
        resources: String::new(),
    })
}

fn report(call: u32, what: ReportContent) -> RunReport {
    RunReport { number: call, at_ms: 1_700_000_000_000, what }
}

fn all_reports() -> Vec<RunReport> {
    let text = || "text".to_owned();
    vec![
        report(1, ReportContent::UnitStatus { status: WorkloadStatus::Active, message: text() }),
        report(2, ReportContent::ApplicationStatus { status: WorkloadStatus::Active, message: text() }),
        report(3, ReportContent::Log { level: Level::Info, text: text() }),
        report(4, ReportContent::ActionLog(text())),
        report(5, ReportContent::WorkloadVersion("1.0".to_owned())),
        report(
            6,
            ReportContent::Output {
                run: Activity::hook(HookName::Install),
                level: Level::Info,
                text: text(),
            },
        ),
    ]
}

fn plain(request: &impl Serialize) -> Value {
    serde_json::to_value(request).expect("plain data")
}

impl World {
    pub async fn new() -> World {
        let fixture = Fixture::in_memory().await;
        let admin = &fixture.admin;
        let upload = |name: &'static str, summary: &'static str| async move {
            let made = charm_of(name, summary);
            admin.handle(UploadArchive(archive_bytes(&made))).await.expect("it is stored").sha256
        };
        let (web, db) = (upload("web", "").await, upload("db", "").await);
        let (other, later) = (upload("other", "").await, upload("web", "not assigned to anybody").await);
        for (sha256, units) in [(&web, 1), (&db, 1), (&other, 1)] {
            let deploy = Deploy {
                application: None,
                sha256: sha256.clone(),
                units,
                to: None,
                config: BTreeMap::new(),
                ..Deploy::default()
            };
            admin.handle(deploy).await.expect("the deployment succeeds");
        }
        let add =
            api::AddUnits { attach_storage: Vec::new(), application: "web".to_owned(), units: 1, to: None };
        admin.handle(add).await.expect("the unit is added");
        let relation = fixture.integrate().await;

        let (mut places, mut secret) = (Vec::new(), None);
        for (name, own, remote, charm) in
            [("web/0", "db", "db", &web), ("web/1", "db", "db", &web), ("db/0", "server", "web", &db)]
        {
            let mut agent = fixture.attach_agent(name).await;
            agent.commit(agent.record(install(charm, own))).await;
            agent.commit(agent.record(Operation::Hook(Hook::Install))).await;
            agent.enter(relation, own, remote).await;
            if name == "web/0" {
                let claim = Claim { epoch: agent.epoch, release: false, view: None };
                assert!(agent.api.handle(claim).await.expect("it is answered").lease.is_some());
            }
            if name == "web/0" {
                let seal = SealSecret {
                    epoch: agent.epoch,
                    secret: None,
                    owner: SecretOwnerKind::Unit,
                    content: SecretContent(BTreeMap::from([("password".to_owned(), "YQ==".to_owned())])),
                };
                let SealedSecret { secret: id, sealed } = agent.api.handle(seal).await.expect("it is sealed");
                let mut record = agent.record(Operation::Hook(Hook::UpdateStatus));
                let created = Some(SecretOwnerKind::Unit);
                let write = SecretWrite { created, sealed: Some(sealed.clone()), ..SecretWrite::default() };
                record.writes.secrets.insert(id, write);
                assert_eq!(agent.commit(record).await.answer.refusal, None);
                secret = Some((id, sealed));
            }
            places.push(place(fixture.unit(name).await, &agent));
        }
        for unit in ["web/1", "web/0"] {
            let run = EnqueueAction {
                unit: unit.parse().expect("a unit"),
                action: "backup".to_owned(),
                params: BTreeMap::new(),
                operation: None,
            };
            admin.handle(run).await.expect("it is enqueued");
        }
        let (model, hostile, honest) = (fixture.model, places[0].clone(), places[1].clone());
        let (store, environment) = (fixture.controller.store.clone(), fixture.controller.environment.clone());
        let unit = hostile.unit;
        let (application, web_local) = store.read_now(|reader| {
            let unit_doc = read(reader, &model.unit(unit)).expect("it exists");
            let replica = read(reader, &model.replica(unit)).expect("it has sent records");
            (unit_doc.application, replica.local)
        });
        let database =
            store.read_now(|reader| read(reader, &model.application_name("db"))).expect("it exists");
        let (machine, storage) = store.read_now(|reader| {
            let of_unit = read(reader, &model.unit_storage(unit)).expect("its charm requires storage");
            let id = of_unit.first().expect("one instance").clone();
            let doc = read(reader, &model.storage(&id)).expect("it exists");
            (doc.machine, (id, doc.uuid))
        });
        let forbidden = vec![other, later];
        World {
            store,
            environment,
            model,
            hostile,
            honest,
            application,
            database,
            secret: secret.expect("it was created"),
            relation,
            machine,
            storage,
            forbidden,
            web,
            web_local,
        }
    }

    /// Returns a new controller in the same state.
    pub fn fork(&self) -> Arc<Controller<MemoryStore, FakeEnvironment>> {
        let store = self.store.fork(self.store.store_generation());
        Controller::new(store, self.environment.clone(), Uuid(1))
    }

    pub fn agent(
        &self,
        controller: &Arc<Controller<MemoryStore, FakeEnvironment>>,
        place: &Place,
    ) -> Agent<Api> {
        let api = controller.caller(TokenHolder::Unit { model: self.model, unit: place.unit });
        Agent { api, epoch: place.epoch, sequence: place.sequence, digest: place.digest.clone() }
    }

    /// Whether a document existed before the request.
    pub fn has(&self, key: &str) -> bool {
        self.store.read_now(|reader| reader.get(key).is_some())
    }

    pub fn foreign(&self) -> Foreign {
        Foreign {
            unit: "web/1".to_owned(),
            uuid: self.honest.unit.to_string(),
            sha256: self.forbidden[0].clone(),
        }
    }

    /// Returns valid requests of the hostile unit, each with the name of its route.
    pub fn requests(&self) -> Vec<(&'static str, Value)> {
        let agent = self.agent(&self.fork(), &self.hostile);
        let json =
            |record: Record| serde_json::to_value(Commit { epoch: agent.epoch, record }).expect("plain data");
        let made = |operation: Operation| agent.record(operation);
        let (number, uuid) = self.relation;
        let mut writes = made(Operation::Hook(Hook::UpdateStatus));
        writes.reports = all_reports();
        let change = BTreeMap::from([("key".to_owned(), "value".to_owned())]);
        let bags = BagWrites { unit: change.clone(), application: change };
        writes.writes.bags.insert(number, bags);
        writes.writes.state.insert("key".to_owned(), Some("value".to_owned()));
        writes.writes.ports.open =
            [("*".to_owned(), BTreeSet::from(["80/tcp".parse().expect("a range")]))].into();
        writes.leader_generation = Some(1);
        let mut failed = made(Operation::Hook(Hook::UpdateStatus));
        let retry = Some(Timer { boot: "boot".to_owned(), started_ms: 1000, delay_ms: 5000, advanced_ms: 0 });
        failed.outcome = Outcome::Failed { reason: FailureReason::exit(1), retry };
        let mut action = made(Operation::Action { id: 2, name: "backup".to_owned() });
        action.writes.action.process = Some(ProcessResult::default());
        action.reports = vec![report(1, ReportContent::ActionLog("text".to_owned()))];
        let mut failed_action = made(Operation::Action { id: 2, name: "backup".to_owned() });
        failed_action.outcome = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
        failed_action.writes.action.results =
            serde_json::from_value(json!({ "a": { "b": [1] } })).expect("a map");
        failed_action.writes.action.failed = Some("text".to_owned());
        failed_action.writes.action.process = Some(ProcessResult {
            exit_code: 1,
            stdout: Some(StreamOutput::Text("text".to_owned())),
            stderr: Some(StreamOutput::Base64("YQ==".to_owned())),
        });
        let (secret, sealed) = self.secret.clone();
        let mut secrets = made(Operation::Hook(Hook::UpdateStatus));
        let remote_unit: UnitName = "db/0".parse().expect("a name");
        let write = SecretWrite {
            label: Some("label".to_owned()),
            description: Some("text".to_owned()),
            rotate: Some(RotatePolicy::Daily),
            expire_at_ms: Some(1_800_000_000_000),
            sealed: Some(sealed.clone()),
            access: vec![
                AccessChange::Grant {
                    relation: number,
                    application: "db".to_owned(),
                    unit: Some(remote_unit),
                },
                AccessChange::Revoke {
                    relation: Some(number),
                    application: Some("db".to_owned()),
                    unit: None,
                },
            ],
            removed: Some(SecretRemoval::Revisions(BTreeSet::from([1]))),
            refreshed: true,
            ..SecretWrite::default()
        };
        secrets.writes.secrets.insert(secret, write);
        let mut others = made(Operation::Hook(Hook::UpdateStatus));
        others.writes.storage.insert("data".to_owned(), 1);
        others.writes.reboot = Some(Reboot::AfterHook);
        others.reboot = Some("boot".to_owned());
        others.hook_log = Some(HookLog { handler: Some(HookHandler::Explicit), lowest: Level::Trace });
        others.episode = Some(3);
        let mut resync = made(Operation::Resync);
        resync.sequence += 5;
        resync.run += 5;
        let mut published = self.web_local.clone();
        published.relations.values_mut().for_each(|relation| relation.lost_bag_changes = None);
        published.status = Some((WorkloadStatus::Active, "text".to_owned()));
        published.ports = [("*".to_owned(), BTreeSet::from(["80/tcp".parse().expect("a range")]))].into();
        let joined = HookName::Relation { endpoint: "db".to_owned(), event: RelationEventName::Joined };
        published.skipped = BTreeSet::from([joined, HookName::UpdateStatus]);
        let (id, instance) = self.storage.clone();
        let attached =
            AttachedStorage { instance, kind: StorageType::Filesystem, location: "/srv".to_owned() };
        published.storage.insert(id.clone(), attached.clone());
        published.reboot = Some("boot".to_owned());
        (published.run, published.sequence, published.last_action) =
            (resync.run - 1, resync.sequence - 1, Some(2));
        resync.resync_local = Some(Box::new(published));
        let with_step = |step: Step| {
            let mut resync = resync.clone();
            resync.resync_local.as_mut().expect("it was set").step = step;
            resync
        };
        let update_status = || Operation::Hook(Hook::UpdateStatus);
        let episode = Episode {
            id: 1,
            operation: update_status(),
            reason: FailureReason::exit(1),
            since_ms: 1,
            failures: 1,
            retry: Some(Timer { boot: "boot".to_owned(), started_ms: 1000, delay_ms: 5000, advanced_ms: 0 }),
        };
        let interrupted = Run {
            number: resync.run,
            operation: update_status(),
            attempt: 3,
            reason: StartReason::Interrupted,
            position: None,
            leader_generation: None,
            episode: Some(episode.clone()),
        };
        let install_failed = Episode { operation: install(&self.web, "db"), ..episode.clone() };
        let awaiting = Step::AwaitingAnswer { sequence: resync.sequence - 1, episode: Some(episode.clone()) };
        let steps =
            [Step::Failed(episode), Step::Failed(install_failed), Step::Started(interrupted), awaiting];
        let [in_error, install_failed, interrupted, awaiting] = steps.map(with_step);
        let version = MemberVersion { incarnation: 1, counter: 1 };
        let remote: UnitName = "db/0".parse().expect("a name");
        let hook = |event: RelationEvent| {
            made(Operation::Hook(Hook::Relation { relation: number, endpoint: "db".to_owned(), event }))
        };
        let digest = ConfigDigest { settings: "a".to_owned(), ..ConfigDigest::default() };
        let send = |executing: Activity, reports: Vec<RunReport>| {
            let (epoch, run) = (agent.epoch, agent.sequence + 1);
            let report = Report { epoch, run, reports, executing: Some(executing), executing_for_ms: 10_000 };
            serde_json::to_value(report).expect("plain data")
        };
        let attach = Attach {
            nonce: Uuid(99),
            epoch: agent.epoch,
            store_generation: Some(self.store.store_generation()),
            teardown_started: true,
            boot: "boot".to_owned(),
        };
        let position = Position {
            store_generation: self.store.store_generation(),
            revision: self.store.newest_revision(),
        };
        let write = LeaderWrite {
            generation: 1,
            run: agent.sequence + 1,
            call: 1,
            change: [("lead".to_owned(), "web/0".to_owned())].into(),
        };
        let leader_settings = WriteLeaderSettings { epoch: agent.epoch, write };
        let unit = self.hostile.unit;
        let stored = |report: StorageReport| {
            let (id, instance) = self.storage.clone();
            serde_json::to_value(ReportStorage { id, instance, report }).expect("plain data")
        };
        let provisioned = StorageReport::Provisioned { unit, location: "/srv/data".to_owned() };
        let failed_storage = StorageReport::Failed { error: "no space".to_owned() };
        let secret_hook = Hook::Secret {
            secret,
            label: "label".to_owned(),
            revision: 1,
            event: SecretEvent::Rotate,
            leader_only: false,
        };
        let storage_hook = Hook::Storage { id, storage: attached, event: StorageEvent::Attached };
        let about = Some(RelationContext {
            relation: number,
            unit: Some("db/0".parse().expect("a name")),
            application: "db".to_owned(),
            departing: None,
        });
        let commands = CommandsRequest { id: Uuid(9), about };
        let content = SecretContent(BTreeMap::from([("password".to_owned(), "YQ==".to_owned())]));
        let (owner, epoch) = (SecretOwnerKind::Unit, agent.epoch);
        let seal = SealSecret { epoch, secret: Some(secret), owner, content };
        let label = Some("label".to_owned());
        let secret_read = SecretRead { id: Some(secret), label, peek: false, refresh: false };
        let bag = BagRequest { relation: uuid, owner: Owner::Application("db".to_owned()), position };
        vec![
            ("attach", serde_json::to_value(attach).expect("plain data")),
            ("commit", json(writes)),
            ("commit", json(failed)),
            ("commit", json(action)),
            ("commit", json(resync)),
            ("commit", json(in_error)),
            ("commit", json(install_failed)),
            ("commit", json(interrupted)),
            ("commit", json(awaiting)),
            ("commit", json(failed_action)),
            ("commit", json(secrets)),
            ("commit", json(others)),
            ("commit", json(made(Operation::Hook(secret_hook)))),
            ("commit", json(made(Operation::Hook(storage_hook)))),
            ("commit", json(made(Operation::Commands(commands)))),
            ("claim", plain(&Claim { epoch: agent.epoch, release: false, view: None })),
            ("seal-secret", plain(&seal)),
            ("open-secret", plain(&OpenSecret { epoch: agent.epoch, secret, sealed })),
            ("read-secret", plain(&ReadSecret { epoch: agent.epoch, read: secret_read })),
            ("archive", plain(&FetchArchive { sha256: self.web.clone() })),
            ("resource", plain(&FetchResource { resource: "file".to_owned(), sha256: self.web.clone() })),
            ("commit", json(made(install(&self.web, "db")))),
            ("commit", json(made(agent.enter_scope_operation(self.relation, "db", "db")))),
            ("commit", json(hook(RelationEvent::Joined { unit: remote, version }))),
            ("commit", json(hook(RelationEvent::Broken))),
            ("commit", json(made(Operation::LeaveScope { relation: number, uuid }))),
            ("commit", json(made(Operation::Hook(Hook::LeaderElected { generation: Some(1) })))),
            ("commit", json(made(Operation::Hook(Hook::ConfigChanged(digest))))),
            ("report", send(Activity::Action { id: 2, name: "backup".to_owned() }, all_reports())),
            ("report", send(Activity::from(&hook(RelationEvent::Broken).operation), Vec::new())),
            ("leader-settings", serde_json::to_value(leader_settings).expect("plain data")),
            ("storage", stored(provisioned)),
            ("storage", stored(failed_storage)),
            ("storage", stored(StorageReport::Removed)),
            ("bag", serde_json::to_value(bag).expect("plain data")),
            (
                "watch",
                serde_json::to_value(WatchUnit { epoch: agent.epoch, from: Some(position) })
                    .expect("plain data"),
            ),
        ]
    }
}
