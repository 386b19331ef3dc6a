//! The fixtures of the transition tests: a world of documents in a map, and agents with the real `Local`.
//!
//! Every transaction is checked against the invariants, and the deltas of every unit against its full view.

mod aborted_actions;
mod actions;
mod assigned_units;
mod charms;
mod commits;
mod decision_views;
mod destruction;
mod development;
mod documents;
mod dry_run;
mod force;
#[path = "../../../tests/support/src/hook_context.rs"]
pub mod hook_context;
mod lifecycle;
mod operations;
mod races;
mod random;
mod refusals;
mod relation_hooks;
mod relations;
mod removal_cost;
mod required_files;
mod run_locks;
mod storage;
mod subordinates;
mod views;
mod well_known;

use crate::agents::session::{self, AgentSession, Attach};
use crate::charm::{Charm, Role};
use crate::documents::draft::{Draft, Reader, read, read_all};
use crate::documents::effective_life;
use crate::documents::invariants::violations;
use crate::documents::prelude::{Kind, MachineDoc, Model, UnitDoc, last_id};
use crate::documents::refusal::{Code, Refusal};
use crate::lifecycle::application::{self, Deploy};
use crate::lifecycle::{archive, creation::Creation, relation, unit};
use crate::restore::resync;
use crate::terms::failure_reason::FailureReason;
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use crate::terms::operation::{CharmRef, ConfigDigest, Hook, LocalEndpoint, Operation, RelationEvent};
use crate::terms::position::Position;
use crate::terms::refusal::action::ActionRefusal;
use crate::terms::refusal::application::ApplicationRefusal;
use crate::terms::refusal::machine::MachineRefusal;
use crate::terms::refusal::model::ModelRefusal;
use crate::terms::refusal::relation::{RelationRefusal, SuspensionRequest};
use crate::terms::refusal::session::SessionRefusal;
use crate::terms::refusal::unit::UnitRefusal;
use crate::terms::refusal::write::WriteRefusal;
use crate::terms::refusal::{AddedKind, EntityKind, RefusalReason, ScopeRefusal};
use crate::terms::settings::Bag;
use crate::transitions::{record_commit, run_reports::LogLines};
use crate::unit::local::{Event, Local};
use crate::unit::record::{CommitOutcome, DroppedWrite, Outcome, Record};
use crate::unit::snapshot::{Change, Delta, Snapshot};
use crate::views::decision_view::decision_view;
use crate::views::delta::{affected_parts, delta};
use crate::views::inline_settings::INLINE_BYTES_MAX;
use crate::views::machine_view;
use crate::views::view::{self, SentView};
pub use charms::{db, endpoint, logging, plain, shop, web};
pub use documents::Documents;
pub use refusals::{not_found, reason, refused};
use std::collections::{BTreeMap, BTreeSet};
pub use well_known::{stale, web0};

pub const MODEL: Model = Model(Uuid(7));

/// The bounds of inline settings under test: everything, nothing, and a size at which small bags are sometimes omitted.
const BOUNDS: [usize; 3] = [INLINE_BYTES_MAX, 0, 100];

pub struct World {
    pub documents: Documents,
    /// What the next draft reads instead of the newest documents, like a transaction that began long ago.
    pub stale: Option<Documents>,
    next_id: u128,
    /// What each unit has received as deltas, by the bound of inline settings.
    watched: BTreeMap<(Uuid, usize), (Snapshot, SentView)>,
    /// The changes that the last transaction sent, by unit.
    pub sent: BTreeMap<Uuid, Vec<crate::unit::snapshot::Change>>,
    /// The units and machines whose views were computed again after the last transaction.
    pub computed: BTreeSet<Uuid>,
    /// Whether transactions are not checked, because a large model is being made.
    is_unchecked: bool,
}

impl World {
    /// A model with the archives of some charms.
    pub fn new() -> World {
        let mut world = World {
            documents: Documents::default(),
            stale: None,
            next_id: 100,
            watched: BTreeMap::new(),
            sent: BTreeMap::new(),
            computed: BTreeSet::new(),
            is_unchecked: false,
        };
        world.run(|draft, _| crate::lifecycle::model::create(draft, MODEL.0, "dev", 1)).expect("a new name");
        let charms =
            [("web", web()), ("db", db()), ("plain", plain()), ("shop", shop()), ("logging", logging())];
        for (sha256, charm) in charms {
            world.upload(sha256, charm);
        }
        world
    }

    pub fn copy(&self) -> World {
        World {
            documents: self.documents.clone(),
            stale: None,
            next_id: self.next_id,
            watched: self.watched.clone(),
            sent: BTreeMap::new(),
            computed: BTreeSet::new(),
            is_unchecked: false,
        }
    }

