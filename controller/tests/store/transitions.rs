//! Every recorded read of every transition is a precondition: if it changes before the commit, the commit conflicts and
//! writes nothing (design 5, I45).
//!
//! The fixture calls each transition at least once. Before a step is committed, it is drafted again for each of its
//! recorded reads, that read is invalidated by a concurrent write, and the draft is applied. The modules below contain
//! the calls, one module for each kind of transition; `every_transition` makes them in order.

mod agents;
mod development;
pub mod every_transition;
mod forced;
mod provisioning;
mod removals;
mod retention;
mod secrets;
mod storage;
mod users;

use controller::store::{ApplyError, Store};
use state::agents::record_validation::{EarlyReport, Valid};
use state::agents::session::{self, AgentSession, Attach};
use state::charm::{Action, Base, Charm, ConfigOption, Endpoint, OptionType, Resource, Role, Scope};
use state::documents::draft::{Draft, Reader, StoredDocument, Transaction, read};
use state::documents::json_text::Text;
use state::documents::prelude::{ArchiveUse, Kind, Model, TokenHolder, last_id};
use state::documents::refusal::Refusal;
use state::documents::token;
use state::lifecycle::creation::Creation;
use state::lifecycle::{
    action, application, application_settings, archive, cleanup, constraints, leadership, machine, model,
    relation, scope, ssh_keys, unit,
};
use state::restore::resync;
use state::restore::resync::ResyncProgress;
use state::terms::activity::Activity;
use state::terms::failure_reason::FailureReason;
use state::terms::force::Force;
use state::terms::hook_name::HookName;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{CharmRef, Hook, LocalEndpoint, Operation};
use state::terms::provider_kind::ProviderKind;
use state::terms::refusal::transaction::TransactionRefusal;
use state::transitions::force;
use state::transitions::force_timer::{self, ForceTimer};
use state::transitions::instance::{Enrolment, ProvisioningReport};
use state::transitions::leader_settings::LeaderWrite;
use state::transitions::run_reports::{LogLines, RefusedRecord};
use state::transitions::{
    assigned_units, attach_resources, destruction, instance, leader_claim, leader_settings, record_commit,
    tombstone_retention,
};
use state::unit::hook_context::{Level, ReportContent};
use state::unit::local::{Event, Local};
use state::unit::record::{Outcome, Record, RunReport};
use state::unit::writes::{BagWrites, Writes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MODEL: Model = Model(Uuid(7));

type Step = Arc<dyn Fn(&mut Draft<'_>) -> Result<(), Refusal> + Send + Sync>;

struct Fixture<'s, S> {
    store: &'s S,
    /// The transitions that were called.
    called: BTreeSet<&'static str>,
    ids: Arc<AtomicU64>,
}

/// A write that invalidates one recorded read, and the write that restores the document.
struct Invalidation {
    what: String,
    done: Transaction,
    restore: Transaction,
}

fn puts(key: &str, value: Option<String>) -> Transaction {
    Transaction {
        writes: BTreeMap::from([(key.to_owned(), value.map(Text::from))]),
        ..Transaction::default()
    }
}

fn appears(what: &str, key: &str) -> Invalidation {
    let what = format!("{what}: {key} appears");
    Invalidation { what, done: puts(key, Some("null".to_owned())), restore: puts(key, None) }
}

fn vanishes(what: &str, there: &StoredDocument) -> Invalidation {
    let (key, value) = (there.key.as_str(), there.value.clone());
    Invalidation {
        what: format!("{what}: {key} vanishes"),
        done: puts(key, None),
        restore: puts(key, Some(value.to_string())),
    }
}

/// Returns every way in which a read of `transaction` can become invalid.
fn invalidations(transaction: &Transaction, reader: &dyn Reader) -> Vec<Invalidation> {
    let mut all = Vec::new();
    for key in transaction.keys.keys() {
        match reader.get(key) {
            None => all.push(appears("a key", key)),
            Some(there) => {
                // Even a write of the same value invalidates the read.
                let same = || puts(key, Some(there.value.to_string()));
                all.push(Invalidation {
                    what: format!("a key: {key} is written"),
                    done: same(),
                    restore: same(),
                });
                all.push(vanishes("a key", &there));
            }
        }
    }
    for witness in &transaction.exist {
        all.push(vanishes("the first document", &reader.get(witness).expect("a witness is there")));
    }
    for prefix in transaction.none.keys() {
        all.push(appears("another document", &format!("{prefix}!")));
        all.push(appears("another document", &format!("{prefix}~")));
    }
    for page in &transaction.pages {
        let after = if page.after.is_empty() { &page.prefix } else { &page.after };
        all.push(appears("a page", &format!("{after}!")));
        for key in &page.keys {
            all.push(vanishes("a page", &reader.get(key).expect("a page's keys are there")));
        }
    }
    all
}

async fn draft<S: Store>(store: &S, step: &Step) -> Transaction {
    let step = Arc::clone(step);
    let drafted = store.read(move |reader| {
        let mut draft = Draft::new(reader);
        step(&mut draft).map(|()| draft.finish().expect("transactions are bounded"))
    });
    drafted.await.expect("the fixture is legal")
}

impl<S: Store> Fixture<'_, S> {
    /// Commits one transition. First checks that each write that invalidates one of its reads causes a conflict.
    async fn call(
        &mut self,
        name: &'static str,
        step: impl Fn(&mut Draft<'_>) -> Result<(), Refusal> + Send + Sync + 'static,
    ) {
        let step: Step = Arc::new(step);
        self.called.insert(name);
        let first = draft(self.store, &step).await;
        let overtaking = self.store.read(move |reader| invalidations(&first, reader)).await;
        assert!(!overtaking.is_empty(), "{name} reads nothing");
        for Invalidation { what, done, restore } in overtaking {
            let overtaken = draft(self.store, &step).await;
            assert!(!overtaken.writes.is_empty(), "{name} writes nothing: it proves nothing");
            self.store.apply(done).await.expect("an unconditional write");
            let before = self.store.newest_revision();
            match self.store.apply(overtaken).await {
                Err(ApplyError::Conflict(_)) => {
                    assert_eq!(self.store.newest_revision(), before, "{name}, {what}: wrote")
                }
                other => panic!("{name}, {what}: went unnoticed: {other:?}"),
            }
            self.store.apply(restore).await.expect("an unconditional write");
        }
        let last = draft(self.store, &step).await;
        self.store.apply(last).await.unwrap_or_else(|error| panic!("{name} overtaken by nothing: {error:?}"));
    }

    /// Returns the uuids of one transition; they are the same each time it is drafted.
    fn ids(&self) -> impl Fn() -> Box<dyn FnMut() -> Uuid> + Send + Sync + 'static {
        let first = self.ids.fetch_add(10, Ordering::Relaxed);
        move || {
            let mut next = first;
            Box::new(move || {
                next += 1;
                Uuid(next.into())
            })
        }
    }

    /// Deploys an application with one unit.
    async fn deploy(&mut self, name: &str, sha256: &str) {
        let ids = self.ids();
        let (name, sha256) = (name.into(), sha256.into());
        let request = application::Deploy {
            application: Some(name),
            sha256,
            units: 1,
            ..application::Deploy::default()
        };
        self.call("application::deploy", move |draft| {
            application::deploy(draft, MODEL, &request, Creation { now_ms: 1, ids: &mut ids() }).map(drop)
        })
        .await;
    }

    async fn unit(&self, name: &str) -> Uuid {
        let name: UnitName = name.parse().expect("a unit name");
        self.store.read(move |reader| read(reader, &MODEL.unit_name(&name))).await.expect("the unit is there")
    }

    async fn machine_of_unit(&self, unit: Uuid) -> Uuid {
        self.store.read(move |reader| read(reader, &MODEL.unit(unit))).await.expect("it exists").machine
    }

    async fn application(&self, name: &'static str) -> Uuid {
        let found = self.store.read(move |reader| read(reader, &MODEL.application_name(name))).await;
        found.expect("the application is there")
    }

    /// Returns the ids of all entities of a kind.
    async fn all(&self, kind: Kind) -> Vec<Uuid> {
        let found = self.store.read(move |reader| reader.scan(&MODEL.prefix(kind), "", usize::MAX)).await;
        found.iter().filter_map(|stored| last_id(&stored.key)).collect()
    }

    async fn commit(&mut self, local: &mut Local, record: Record) {
        let (session, sent, ids) = (session_of(local), record.clone(), self.ids());
        self.call("record_commit::commit", move |draft| {
            let sent = Valid::record(sent.clone())?;
            record_commit::commit(draft, session, &sent, None, LogLines::ALL, created(&mut ids())).map(drop)
        })
        .await;
        let sequence = record.sequence;
        local.apply(&Event::Finished(record));
        local.apply(&Event::Acknowledged { sequence, revision: 0, refusal: None, retry: None });
    }

    async fn done(&mut self, local: &mut Local, operation: Operation) {
        let record = local.record(operation, Outcome::Ok, 1000);
        self.commit(local, record).await;
    }

    async fn attach(&mut self, name: &str) -> Local {
        let unit = self.unit(name).await;
        self.call("session::attach", move |draft| {
            let attach = Attach {
                nonce: Uuid(9),
                epoch: 0,
                store_generation: None,
                teardown_started: false,
                boot: String::new(),
            };
            session::attach(draft, MODEL, unit, attach, Uuid(7), false).map(drop)
        })
        .await;
        let mut local = Local::new(unit, name.parse().expect("a unit name"));
        local.apply(&Event::Attached {
            store_generation: Uuid(7),
            epoch: 1,
            sequence: 0,
            recovered_bags: Default::default(),
        });
        local
    }
}

