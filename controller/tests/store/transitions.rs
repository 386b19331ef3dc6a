//! Every transition of the model, and for each every single thing it read: changed before the commit, the commit is a
//! conflict and writes nothing (design 5, I45).
//!
//! One story calls each transition once. Before a step is committed it is drafted anew for each of its recorded
//! reads, that one read is made untrue, and the draft is sent.

use super::Store;
use controller::store::ApplyError;
use state::charm::{Action, Charm, ConfigOption, Endpoint, OptionType, Role, Scope};
use state::documents::draft::{Draft, Reader, StoredDocument, Txn, read};
use state::documents::json_text::Text;
use state::documents::keys::{Kind, Model, last_id};
use state::documents::refusal::Refusal;
use state::lifecycle::{application, cleanup, machine, model, relation, unit};
use state::operations::force::{self, Force, ForceTimer};
use state::operations::session::Held;
use state::operations::{action, destruction, hook_commit, instance, leadership, session};
use state::restore::resync;
use state::restore::resync::ResyncProgress;
use state::terms::names::{UnitName, Uuid};
use state::unit::activity::Activity;
use state::unit::hook::{Level, ReportContent};
use state::unit::hook_name::HookName;
use state::unit::local::{Event, Local};
use state::unit::operation::{CharmRef, Hook, Operation, Place};
use state::unit::record::{Outcome, Record, Said};
use state::unit::writes::{BagWrites, Writes};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MODEL: Model = Model(Uuid(7));

type Step = Arc<dyn Fn(&mut Draft<'_>) -> Result<(), Refusal> + Send + Sync>;

struct Story<'s, S> {
    store: &'s S,
    /// Transitions called.
    called: BTreeSet<&'static str>,
    ids: Arc<AtomicU64>,
}

/// A write that makes one recorded read untrue, and the one that puts everything back.
struct Untrue {
    what: String,
    done: Txn,
    undone: Txn,
}

fn puts(key: &str, value: Option<String>) -> Txn {
    Txn { writes: BTreeMap::from([(key.to_owned(), value.map(Text::from))]), ..Txn::default() }
}

fn appears(what: &str, key: &str) -> Untrue {
    let what = format!("{what}: {key} appears");
    Untrue { what, done: puts(key, Some("null".to_owned())), undone: puts(key, None) }
}

fn vanishes(what: &str, there: &StoredDocument) -> Untrue {
    let (key, value) = (there.key.as_str(), there.value.clone());
    Untrue {
        what: format!("{what}: {key} vanishes"),
        done: puts(key, None),
        undone: puts(key, Some(value.to_string())),
    }
}