    /// Makes a large model without a check of each transaction, whose cost grows with the model.
    pub fn make(&mut self, steps: impl FnOnce(&mut World)) {
        self.is_unchecked = true;
        steps(self);
        self.is_unchecked = false;
        self.watched.clear();
        let made = self.documents.clone();
        self.check(&made, &[]);
    }

    pub fn reader(&self) -> &dyn Reader {
        &self.documents
    }

    /// Runs one transition and commits it if it is not refused.
    pub fn run<T>(
        &mut self,
        transition: impl FnOnce(&mut Draft, &mut dyn FnMut() -> Uuid) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let before = self.documents.clone();
        let base = self.stale.as_ref().unwrap_or(&before);
        let mut draft = Draft::new(base);
        let next_id = &mut self.next_id;
        let answer = transition(&mut draft, &mut || {
            *next_id += 1;
            Uuid(*next_id)
        })?;
        let transaction = draft.finish().expect("transactions are bounded");
        if let Err(conflict) = transaction.check(&before) {
            assert!(self.stale.is_some(), "nothing changed meanwhile: {conflict:?}");
            return Err(stale());
        }
        let mut changed = Vec::new();
        self.documents.revision += 1;
        for (key, value) in transaction.writes {
            let there = self.documents.map.get(&key).map(|(_, value)| value);
            if there.is_some() || value.is_some() {
                changed.push(key.clone());
            }
            match value {
                Some(value) => {
                    drop(self.documents.map.insert(key, (self.documents.revision, value.to_string())))
                }
                None => drop(self.documents.map.remove(&key)),
            }
        }
        if !self.is_unchecked {
            self.check(&before, &changed);
        }
        Ok(answer)
    }

    fn check(&mut self, before: &Documents, changed: &[String]) {
        assert_eq!(violations(&self.documents, MODEL), Vec::<String>::new());
        for kind in [Kind::UnitLife, Kind::MachineLife, Kind::ApplicationLife, Kind::RelationLife] {
            for (key, life) in read_all::<Life>(before, &MODEL.prefix(kind)) {
                let now = self
                    .documents
                    .get(&key)
                    .map(|stored| serde_json::from_str::<Life>(&stored.value).expect("a life"));
                assert!(now.is_none_or(|now| now >= life), "I17: {key} went back");
                let id = last_id(&key).expect("an id");
                let buried = read(&self.documents, &MODEL.tombstone(id)).is_some();
                assert_eq!(now.is_none(), buried, "{key}: removed and tombstone go together");
            }
        }
        self.computed.clear();
        self.watch(changed);
        self.watch_machines(before, changed);
    }

    /// The fold of deltas is the full view, and no change is empty or repeated.
    fn watch(&mut self, changed: &[String]) {
        self.sent.clear();
        let at = self.documents.clone();
        let position = Position { store_generation: Uuid(0), revision: at.revision() };
        for ((id, bound), (snapshot, shown)) in &mut self.watched {
            let written =
                changed.iter().map(|key| (key.as_str(), at.map.get(key).map(|(_, value)| value.as_str())));
            let parts = affected_parts(shown, written);
            self.computed.extend(parts.is_some().then_some(*id));
            let update = parts.map_or_else(Default::default, |parts| delta(&at, shown, &parts));
            shown.apply(&update);
            let changes = update.changes;
            for change in &changes {
                let before = snapshot.clone();
                snapshot.apply(Delta {
                    position: before.position,
                    full: false,
                    changes: vec![change.clone()],
                });
                let left = matches!(change, Change::Member { incarnation: None, .. });
                assert!(left || *snapshot != before, "a change that changes nothing: {change:?}");
            }
            snapshot.apply(Delta { position, full: false, changes: Vec::new() });
            match view::full_view_within(&at, MODEL, *id, *bound) {
                Some(full) => {
                    assert_eq!(*shown, full.shown());
                    let expected = Snapshot::from_full(full.delta).expect("complete");
                    assert_eq!(*snapshot, expected, "the fold of deltas after {changed:?}");
                    let decided = decision_view(&at, MODEL, *id).expect("there is a view");
                    assert_eq!(
                        decided,
                        decision_views::without_cold_data(expected),
                        "the decision view after {changed:?}"
                    );
                }
                None => assert!(snapshot.removed, "a removed unit receives its tombstone"),
            }
            if *bound == INLINE_BYTES_MAX {
                self.sent.insert(*id, changes);
            }
        }
        self.watched.retain(|_, (snapshot, _)| !snapshot.removed);
        for (key, _) in read_all::<UnitDoc>(&at, &MODEL.prefix(Kind::Unit)) {
            let id = last_id(&key).expect("an id");
            for bound in BOUNDS {
                self.watched.entry((id, bound)).or_insert_with(|| {
                    let full = view::full_view_within(&at, MODEL, id, bound).expect("there is a view");
                    let shown = full.shown();
                    (Snapshot::from_full(full.delta).expect("complete"), shown)
                });
            }
        }
    }

