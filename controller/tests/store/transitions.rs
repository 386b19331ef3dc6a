//! Every recorded read of every transition is a precondition: if it changes before the commit, the commit conflicts and
//! writes nothing (design 5, I45).
//!
//! The fixture calls each transition once. Before a step is committed, it is drafted again for each of its recorded
//! reads, that read is invalidated by a concurrent write, and the draft is applied.

use controller::store::{ApplyError, Store};
use state::charm::{Action, Charm, ConfigOption, Endpoint, OptionType, Role, Scope};
use state::documents::draft::{Draft, Reader, StoredDocument, Txn, read};
use state::documents::json_text::Text;
use state::documents::keys::{ArchiveUse, Kind, Model, last_id};
use state::documents::refusal::Refusal;
use state::lifecycle::creation::Creation;
use state::lifecycle::{application, archive, cleanup, machine, model, relation, scope, unit};
use state::operations::force::{self, ForceRequest, ForceTimer};
use state::operations::run_reports::RejectedRecord;
use state::operations::session::Attach;
use state::operations::{
    action, destruction, instance, leadership, log_retention, record_commit, session, tombstone_retention,
};
use state::restore::resync;
use state::restore::resync::ResyncProgress;
use state::terms::names::{UnitName, Uuid};
use state::terms::provider_kind::ProviderKind;
use state::unit::activity::Activity;
use state::unit::hook_context::{Level, ReportContent};
use state::unit::hook_name::HookName;
use state::unit::local::{Event, Local};
use state::unit::operation::{CharmRef, Hook, LocalEndpoint, Operation};
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
    done: Txn,
    restore: Txn,
}

