//! A state of the space and its next steps: requests of the user, the janitor, the agents and the machine agents.

use super::bounds::{UserRequest, Violation};
use super::documents::{Documents, MODEL};
use super::hook_grammar;
use api::text::log::RUN_TEXTS;
use state::agents::record_validation::Valid;
use state::agents::session::AgentSession;
use state::documents::draft::{Draft, read};
use state::documents::prelude::Kind;
use state::documents::refusal::{Code, Refusal};
use state::lifecycle::creation::Creation;
use state::lifecycle::{application, relation, unit};
use state::terms::force::Force;
use state::terms::life::Life;
use state::terms::names::{UnitName, Uuid};
use state::terms::refusal::EntityKind;
use state::terms::run_lock::HeldLock;
use state::transitions::force;
use state::transitions::record_commit;
use state::transitions::run_reports::LogLines;
use state::unit::local::{Event, Local};
use state::unit::outcome::{self, FinishedRun, HookResult, RunExit};
use state::unit::record::Record;
use state::unit::resolve::{Act, CharmOnDisk, Now, next};
use state::unit::snapshot::Snapshot;
use state::views::view;

pub const RELATION: Uuid = Uuid(50);
pub const EPOCH: u64 = 1;

/// Who makes a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Actor {
    User,
    Janitor,
    MachineAgent,
    Agent,
    /// An agent that ends in the middle of its work, and is started again.
    Crash,
}

/// A step of the model checker.
pub(super) struct Step {
    pub(super) actor: Actor,
    /// What the actor does, in words.
    what: String,
}

impl Step {
    /// A line of the path to a violation.
    pub(super) fn text(&self) -> String {
        let actor = match self.actor {
            Actor::User => "user",
            Actor::Janitor => "janitor",
            Actor::MachineAgent => "machine agent",
            Actor::Agent => "agent",
            Actor::Crash => "crash",
        };
        format!("{actor}: {}", self.what)
    }
}

#[derive(Clone)]
pub struct State {
    pub(super) documents: Documents,
    /// The local state of each agent; `None` once it was fenced or its unit recalled.
    pub(super) agents: Vec<(Uuid, Option<Local>)>,
    pub(super) user_requests: Vec<UserRequest>,
    pub(super) crash: bool,
}

/// No charm here is a subordinate charm, so no record creates a unit.
fn no_subordinate() -> Uuid {
    unreachable!("a record created a unit")
}

fn now(leader_generation: Option<u64>) -> Now {
    Now {
        boot: "boot".into(),
        since_boot_ms: 100_000,
        agent_start_ms: 0,
        wall_ms: 1,
        held_lock: HeldLock::Any,
        no_run_process: true,
        attached: true,
        link_age_ms: Some(0),
        leader_generation,
        is_leader_known: true,
        idle_ms: 0,
        charm: CharmOnDisk::Complete,
        commands: None,
    }
}

impl State {
    pub(super) fn view(&self, unit: Uuid) -> Option<Snapshot> {
        let full = view::full_view(&self.documents, MODEL, unit)?;
        Some(Snapshot::from_full(full.delta).expect("a full view is complete"))
    }

    fn leader_generation(&self, unit: Uuid) -> Option<u64> {
        let doc = read(&self.documents, &MODEL.unit(unit))?;
        let grant = read(&self.documents, &MODEL.leader(doc.application))?;
        (grant.holder == unit).then_some(grant.generation)
    }

    /// Returns every possible next step, and the state after it.
    pub(super) fn steps(&self) -> Result<Vec<(Step, State)>, Violation> {
        let mut found = Vec::new();
        for (index, request) in self.user_requests.iter().enumerate() {
            let mut state = self.clone();
            state.user_requests.remove(index);
            // a refused request changes nothing
            if state.request(*request).is_ok() {
                state.documents.run_automatic_transitions();
                found.push((Step { actor: Actor::User, what: format!("{request:?}") }, state));
            }
        }
        for id in self.documents.ids(Kind::ForcedRemoval) {
            let mut state = self.clone();
            state
                .documents
                .run(|draft| force::force_batch(draft, MODEL, id, 1))
                .expect("force is never refused");
            state.documents.run_automatic_transitions();
            let what = "a batch of forced removals".to_owned();
            found.push((Step { actor: Actor::Janitor, what }, state));
        }
        for index in 0..self.agents.len() {
            self.machine_agent(index, &mut found);
            self.agent(index, &mut found)?;
        }
        Ok(found)
    }

    fn request(&mut self, request: UserRequest) -> Result<(), Refusal> {
        let find = |name: &str| read(&self.documents, &MODEL.application_name(name));
        let none = || Refusal::not_found(EntityKind::Unit, "that was removed before");
        match request {
            UserRequest::RemoveRelation => {
                self.documents.run(|draft| relation::destroy(draft, MODEL, RELATION)).map(drop)
            }
            UserRequest::RemoveUnit(name) => {
                let name: UnitName = name.parse().expect("a unit's name");
                let unit = read(&self.documents, &MODEL.unit_name(&name)).ok_or_else(none)?;
                self.documents.run(|draft| unit::destroy(draft, MODEL, unit, 60)).map(drop)
            }
            UserRequest::ForceUnit(name) => {
                let name: UnitName = name.parse().expect("a unit's name");
                let unit = read(&self.documents, &MODEL.unit_name(&name)).ok_or_else(none)?;
                self.documents
                    .run(|draft| force::destroy_unit(draft, MODEL, unit, Force::AtOnce, 1))
                    .map(drop)
            }
            UserRequest::RemoveApplication(name) => {
                let id = find(name).ok_or_else(none)?;
                self.documents.run(|draft| application::destroy(draft, MODEL, id)).map(drop)
            }
        }
    }