    /// A commit that does not affect the view of a machine leaves it as it is.
    fn watch_machines(&mut self, before: &Documents, changed: &[String]) {
        for (key, _) in read_all::<MachineDoc>(before, &MODEL.prefix(Kind::Machine)) {
            let id = last_id(&key).expect("an id");
            let shown = machine_view::view(before, MODEL, id).expect("there is a view");
            if changed.iter().any(|key| machine_view::is_affected(&shown, id, key)) {
                self.computed.insert(id);
                continue;
            }
            let mut now = machine_view::view(&self.documents, MODEL, id).expect("it was not removed");
            now.position = shown.position;
            assert_eq!(now, shown, "after {changed:?}");
        }
    }

    /// Stores an archive with this digest that declares this charm.
    pub fn upload(&mut self, sha256: &str, charm: Charm) {
        self.run(|draft, _| {
            archive::register(draft, sha256, Some(charm.clone()), 1);
            Ok(())
        })
        .expect("no charm is refused");
    }

    pub fn deploy(&mut self, name: &str, charm: &str, units: u32) -> Uuid {
        let request =
            Deploy { application: Some(name.into()), sha256: charm.into(), units, ..Deploy::default() };
        self.run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))
            .expect("it deploys")
            .application
    }

    pub fn integrate(&mut self, left: &str, right: &str) -> Result<Uuid, Refusal> {
        self.run(|draft, ids| {
            let id = ids();
            relation::add(draft, MODEL, [left, right], id, 6).map(|_| id)
        })
    }

    pub fn unit(&self, name: &str) -> Uuid {
        let name: UnitName = name.parse().expect("a unit name");
        read(self.reader(), &MODEL.unit_name(&name)).expect("the unit is there")
    }

    pub fn is_removed(&self, id: Uuid) -> bool {
        read(self.reader(), &MODEL.tombstone(id)).is_some()
    }

    pub fn life(&self, id: Uuid) -> Option<Life> {
        let mut reader = self.reader();
        effective_life::unit_life(&mut reader, MODEL, id)
            .or_else(|| read(reader, &MODEL.machine_life(id)))
            .or_else(|| read(reader, &MODEL.application_life(id)))
            .or_else(|| effective_life::relation_life(&mut reader, MODEL, id))
    }

    pub fn number(&self, relation: Uuid) -> RelationNumber {
        read(self.reader(), &MODEL.relation(relation)).expect("the relation is there").number
    }
}

/// The store generations of a store that was never restored, and of one that was restored once.
pub const GENERATION: Uuid = Uuid(7);
pub const RESTORED: Uuid = Uuid(8);

/// The attach of a folder that had this epoch, in a store that was never restored.
pub fn attach(nonce: u128, epoch: u64) -> Attach {
    Attach { nonce: Uuid(nonce), epoch, store_generation: Some(GENERATION), ..Attach::default() }
}

/// The time at which the controller commits what agents send: after all times of the tests.
pub const COMMITTED_MS: i64 = 10_000;

/// What a record creates, with the time of the controller.
pub fn created(ids: &mut dyn FnMut() -> Uuid) -> Creation<'_> {
    Creation { now_ms: COMMITTED_MS, ids }
}

/// The agent of one unit, with the real `Local`.
#[derive(Clone)]
pub struct Agent {
    pub unit: Uuid,
    pub epoch: u64,
    /// The generation of the store that it sends to.
    pub store_generation: Uuid,
    pub local: Local,
}

impl Agent {
    pub fn attach(world: &mut World, name: &str) -> Agent {
        let unit = world.unit(name);
        let attach = attach(u128::from(world.documents.revision) + 1_000_000, 0);
        let attached = world
            .run(|draft, _| session::attach(draft, MODEL, unit, attach, GENERATION, false))
            .expect("it attaches");
        let local = attached.replica.unwrap_or_else(|| Local::new(unit, name.parse().expect("a name")));
        Agent { unit, epoch: attached.epoch, store_generation: GENERATION, local }
    }

    /// Attaches to a store that was restored.
    pub fn attach_restored(&mut self, world: &mut World) {
        let nonce = u128::from(world.documents.revision) + 2_000_000;
        let attach =
            Attach { teardown_started: self.local.has_started_teardown(), ..attach(nonce, self.epoch) };
        let attached =
            world.run(|draft, _| session::attach(draft, MODEL, self.unit, attach, RESTORED, false));
        (self.epoch, self.store_generation) = (attached.expect("it attaches").epoch, RESTORED);
    }

    pub fn session(&self) -> AgentSession {
        let Agent { unit, epoch, store_generation, .. } = *self;
        AgentSession { model: MODEL, unit, epoch, store_generation }
    }

