//! An exhaustive model checker of the lifecycle core: two related applications, the real decisions of their agents
//! and the real transitions of the controller, in every order.
//!
//! The space is small enough to be searched completely, so its result does not depend on seeds. A state consists of the
//! documents and the local state of each agent. From each state, every remaining user command, every agent and every
//! machine agent may act next; one agent may crash between any two of its steps. Views are up to date and messages
//! arrive: delay and loss are tested by the simulator.

use sha2::{Digest, Sha256};
use state::charm::{Charm, Endpoint, Role, Scope};
use state::documents::draft::{Draft, Reader, Revision, StoredDocument, read, read_all};
use test_support::invariants::violations;
use state::documents::json_text::Text;
use state::documents::keys::{Kind, Model, last_id};
use state::documents::refusal::{Code, Refusal};
use state::lifecycle::{application, cleanup, machine, model, relation, unit};
use state::operations::force::{self, Force};
use state::operations::session::{AttachContext, PreviousSession};
use state::operations::{hook_commit, leadership, session};
use state::terms::life::Life;
use state::terms::names::{UnitName, Uuid};
use state::unit::local::{Event, Local, Step};
use state::unit::operation::{Hook, Operation, RelationEvent};
use state::unit::outcome::{self, Exit, FinishedRun};
use state::unit::record::Record;
use state::unit::resolve::{Act, Now, next};
use state::unit::snapshot::Snapshot;
use state::views::view;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

const MODEL: Model = Model(Uuid(7));
const RELATION: Uuid = Uuid(50);
const EPOCH: u64 = 1;

/// A request of the user, which is made once, at any moment, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    RemoveRelation,
    RemoveUnit(&'static str),
    RemoveApplication(&'static str),
    /// remove-unit --force --no-wait: the controller performs the pending steps of the unit's agent while that agent
    /// runs.
    ForceUnit(&'static str),
}

/// The bounds of the space.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Units of each of the two applications.
    pub units: u32,
    pub commands: Vec<Command>,
    /// Whether one agent may crash, once.
    pub crash: bool,
}

/// The size of the searched space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    pub states: usize,
    pub steps: usize,
    /// States in which only a user request is possible.
    pub quiet: usize,
}

/// A violated property, and the shortest path to it.
#[derive(Clone, Debug)]
pub struct Broken {
    pub what: String,
    pub story: Vec<String>,
}

#[derive(Clone)]
struct State {
    documents: Documents,
    /// `None`: recalled by its machine agent.
    agents: Vec<(Uuid, Option<Local>)>,
    commands: Vec<Command>,
    crash: bool,
}

#[derive(Clone, Default)]
struct Documents(BTreeMap<Arc<str>, Text>);

impl Reader for Documents {
    fn revision(&self) -> Revision {
        1
    }
    fn get(&self, key: &str) -> Option<StoredDocument> {
        let value = self.0.get(key)?;
        Some(StoredDocument { key: key.to_owned(), revision: 1, value: value.clone() })
    }
    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let from: Arc<str> = prefix.max(after).into();
        let range = self.0.range(from..);
        let range = range.skip_while(|(key, _)| &***key <= after);
        let below = range.take_while(|(key, _)| key.starts_with(prefix)).take(limit);
        below
            .map(|(key, value)| StoredDocument { key: key.to_string(), revision: 1, value: value.clone() })
            .collect()
    }
}

impl Documents {
    fn run<T>(&mut self, transition: impl FnOnce(&mut Draft) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let mut draft = Draft::new(self);
        let answer = transition(&mut draft)?;
        let txn = draft.finish().expect("transactions are bounded");
        for (key, value) in txn.writes {
            match value {
                Some(value) => drop(self.0.insert(key.into(), value)),
                None => drop(self.0.remove(&*key)),
            }
        }
        Ok(answer)
    }

    /// Returns the ids of all documents of a kind.
    fn ids(&self, kind: Kind) -> Vec<Uuid> {
        let prefix = MODEL.all(kind);
        self.scan(&prefix, "", usize::MAX).iter().filter_map(|stored| last_id(&stored.key)).collect()
    }

