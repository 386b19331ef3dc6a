//! Explains a unit: its agent, the hook that runs, and the next operation of its agent.

use crate::documents::attachment::{Attachment, attachment};
use crate::documents::blockers::EntityId;
use crate::documents::draft::{read, read_all};
use crate::documents::effective_life;
use crate::documents::fake_application::is_fake;
use crate::documents::prelude::{UnitDoc, last_id};
use crate::documents::refusal::Refusal;
use crate::status::hook_lock::{holder, lock_of, running_units};
use crate::status::presence::ExecutingRun;
use crate::status::running::running;
use crate::status::unit::{UnitStatuses, next_act, statuses};
use crate::terms::activity::Activity;
use crate::terms::cause::{Actor, Cause, Duty, Entity};
use crate::terms::health::UnitHealth;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::terms::status::AgentStatus;
use crate::terms::status_info::StatusInfo;
use crate::unit::agent_causes;
use crate::unit::local::Run;
use crate::unit::resolve::{Act, fetch_cause, requested_reboot_cause};
use crate::why::explanation::{EntityState, Why};
use crate::why::facts::Facts;
use crate::why::hook_lock;
use crate::why::machine;
use crate::why::non_removal_causes;

/// Explains a unit.
pub(crate) fn explain(facts: &Facts<'_>, id: Uuid) -> Result<Why, Refusal> {
    let doc =
        read(facts.reader, &facts.model.unit(id)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, id))?;
    let UnitStatuses { workload, agent, .. } = statuses(facts.reader, facts.model, facts.presence, id, &doc);
    let entity = Entity::Unit(doc.name.clone());
    let machine = machine_name(facts, &doc);
    let attachment = attachment(&mut { facts.reader }, facts.model, id);
    let (attached, is_fenced) = (attachment.has_attached(), matches!(attachment, Attachment::Fenced { .. }));
    let life = effective_life::unit_life_of(&mut { facts.reader }, facts.model, id, &doc);
    let health = facts.presence.health(id).filter(|_| life != Life::Dead).unwrap_or_default();
    let failed_agent = agent_causes::failed_agent(&doc.name, Some(&machine), &health);
    let silent = silent_agent(facts, id, &doc);
    let is_silent = silent.is_some();
    let mut causes: Vec<Cause> = Vec::new();
    let running = running(facts.reader, facts.model, facts.presence, id);
    match (failed_agent, running.filter(|_| attached && !facts.presence.is_lost(id))) {
        // the controller accepts nothing from a fenced agent: the blockers name who acts
        _ if is_fenced => {}
        // what the machine agent observes is the cause of the rest: silence, and a run that does not finish
        (Some(failed_agent), _) => causes.push(failed_agent),
        (None, running) => {
            causes.extend(silent.or_else(|| expected_agent(facts, id, &doc, &machine)));
            if !attached && life == Life::Alive && !is_fake(&mut { facts.reader }, facts.model, &doc) {
                causes.push(attach_cause(facts, &doc, &machine));
            }
            // the unit does nothing else before its current run has finished, whatever its life
            match (missing_file(facts, id, &doc), running) {
                (Some(missing), _) => causes.push(missing),
                (None, Some(running)) => causes.push(finish_cause(facts, id, &doc, running)),
                (None, None) => causes.extend(next_operation_causes(facts, id, &doc, &agent, is_silent)),
            }
        }
    }
    // the agent's next operation is more precise than the blockers of the unit itself
    let blockers = facts.blockers(EntityId::Unit(id)).into_iter();
    let blockers: Vec<Cause> =
        blockers.filter(|blocker| causes.is_empty() || blocker.entity != entity).collect();
    causes.splice(0..0, blockers);
    if life == Life::Alive {
        causes.extend(suspended_relations(facts, &doc));
    }
    // if the unit waits for its machine's agent, the machine's cause is the root cause and is listed first
    let lost = attached && !is_fenced && life != Life::Dead && facts.presence.is_lost(id);
    let by_machine = Actor::MachineAgent(machine.clone());
    if lost || causes.iter().any(|cause| cause.actor == by_machine) {
        causes.splice(0..0, machine::silent_or_failed_agent(facts, doc.machine));
    }
    if life == Life::Dead || !is_fenced {
        causes.extend(facts.forced_removal_cause(id, entity.clone())); // otherwise it is the blocker
    }
    causes.extend(agent_causes::set_aside(&doc.name, Some(&machine), health.set_aside));
    Ok(Why { entity, life, now: EntityState::Unit { workload, agent }, causes, more: false })
}

fn machine_name(facts: &Facts<'_>, doc: &UnitDoc) -> String {
    read(facts.reader, &facts.model.machine(doc.machine)).map_or(String::new(), |machine| machine.name)
}