    /// The next record, not yet sent.
    pub fn record(&self, operation: Operation, outcome: Outcome) -> Record {
        self.local.record(operation, outcome, 1000)
    }

    pub fn send(&self, world: &mut World, record: &Record) -> Result<CommitOutcome, Refusal> {
        self.send_at(world, record, COMMITTED_MS)
    }

    pub fn send_at(&self, world: &mut World, record: &Record, now_ms: i64) -> Result<CommitOutcome, Refusal> {
        let record = &crate::agents::record_validation::Valid::record(record.clone())?;
        let session = self.session();
        let mut next = record.resync_local.as_ref().map(|_| resync::ResyncProgress::default());
        let mut dropped = Vec::new();
        while let Some(progress) = next {
            let batch = resync::ResyncBatch { record, position: &progress };
            let applied = world
                .run(|draft, ids| resync::apply_batch(draft, session, batch, Creation { now_ms, ids }))?;
            next = applied.0;
            dropped.extend(applied.1);
        }
        let mut outcome = world.run(|draft, ids| {
            record_commit::commit(draft, session, record, None, LogLines::ALL, Creation { now_ms, ids })
        })?;
        outcome.dropped.splice(..0, dropped);
        Ok(outcome)
    }

    /// Finishes the operation, sends the record and applies the response.
    pub fn commit(&mut self, world: &mut World, record: Record) -> CommitOutcome {
        let committed = self.send(world, &record).expect("its own session, in order");
        let refusal = committed.refusal.clone();
        let sequence = record.sequence;
        self.local.apply(&Event::Finished(record));
        self.local.apply(&Event::Acknowledged { sequence, revision: 0, refusal, retry: None });
        committed
    }

    pub fn done(&mut self, world: &mut World, operation: Operation) -> CommitOutcome {
        let record = self.record(operation, Outcome::Ok);
        self.commit(world, record)
    }

    pub fn start(&mut self, world: &mut World) {
        let charm = CharmRef {
            sha256: "x".into(),
            url: "local:x-0".into(),
            revision: 0,
            endpoints: Default::default(),
            resources: String::new(),
        };
        self.done(world, Operation::InstallCharm(charm));
        self.done(world, Operation::Hook(Hook::Install));
        self.done(world, Operation::Hook(Hook::ConfigChanged(ConfigDigest::default())));
        self.done(world, Operation::Hook(Hook::Start { boot: "b".into() }));
    }

    pub fn enter(&mut self, world: &mut World, id: Uuid) -> CommitOutcome {
        let doc = read(world.reader(), &MODEL.relation(id)).expect("the relation is there");
        let unit = read(world.reader(), &MODEL.unit(self.unit)).expect("the unit is there");
        let own = doc.end_of(unit.application).expect("a side").clone();
        let local_endpoint = LocalEndpoint {
            endpoint: own.endpoint,
            interface: own.interface,
            peer: doc.is_peer(),
            implicit: own.implicit,
            remote_application: doc.other_end(unit.application).application_name.clone(),
        };
        let settings = Bag::from([("private-address".to_owned(), "127.0.0.1".to_owned())]);
        self.done(world, Operation::EnterScope { relation: doc.number, uuid: id, local_endpoint, settings })
    }

    /// Leaves the scope of an implicit endpoint, for which no hook runs.
    pub fn leave(&mut self, world: &mut World, id: Uuid) -> CommitOutcome {
        let relation = self.local.relations.iter().find(|(_, known)| known.uuid == id).expect("it is in");
        let relation = *relation.0;
        self.done(world, Operation::LeaveScope { relation, uuid: id })
    }

    pub fn leave_by_broken(&mut self, world: &mut World, id: Uuid) {
        let number = world.number(id);
        self.broken(world, number);
    }

    pub fn relation_hook(&self, relation: RelationNumber, event: RelationEvent) -> Operation {
        let endpoint = self.local.relations[&relation].local_endpoint.endpoint.clone();
        Operation::Hook(Hook::Relation { relation, endpoint, event })
    }

    pub fn broken(&mut self, world: &mut World, relation: RelationNumber) -> CommitOutcome {
        let operation = self.relation_hook(relation, RelationEvent::Broken);
        self.done(world, operation)
    }

    /// Does everything that the agent of a Dying unit does, and then the machine agent.
    pub fn finish(&mut self, world: &mut World) {
        let numbers: Vec<_> =
            self.local.relations.iter().filter(|(_, r)| !r.local_endpoint.peer).map(|(n, _)| *n).collect();
        for number in numbers {
            self.broken(world, number);
        }
        self.done(world, Operation::Hook(Hook::Stop));
        self.done(world, Operation::Hook(Hook::Remove));
        assert_eq!(self.done(world, Operation::SetDead), CommitOutcome::default());
        world.run(|draft, _| unit::remove(draft, MODEL, self.unit, 60)).expect("it is dead");
    }
}