    /// Performs the automatic transitions whose order cannot be observed: machines without units are removed, the
    /// janitor cleans up, the first Alive unit of an application without a leader becomes the leader.
    fn settle(&mut self) {
        loop {
            let before = self.0.len();
            for id in self.ids(Kind::Machine) {
                if read(self, &MODEL.machine_life(id)) == Some(Life::Dying)
                    && self.scan(&MODEL.machine_units(id), "", 1).is_empty()
                {
                    self.run(|draft| machine::set_dead(draft, MODEL, id)).expect("it is dying and empty");
                    self.run(|draft| machine::remove(draft, MODEL, id)).expect("it is dead");
                }
            }
            for id in self.ids(Kind::Cleanup) {
                self.run(|draft| Ok(cleanup::clean_batch(draft, MODEL, id))).expect("nothing is refused");
            }
            for id in self.ids(Kind::Application) {
                let units = self.scan(&MODEL.units_of(id), "", usize::MAX);
                let alive = units.iter().filter_map(|stored| last_id(&stored.key));
                let alive = alive.filter(|unit| read(self, &MODEL.unit_life(*unit)) == Some(Life::Alive));
                if let (None, Some(first)) = (read(self, &MODEL.leader(id)), alive.min()) {
                    self.run(|draft| leadership::claim(draft, MODEL, first, false)).expect("it is free");
                }
            }
            if self.0.len() == before {
                return;
            }
        }
    }
}

/// No charm here is a subordinate charm, so no record creates a unit.
fn no_subordinate() -> Uuid {
    unreachable!("a unit came with a record")
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
    Charm { name: name.to_owned(), endpoints: [(endpoint.name.clone(), endpoint)].into(), ..Charm::default() }
}

fn now(leader_generation: Option<u64>) -> Now {
    Now {
        boot: "boot".into(),
        since_boot_ms: 100_000,
        agent_start_ms: 0,
        wall_ms: 1,
        holds_hook_lock: true,
        orphan_missing: true,
        attached: true,
        link_age_ms: Some(0),
        leader_generation,
        is_leader_known: true,
        idle_ms: 0,
        is_charm_missing: false,
    }
}

impl State {
    /// Returns the initial state: both applications are deployed and related, and every agent waits.
    fn begin(bounds: &Bounds) -> Result<State, Broken> {
        let mut documents = Documents::default();
        let mut run = |transition: &mut dyn FnMut(&mut Draft) -> Result<(), Refusal>| {
            documents.run(transition).expect("a legal beginning");
        };
        run(&mut |draft| model::create(draft, MODEL.0, "dev", 1));
        let mut ids = 1000;
        for (name, endpoint, role) in [("web", "db", Role::Requirer), ("db", "server", Role::Provider)] {
            run(&mut |draft| {
                application::register_archive(draft, name, charm(name, endpoint, role), 1);
                Ok(())
            });
            let wish = application::Deploy {
                name: name.into(),
                sha256: name.into(),
                units: bounds.units,
                now_ms: 1,
                ..application::Deploy::default()
            };
            run(&mut |draft| {
                let mut fresh = || {
                    ids += 1;
                    Uuid(ids)
                };
                application::deploy(draft, MODEL, &wish, &mut fresh).map(drop)
            });
        }
        run(&mut |draft| relation::add(draft, MODEL, ("web", "db"), RELATION, 1).map(drop));
        let mut agents = Vec::new();
        for name in ["web", "db"].iter().flat_map(|name| (0..bounds.units).map(|n| UnitName::new(name, n))) {
            let unit = read(&documents, &MODEL.unit_name(&name)).expect("it was deployed");
            documents
                .run(|draft| {
                    session::attach(
                        draft,
                        MODEL,
                        unit,
                        Uuid(9),
                        AttachContext { previous: PreviousSession::default(), store_generation: Uuid(0) },
                    )
                })
                .expect("nobody else has");
            let mut local = Local::new(unit, name);
            // the store generation of the views of this model
            local.apply(&Event::Attached {
                store_generation: Uuid(0),
                epoch: EPOCH,
                sequence: 0,
                recovered_bags: Default::default(),
            });
            agents.push((unit, Some(local)));
        }
        documents.settle();
        let mut state = State { documents, agents, commands: bounds.commands.clone(), crash: false };
        while let Some((_, following)) =
            state.steps()?.into_iter().find(|(step, _)| step.starts_with("agent"))
        {
            state = following;
        }
        state.crash = bounds.crash;
        Ok(state)
    }

    fn view(&self, unit: Uuid) -> Option<Snapshot> {
        let full = view::full_view(&self.documents, MODEL, unit)?;
        Some(Snapshot::from_full(full.delta).expect("a full view is complete"))
    }

