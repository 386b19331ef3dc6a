//! The fixture of the controller's tests: a controller with a small model, in which `web` requires `db`.

#![allow(dead_code, reason = "each test program uses its part")]

use api::error::ApiError;
use api::{
    Attach, Commit, Deploy, Ends, Handle, InModel, Integrate, Stream, UnitAgentRequests, UnitWatchEvent,
};
use controller::environment::{Environment, StoredArchive, uuid_v4};
use controller::janitor::Janitor;
use controller::secret_keys::SecretKeys;
use controller::store::Store;
use controller::tokens;
use controller::{AuthenticatedCaller, Controller};
use host::digest::sha256;
use state::agents::session::GrantedSession;
use state::charm::{Action, Charm, Endpoint, Role, Scope};
use state::documents::draft::read;
use state::documents::prelude::{GLOBAL, Model, TokenHolder, UserRole};
use state::documents::token;
use state::lifecycle::archive;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::operation::{Hook, LocalEndpoint, Operation};
use state::terms::position::{Committed, Position};
use state::terms::refusal::RefusalReason;
use state::terms::settings::Bag;
use state::unit::record::{CommitOutcome, Outcome, Record};
use state::unit::snapshot::Delta;
use state::unit::writes::{BagWrites, Writes};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use test_support::memory_store::MemoryStore;

/// An environment whose clocks advance only when a test advances them.
#[derive(Clone)]
pub struct FakeEnvironment {
    pub now_ms: tokio::sync::watch::Sender<u64>,
    /// The milliseconds by which the wall clock was set forward or back.
    stepped_ms: Arc<AtomicI64>,
    random: Arc<AtomicU64>,
    archives: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    /// Holds the next upload when its archive is stored.
    pub upload_gate: Arc<Mutex<Option<Arc<tokio::sync::Notify>>>>,
    /// Holds the next read of an archive.
    pub read_gate: Arc<Mutex<Option<Arc<tokio::sync::Notify>>>>,
    pub secret_keys: Arc<SecretKeys>,
}

impl FakeEnvironment {
    pub fn new() -> FakeEnvironment {
        let now_ms = tokio::sync::watch::Sender::new(1_000_000);
        FakeEnvironment {
            now_ms,
            stepped_ms: Arc::default(),
            random: Arc::default(),
            archives: Arc::default(),
            upload_gate: Arc::default(),
            read_gate: Arc::default(),
            secret_keys: Arc::new(SecretKeys::in_memory(7)),
        }
    }

    pub fn advance(&self, ms: u64) {
        self.now_ms.send_modify(|now_ms| *now_ms += ms);
    }

    /// Sets the wall clock forward or back; no time elapses.
    pub fn step_wall_clock(&self, ms: i64) {
        self.stepped_ms.fetch_add(ms, Ordering::Relaxed);
    }
}

/// Returns the message of a refusal, without its hint.
pub fn message(reason: impl Into<RefusalReason>) -> String {
    api::text::refusal::message(&reason.into())
}

impl Environment for FakeEnvironment {
    fn secret_keys(&self) -> Option<&SecretKeys> {
        Some(&self.secret_keys)
    }
    fn wall_ms(&self) -> i64 {
        1_700_000_000_000 + self.monotonic_ms() as i64 + self.stepped_ms.load(Ordering::Relaxed)
    }
    fn monotonic_ms(&self) -> u64 {
        *self.now_ms.borrow()
    }
    fn random(&self) -> u128 {
        let count = self.random.fetch_add(1, Ordering::Relaxed);
        u128::from_str_radix(&sha256(&count.to_be_bytes())[..32], 16).expect("hex")
    }
    async fn sleep_until(&self, monotonic_ms: u64) {
        let mut now_ms = self.now_ms.subscribe();
        now_ms.wait_for(|now_ms| *now_ms >= monotonic_ms).await.expect("self keeps the sender");
    }
    async fn store_archive(&self, bytes: Vec<u8>) -> Result<StoredArchive, ApiError> {
        let charm = serde_json::from_slice(&bytes).expect("in these tests an archive is the charm as JSON");
        let (sha256, length) = (sha256(&bytes), bytes.len() as u64);
        self.archives.lock().expect("no holder panics").insert(sha256.clone(), bytes);
        let gate = self.upload_gate.lock().expect("no holder panics").take();
        if let Some(gate) = gate {
            gate.notified().await;
        }
        Ok(StoredArchive { sha256, bytes: length, charm })
    }
    async fn store_resource(&self, bytes: Vec<u8>) -> Result<String, ApiError> {
        let sha256 = sha256(&bytes);
        self.archives.lock().expect("no holder panics").insert(sha256.clone(), bytes);
        Ok(sha256)
    }
    async fn stored_file(&self, sha256: &str) -> Option<Vec<u8>> {
        let gate = self.read_gate.lock().expect("no holder panics").take();
        if let Some(gate) = gate {
            gate.notified().await;
        }
        self.archives.lock().expect("no holder panics").get(sha256).cloned()
    }
    async fn stored_files(&self) -> BTreeMap<String, u64> {
        self.archives.lock().expect("no holder panics").keys().map(|sha256| (sha256.clone(), 0)).collect()
    }
    async fn delete_stored_file(&self, sha256: &str, _: u64) {
        self.archives.lock().expect("no holder panics").remove(sha256);
    }
    fn on_store_failure(&self, why: &str) {
        panic!("{why}");
    }
}