/// What a record creates.
fn created(ids: &mut dyn FnMut() -> Uuid) -> Creation<'_> {
    Creation { now_ms: 1000, ids }
}

/// The session of this agent.
fn session_of(local: &Local) -> AgentSession {
    AgentSession { model: MODEL, unit: local.unit, epoch: local.epoch, store_generation: Uuid(7) }
}

fn charm(name: &str, endpoint: &str, role: Role) -> Charm {
    let (name, endpoint) = (name.to_owned(), endpoint.to_owned());
    let interface = "sql".to_owned();
    let whole = Endpoint {
        name: endpoint.clone(),
        role,
        interface,
        scope: Scope::Global,
        limit: None,
        optional: false,
    };
    let actions = [("backup".to_owned(), Action::default())].into();
    let option = ConfigOption { kind: OptionType::Int, default: None, description: String::new() };
    let config = [("port".to_owned(), option)].into();
    let resources = [("app".to_owned(), Resource::default())].into();
    Charm { name, endpoints: [(endpoint, whole)].into(), actions, config, resources, ..Charm::default() }
}

fn charm_ref(sha256: &str) -> CharmRef {
    CharmRef {
        sha256: sha256.into(),
        url: "local:x-0".into(),
        revision: 0,
        endpoints: Default::default(),
        resources: String::new(),
    }
}
