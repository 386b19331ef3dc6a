//! What an entity waits for that is being removed, from the documents alone (design 5, I26, scenario 176).
//!
//! Returns causes; never writes, and never tells more than the documents do: since when a duty waits that no document
//! dates is added by the controller, which knows when documents were committed. Called by transitions for their
//! refusals, by the controller's `why`, and by dry runs.

use crate::documents::effective_life::{self, Documents};
use crate::documents::keys::{Model, UnitDoc};
use crate::terms::cause::{Actor, Cause, Duty, Entity, RelationName};
use crate::terms::life::Life;
use crate::terms::names::{EndpointName, Uuid};

/// Blockers that people are told of; of more, they need only know that there are more.
pub const BLOCKERS_MAX: usize = 20;
/// Blockers looked for: one that is not told says that there are more.
const LOOKED_FOR: usize = BLOCKERS_MAX + 1;

/// An entity by its uuid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntityId {
    Unit(Uuid),
    Application(Uuid),
    Relation(Uuid),
    Machine(Uuid),
}

/// What an entity that is Dying or Dead waits for; empty for one that is Alive or gone. Beyond [`BLOCKERS_MAX`] there
/// is one more at most.
pub fn blockers(documents: &mut impl Documents, model: Model, entity: EntityId) -> Vec<Cause> {
    let mut found = match entity {
        EntityId::Unit(id) => of_unit(documents, model, id),
        EntityId::Application(id) => of_application(documents, model, id),
        EntityId::Relation(id) => match effective_life::relation_life(documents, model, id) {
            Some(Life::Dying | Life::Dead) => members(documents, model, &[id], &[]),
            Some(Life::Alive) | None => Vec::new(),
        },
        EntityId::Machine(id) => of_machine(documents, model, id),
    };
    found.truncate(LOOKED_FOR);
    found
}

/// An obstacle that only a person removes.
pub(crate) fn by_hand(entity: Entity) -> Cause {
    Cause::new(entity, Duty::Remove, Actor::Operator)
}