fn charm(name: &str, endpoint: &str, role: Role) -> Charm {
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
        endpoints: [(endpoint.name.clone(), endpoint)].into(),
        actions: [("backup", false, ""), ("collect", true, ""), ("copy", false, "copies")]
            .map(|(name, parallel, group)| {
                let execution_group = group.to_owned();
                (name.to_owned(), Action { parallel, execution_group, ..Action::default() })
            })
            .into(),
        ..Charm::default()
    }
}

/// A controller with model `dev` and the archives `web` and `db`.
pub struct Fixture<S, E> {
    pub controller: Arc<Controller<S, E>>,
    pub model: Model,
    pub admin: AuthenticatedCaller<S, E>,
}

impl Fixture<MemoryStore, FakeEnvironment> {
    pub async fn in_memory() -> Fixture<MemoryStore, FakeEnvironment> {
        let environment = FakeEnvironment::new();
        let store = MemoryStore::new(uuid_v4(77));
        Fixture::new(Controller::new(store, environment, uuid_v4(1))).await
    }

    /// Replaces the controller process by a new one on the same store.
    pub fn restart(&mut self) {
        let (store, environment) = (self.controller.store.clone(), self.controller.environment.clone());
        self.controller = Controller::new(store, environment, self.controller.id);
        self.admin = self.controller.caller(self.admin.principal.clone()).in_model("dev");
    }

    pub fn advance(&self, ms: u64) {
        self.controller.environment.advance(ms);
    }
}

impl<S: Store, E: Environment> Fixture<S, E> {
    pub async fn new(controller: Arc<Controller<S, E>>) -> Fixture<S, E> {
        let model = Model(uuid_v4(2));
        let made = controller.run(move |draft| {
            state::lifecycle::model::create(draft, model.0, "dev", 1)?;
            archive::register(draft, "web", Some(charm("web", "db", Role::Requirer)), 10);
            archive::register(draft, "db", Some(charm("db", "server", Role::Provider)), 10);
            Ok(())
        });
        made.await.expect("a new store");
        let principal = TokenHolder::User { name: "admin".to_owned(), role: UserRole::Admin };
        let admin = controller.caller(principal).in_model("dev");
        Fixture { controller, model, admin }
    }

    pub async fn deploy(&self, name: &str, units: u32) {
        let deploy = Deploy {
            application: None,
            sha256: name.to_owned(),
            units,
            to: None,
            config: BTreeMap::new(),
            ..Deploy::default()
        };
        self.admin.handle(deploy).await.expect("the deployment succeeds");
    }

    /// Creates the relation between web and db.
    pub async fn integrate(&self) -> (RelationNumber, Uuid) {
        let ends = Ends { a: "web".to_owned(), b: "db".to_owned() };
        let done = self.admin.handle(Integrate(ends)).await.expect("the endpoints are compatible");
        let (model, key) = (self.model, done.answer.ends);
        let id = self.controller.read(move |reader| read(reader, &model.relation_key(&key))).await;
        (done.answer.number, id.expect("it was just created"))
    }

    pub async fn unit(&self, name: &str) -> Uuid {
        let (model, name): (_, UnitName) = (self.model, name.parse().expect("a unit's name"));
        self.controller.read(move |reader| read(reader, &model.unit_name(&name))).await.expect("it exists")
    }

    pub async fn machine_of_unit(&self, unit: Uuid) -> Uuid {
        let model = self.model;
        self.controller.read(move |reader| read(reader, &model.unit(unit))).await.expect("it exists").machine
    }