    fn leads(&self, unit: Uuid) -> Option<u64> {
        let doc = read(&self.documents, &MODEL.unit(unit))?;
        let grant = read(&self.documents, &MODEL.leader(doc.application))?;
        (grant.holder == unit).then_some(grant.generation)
    }

    /// Returns every possible next step, as its name and the state after it.
    fn steps(&self) -> Result<Vec<(String, State)>, Broken> {
        let mut found = Vec::new();
        for (index, command) in self.commands.iter().enumerate() {
            let mut state = self.clone();
            state.commands.remove(index);
            // a refused request changes nothing
            if state.command(*command).is_ok() {
                state.documents.settle();
                found.push((format!("user: {command:?}"), state));
            }
        }
        for id in self.documents.ids(Kind::Forced) {
            let mut state = self.clone();
            state
                .documents
                .run(|draft| force::force_batch(draft, MODEL, id, 1))
                .expect("force is never refused");
            state.documents.settle();
            found.push(("janitor: a bite of what is forced".to_owned(), state));
        }
        for index in 0..self.agents.len() {
            self.machine_agent(index, &mut found);
            self.agent(index, &mut found)?;
        }
        Ok(found)
    }

    fn command(&mut self, command: Command) -> Result<(), Refusal> {
        let find = |name: &str| read(&self.documents, &MODEL.application_name(name));
        let none = || Refusal::not_found("entity", "that was removed before");
        match command {
            Command::RemoveRelation => {
                self.documents.run(|draft| relation::destroy(draft, MODEL, RELATION)).map(drop)
            }
            Command::RemoveUnit(name) => {
                let name: UnitName = name.parse().expect("a unit's name");
                let unit = read(&self.documents, &MODEL.unit_name(&name)).ok_or_else(none)?;
                self.documents.run(|draft| unit::destroy(draft, MODEL, unit)).map(drop)
            }
            Command::ForceUnit(name) => {
                let name: UnitName = name.parse().expect("a unit's name");
                let unit = read(&self.documents, &MODEL.unit_name(&name)).ok_or_else(none)?;
                let force = Force { no_wait: true, now_ms: 1 };
                self.documents.run(|draft| force::unit(draft, MODEL, unit, force)).map(drop)
            }
            Command::RemoveApplication(name) => {
                let id = find(name).ok_or_else(none)?;
                self.documents.run(|draft| application::destroy(draft, MODEL, id)).map(drop)
            }
        }
    }

    /// Recalls and removes a Dead unit; recalls a unit that is already removed.
    fn machine_agent(&self, index: usize, found: &mut Vec<(String, State)>) {
        let (unit, local) = &self.agents[index];
        let dead = read(&self.documents, &MODEL.unit_life(*unit)) == Some(Life::Dead);
        if local.is_none() || !dead && read(&self.documents, &MODEL.tombstone(*unit)).is_none() {
            return;
        }
        let mut state = self.clone();
        let name = state.agents[index].1.take().map(|local| local.name);
        state.documents.run(|draft| unit::remove(draft, MODEL, *unit)).expect("it is dead");
        state.documents.settle();
        found.push((format!("machine agent: removes {}", name.expect("looked at above")), state));
    }

