//! Blockers: what an entity that is being removed waits for, computed from the documents alone (design 5, I26,
//! scenario 176).
//!
//! The functions return causes and never write. A cause contains only facts of documents. If no document contains the
//! time at which the wait began, the controller adds it, because the store records when documents were committed.
//! Called by transitions for their refusals, by `why`, and by dry runs.

use crate::documents::attachment::{Attachment, attachment};
use crate::documents::document_reads::Documents;
use crate::documents::effective_life;
use crate::documents::prelude::{Model, UnitDoc};
use crate::terms::cause::{Actor, Cause, Duty, Entity, RelationName};
use crate::terms::force::{ForcePhase, ForcedBy};
use crate::terms::life::Life;
use crate::terms::names::{EndpointName, Uuid};
use crate::terms::storage::StorageId;

/// The most blockers that are shown to people. If there are more, only that fact is shown.
pub const BLOCKERS_MAX: usize = 20;
/// The most blockers that are searched for. One more than is shown proves that there are more.
const SEARCHED_MAX: usize = BLOCKERS_MAX + 1;

/// An entity by its uuid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityId {
    /// A unit.
    Unit(Uuid),
    /// An application.
    Application(Uuid),
    /// A relation.
    Relation(Uuid),
    /// A machine.
    Machine(Uuid),
}

/// The causes for which an entity that is Dying or Dead waits. Empty for an entity that is Alive or removed. Returns at
/// most [`BLOCKERS_MAX`] + 1 causes.
pub fn blockers(documents: &mut impl Documents, model: Model, entity: EntityId) -> Vec<Cause> {
    let mut found = match entity {
        EntityId::Unit(id) => unit_blockers(documents, model, id),
        EntityId::Application(id) => application_blockers(documents, model, id),
        EntityId::Relation(id) => match effective_life::relation_life(documents, model, id) {
            Some(Life::Dying | Life::Dead) => scope_blockers(documents, model, &[id], &[]),
            Some(Life::Alive) | None => Vec::new(),
        },
        EntityId::Machine(id) => machine_blockers(documents, model, id),
    };
    found.truncate(SEARCHED_MAX);
    found
}

/// The cause for an entity that only a person can remove.
pub(crate) fn operator_removal(entity: Entity) -> Cause {
    Cause::new(entity, Duty::Remove, Actor::Operator)
}