/// Everything that can become untrue of what `txn` read.
fn untrue(txn: &Txn, reader: &dyn Reader) -> Vec<Untrue> {
    let mut all = Vec::new();
    for key in txn.keys.keys() {
        match reader.get(key) {
            None => all.push(appears("a key", key)),
            Some(there) => {
                // written again, if only with the same
                let same = || puts(key, Some(there.value.to_string()));
                all.push(Untrue { what: format!("a key: {key} is written"), done: same(), undone: same() });
                all.push(vanishes("a key", &there));
            }
        }
    }
    for witness in &txn.exist {
        all.push(vanishes("somebody", &reader.get(witness).expect("a witness is there")));
    }
    for prefix in txn.none.keys() {
        all.push(appears("nobody else", &format!("{prefix}!")));
        all.push(appears("nobody else", &format!("{prefix}~")));
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
    drafted.await.expect("the story is legal")
}

impl<S: Store> Story<'_, S> {
    /// Calls one transition, after everything that may overtake it.
    async fn call(
        &mut self,
        name: &'static str,
        step: impl Fn(&mut Draft<'_>) -> Result<(), Refusal> + Send + Sync + 'static,
    ) {
        let step: Step = Arc::new(step);
        self.called.insert(name);
        let first = draft(self.store, &step).await;
        let overtaking = self.store.read(move |reader| untrue(&first, reader)).await;
        // an archive is the same whoever brings it first: nothing is read for it
        assert!(!overtaking.is_empty() || name == "application::register_archive", "{name} reads nothing");
        for Untrue { what, done, undone } in overtaking {
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
            self.store.apply(undone).await.expect("an unconditional write");
        }
        let last = draft(self.store, &step).await;
        self.store.apply(last).await.unwrap_or_else(|error| panic!("{name} overtaken by nothing: {error:?}"));
    }

    /// A source of uuids for one transition; the same ones however often it is drafted.
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

    /// An application with one unit.
    async fn deploy(&mut self, name: &str, sha256: &str) {
        let ids = self.ids();
        let (name, sha256) = (name.into(), sha256.into());
        let wish =
            application::Deploy { name, sha256, units: 1, now_ms: 1, ..application::Deploy::default() };
        self.call("application::deploy", move |draft| {
            application::deploy(draft, MODEL, &wish, &mut ids()).map(drop)
        })
        .await;
    }

    async fn unit(&self, name: &str) -> Uuid {
        let name: UnitName = name.parse().expect("a unit name");
        self.store.read(move |reader| read(reader, &MODEL.unit_name(&name))).await.expect("the unit is there")
    }

    async fn machine_of(&self, unit: Uuid) -> Uuid {
        self.store.read(move |reader| read(reader, &MODEL.unit(unit))).await.expect("it is there").machine
    }

    async fn application(&self, name: &'static str) -> Uuid {
        let found = self.store.read(move |reader| read(reader, &MODEL.application_name(name))).await;
        found.expect("the application is there")
    }

    /// The ids of everything of a kind.
    async fn all(&self, kind: Kind) -> Vec<Uuid> {
        let found = self.store.read(move |reader| reader.scan(&MODEL.all(kind), "", usize::MAX)).await;
        found.iter().filter_map(|stored| last_id(&stored.key)).collect()
    }

    async fn commit(&mut self, local: &mut Local, record: Record) {
        let (unit, epoch, sent, ids) = (local.unit, local.epoch, record.clone(), self.ids());
        self.call("hook_commit::commit", move |draft| {
            hook_commit::commit(draft, MODEL, unit, epoch, &sent, &mut ids()).map(drop)
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
            session::attach(draft, MODEL, unit, Uuid(9), (Held::default(), Uuid(7))).map(drop)
        })
        .await;
        let mut local = Local::new(unit, name.parse().expect("a unit name"));
        local.apply(&Event::Attached {
            store_generation: Uuid(7),
            epoch: 1,
            sequence: 0,
            found: Default::default(),
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
    let mut story = Story { store: &store, called: BTreeSet::new(), ids: Arc::new(AtomicU64::new(1000)) };
    build(&mut story).await;
    live(&mut story).await;
    end_subordinate(&mut story).await;
    end(&mut story).await;
    provision(&mut story).await;
    by_force(&mut story).await;
    destroyed(&mut story).await;
    assert_eq!(story.called, transitions(), "the story calls every transition");
}

/// Two related applications, their machines, and what users do to them.
async fn build<S: Store>(story: &mut Story<'_, S>) {
    story.call("model::create", |draft| model::create(draft, MODEL.0, "dev", 1)).await;
    for (sha256, name, endpoint, role) in [
        ("w1", "web", "db", Role::Requirer),
        ("w2", "web", "db", Role::Requirer),
        ("d1", "db", "server", Role::Provider),
    ] {
        story
            .call("application::register_archive", move |draft| {
                application::register_archive(draft, sha256, charm(name, endpoint, role), 10);
                Ok(())
            })
            .await;
    }
    let set = BTreeMap::from([("update-status-hook-interval".to_owned(), "10m".to_owned())]);
    story.call("model::configure", move |draft| model::configure(draft, MODEL, &set, &[]).map(drop)).await;
    story
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
        story.deploy(name, sha256).await;
    }
    for (one, other, id) in [("web", "db", 50), ("web", "spare", 51), ("log", "db", 52)] {
        story
            .call("relation::add", move |draft| {
                relation::add(draft, MODEL, (one, other), Uuid(id), 1).map(drop)
            })
            .await;
    }
    let (web, ids) = (story.application("web").await, story.ids());
    story.call("unit::add", move |draft| unit::add(draft, MODEL, web, None, 1, &mut ids()).map(drop)).await;
    story.call("machine::add", |draft| machine::add(draft, MODEL, Uuid(60), 1).map(drop)).await;
    let wish =
        application::Refresh { sha256: "w2".into(), forced: false, config: BTreeMap::new(), now_ms: 2 };
    let ids = story.ids();
    story
        .call("application::refresh", move |draft| {
            application::refresh(draft, MODEL, web, &wish, &mut ids()).map(drop)
        })
        .await;
}

/// What agents and users do while everything lives.
async fn live<S: Store>(story: &mut Story<'_, S>) {
    let mut local = story.attach("web/0").await;
    let unit = local.unit;
    story.done(&mut local, Operation::InstallCharm(charm_ref("w2"))).await;
    story.done(&mut local, Operation::Hook(Hook::Install)).await;
    let place = Place {
        endpoint: "db".into(),
        interface: "sql".into(),
        peer: false,
        implicit: false,
        remote_application: "db".into(),
    };
    let number =
        story.store.read(|reader| read(reader, &MODEL.relation(Uuid(50)))).await.expect("it is there").number;
    let settings = BTreeMap::from([("private-address".to_owned(), "127.0.0.1".to_owned())]);
    story.done(&mut local, Operation::EnterScope { relation: number, uuid: Uuid(50), place, settings }).await;
    story
        .call("leadership::claim", move |draft| leadership::claim(draft, MODEL, unit, false).map(drop))
        .await;
    let mut written = local.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok, 1000);
    let bag = BTreeMap::from([("key".to_owned(), "value".to_owned())]);
    written.writes = Writes {
        bags: BTreeMap::from([(number, BagWrites { unit: bag.clone(), application: bag })]),
        ..Writes::default()
    };
    story.commit(&mut local, written).await;
    let said =
        [Said { call: 1, at_ms: 1, what: ReportContent::Log { level: Level::Info, text: "hello".into() } }];
    let (epoch, run) = (local.epoch, local.run + 1);
    story
        .call("hook_commit::report", move |draft| {
            hook_commit::report(draft, MODEL, unit, epoch, run, &said).map(drop)
        })
        .await;
    // it leaves its scope, and enters it again
    let mut full = Local { outbox: Vec::new(), ..local.clone() };
    let empty = Local { relations: BTreeMap::new(), ..full.clone() };
    // of more relations than go with the record
    let one = full.relations[&number].clone();
    full.relations.extend((1000..1020).map(|number| (number, one.clone())));
    for (bite, memory) in [(ResyncProgress::default(), empty), (ResyncProgress::Enter { after: None }, full)]
    {
        let mut again = local.record(Operation::Resync, Outcome::Ok, 1000);
        again.memory = Some(Box::new(memory));
        let ids = story.ids();
        story
            .call("resync::bite", move |draft| {
                resync::bite(draft, MODEL, (unit, epoch), &again, &bite, &mut ids()).map(drop)
            })
            .await;
    }
    story
        .call("hook_commit::refused", move |draft| {
            hook_commit::refused(draft, MODEL, (unit, epoch), ((1, 1), "too large"), 1)
        })
        .await;
    let failed = Outcome::Failed { reason: "exit 1".into(), retry: None };
    let failed = local.record(Operation::Hook(Hook::UpdateStatus), failed, 1000);
    story.commit(&mut local, failed).await;
    story.call("unit::resolved", move |draft| unit::resolved(draft, MODEL, unit, true)).await;
    for _ in 0..2 {
        story
            .call("action::enqueue", move |draft| {
                action::enqueue(draft, MODEL, unit, "backup", &Default::default(), 1).map(drop)
            })
            .await;
    }
    story
        .call("action::begin", move |draft| {
            action::begin(draft, MODEL, unit, 1, 2);
            Ok(())
        })
        .await;
    story
        .call("leadership::release", move |draft| {
            leadership::release(draft, MODEL, unit);
            Ok(())
        })
        .await;
    let web = story.application("web").await;
    let set = BTreeMap::from([("port".to_owned(), "80".to_owned())]);
    story
        .call("application::configure", move |draft| application::configure(draft, MODEL, web, &set, &[]))
        .await;
    // by themselves, as --force will call them
    let db = story.unit("db/0").await;
    // db/0 brings its subordinate
    for relation in [50, 52] {
        let ids = story.ids();
        story
            .call("relation::enter_scope", move |draft| {
                relation::enter_scope(draft, MODEL, db, Uuid(relation), &BTreeMap::new(), (1, &mut ids()))
            })
            .await;
    }
    story.unit("log/0").await;
    story
        .call("relation::suspend", |draft| relation::suspend(draft, MODEL, Uuid(50), "for a while", 1))
        .await;
    story.call("relation::resume", |draft| relation::resume(draft, MODEL, Uuid(50))).await;
}

/// A subordinate goes with its relation, as its life is derived from it.
async fn end_subordinate<S: Store>(story: &mut Story<'_, S>) {
    let (db, log) = (story.unit("db/0").await, story.unit("log/0").await);
    story.call("relation::destroy", |draft| relation::destroy(draft, MODEL, Uuid(52)).map(drop)).await;
    story.call("unit::set_dead", move |draft| unit::set_dead(draft, MODEL, log)).await;
    story.call("unit::remove", move |draft| unit::remove(draft, MODEL, log)).await;
    story
        .call("relation::leave_scope", move |draft| {
            relation::leave_scope(draft, MODEL, db, Uuid(52));
            Ok(())
        })
        .await;
    let log = story.application("log").await;
    story.call("application::destroy", move |draft| application::destroy(draft, MODEL, log).map(drop)).await;
}

/// Everything goes away.
async fn end<S: Store>(story: &mut Story<'_, S>) {
    let (web, db) = (story.unit("web/0").await, story.unit("db/0").await);
    for id in [50, 51] {
        story
            .call("relation::destroy", move |draft| relation::destroy(draft, MODEL, Uuid(id)).map(drop))
            .await;
    }
    for unit in [db, web] {
        story
            .call("relation::leave_scope", move |draft| {
                relation::leave_scope(draft, MODEL, unit, Uuid(50));
                Ok(())
            })
            .await;
    }
    for cleanup in story.all(Kind::Cleanup).await {
        story
            .call("cleanup::bite", move |draft| {
                cleanup::bite(draft, MODEL, cleanup);
                Ok(())
            })
            .await;
    }
    story
        .call("hook_commit::begun", move |draft| {
            hook_commit::begun(draft, MODEL, web, (99, &Activity::hook(HookName::Stop)), 1);
            Ok(())
        })
        .await;
    story.call("unit::destroy", move |draft| unit::destroy(draft, MODEL, web).map(drop)).await;
    story.call("unit::set_dead", move |draft| unit::set_dead(draft, MODEL, web)).await;
    story.call("unit::remove", move |draft| unit::remove(draft, MODEL, web)).await;
    // more relations than one bite: the janitor goes on
    let spare = story.application("spare").await;
    story
        .call("application::remove_next_batch", move |draft| {
            draft.put(&MODEL.reap(spare), &String::new());
            application::remove_next_batch(draft, MODEL, spare);
            Ok(())
        })
        .await;
    for name in ["db", "spare"] {
        let application = story.application(name).await;
        story
            .call("application::destroy", move |draft| {
                application::destroy(draft, MODEL, application).map(drop)
            })
            .await;
    }
    story.call("machine::destroy", |draft| machine::destroy(draft, MODEL, Uuid(60))).await;
    story.call("machine::set_dead", |draft| machine::set_dead(draft, MODEL, Uuid(60))).await;
    story.call("machine::remove", |draft| machine::remove(draft, MODEL, Uuid(60))).await;
}

/// A machine that a provider makes, and one that a person brings.
async fn provision<S: Store>(story: &mut Story<'_, S>) {
    let (made, brought) = (Uuid(61), Uuid(62));
    story.call("machine::add", move |draft| machine::add(draft, MODEL, made, 1).map(drop)).await;
    story
        .call("instance::intend", move |draft| {
            instance::intend(draft, MODEL, made, "nspawn", Uuid(63)).map(drop)
        })
        .await;
    story.call("instance::failed", move |draft| instance::failed(draft, MODEL, made, "no room", 2)).await;
    story.call("instance::retry", move |draft| instance::retry(draft, MODEL, made)).await;
    story
        .call("instance::started", move |draft| instance::started(draft, MODEL, made, "nspawn-1", "10.0.0.2"))
        .await;
    story.call("machine::keep_instance", move |draft| machine::keep_instance(draft, MODEL, made)).await;
    story
        .call("machine::add_manual", move |draft| machine::add_manual(draft, MODEL, brought, 1).map(drop))
        .await;
    story
        .call("instance::invite", move |draft| instance::invite(draft, MODEL, brought, &"a".repeat(64), 9))
        .await;
    story
        .call("instance::enrol", move |draft| {
            instance::enrol(draft, MODEL, brought, &"a".repeat(64), (&"b".repeat(64), "10.0.0.3"))
        })
        .await;
    story.call("machine::destroy", move |draft| machine::destroy(draft, MODEL, brought)).await;
    story.call("machine::set_dead", move |draft| machine::set_dead(draft, MODEL, brought)).await;
    story.call("instance::gone", move |draft| instance::gone(draft, MODEL, brought)).await;
}

/// Two related units, their relation, application and machine go by force; no agent acts.
async fn by_force<S: Store>(story: &mut Story<'_, S>) {
    for (name, sha256) in [("front", "w2"), ("back", "d1")] {
        story.deploy(name, sha256).await;
    }
    story
        .call("relation::add", |draft| relation::add(draft, MODEL, ("front", "back"), Uuid(70), 1).map(drop))
        .await;
    let (front, back) = (story.unit("front/0").await, story.unit("back/0").await);
    let (application, machine) = (story.application("back").await, story.machine_of(back).await);
    for name in ["front/0", "back/0"] {
        story.attach(name).await;
    }
    for unit in [front, back] {
        let ids = story.ids();
        story
            .call("relation::enter_scope", move |draft| {
                relation::enter_scope(draft, MODEL, unit, Uuid(70), &BTreeMap::new(), (1, &mut ids()))
            })
            .await;
    }
    let force = Force { no_wait: true, now_ms: 9 };
    story.call("unit::destroy", move |draft| unit::destroy(draft, MODEL, front).map(drop)).await;
    story
        .call("force::start_budget_timer", move |draft| {
            force::start_budget_timer(draft, MODEL, front, 1_000, 1);
            Ok(())
        })
        .await;
    story
        .call("force::waited", move |draft| {
            force::waited(draft, MODEL, &[ForceTimer { id: front, timer_started_ms: 1, waited_ms: 500 }]);
            Ok(())
        })
        .await;
    story.call("force::unit", move |draft| force::unit(draft, MODEL, front, force).map(drop)).await;
    story
        .call("force::relation", move |draft| force::relation(draft, MODEL, Uuid(70), force).map(drop))
        .await;
    story
        .call("force::application", move |draft| {
            force::application(draft, MODEL, application, force).map(drop)
        })
        .await;
    story.call("force::machine", move |draft| force::machine(draft, MODEL, machine, force)).await;
    // fenced, left, dead, gone; the application passes it on; the relation and the machine follow
    for (id, bites) in
        [(front, 4), (Uuid(70), 2), (application, 2), (back, 3), (application, 1), (machine, 2)]
    {
        for _ in 0..bites {
            story.call("force::bite", move |draft| force::bite(draft, MODEL, id, 9).map(drop)).await;
        }
    }
    assert_eq!(story.all(Kind::Forced).await, [machine], "its provider has yet to release it");
}

/// A model of an application and a machine goes with both.
async fn destroyed<S: Store>(story: &mut Story<'_, S>) {
    let (other, on) = (Model(Uuid(8)), Uuid(80));
    story.call("model::create", move |draft| model::create(draft, other.0, "other", 1)).await;
    let (ids, wish) = (
        story.ids(),
        application::Deploy { name: "web".into(), sha256: "w2".into(), ..application::Deploy::default() },
    );
    story
        .call("application::deploy", move |draft| {
            application::deploy(draft, other, &wish, &mut ids()).map(drop)
        })
        .await;
    story.call("machine::add", move |draft| machine::add(draft, other, on, 1).map(drop)).await;
    let force = Force { no_wait: true, now_ms: 9 };
    for force in [None, Some(force)] {
        story.call("destruction::destroy", move |draft| destruction::destroy(draft, other, force, 9)).await;
    }
    // the application; no more of them; the machine
    for _ in 0..3 {
        story.call("destruction::bite", move |draft| destruction::bite(draft, other).map(drop)).await;
    }
    story.call("machine::set_dead", move |draft| machine::set_dead(draft, other, on)).await;
    story.call("machine::remove", move |draft| machine::remove(draft, other, on)).await;
    story.call("destruction::bite", move |draft| destruction::bite(draft, other).map(drop)).await;
    let gone = story.store.read(move |reader| reader.get(other.model().text()).is_none()).await;
    assert!(gone, "nothing was left in it");
}

/// The public functions of the model that take a draft, but those that are steps of others.
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