    fn agent(&self, index: usize, found: &mut Vec<(String, State)>) -> Result<(), Broken> {
        let (unit, Some(local)) = &self.agents[index] else { return Ok(()) };
        let with = |local: &Local, crash: bool| {
            let mut state = self.clone();
            state.agents[index].1 = Some(local.clone());
            state.crash = crash;
            state
        };
        let view = self.view(*unit);
        let now = now(self.leads(*unit));
        let name = &local.name;
        if let Some(record) = local.outbox.first() {
            let mut state = with(local, self.crash);
            state.commit(index, record);
            found.push((format!("agent: {name} sends {}", record.operation), state));
            return Ok(());
        }
        match next(local, view.as_ref(), &now).act {
            Act::Start(run) => {
                grammar(local, &run.operation)
                    .map_err(|what| Broken { what: format!("{name}: {what}"), story: Vec::new() })?;
                let mut begun = local.clone();
                begun.apply(&Event::Started(run.clone()));
                if self.crash {
                    found.push((format!("crash: {name} in {}", run.operation), with(&begun, false)));
                }
                let writes = Default::default();
                let ended = FinishedRun {
                    run: &run,
                    exit: Exit::Code(0),
                    writes: &writes,
                    reports: Vec::new(),
                    pending_reports: &Default::default(),
                };
                let record = outcome::record(&begun, view.as_ref(), &now, ended).expect("it ended");
                begun.apply(&Event::Finished(record.clone()));
                if self.crash {
                    found.push((format!("crash: {name} after {}", run.operation), with(&begun, false)));
                }
                let mut state = with(&begun, self.crash);
                state.commit(index, &record);
                found.push((format!("agent: {name} runs {}", run.operation), state));
            }
            Act::RecordOutcome(record) => {
                let mut done = local.clone();
                done.apply(&Event::Finished(record.clone()));
                let mut state = with(&done, self.crash);
                state.commit(index, &record);
                found.push((format!("agent: {name}: {}", record.operation), state));
            }
            Act::PersistEvent(event) => {
                let mut noted = local.clone();
                noted.apply(&event);
                found.push((format!("agent: {name} notes {event:?}"), with(&noted, self.crash)));
            }
            Act::Wait(_) | Act::Finish => {}
            act @ (Act::Reattach(_) | Act::AcquireHookLock | Act::FetchBag(_) | Act::Reboot) => {
                unreachable!("nothing is left behind, and the lock is held: {act:?}")
            }
        }
        Ok(())
    }

    fn commit(&mut self, index: usize, record: &Record) {
        let (unit, local) = &mut self.agents[index];
        let memory = local.as_mut().expect("it sends");
        let commit = |draft: &mut Draft<'_>| {
            hook_commit::commit(draft, MODEL, *unit, EPOCH, record, &mut no_subordinate)
        };
        match self.documents.run(commit) {
            Ok(committed) => {
                let (sequence, refusal) = (record.sequence, committed.refusal);
                memory.apply(&Event::Acknowledged { sequence, revision: 1, refusal, retry: None });
            }
            // force has started: the agent ends, and its machine agent may complete the removal
            Err(refusal) if matches!(refusal.code, Code::Fenced | Code::Removed) => *local = None,
            Err(refusal) => panic!("its own session, in order: {refusal:?}"),
        }
        self.documents.settle();
    }

    /// Checks the properties of every state, and returns the first violation.
    fn check(&self) -> Option<String> {
        violations(&self.documents, MODEL).into_iter().next()
    }

    /// Checks the properties of a state in which only a user request is possible.
    fn check_quiet(&self) -> Option<String> {
        for kind in [Kind::UnitLife, Kind::ApplicationLife, Kind::RelationLife, Kind::MachineLife] {
            for (key, life) in read_all::<Life>(&self.documents, &MODEL.all(kind)) {
                if life != Life::Alive {
                    return Some(format!("nobody has anything to do, and {key} is {life:?}"));
                }
            }
        }
        for (unit, local) in self.agents.iter().filter_map(|(unit, local)| Some((unit, local.as_ref()?))) {
            let Some(view) = self.view(*unit) else { return Some(format!("{} has no view", local.name)) };
            if view.unit.life != Life::Alive {
                return Some(format!(
                    "nobody has anything to do, and {} is {:?}",
                    local.name, view.unit.life
                ));
            }
            let numbers = |local: &Local| local.relations.keys().copied().collect::<Vec<_>>();
            let shown: Vec<_> = view.relations.keys().copied().collect();
            if numbers(local) != shown {
                return Some(format!("{} knows {:?} and is shown {shown:?}", local.name, numbers(local)));
            }
            for (number, relation) in &local.relations {
                let known: Vec<_> = relation.members.keys().collect();
                let shown: Vec<_> = view.relations[number].members.keys().collect();
                if known != shown {
                    return Some(format!("{} has joined {known:?} of {shown:?}", local.name));
                }
            }
        }
        None
    }

    /// Returns the identity of a state. Two states are equal if no decision can distinguish them: run counters and
    /// displayed statuses affect no decision, and a replica follows from the unit's local state.
    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        let own = MODEL.0.to_string().len() + 1;
        for (key, value) in &self.documents.0 {
            if key.get(own..).is_some_and(|rest| UNDECIDING.iter().any(|kind| rest.starts_with(kind))) {
                continue;
            }
            digest.update(key.as_bytes());
            digest.update([0]);
            digest.update(value.as_bytes());
            digest.update([0]);
        }
        for (_, local) in &self.agents {
            digest.update(serde_json::to_vec(&local.as_ref().map(uncounted)).expect("plain data"));
        }
        digest.update(format!("{:?} {}", self.commands, self.crash));
        digest.finalize().into()
    }
}