/// The units that have yet to leave the scope of a suspended relation; empty if none is in scope. Unlike a
/// Dying relation, this one continues when it is resumed.
pub fn suspended_relation_blockers(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Cause> {
    if !documents.any(&model.scopes(id)) {
        return Vec::new();
    }
    scope_blockers(documents, model, &[id], &[])
}

/// The relations that use the capacity of an endpoint. A person has to remove those that are Alive; the others
/// are removed as soon as their units have left them.
pub(crate) fn capacity_blockers(
    documents: &mut impl Documents,
    model: Model,
    endpoint: &EndpointName,
    relations: &[Uuid],
) -> Vec<Cause> {
    let mut found = Vec::new();
    for id in relations.iter().take(SEARCHED_MAX) {
        let pending = blockers(documents, model, EntityId::Relation(*id));
        if !pending.is_empty() {
            found.extend(pending);
        } else if let Some(doc) = documents.document(&model.relation(*id)) {
            let duty = Duty::FreeCapacity { endpoint: endpoint.clone() };
            let entity = Entity::Relation(doc.name());
            found.push(Cause::new(entity, duty, Actor::Operator).since(doc.created_ms));
        }
    }
    found.truncate(SEARCHED_MAX);
    found
}

/// The blockers of a unit. A Dead unit waits for its machine agent. A Dying unit waits for its subordinates
/// and, unless the subordinates are all that is left, for its own agent; if a forced removal has fenced that agent, for
/// the janitor. No document contains the time at which the life changed.
fn unit_blockers(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Cause> {
    let Some(doc) = documents.document(&model.unit(id)) else {
        return Vec::new();
    };
    match effective_life::unit_life_of(documents, model, id, &doc) {
        Life::Alive => return Vec::new(),
        Life::Dead => {
            return vec![by_machine_agent(documents, model, &doc, Duty::Recall)];
        }
        Life::Dying => {}
    }
    let subordinates = documents.ids(&model.subordinates(id), SEARCHED_MAX);
    if !subordinates.is_empty() {
        let mut found = Vec::new();
        for unit in subordinates {
            found.extend(unit_blockers(documents, model, unit));
        }
        let is_fenced = matches!(attachment(documents, model, id), Attachment::Fenced { .. });
        if is_fenced && !relations_to_leave(documents, model, id).is_empty() {
            found.push(by_force(documents, model, id, &doc));
        } else if !is_fenced && has_hooks_left(documents, model, id) {
            found.push(agent_blocker(documents, model, id, &doc));
        }
        return found;
    }
    vec![match attachment(documents, model, id) {
        Attachment::Never => by_machine_agent(documents, model, &doc, Duty::RemoveUnstarted),
        Attachment::Attached => agent_blocker(documents, model, id, &doc),
        Attachment::Fenced { .. } => by_force(documents, model, id, &doc),
    }]
}

/// The cause for a duty of the unit's machine agent.
fn by_machine_agent(documents: &mut impl Documents, model: Model, doc: &UnitDoc, duty: Duty) -> Cause {
    let machine = documents.document(&model.machine(doc.machine)).map(|machine| machine.name);
    Cause::new(Entity::Unit(doc.name.clone()), duty, Actor::MachineAgent(machine.unwrap_or_default()))
}

/// Whether the unit has hooks to run before it waits for its subordinates: it is in error, is in scopes, or has
/// not run its last hook (spec E.3).
fn has_hooks_left(documents: &mut impl Documents, model: Model, id: Uuid) -> bool {
    let replica = documents.document(&model.replica(id));
    let has_hooks = replica.is_some_and(|replica| {
        replica.local.episode().is_some() || replica.local.installed && !replica.local.removed
    });
    has_hooks || !relations_to_leave(documents, model, id).is_empty()
}

/// The cause for a unit whose agent a forced removal has fenced: the controller leaves its scopes and sets it Dead.
fn by_force(documents: &mut impl Documents, model: Model, id: Uuid, doc: &UnitDoc) -> Cause {
    let forced = documents.document(&model.forced_removal(id));
    let by = forced.as_ref().map_or(ForcedBy::Operator, |forced| forced.by);
    let duty = Duty::ForceRemoval { by, phase: ForcePhase::Acting };
    let since_ms = forced.map(|forced| forced.since_ms);
    Cause::new(Entity::Unit(doc.name.clone()), duty, Actor::Janitor).since(since_ms)
}

/// The cause for the steps of the unit's agent until it may report that the unit is Dead.
fn agent_blocker(documents: &mut impl Documents, model: Model, id: Uuid, doc: &UnitDoc) -> Cause {
    let relations = relations_to_leave(documents, model, id);
    by_unit_agent(documents, model, id, doc, Duty::Terminate { relations })
}

/// The relations whose scopes the unit's agent has to leave. The scopes of peer relations are left with the
/// death of the unit.
fn relations_to_leave(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<RelationName> {
    let mut scopes = Vec::new();
    for relation in documents.ids(&model.scopes_of(id), SEARCHED_MAX) {
        let doc = documents.document(&model.relation(relation));
        scopes.extend(doc.filter(|doc| !doc.is_peer()).map(|doc| doc.name()));
    }
    scopes
}

/// The cause for a duty of the unit's agent, with the error of its open failure episode.
fn by_unit_agent(documents: &mut impl Documents, model: Model, id: Uuid, doc: &UnitDoc, duty: Duty) -> Cause {
    let replica = documents.document(&model.replica(id));
    let episode = replica.as_ref().and_then(|replica| replica.local.episode());
    let failure = episode.map(|episode| episode.reason.clone().of_operation(&episode.operation));
    let since_ms = episode.map(|episode| episode.since_ms);
    Cause::of_unit_agent(&doc.name, duty).since(since_ms).failure(failure)
}

/// A Dying application waits for its units, and for units of other applications in the scopes of its relations.
fn application_blockers(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Cause> {
    let life = documents.document(&model.application_life(id));
    if life.is_none_or(|life| life == Life::Alive) {
        return Vec::new();
    }
    let units = documents.ids(&model.units_of(id), SEARCHED_MAX);
    let mut found = Vec::new();
    for unit in &units {
        found.extend(unit_blockers(documents, model, *unit));
    }
    let relations = documents.ids(&model.relations_of(id), SEARCHED_MAX);
    found.extend(scope_blockers(documents, model, &relations, &units));
    found
}

/// One cause for each unit that has to leave the scopes of these relations. `listed` are units whose duties are
/// listed already. A relation without members waits for the janitor, which deletes it.
fn scope_blockers(
    documents: &mut impl Documents,
    model: Model,
    relations: &[Uuid],
    listed: &[Uuid],
) -> Vec<Cause> {
    let mut remaining: Vec<(Uuid, UnitDoc, Vec<RelationName>)> = Vec::new();
    let mut found = Vec::new();
    for id in relations {
        let Some(relation) = documents.document(&model.relation(*id)) else {
            continue;
        };
        let present = documents.ids(&model.scopes(*id), SEARCHED_MAX);
        if present.is_empty() {
            let entity = Entity::Relation(relation.name());
            found.push(Cause::new(entity, Duty::DeleteRelation, Actor::Janitor));
        }
        for unit in present.into_iter().filter(|unit| !listed.contains(unit)) {
            match remaining.iter_mut().find(|(id, ..)| *id == unit) {
                Some((_, _, scopes)) => scopes.push(relation.name()),
                None => {
                    let doc = documents.document(&model.unit(unit));
                    remaining.extend(doc.map(|doc| (unit, doc, vec![relation.name()])));
                }
            }
        }
    }
    for (unit, doc, relations) in remaining {
        found.push(match attachment(documents, model, unit) {
            Attachment::Never | Attachment::Attached => {
                by_unit_agent(documents, model, unit, &doc, Duty::LeaveScopes { relations })
            }
            Attachment::Fenced { .. } => by_force(documents, model, unit, &doc),
        });
    }
    found
}

/// The cause for a machine without units that is kept because it has the content of storage whose removal nobody has
/// requested.
pub fn kept_content(documents: &mut impl Documents, model: Model, id: Uuid) -> Option<Cause> {
    let machine = documents.document(&model.machine(id))?;
    let is_alive = documents.document(&model.machine_life(id)) == Some(Life::Alive);
    if !is_alive || !documents.ids(&model.machine_units(id), 1).is_empty() {
        return None;
    }
    let on_machine = documents.document(&model.machine_storage(id)).unwrap_or_default();
    let alive = on_machine.into_iter().filter(|(_, life)| *life == Life::Alive).map(|(id, _)| id);
    let storage: Vec<StorageId> = alive.take(SEARCHED_MAX).collect();
    let duty = Duty::RemoveStorage { storage: storage.clone() };
    (!storage.is_empty()).then(|| Cause::new(Entity::Machine(machine.name), duty, Actor::Operator))
}

/// A Dying machine waits for its units, then for its agent. A Dead machine waits for the removal of its
/// instance: by its own agent if the instance is kept or manually provisioned, otherwise by the provisioner.
fn machine_blockers(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Cause> {
    let Some(machine) = documents.document(&model.machine(id)) else {
        return Vec::new();
    };
    let dead = match documents.document(&model.machine_life(id)) {
        Some(Life::Alive) | None => return Vec::new(),
        Some(Life::Dying) => false,
        Some(Life::Dead) => true,
    };
    let units = documents.ids(&model.machine_units(id), SEARCHED_MAX);
    if !units.is_empty() {
        return units.into_iter().flat_map(|unit| unit_blockers(documents, model, unit)).collect();
    }
    let agent = Actor::MachineAgent(machine.name.clone());
    let has_agent = documents.document(&model.machine_instance(id)).is_some();
    let (duty, actor) =
        match (dead, has_agent, machine.manual || machine.keep_instance && !machine.agent_uninstalled) {
            (true, true, true) => {
                let forced = documents.document(&model.forced_removal(id)).is_some();
                (Duty::Uninstall { forced }, agent)
            }
            (true, _, _) => (Duty::ReleaseInstance, Actor::Provisioner),
            (false, true, _) => (Duty::ReportDead, agent),
            (false, false, _) => (Duty::ReportUnstartedDead, Actor::Provisioner),
        };
    let entity = Entity::Machine(machine.name);
    vec![match documents.document(&model.machine_provisioning_error(id)) {
        Some(error) => {
            Cause::new(entity, duty, Actor::Provisioner).since(error.since_ms).last_error(error.message)
        }
        None => Cause::new(entity, duty, actor),
    }]
}