fn puts(key: &str, value: Option<String>) -> Txn {
    Txn { writes: BTreeMap::from([(key.to_owned(), value.map(Text::from))]), ..Txn::default() }
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

/// Returns every way in which a read of `txn` can become invalid.
fn invalidations(txn: &Txn, reader: &dyn Reader) -> Vec<Invalidation> {
    let mut all = Vec::new();
    for key in txn.keys.keys() {
        match reader.get(key) {
            None => all.push(appears("a key", key)),
            Some(there) => {
                // written again, if only with the same
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
    for witness in &txn.exist {
        all.push(vanishes("the first document", &reader.get(witness).expect("a witness is there")));
    }
    for prefix in txn.none.keys() {
        all.push(appears("another document", &format!("{prefix}!")));
        all.push(appears("another document", &format!("{prefix}~")));
    }
    for page in &txn.pages {
        let after = if page.after.is_empty() { &page.prefix } else { &page.after };
        all.push(appears("a page", &format!("{after}!")));
        for key in &page.keys {
            all.push(vanishes("a page", &reader.get(key).expect("a page's keys are there")));
        }
    }
    all
}

async fn draft<S: Store>(store: &S, step: &Step) -> Txn {
    let step = Arc::clone(step);
    let drafted = store.read(move |reader| {
        let mut draft = Draft::new(reader);
        step(&mut draft).map(|()| draft.finish().expect("transactions are bounded"))
    });
    drafted.await.expect("the fixture is legal")
}

impl<S: Store> Fixture<'_, S> {
    /// Calls one transition, after all writes that may overtake it.
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
            let before = self.store.newest();
            match self.store.apply(overtaken).await {
                Err(ApplyError::Conflict(_)) => {
                    assert_eq!(self.store.newest(), before, "{name}, {what}: wrote")
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
        let request =
            application::Deploy { name, sha256, units: 1, now_ms: 1, ..application::Deploy::default() };
        self.call("application::deploy", move |draft| {
            application::deploy(draft, MODEL, &request, &mut ids()).map(drop)
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
        let found = self.store.read(move |reader| reader.scan(&MODEL.all(kind), "", usize::MAX)).await;
        found.iter().filter_map(|stored| last_id(&stored.key)).collect()
    }

    async fn commit(&mut self, local: &mut Local, record: Record) {
        let (unit, epoch, sent, ids) = (local.unit, local.epoch, record.clone(), self.ids());
        self.call("record_commit::commit", move |draft| {
            record_commit::commit(draft, MODEL, unit, epoch, &sent, &mut ids()).map(drop)
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
            let attach = Attach { nonce: Uuid(9), epoch: 0, store_generation: None };
            session::attach(draft, MODEL, unit, attach, Uuid(7)).map(drop)
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
    Charm { name, endpoints: [(endpoint, whole)].into(), actions, config, ..Charm::default() }
}

fn charm_ref(sha256: &str) -> CharmRef {
    CharmRef { sha256: sha256.into(), url: "local:x-0".into(), revision: 0, endpoints: Default::default() }
}

pub async fn every_read_of_every_transition_is_a_precondition<S: Store, G>(open: impl Fn(u64) -> (S, G)) {
    let (store, _guard) = open(10_000);
    let mut fixture = Fixture { store: &store, called: BTreeSet::new(), ids: Arc::new(AtomicU64::new(1000)) };
    build(&mut fixture).await;
    live(&mut fixture).await;
    end_subordinate(&mut fixture).await;
    end(&mut fixture).await;
    provision(&mut fixture).await;
    force_removal(&mut fixture).await;
    destroy_model(&mut fixture).await;
    assert_eq!(fixture.called, transitions(), "the fixture calls every transition");
}

/// Runs the transitions of users on two related applications and their machines.
async fn build<S: Store>(fixture: &mut Fixture<'_, S>) {
    fixture.call("model::create", |draft| model::create(draft, MODEL.0, "dev", 1)).await;
    for (sha256, name, endpoint, role) in [
        ("w1", "web", "db", Role::Requirer),
        ("w2", "web", "db", Role::Requirer),
        ("d1", "db", "server", Role::Provider),
    ] {
        fixture
            .call("application::register_archive", move |draft| {
                application::register_archive(draft, sha256, charm(name, endpoint, role), 10);
                Ok(())
            })
            .await;
    }
    let set = BTreeMap::from([("update-status-hook-interval".to_owned(), "10m".to_owned())]);
    fixture.call("model::configure", move |draft| model::configure(draft, MODEL, &set, &[]).map(drop)).await;
    fixture
        .call("application::register_archive", |draft| {
            let charm = charm("log", "server", Role::Requirer);
            let mut endpoints = charm.endpoints.clone();
            endpoints.values_mut().for_each(|endpoint| endpoint.scope = Scope::Container);
            let charm = Charm { subordinate: true, endpoints, ..charm };
            application::register_archive(draft, "l1", charm, 10);
            Ok(())
        })
        .await;
    for (name, sha256) in [("web", "w1"), ("db", "d1"), ("spare", "d1"), ("log", "l1")] {
        fixture.deploy(name, sha256).await;
    }
    for (one, other, id) in [("web", "db", 50), ("web", "spare", 51), ("log", "db", 52)] {
        fixture
            .call("relation::add", move |draft| {
                relation::add(draft, MODEL, [one, other], Uuid(id), 1).map(drop)
            })
            .await;
    }
    let (web, ids) = (fixture.application("web").await, fixture.ids());
    fixture.call("unit::add", move |draft| unit::add(draft, MODEL, web, None, 1, &mut ids()).map(drop)).await;
    let ids = fixture.ids();
    fixture
        .call("unit::add_batch", move |draft| {
            let creation = Creation { now_ms: 1, ids: &mut ids() };
            unit::add_batch(draft, MODEL, web, 2, None, creation).map(drop)
        })
        .await;
    fixture.call("machine::add", |draft| machine::add(draft, MODEL, Uuid(60), 1).map(drop)).await;
    let request =
        application::Refresh { sha256: "w2".into(), forced: false, config: BTreeMap::new(), now_ms: 2 };
    let ids = fixture.ids();
    fixture
        .call("application::refresh", move |draft| {
            application::refresh(draft, MODEL, web, &request, &mut ids()).map(drop)
        })
        .await;
}

/// Runs the transitions of agents and users while all entities are Alive.
async fn live<S: Store>(fixture: &mut Fixture<'_, S>) {
    let mut local = fixture.attach("web/0").await;
    let unit = local.unit;
    fixture.done(&mut local, Operation::InstallCharm(charm_ref("w2"))).await;
    fixture.done(&mut local, Operation::Hook(Hook::Install)).await;
    let local_endpoint = LocalEndpoint {
        endpoint: "db".into(),
        interface: "sql".into(),
        peer: false,
        implicit: false,
        remote_application: "db".into(),
    };
    let number =
        fixture.store.read(|reader| read(reader, &MODEL.relation(Uuid(50)))).await.expect("it exists").number;
    let settings = BTreeMap::from([("private-address".to_owned(), "127.0.0.1".to_owned())]);
    fixture
        .done(
            &mut local,
            Operation::EnterScope { relation: number, uuid: Uuid(50), local_endpoint, settings },
        )
        .await;
    fixture
        .call("leadership::claim", move |draft| leadership::claim(draft, MODEL, unit, false).map(drop))
        .await;
    let mut written = local.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok, 1000);
    let bag = BTreeMap::from([("key".to_owned(), "value".to_owned())]);
    written.writes = Writes {
        bags: BTreeMap::from([(number, BagWrites { unit: bag.clone(), application: bag })]),
        ..Writes::default()
    };
    fixture.commit(&mut local, written).await;
    let reports = [RunReport {
        call: 1,
        at_ms: 1,
        what: ReportContent::Log { level: Level::Info, text: "hello".into() },
    }];
    let (epoch, run) = (local.epoch, local.run + 1);
    fixture
        .call("record_commit::apply_report", move |draft| {
            record_commit::apply_report(draft, MODEL, unit, epoch, run, &reports).map(drop)
        })
        .await;
    // the unit leaves the scope and enters it again
    let mut full = Local { outbox: Vec::new(), ..local.clone() };
    let empty = Local { relations: BTreeMap::new(), ..full.clone() };
    // the resync has more relations than one batch
    let one = full.relations[&number].clone();
    full.relations.extend((1000..1020).map(|number| (number, one.clone())));
    for (batch, memory) in [(ResyncProgress::default(), empty), (ResyncProgress::Enter { after: None }, full)]
    {
        let mut again = local.record(Operation::Resync, Outcome::Ok, 1000);
        again.resync_local = Some(Box::new(memory));
        let ids = fixture.ids();
        fixture
            .call("resync::apply_batch", move |draft| {
                let part = resync::ResyncBatch { record: &again, position: &batch };
                resync::apply_batch(draft, MODEL, unit, epoch, part, &mut ids()).map(drop)
            })
            .await;
    }
    fixture
        .call("record_commit::note_rejected", move |draft| {
            record_commit::note_rejected(
                draft,
                MODEL,
                unit,
                epoch,
                RejectedRecord { sequence: 1, run: 1, reason: "too large" },
                1,
            )
        })
        .await;
    let failed = Outcome::Failed { reason: "exit 1".into(), retry: None };
    let failed = local.record(Operation::Hook(Hook::UpdateStatus), failed, 1000);
    fixture.commit(&mut local, failed).await;
    fixture.call("unit::resolved", move |draft| unit::resolved(draft, MODEL, unit, true)).await;
    for _ in 0..2 {
        fixture
            .call("action::enqueue", move |draft| {
                action::enqueue(draft, MODEL, unit, "backup", &Default::default(), 1).map(drop)
            })
            .await;
    }
    fixture.call("action::cancel", move |draft| action::cancel(draft, MODEL, 2, 2).map(drop)).await;
    fixture
        .call("action::start", move |draft| {
            action::start(draft, MODEL, unit, 1, 2);
            Ok(())
        })
        .await;
    fixture
        .call("leadership::release", move |draft| {
            leadership::release(draft, MODEL, unit);
            Ok(())
        })
        .await;
    let web = fixture.application("web").await;
    let set = BTreeMap::from([("port".to_owned(), "80".to_owned())]);
    fixture
        .call("application::configure", move |draft| application::configure(draft, MODEL, web, &set, &[]))
        .await;
    // these are called alone, as a forced removal does
    let db = fixture.unit("db/0").await;
    // db/0 creates its subordinate unit
    for relation in [50, 52] {
        let ids = fixture.ids();
        fixture
            .call("scope::enter", move |draft| {
                scope::enter(
                    draft,
                    MODEL,
                    db,
                    Uuid(relation),
                    &BTreeMap::new(),
                    Creation { now_ms: 1, ids: &mut ids() },
                )
            })
            .await;
    }
    fixture.unit("log/0").await;
    fixture
        .call("relation::suspend", |draft| relation::suspend(draft, MODEL, Uuid(50), "for a while", 1))
        .await;
    fixture.call("relation::resume", |draft| relation::resume(draft, MODEL, Uuid(50))).await;
}

/// A subordinate is removed with its relation, because its life is derived from it.
async fn end_subordinate<S: Store>(fixture: &mut Fixture<'_, S>) {
    let (db, log) = (fixture.unit("db/0").await, fixture.unit("log/0").await);
    fixture.call("relation::destroy", |draft| relation::destroy(draft, MODEL, Uuid(52)).map(drop)).await;
    fixture.call("unit::set_dead", move |draft| unit::set_dead(draft, MODEL, log)).await;
    fixture.call("unit::remove", move |draft| unit::remove(draft, MODEL, log)).await;
    fixture
        .call("relation::leave_scope", move |draft| {
            relation::leave_scope(draft, MODEL, db, Uuid(52));
            Ok(())
        })
        .await;
    let log = fixture.application("log").await;
    fixture
        .call("application::destroy", move |draft| application::destroy(draft, MODEL, log).map(drop))
        .await;
}

/// Removes all entities.
async fn end<S: Store>(fixture: &mut Fixture<'_, S>) {
    let (web, db) = (fixture.unit("web/0").await, fixture.unit("db/0").await);
    for id in [50, 51] {
        fixture
            .call("relation::destroy", move |draft| relation::destroy(draft, MODEL, Uuid(id)).map(drop))
            .await;
    }
    for unit in [db, web] {
        fixture
            .call("relation::leave_scope", move |draft| {
                relation::leave_scope(draft, MODEL, unit, Uuid(50));
                Ok(())
            })
            .await;
    }
    for cleanup in fixture.all(Kind::Cleanup).await {
        fixture
            .call("cleanup::clean_batch", move |draft| {
                cleanup::clean_batch(draft, MODEL, cleanup);
                Ok(())
            })
            .await;
    }
    fixture
        .call("record_commit::note_started", move |draft| {
            record_commit::note_started(draft, MODEL, web, 99, &Activity::hook(HookName::Stop), 1);
            Ok(())
        })
        .await;
    fixture.call("unit::destroy", move |draft| unit::destroy(draft, MODEL, web).map(drop)).await;
    fixture.call("unit::set_dead", move |draft| unit::set_dead(draft, MODEL, web)).await;
    let machine = fixture.machine_of_unit(web).await;
    fixture.call("unit::remove", move |draft| unit::remove(draft, MODEL, web)).await;
    retain(fixture, machine, web).await;
    // more relations than one batch: the janitor continues
    let spare = fixture.application("spare").await;
    fixture
        .call("application::remove_next_batch", move |draft| {
            draft.put(&MODEL.reap(spare), &String::new());
            application::remove_next_batch(draft, MODEL, spare);
            Ok(())
        })
        .await;
    for name in ["db", "spare"] {
        let application = fixture.application(name).await;
        fixture
            .call("application::destroy", move |draft| {
                application::destroy(draft, MODEL, application).map(drop)
            })
            .await;
    }
    fixture.call("machine::destroy", |draft| machine::destroy(draft, MODEL, Uuid(60))).await;
    fixture.call("machine::set_dead", |draft| machine::set_dead(draft, MODEL, Uuid(60))).await;
    fixture.call("machine::remove", |draft| machine::remove(draft, MODEL, Uuid(60))).await;
}

/// Runs the transitions that bound what is stored, after `unit` was removed from `machine`.
async fn retain<S: Store>(fixture: &mut Fixture<'_, S>, machine: Uuid, unit: Uuid) {
    let ended = ArchiveUse { sha256: "w1".to_owned(), model: MODEL, owner: unit };
    fixture
        .call("tombstone_retention::confirm_recall", move |draft| {
            tombstone_retention::confirm_recall(draft, MODEL, machine, unit);
            Ok(())
        })
        .await;
    fixture
        .call("tombstone_retention::delete", move |draft| {
            tombstone_retention::delete(draft, MODEL, &[unit]);
            Ok(())
        })
        .await;
    fixture
        .call("log_retention::delete_oldest", move |draft| {
            log_retention::delete_oldest(draft, MODEL, unit, 1);
            Ok(())
        })
        .await;
    fixture
        .call("archive::delete_ended_uses", move |draft| {
            archive::delete_ended_uses(draft, std::slice::from_ref(&ended));
            Ok(())
        })
        .await;
    fixture
        .call("application::register_archive", |draft| {
            application::register_archive(draft, "unused", charm("unused", "db", Role::Requirer), 10);
            Ok(())
        })
        .await;
    fixture
        .call("archive::remove_unused", |draft| {
            archive::remove_unused(draft, "unused");
            Ok(())
        })
        .await;
}

/// Runs the transitions of a provisioned machine and of a manual one.
async fn provision<S: Store>(fixture: &mut Fixture<'_, S>) {
    let (provisioned, manual) = (Uuid(61), Uuid(62));
    fixture.call("machine::add", move |draft| machine::add(draft, MODEL, provisioned, 1).map(drop)).await;
    fixture
        .call("instance::reserve_nonce", move |draft| {
            instance::reserve_nonce(draft, MODEL, provisioned, ProviderKind::Nspawn, Uuid(63)).map(drop)
        })
        .await;
    fixture
        .call("instance::record_failure", move |draft| {
            instance::record_failure(draft, MODEL, provisioned, "no room", 2)
        })
        .await;
    fixture.call("instance::retry_now", move |draft| instance::retry_now(draft, MODEL, provisioned)).await;
    fixture
        .call("instance::record_started", move |draft| {
            instance::record_started(draft, MODEL, provisioned, "nspawn-1", "10.0.0.2")
        })
        .await;
    fixture
        .call("machine::keep_instance", move |draft| machine::keep_instance(draft, MODEL, provisioned))
        .await;
    fixture
        .call("machine::add_manual", move |draft| machine::add_manual(draft, MODEL, manual, 1).map(drop))
        .await;
    fixture
        .call("instance::issue_enrolment_token", move |draft| {
            instance::issue_enrolment_token(draft, MODEL, manual, &"a".repeat(64), 9)
        })
        .await;
    fixture
        .call("instance::enrol", move |draft| {
            instance::enrol(draft, MODEL, manual, &"a".repeat(64), &"b".repeat(64), "10.0.0.3")
        })
        .await;
    fixture.call("machine::destroy", move |draft| machine::destroy(draft, MODEL, manual)).await;
    fixture.call("machine::set_dead", move |draft| machine::set_dead(draft, MODEL, manual)).await;
    fixture
        .call("instance::record_agent_uninstalled", move |draft| {
            instance::record_agent_uninstalled(draft, MODEL, manual)
        })
        .await;
}

/// Removes two related units, their relation, application and machine by force; no agent acts.
async fn force_removal<S: Store>(fixture: &mut Fixture<'_, S>) {
    for (name, sha256) in [("front", "w2"), ("back", "d1")] {
        fixture.deploy(name, sha256).await;
    }
    fixture
        .call("relation::add", |draft| relation::add(draft, MODEL, ["front", "back"], Uuid(70), 1).map(drop))
        .await;
    let (front, back) = (fixture.unit("front/0").await, fixture.unit("back/0").await);
    let (application, machine) = (fixture.application("back").await, fixture.machine_of_unit(back).await);
    for name in ["front/0", "back/0"] {
        fixture.attach(name).await;
    }
    for unit in [front, back] {
        let ids = fixture.ids();
        fixture
            .call("scope::enter", move |draft| {
                scope::enter(
                    draft,
                    MODEL,
                    unit,
                    Uuid(70),
                    &BTreeMap::new(),
                    Creation { now_ms: 1, ids: &mut ids() },
                )
            })
            .await;
    }
    let force = ForceRequest { no_wait: true, now_ms: 9 };
    fixture.call("unit::destroy", move |draft| unit::destroy(draft, MODEL, front).map(drop)).await;
    fixture
        .call("force::start_budget_timer", move |draft| {
            force::start_budget_timer(draft, MODEL, front, 1_000, 1);
            Ok(())
        })
        .await;
    fixture
        .call("force::store_timers", move |draft| {
            force::store_timers(
                draft,
                MODEL,
                &[ForceTimer { id: front, timer_started_ms: 1, waited_ms: 500 }],
            );
            Ok(())
        })
        .await;
    fixture.call("force::unit", move |draft| force::unit(draft, MODEL, front, force).map(drop)).await;
    fixture
        .call("force::relation", move |draft| force::relation(draft, MODEL, Uuid(70), force).map(drop))
        .await;
    fixture
        .call("force::application", move |draft| {
            force::application(draft, MODEL, application, force).map(drop)
        })
        .await;
    fixture.call("force::machine", move |draft| force::machine(draft, MODEL, machine, force)).await;
    // the unit is fenced, leaves its scopes, is set Dead and removed; then the application, the relation and the
    // machine
    for (id, batches) in
        [(front, 4), (Uuid(70), 2), (application, 2), (back, 3), (application, 1), (machine, 2)]
    {
        for _ in 0..batches {
            fixture
                .call("force::force_batch", move |draft| force::force_batch(draft, MODEL, id, 9).map(drop))
                .await;
        }
    }
    assert_eq!(fixture.all(Kind::Forced).await, [machine], "its provider has yet to release it");
}

/// Destroys a model that has an application and a machine.
async fn destroy_model<S: Store>(fixture: &mut Fixture<'_, S>) {
    let (other, on) = (Model(Uuid(8)), Uuid(80));
    fixture.call("model::create", move |draft| model::create(draft, other.0, "other", 1)).await;
    let (ids, request) = (
        fixture.ids(),
        application::Deploy { name: "web".into(), sha256: "w2".into(), ..application::Deploy::default() },
    );
    fixture
        .call("application::deploy", move |draft| {
            application::deploy(draft, other, &request, &mut ids()).map(drop)
        })
        .await;
    fixture.call("machine::add", move |draft| machine::add(draft, other, on, 1).map(drop)).await;
    let force = ForceRequest { no_wait: true, now_ms: 9 };
    for force in [None, Some(force)] {
        fixture.call("destruction::destroy", move |draft| destruction::destroy(draft, other, force, 9)).await;
    }
    // first the application, then an empty batch, then the machine
    for _ in 0..3 {
        fixture
            .call("destruction::destroy_batch", move |draft| {
                destruction::destroy_batch(draft, other).map(drop)
            })
            .await;
    }
    fixture.call("machine::set_dead", move |draft| machine::set_dead(draft, other, on)).await;
    fixture.call("machine::remove", move |draft| machine::remove(draft, other, on)).await;
    fixture
        .call("destruction::destroy_batch", move |draft| destruction::destroy_batch(draft, other).map(drop))
        .await;
    let gone = fixture.store.read(move |reader| reader.get(other.model().text()).is_none()).await;
    assert!(gone, "nothing was left in it");
}

/// The public functions of `state` that take a draft, except those that are steps of others.
fn transitions() -> BTreeSet<&'static str> {
    const PARTS: &[&str] = &[
        "application::find",
        "machine::require_capacity",
        "model::require_alive",
        "relation::find",
        "sequence::advance_to",
        "sequence::take",
        "session::check_epoch",
    ];
    let mut found = BTreeSet::new();
    for room in ["documents", "lifecycle", "operations", "restore"] {
        let dir = format!("{}/../state/src/{room}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(dir).expect("the rooms of the core are there").flatten() {
            let path = entry.path();
            let Some(file) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".rs")) else {
                continue;
            };
            let text = std::fs::read_to_string(&path).expect("sources are text");
            for item in text.split("\npub fn ").skip(1) {
                let head = item.split('{').next().unwrap_or_default();
                let name = format!("{file}::{}", head.split(['(', '<']).next().unwrap_or_default());
                if head.contains("draft: &mut Draft") && !PARTS.contains(&name.as_str()) {
                    found.insert(&*name.leak());
                }
            }
        }
    }
    found
}