/// Documents that affect no transition, view or agent decision of this model.
const UNDECIDING: &[&str] =
    &["replica/", "unit-status/", "agent-status/", "application-status/", "log/", "sequence/"];

/// Returns the local state without its counters of runs and records.
fn uncounted(local: &Local) -> Local {
    let mut local = local.clone();
    (local.sequence, local.run, local.digest) = (0, 0, String::new());
    if let Step::Started(run) = &mut local.step {
        run.number = 0;
    }
    for record in &mut local.outbox {
        (record.sequence, record.run) = (0, 0);
    }
    local
}

/// Checks the grammar of a charm's hooks in one relation (spec A.11), for a hook that is about to start.
fn grammar(local: &Local, operation: &Operation) -> Result<(), String> {
    let broken = |what: String| Err(format!("{operation}: {what}"));
    match operation {
        Operation::Hook(Hook::Relation { relation, event, .. }) => {
            let Some(known) = local.relations.get(relation) else {
                return broken("not in the relation".into());
            };
            match event {
                RelationEvent::Created if known.created => broken("a second time".into()),
                RelationEvent::Joined { unit, .. } if known.members.contains_key(unit) => {
                    broken("it has joined before".into())
                }
                RelationEvent::Changed { unit, .. } | RelationEvent::Departed { unit, .. }
                    if !known.members.contains_key(unit) =>
                {
                    broken("it has not joined".into())
                }
                RelationEvent::Broken if !known.members.is_empty() => {
                    broken(format!("{:?} have not departed", known.members.keys()))
                }
                _ => Ok(()),
            }
        }
        Operation::Hook(Hook::Stop) if !local.relations.is_empty() => {
            broken(format!("still in relations {:?}", local.relations.keys()))
        }
        _ => Ok(()),
    }
}

/// Searches the whole space, breadth first, so that the first violation has the shortest path.
pub fn search(bounds: &Bounds) -> Result<Space, Box<Broken>> {
    let start = State::begin(bounds).map_err(Box::new)?;
    let mut known: BTreeMap<[u8; 32], usize> = BTreeMap::from([(start.digest(), 0)]);
    // by state number: the step that reached it, its predecessor, and its other predecessors
    let mut stories: Vec<(usize, String)> = vec![(0, "both applications are related and at rest".into())];
    let mut reached_from: Vec<Vec<usize>> = vec![Vec::new()];
    let mut quiet = Vec::new();
    let mut steps = 0;
    let mut queue = VecDeque::from([(0, start)]);
    let broken = |stories: &[(usize, String)], mut at: usize, what: String| {
        let mut story = vec![stories[at].1.clone()];
        while at != 0 {
            at = stories[at].0;
            story.push(stories[at].1.clone());
        }
        story.reverse();
        Box::new(Broken { what, story })
    };
    while let Some((number, state)) = queue.pop_front() {
        if let Some(what) = state.check() {
            return Err(broken(&stories, number, what));
        }
        let following = state.steps().map_err(|found| broken(&stories, number, found.what))?;
        if following.iter().all(|(step, _)| step.starts_with("user")) {
            if let Some(what) = state.check_quiet() {
                return Err(broken(&stories, number, what));
            }
            quiet.push(number);
        }
        for (step, state) in following {
            steps += 1;
            let by_itself = !step.starts_with("user") && !step.starts_with("crash");
            let next = stories.len();
            let to = *known.entry(state.digest()).or_insert(next);
            if to == next {
                stories.push((number, step));
                reached_from.push(Vec::new());
                queue.push_back((next, state));
            }
            if by_itself {
                reached_from[to].push(number);
            }
        }
    }
    // every state leads to a quiet state: there is no cycle without an exit
    let mut comes_to_rest = vec![false; stories.len()];
    let mut open = quiet.clone();
    while let Some(number) = open.pop() {
        if !std::mem::replace(&mut comes_to_rest[number], true) {
            open.extend(&reached_from[number]);
        }
    }
    if let Some(stuck) = comes_to_rest.iter().position(|rests| !rests) {
        return Err(broken(&stories, stuck, "it never comes to rest".into()));
    }
    Ok(Space { states: stories.len(), steps, quiet: quiet.len() })
}
