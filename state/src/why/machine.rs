//! Explains a machine: its blockers, its provider, and the actor that must start its agent.

use crate::documents::blockers::{EntityId, kept_content};
use crate::documents::draft::{read, read_all};
use crate::documents::effective_life;
use crate::status::hook_lock::holder;
use crate::status::machine::{MachineAgentState, machine_agent};
use crate::terms::cause::{Actor, Cause, Duty, Entity, Silence};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::run_lock::RunLock;
use crate::why::explanation::{EntityState, HookLock, Why};
use crate::why::facts::Facts;
use crate::why::hook_lock;
use crate::why::non_removal_causes;

/// Explains the machine of this name.
pub(crate) fn explain(facts: &Facts<'_>, id: Uuid, name: &str) -> Why {
    let life = effective_life::machine_life(&mut { facts.reader }, facts.model, id);
    let mut causes = facts.blockers(EntityId::Machine(id));
    causes.extend(silent_or_failed_agent(facts, id));
    causes.extend(kept_content(&mut { facts.reader }, facts.model, id));
    causes.extend(obstructed_recalls(facts, id, name));
    // the cause of an agent that could not be started is this one
    if !causes
        .iter()
        .any(|cause| matches!(cause.duty, Duty::StartInstance { .. } | Duty::ReachInstance { .. }))
    {
        causes.extend(non_removal_causes::provisioning(facts.reader, facts.model, id, name, false));
    }
    if life == Life::Dying {
        let missing_instance = non_removal_causes::missing_instance(facts.reader, facts.model, id);
        causes.extend(missing_instance.map(|cause| facts.pending_since().with_since(cause)));
    }
    // Only the provider removes a Dead machine, unless it has no provider or its instance is kept.
    let is_instance_kept =
        || read(facts.reader, &facts.model.machine(id)).is_some_and(|doc| doc.manual || doc.keep_instance);
    let entity = Entity::Machine(name.to_owned());
    let forced = facts.forced_removal_cause(id, entity.clone());
    causes.extend(forced.filter(|_| life != Life::Dead || is_instance_kept()));
    Why { entity, life, now: machine_state(facts, id), causes, more: false }
}

/// Returns a cause for each removed unit of which a folder is left on the machine.
pub(crate) fn obstructed_recalls(facts: &Facts<'_>, id: Uuid, name: &str) -> Vec<Cause> {
    let cause = |(unit, why): (Uuid, String)| {
        // the recall may have been confirmed since the report
        read(facts.reader, &facts.model.recall(id, unit))?;
        let unit = read(facts.reader, &facts.model.tombstone(unit))?.name.parse().ok()?;
        let cause =
            Cause::new(Entity::Machine(name.to_owned()), Duty::DeleteFolder { unit }, Actor::Operator);
        Some(cause.last_error(why))
    };
    facts.presence.obstructed_recalls(id).into_iter().filter_map(cause).collect()
}

fn machine_state(facts: &Facts<'_>, id: Uuid) -> EntityState {
    let units = read_all::<()>(facts.reader, &facts.model.machine_units(id)).len();
    let lock = RunLock::Machine;
    let held = holder(facts.reader, facts.model, facts.presence, id, &lock);
    let hook_lock = held.map(|(holder, executing)| HookLock {
        holder,
        running: executing.activity,
        waiters: hook_lock::waiters(facts.reader, facts.model, facts.presence, id, &lock),
    });
    EntityState::Machine { units, hook_lock }
}

/// Returns the cause for a machine whose agent is late or lost: it has sent no request for a time, which begins with the
/// start of the controller if there was none since.
pub(crate) fn silent_agent(facts: &Facts<'_>, id: Uuid) -> Option<Cause> {
    let agent = machine_agent(facts.reader, facts.model, facts.presence, id);
    let is_silent = matches!(agent, MachineAgentState::Late | MachineAgentState::Lost);
    silent_or_failed_agent(facts, id).filter(|_| is_silent)
}

/// Returns the cause for a machine whose agent does not report; none if the machine is Dead.
pub(crate) fn silent_or_failed_agent(facts: &Facts<'_>, id: Uuid) -> Option<Cause> {
    let doc = read(facts.reader, &facts.model.machine(id))?;
    let life = read(facts.reader, &facts.model.machine_life(id)).filter(|life| *life != Life::Dead)?;
    let silent = |silence| {
        let (actor, host) = non_removal_causes::host(facts.reader, facts.model, id, &doc);
        let exits = facts.presence.machine_agent_exits(id);
        let last_error = exits.as_ref().and_then(|exits| exits.last_error.clone());
        let duty = Duty::RunMachineAgent { silence, host, exits };
        let cause = Cause::new(Entity::Machine(doc.name.clone()), duty, actor);
        Some(cause.since(facts.presence.last_request_ms(id)).last_error(last_error))
    };
    match machine_agent(facts.reader, facts.model, facts.presence, id) {
        MachineAgentState::Present => None,
        MachineAgentState::Expected => silent(Silence::NotReported),
        MachineAgentState::Late => silent(Silence::Late),
        MachineAgentState::Lost => silent(Silence::Lost),
        MachineAgentState::Failed => {
            let is_alive = life == Life::Alive;
            non_removal_causes::provisioning(facts.reader, facts.model, id, &doc.name, is_alive)
        }
        // the agent of a machine that is being removed is no longer started
        MachineAgentState::Pending if life != Life::Alive => None,
        MachineAgentState::Pending if doc.manual => {
            non_removal_causes::enrolment(facts.reader, facts.model, id)
        }
        MachineAgentState::Pending => {
            let (_, host) = non_removal_causes::host(facts.reader, facts.model, id, &doc);
            let duty = Duty::RunMachineAgent { silence: Silence::NotStarted, host, exits: None };
            let cause = Cause::new(Entity::Machine(doc.name.clone()), duty, Actor::Supervisor);
            Some(cause.since(doc.created_ms))
        }
    }
}
