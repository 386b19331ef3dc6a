//! Explains a whole model: what its removal and all removals in it wait for, then what the entities that are not being
//! removed wait for: agents of machines and units that are late or have failed, recalls that cannot be confirmed,
//! suspended relations, hooks that run and the units that wait for their hook lock. The search stops when the answer is full. Called by `why::explain`.

use crate::documents::attachment::attachment;
use crate::documents::blockers::EntityId;
use crate::documents::draft::read;
use crate::documents::effective_life;
use crate::documents::prelude::{Kind, last_id};
use crate::documents::refusal::Refusal;
use crate::status::machine::{MachineAgentState, machine_agent};
use crate::status::running::running;
use crate::status::unit::has_nothing_to_do;
use crate::terms::cause::{Cause, Count, Entity};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::why::explanation::{EntityState, Why};
use crate::why::facts::{Facts, deduplicate_and_check_full};
use crate::why::non_removal_causes;
use crate::why::{machine, unit};

/// Entities of each kind that are examined: some 10 reads each.
const ENTITIES_MAX: usize = 1_000;

/// Explains the whole model.
pub(crate) fn explain(facts: &Facts<'_>) -> Result<Why, Refusal> {
    let not_found = || Refusal::not_found(EntityKind::Model, facts.model.0);
    let doc = read(facts.reader, &facts.model.model()).ok_or_else(not_found)?;
    let mut more = false;
    let mut ids = |kind: Kind| -> Vec<Uuid> {
        let mut page = facts.reader.scan(&facts.model.prefix(kind), "", ENTITIES_MAX + 1);
        more |= page.len() > ENTITIES_MAX;
        page.truncate(ENTITIES_MAX);
        page.iter().filter_map(|stored| last_id(&stored.key)).collect()
    };
    let (applications, machines) = (ids(Kind::Application), ids(Kind::Machine));
    let (units, relations) = (ids(Kind::Unit), ids(Kind::Relation));
    let count = |ids: &[Uuid]| Count { number: ids.len(), more: ids.len() == ENTITIES_MAX };
    let (applications_left, machines_left) = (count(&applications), count(&machines));
    let now = EntityState::Model { applications: applications_left, machines: machines_left };
    let all = applications.into_iter().map(EntityId::Application);
    let all = all.chain(units.iter().copied().map(EntityId::Unit));
    let all = all.chain(relations.iter().copied().map(EntityId::Relation));
    let all = all.chain(machines.iter().copied().map(EntityId::Machine));
    let mut causes = Vec::new();
    causes.extend(non_removal_causes::destruction(
        facts.reader,
        facts.model,
        &doc.name,
        applications_left,
        machines_left,
    ));
    for entity in all {
        causes.extend(facts.blockers(entity));
        if deduplicate_and_check_full(&mut causes) {
            break;
        }
    }
    unit::name_all_running(facts, &mut causes);
    let of_machine = |id: Uuid| {
        let doc = read(facts.reader, &facts.model.machine(id));
        let obstructed =
            doc.into_iter().flat_map(move |doc| machine::obstructed_recalls(facts, id, &doc.name));
        machine::silent_or_failed_agent(facts, id).into_iter().chain(obstructed)
    };
    let stalled = machines.into_iter().flat_map(of_machine);
    let suspended =
        relations.into_iter().filter_map(|id| non_removal_causes::suspended(facts.reader, facts.model, id));
    let mut stalled =
        stalled.chain(suspended).chain(units.into_iter().flat_map(|id| waiting_unit(facts, id)));
    // a full answer ends the search before the next read
    while !deduplicate_and_check_full(&mut causes) {
        let Some(cause) = stalled.next() else { break };
        causes.push(cause);
    }
    let life = effective_life::model_life(&mut { facts.reader }, facts.model);
    Ok(Why { entity: Entity::Model(doc.name), life, now, causes, more })
}

/// Returns what an Alive unit waits for: its agent, the hook that it runs, the hook lock of its machine, or what its next
/// operation needs. A unit that only waits for its lost machine agent is omitted, because the machine's own cause is
/// listed (F.4).
fn waiting_unit(facts: &Facts<'_>, id: Uuid) -> Vec<Cause> {
    let Some(doc) = read(facts.reader, &facts.model.unit(id)) else { return Vec::new() };
    let replica = read(facts.reader, &facts.model.replica(id));
    let failed = replica.is_some_and(|replica| replica.local.episode().is_some())
        || facts.presence.health(id).is_some_and(|health| health.has_problem())
        || facts.presence.missing_file(id).is_some();
    let has_attached = attachment(&mut { facts.reader }, facts.model, id).has_attached();
    let is_expected = has_attached && !facts.presence.has_reported(id);
    let is_absent = !has_attached || is_expected || facts.presence.is_late(id);
    let alive = effective_life::unit_life_of(&mut { facts.reader }, facts.model, id, &doc) == Life::Alive;
    let agent = || machine_agent(facts.reader, facts.model, facts.presence, doc.machine);
    let is_listed_by_machine = || {
        is_absent && agent() == MachineAgentState::Lost
            || is_expected && agent() == MachineAgentState::Expected
    };
    if !alive || !failed && is_listed_by_machine() {
        return Vec::new();
    }
    // an explanation reads the whole view of the unit, which may have many members
    let is_executing = running(facts.reader, facts.model, facts.presence, id).is_some();
    if !failed
        && !is_absent
        && !is_executing
        && has_nothing_to_do(facts.reader, facts.model, facts.presence, id)
    {
        return Vec::new();
    }
    unit::explain(facts, id).map_or(Vec::new(), |why| why.causes)
}