/// Returns the cause for a unit whose agent was present and is silent now; none for a Dead unit, whose agent is not
/// expected to report again.
pub(crate) fn silent_agent(facts: &Facts<'_>, id: Uuid, doc: &UnitDoc) -> Option<Cause> {
    let life = effective_life::unit_life_of(&mut { facts.reader }, facts.model, id, doc);
    if !facts.presence.is_late(id)
        || !attachment(&mut { facts.reader }, facts.model, id).has_attached()
        || life == Life::Dead
    {
        return None;
    }
    let lost = facts.presence.is_lost(id);
    let (machine, subordinate) = (machine_name(facts, doc), doc.principal.is_some());
    let cause = Cause::of_unit_agent(&doc.name, Duty::Respond { machine, lost, subordinate });
    Some(cause.since(facts.presence.last_request_ms(id)))
}

/// Returns the cause for a unit whose agent has attached and has sent no request since the controller started, for
/// example because its machine does not run again yet; none for a Dead unit. What the replica shows may be older than
/// the boot of the machine.
fn expected_agent(facts: &Facts<'_>, id: Uuid, doc: &UnitDoc, machine: &str) -> Option<Cause> {
    let life = effective_life::unit_life_of(&mut { facts.reader }, facts.model, id, doc);
    let has_attached = attachment(&mut { facts.reader }, facts.model, id).has_attached();
    if facts.presence.has_reported(id) || !has_attached || life == Life::Dead {
        return None;
    }
    Some(agent_causes::not_started(&doc.name, Some(machine)).since(facts.presence.last_request_ms(id)))
}

/// Returns the cause for a unit whose agent has never attached.
fn attach_cause(facts: &Facts<'_>, doc: &UnitDoc, machine: &str) -> Cause {
    let cause = match machine::silent_or_failed_agent(facts, doc.machine) {
        None => Cause::of_unit_agent(&doc.name, Duty::Attach { machine: machine.to_owned() }),
        Some(_) => agent_causes::not_started(&doc.name, Some(machine)),
    };
    cause.since(doc.created_ms)
}

/// Returns the cause for a unit whose agent requests a file that the controller lacks.
fn missing_file(facts: &Facts<'_>, id: Uuid, doc: &UnitDoc) -> Option<Cause> {
    let sha256 = facts.presence.missing_file(id).filter(|_| !facts.presence.is_lost(id))?;
    let duty = Duty::RestoreFile { application: doc.name.application.clone(), sha256 };
    Some(Cause::new(Entity::Unit(doc.name.clone()), duty, Actor::Operator))
}

fn finish_cause(facts: &Facts<'_>, id: Uuid, doc: &UnitDoc, running: ExecutingRun) -> Cause {
    let lock = lock_of(facts.reader, facts.model, id, &running.activity);
    let duty = Duty::Finish {
        activity: running.activity,
        run: running.run,
        machine: machine_name(facts, doc),
        lock_waiters: hook_lock::waiters(facts.reader, facts.model, facts.presence, doc.machine, &lock),
    };
    Cause::new(Entity::Unit(doc.name.clone()), duty, Actor::Charm).since(running.since_ms)
}

/// Replaces what a unit that is being removed is to do by the run that it has to finish first: that run may hang, and the
/// open failure that the blocker names may be an older one.
pub(crate) fn name_running(facts: &Facts<'_>, id: Uuid, causes: &mut [Cause]) {
    let has_failed = facts.presence.health(id).is_some_and(|health| health.exit.is_some());
    let running = running(facts.reader, facts.model, facts.presence, id);
    let running = running.filter(|_| !has_failed && !facts.presence.is_lost(id));
    let Some(running) = running else { return };
    let Some(doc) = read(facts.reader, &facts.model.unit(id)) else { return };
    let entity = Entity::Unit(doc.name.clone());
    let is_own = |cause: &&mut Cause| cause.entity == entity && is_termination(cause);
    if let Some(blocker) = causes.iter_mut().find(is_own) {
        *blocker = finish_cause(facts, id, &doc, running);
    }
}

/// As [`name_running`], for each unit that a cause names. The number of reads is bounded by the number of causes, because
/// a model has many more units than an answer has causes.
pub(crate) fn name_all_running(facts: &Facts<'_>, causes: &mut [Cause]) {
    for cause in causes.iter_mut().filter(|cause| is_termination(cause)) {
        let Entity::Unit(name) = &cause.entity else { continue };
        if let Some(id) = read(facts.reader, &facts.model.unit_name(name)) {
            name_running(facts, id, std::slice::from_mut(cause));
        }
    }
}