/// Who has yet to leave a relation that is suspended, and goes on when it is resumed.
pub fn suspended_relation_blockers(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Cause> {
    if !documents.any(&model.scopes(id)) {
        return Vec::new();
    }
    members(documents, model, &[id], &[])
}

/// Relations that use the capacity of an endpoint: a person removes one that is Alive, another goes once it is left.
pub(crate) fn of_capacity(
    documents: &mut impl Documents,
    model: Model,
    endpoint: &EndpointName,
    relations: &[Uuid],
) -> Vec<Cause> {
    let mut found = Vec::new();
    for id in relations.iter().take(LOOKED_FOR) {
        let going = blockers(documents, model, EntityId::Relation(*id));
        if !going.is_empty() {
            found.extend(going);
        } else if let Some(doc) = documents.document(&model.relation(*id)) {
            let duty = Duty::FreeCapacity { endpoint: endpoint.clone() };
            let entity = Entity::Relation(doc.name());
            found.push(Cause::new(entity, duty, Actor::Operator).since(doc.created_ms));
        }
    }
    found.truncate(LOOKED_FOR);
    found
}

/// A Dead unit waits for its machine agent, a Dying one for its subordinates, and for its own agent unless that one
/// waits for these alone. When its life ended is no document's to say.
fn of_unit(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Cause> {
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
    let subordinates = documents.ids(&model.subordinates(id), LOOKED_FOR);
    if !subordinates.is_empty() {
        let mut found = Vec::new();
        for unit in subordinates {
            found.extend(of_unit(documents, model, unit));
        }
        if ends_itself(documents, model, id) {
            found.push(own(documents, model, (id, &doc)));
        }
        return found;
    }
    let attached = documents.document(&model.session(id)).is_some();
    if !attached {
        return vec![by_machine_agent(documents, model, &doc, Duty::RemoveUnstarted)];
    }
    vec![own(documents, model, (id, &doc))]
}

/// A duty towards a unit that the agent of its machine has.
fn by_machine_agent(documents: &mut impl Documents, model: Model, doc: &UnitDoc, duty: Duty) -> Cause {
    let machine = documents.document(&model.machine(doc.machine)).map(|machine| machine.name);
    Cause::new(Entity::Unit(doc.name.clone()), duty, Actor::MachineAgent(machine.unwrap_or_default()))
}

/// The unit has hooks to run before it waits for its subordinates: it rests in a failure, is in scopes, or has not run
/// its last hook (spec E.3).
fn ends_itself(documents: &mut impl Documents, model: Model, id: Uuid) -> bool {
    let replica = documents.document(&model.replica(id));
    let owes = replica.is_some_and(|replica| {
        replica.local.episode().is_some() || replica.local.installed && !replica.local.removed
    });
    owes || !to_leave(documents, model, id).is_empty()
}

/// What the unit's agent has yet to do before it may report that the unit is dead.
fn own(documents: &mut impl Documents, model: Model, (id, doc): (Uuid, &UnitDoc)) -> Cause {
    let relations = to_leave(documents, model, id);
    by_unit_agent(documents, model, (id, doc), Duty::Terminate { relations })
}

/// The relations whose scopes the unit's agent leaves; those of peers it leaves with its death.
fn to_leave(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<RelationName> {
    let mut scopes = Vec::new();
    for relation in documents.ids(&model.scopes_of(id), LOOKED_FOR) {
        let doc = documents.document(&model.relation(relation));
        scopes.extend(doc.filter(|doc| !doc.is_peer()).map(|doc| doc.name()));
    }
    scopes
}

/// A duty of a unit's agent, with the failure that agent is in.
fn by_unit_agent(
    documents: &mut impl Documents,
    model: Model,
    (id, doc): (Uuid, &UnitDoc),
    duty: Duty,
) -> Cause {
    let replica = documents.document(&model.replica(id));
    let episode = replica.as_ref().and_then(|replica| replica.local.episode());
    let last_error = episode.map(|episode| format!("{}: {}", episode.operation, episode.reason));
    let since_ms = episode.map(|episode| episode.since_ms);
    Cause::of_unit_agent(&doc.name, duty).since(since_ms).last_error(last_error)
}

/// A Dying application waits for its units, and for those of others in the scopes of its relations.
fn of_application(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Cause> {
    let life = documents.document(&model.application_life(id));
    if life.is_none_or(|life| life == Life::Alive) {
        return Vec::new();
    }
    let units = documents.ids(&model.units_of(id), LOOKED_FOR);
    let mut found = Vec::new();
    for unit in &units {
        found.extend(of_unit(documents, model, *unit));
    }
    let relations = documents.ids(&model.relations_of(id), LOOKED_FOR);
    found.extend(members(documents, model, &relations, &units));
    found
}

/// The units in these relations' scopes, which have to leave them, one cause for each unit; `told` are units whose
/// duties are told already. Nobody in scope: the janitor deletes the relation.
fn members(documents: &mut impl Documents, model: Model, relations: &[Uuid], told: &[Uuid]) -> Vec<Cause> {
    let mut stay: Vec<(Uuid, UnitDoc, Vec<RelationName>)> = Vec::new();
    let mut found = Vec::new();
    for id in relations {
        let Some(relation) = documents.document(&model.relation(*id)) else {
            continue;
        };
        let present = documents.ids(&model.scopes(*id), LOOKED_FOR);
        if present.is_empty() {
            let entity = Entity::Relation(relation.name());
            found.push(Cause::new(entity, Duty::DeleteRelation, Actor::Janitor));
        }
        for unit in present.into_iter().filter(|unit| !told.contains(unit)) {
            match stay.iter_mut().find(|(id, ..)| *id == unit) {
                Some((_, _, scopes)) => scopes.push(relation.name()),
                None => {
                    let doc = documents.document(&model.unit(unit));
                    stay.extend(doc.map(|doc| (unit, doc, vec![relation.name()])));
                }
            }
        }
    }
    for (unit, doc, relations) in stay {
        found.push(by_unit_agent(documents, model, (unit, &doc), Duty::LeaveScopes { relations }));
    }
    found
}

/// A Dying machine waits for its units, then for its agent; a Dead one for whoever takes its instance away.
fn of_machine(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Cause> {
    let Some(machine) = documents.document(&model.machine(id)) else {
        return Vec::new();
    };
    let dead = match documents.document(&model.machine_life(id)) {
        Some(Life::Alive) | None => return Vec::new(),
        Some(Life::Dying) => false,
        Some(Life::Dead) => true,
    };
    let units = documents.ids(&model.machine_units(id), LOOKED_FOR);
    if !units.is_empty() {
        return units.into_iter().flat_map(|unit| of_unit(documents, model, unit)).collect();
    }
    let agent = Actor::MachineAgent(machine.name.clone());
    let has_agent = documents.document(&model.machine_instance(id)).is_some();
    let (duty, actor) = match (dead, has_agent, machine.manual || machine.kept && !machine.left) {
        (true, true, true) => {
            let forced = documents.document(&model.forced(id)).is_some();
            (Duty::Uninstall { forced }, agent)
        }
        (true, _, _) => (Duty::ReleaseInstance, Actor::Provisioner),
        (false, true, _) => (Duty::ReportDead, agent),
        (false, false, _) => (Duty::ReportUnstartedDead, Actor::Provisioner),
    };
    let entity = Entity::Machine(machine.name);
    vec![match documents.document(&model.machine_provisioning_error(id)) {
        Some(trouble) => {
            Cause::new(entity, duty, Actor::Provisioner).since(trouble.since_ms).last_error(trouble.message)
        }
        None => Cause::new(entity, duty, actor),
    }]
}