    /// Stores a new token for a principal and returns it.
    pub async fn token(&self, entity: Uuid, principal: TokenHolder) -> String {
        let token = tokens::random_token(&self.controller.environment);
        let sha256 = sha256(token.as_bytes());
        let set = self.controller.run(move |draft| token::set(draft, entity, &principal, &sha256));
        set.await.expect("tokens are always set");
        token
    }

    /// Runs 100 rounds of the janitor, enough to scan every log completely.
    pub async fn run_janitor(&self) {
        let mut janitor = Janitor::default();
        for _ in 0..100 {
            while janitor.sweep(&self.controller).await.expect("the sweep succeeds") {}
        }
    }

    pub async fn attach_agent(&self, name: &str) -> Agent<AuthenticatedCaller<S, E>> {
        let unit = self.unit(name).await;
        Agent::attach(self.controller.caller(TokenHolder::Unit { model: self.model, unit }), 1).await
    }
}

/// The session of a unit agent that sends requests and runs no hooks.
pub struct Agent<A> {
    pub api: A,
    pub epoch: u64,
    /// The sequence number of the last record.
    pub sequence: u64,
    pub digest: String,
}

impl<A: UnitAgentRequests> Agent<A> {
    pub async fn attach(api: A, nonce: u128) -> Agent<A> {
        let attached = api
            .handle(Attach {
                nonce: Uuid(nonce),
                epoch: 0,
                store_generation: None,
                teardown_started: false,
                boot: String::new(),
            })
            .await;
        let GrantedSession { epoch, replica, .. } = attached.expect("the agent attaches").answer;
        let (sequence, digest) =
            replica.map_or_else(Default::default, |local| (local.sequence, local.digest));
        Agent { api, epoch, sequence, digest }
    }

    pub fn record(&self, operation: Operation) -> Record {
        let sequence = self.sequence + 1;
        Record {
            sequence,
            previous_digest: self.digest.clone(),
            run: sequence,
            operation,
            outcome: Outcome::Ok,
            episode: None,
            leader_generation: None,
            reboot: None,
            resync_local: None,
            writes: Writes::default(),
            hook_log: None,
            reports: Vec::new(),
            deleted_files: Default::default(),
            at_ms: 5,
        }
    }

    pub async fn commit(&mut self, record: Record) -> Committed<CommitOutcome> {
        (self.sequence, self.digest) = (record.sequence, record.digest());
        self.api.handle(Commit { epoch: self.epoch, record }).await.expect("it is applied")
    }

    pub async fn enter(&mut self, relation: (RelationNumber, Uuid), own: &str, remote: &str) {
        let record = self.record(self.enter_scope_operation(relation, own, remote));
        self.commit(record).await;
    }

    pub fn enter_scope_operation(
        &self,
        (relation, uuid): (RelationNumber, Uuid),
        own: &str,
        remote: &str,
    ) -> Operation {
        let local_endpoint = LocalEndpoint {
            endpoint: own.to_owned(),
            interface: "sql".to_owned(),
            peer: false,
            implicit: false,
            remote_application: remote.to_owned(),
        };
        let settings = Bag::from([("address".to_owned(), "127.0.0.1".to_owned())]);
        Operation::EnterScope { relation, uuid, local_endpoint, settings }
    }

    /// Returns a record that sets one key of the unit's own bag.
    pub fn settings_record(&self, relation: RelationNumber, key: &str, value: &str) -> Record {
        let mut record = self.record(Operation::Hook(Hook::UpdateStatus));
        let change = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let writes = BagWrites { unit: change, application: BTreeMap::new() };
        record.writes.bags.insert(relation, writes);
        record
    }
}

/// Returns the next delta of the stream, skipping heartbeats.
pub async fn next_delta(watch: &mut impl Stream<Item = UnitWatchEvent>) -> Delta {
    loop {
        if let UnitWatchEvent::Delta(delta) = watch.next().await.expect("the stream continues") {
            return delta;
        }
    }
}

pub async fn newest_position(controller: &Controller<impl Store, impl Environment>) -> Position {
    controller.position(controller.store.newest_revision())
}

pub fn archive_bytes(charm: &Charm) -> Vec<u8> {
    serde_json::to_vec(charm).expect("plain data")
}

pub fn archive_key(sha256: &str) -> String {
    GLOBAL.archive(sha256).text().to_owned()
}

/// Parses the name of one entity, as the command `why` does.
pub fn entity(text: &str) -> api::EntityChoice {
    let words: Vec<&str> = text.split(' ').collect();
    api::entity_choice::parse(&words).remove(0).expect("the name of an entity")
}