fn is_termination(cause: &Cause) -> bool {
    matches!(cause.duty, Duty::Terminate { .. })
}

/// Returns the causes for the next operation of the unit's agent, or for what the agent waits for.
fn next_operation_causes(
    facts: &Facts<'_>,
    id: Uuid,
    doc: &UnitDoc,
    agent: &StatusInfo<AgentStatus>,
    silent: bool,
) -> Vec<Cause> {
    let single = |cause: Cause| vec![cause];
    match next_act(facts.reader, facts.model, id, facts.presence.boot(id)) {
        Some(Act::Wait(wait)) => {
            let with_facts = |cause: Cause| {
                let storage = match &cause.duty {
                    Duty::ProvideStorage { storage } => read(facts.reader, &facts.model.storage(storage)),
                    _ => None,
                };
                let since_ms = cause.since_ms.or(agent.since_ms);
                match storage {
                    Some(doc) => cause.since(doc.created_ms).last_error(doc.error),
                    None => cause.since(since_ms),
                }
            };
            wait.causes.into_iter().map(with_facts).collect()
        }
        Some(Act::Start(run)) => single(starting(facts, id, doc, run, silent)),
        Some(Act::FetchBag(request)) => single(fetch_cause(&doc.name, &request).since(agent.since_ms)),
        Some(Act::Reboot) => rebooting(facts, doc, agent.since_ms),
        Some(
            Act::Finish
            | Act::Reattach(_)
            | Act::AcquireLock(_)
            | Act::FetchCharm(_)
            | Act::RecordOutcome(_)
            | Act::ChangeLeadership(_),
        )
        | None => Vec::new(),
    }
}

/// Returns the cause for a pending run: it waits for the hook lock, or only for the agent.
fn starting(facts: &Facts<'_>, id: Uuid, doc: &UnitDoc, run: Run, silent: bool) -> Cause {
    let activity = Activity::from(&run.operation);
    let lock = lock_of(facts.reader, facts.model, id, &activity);
    let holder = holder(facts.reader, facts.model, facts.presence, doc.machine, &lock);
    if let Some((holder, running)) = holder.filter(|_| run.operation.runs_charm()) {
        let ExecutingRun { activity: running, since_ms, .. } = running;
        let group = lock.group();
        let duty = Duty::ReleaseHookLock { group, activity, running, holder: holder.clone() };
        let cause = Cause::new(Entity::Unit(doc.name.clone()), duty, Actor::UnitAgent(holder));
        return cause.since(since_ms);
    }
    let since_ms = facts.pending_since().since_ms(id, doc, &run.operation);
    let holder = |health: UnitHealth| health.lock_holders.holder(&lock);
    let foreign = facts.presence.health(id).and_then(holder);
    if let Some(holder) = foreign.filter(|_| run.operation.runs_charm()) {
        let duty = Duty::EndLockHolder { holder, activity };
        return Cause::new(Entity::Unit(doc.name.clone()), duty, Actor::Operator).since(since_ms);
    }
    let duty = Duty::Start { activity, reason: run.reason, silent };
    Cause::of_unit_agent(&doc.name, duty).since(since_ms)
}

/// Returns the causes for a unit whose machine is to be rebooted: the hook that runs on it, which delays the reboot,
/// then the reboot itself.
fn rebooting(facts: &Facts<'_>, doc: &UnitDoc, since_ms: Option<i64>) -> Vec<Cause> {
    let machine = machine_name(facts, doc);
    // a reboot waits for each run, whatever lock that has taken
    let first = running_units(facts.reader, facts.model, facts.presence, doc.machine).next();
    let delays = first.map(|(_, holder, running)| {
        let duty = Duty::Finish {
            activity: running.activity,
            run: running.run,
            machine: machine.clone(),
            lock_waiters: vec![doc.name.clone()],
        };
        Cause::new(Entity::Unit(holder), duty, Actor::Charm).since(running.since_ms)
    });
    let now_ms = facts.presence.wall_ms();
    let reboot = requested_reboot_cause(&doc.name, Some(&machine), since_ms, now_ms);
    delays.into_iter().chain([reboot]).collect()
}

fn suspended_relations(facts: &Facts<'_>, doc: &UnitDoc) -> Vec<Cause> {
    let related = read_all::<()>(facts.reader, &facts.model.relations_of(doc.application));
    let related = related.iter().filter_map(|(key, ())| last_id(key));
    let own = related.filter(|id| {
        let relation = read(facts.reader, &facts.model.relation(*id));
        relation.is_some_and(|relation| doc.takes_part_in(&relation))
    });
    own.filter_map(|id| non_removal_causes::suspended(facts.reader, facts.model, id)).collect()
}