    /// Recalls and removes a Dead unit; recalls a unit that is already removed.
    fn machine_agent(&self, index: usize, found: &mut Vec<(Step, State)>) {
        let (unit, local) = &self.agents[index];
        let dead = read(&self.documents, &MODEL.unit_life(*unit)) == Some(Life::Dead);
        if local.is_none() || !dead && read(&self.documents, &MODEL.tombstone(*unit)).is_none() {
            return;
        }
        let mut state = self.clone();
        let name = state.agents[index].1.take().map(|local| local.name);
        state.documents.run(|draft| unit::remove(draft, MODEL, *unit, 60)).expect("it is dead");
        state.documents.run_automatic_transitions();
        let what = format!("removes {}", name.expect("looked at above"));
        found.push((Step { actor: Actor::MachineAgent, what }, state));
    }

    fn agent(&self, index: usize, found: &mut Vec<(Step, State)>) -> Result<(), Violation> {
        let (unit, Some(local)) = &self.agents[index] else { return Ok(()) };
        let with = |local: &Local, crash: bool| {
            let mut state = self.clone();
            state.agents[index].1 = Some(local.clone());
            state.crash = crash;
            state
        };
        let view = self.view(*unit);
        let now = now(self.leader_generation(*unit));
        let name = &local.name;
        let step = |actor: Actor, what: String| Step { actor, what: format!("{name} {what}") };
        if let Some(record) = local.outbox.first() {
            let mut state = with(local, self.crash);
            state.commit(index, record);
            found.push((step(Actor::Agent, format!("sends {}", record.operation)), state));
            return Ok(());
        }
        match next(local, view.as_ref(), &now).act {
            Act::Start(run) => {
                hook_grammar::check(local, &run.operation)
                    .map_err(|what| Violation { what: format!("{name}: {what}"), steps: Vec::new() })?;
                let mut started = local.clone();
                started.apply(&Event::Started(run.clone()));
                if self.crash {
                    let what = format!("in {}", run.operation);
                    found.push((step(Actor::Crash, what), with(&started, false)));
                }
                let result = HookResult::without_writes(RunExit::Code(0));
                let pending_reports = &Default::default();
                let finished = FinishedRun { run: &run, result, pending_reports, texts: RUN_TEXTS };
                let record = outcome::record(&started, view.as_ref(), &now, finished).expect("it finished");
                started.apply(&Event::Finished(record.clone()));
                if self.crash {
                    let what = format!("after {}", run.operation);
                    found.push((step(Actor::Crash, what), with(&started, false)));
                }
                let mut state = with(&started, self.crash);
                state.commit(index, &record);
                found.push((step(Actor::Agent, format!("runs {}", run.operation)), state));
            }
            Act::RecordOutcome(record) => {
                let mut done = local.clone();
                done.apply(&Event::Finished(record.clone()));
                let mut state = with(&done, self.crash);
                state.commit(index, &record);
                found.push((step(Actor::Agent, format!("records {}", record.operation)), state));
            }
            Act::ChangeLeadership(generation) => {
                let mut changed = local.clone();
                changed.apply(&Event::LeadershipChanged(generation));
                let what = format!("stores that it leads with {generation:?}");
                found.push((step(Actor::Agent, what), with(&changed, self.crash)));
            }
            Act::Wait(_) | Act::Finish => {}
            act @ (Act::Reattach(_)
            | Act::AcquireLock(_)
            | Act::FetchBag(_)
            | Act::FetchCharm(_)
            | Act::Reboot) => {
                unreachable!("nothing is left behind, and the lock is held: {act:?}")
            }
        }
        Ok(())
    }

    fn commit(&mut self, index: usize, record: &Record) {
        let (unit, local) = &mut self.agents[index];
        let sender = local.as_mut().expect("a unit that commits has an agent");
        let commit = |draft: &mut Draft<'_>| {
            record_commit::commit(
                draft,
                AgentSession { model: MODEL, unit: *unit, epoch: EPOCH, store_generation: Uuid(0) },
                &Valid::record(record.clone())?,
                None,
                LogLines::ALL,
                Creation { now_ms: record.at_ms, ids: &mut no_subordinate },
            )
        };
        match self.documents.run(commit) {
            Ok(committed) => {
                let (sequence, refusal) = (record.sequence, committed.refusal);
                sender.apply(&Event::Acknowledged { sequence, revision: 1, refusal, retry: None });
            }
            // the removal by force removes its documents without it
            Err(refusal) if matches!(refusal.code(), Code::Fenced | Code::Removed) => *local = None,
            Err(refusal) => panic!("its own session, in order: {refusal:?}"),
        }
        self.documents.run_automatic_transitions();
    }
}
