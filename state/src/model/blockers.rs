//! What holds an entity that is on its way out: who owes what, since when, and what keeps them (design 5, I26,
//! scenario 176). Computed from the documents, never kept.

use super::effective::{self, Documents};
use super::keys::{Model, UnitDoc};
use super::refusal::Blocker;
use crate::life::Life;
use crate::names::Uuid;
use crate::planted::{self, Planted};

/// Blockers named at once; of more, people need only know the first.
const BLOCKERS_MAX: usize = 20;

/// Who makes machines and takes them away.
pub const PROVISIONER: &str = "the provisioner of pintle up";

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entity {
    Unit(Uuid),
    Application(Uuid),
    Relation(Uuid),
    Machine(Uuid),
}

/// What an entity that is Dying or Dead waits for; empty for one that is Alive or gone.
pub fn blockers(documents: &mut impl Documents, model: Model, entity: Entity) -> Vec<Blocker> {
    match entity {
        Entity::Unit(id) => of_unit(documents, model, id),
        Entity::Application(id) => of_application(documents, model, id),
        Entity::Relation(id) => match effective::relation_life(documents, model, id) {
            Some(Life::Dying | Life::Dead) => members(documents, model, id),
            Some(Life::Alive) | None => Vec::new(),
        },
        Entity::Machine(_) if planted::is(Planted::MachineIsNotExplained) => Vec::new(),
        Entity::Machine(id) => of_machine(documents, model, id),
    }
}

/// A Dead unit waits for its machine agent, a Dying one for its subordinates, else for its own agent. When its life
/// ended is no document's to say.
fn of_unit(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Blocker> {
    let Some(doc) = documents.document(&model.unit(id)) else {
        return Vec::new();
    };
    match effective::life_of(documents, model, id, &doc) {
        Life::Alive => return Vec::new(),
        Life::Dead => {
            let machine = documents.document(&model.machine(doc.machine)).map(|machine| machine.name);
            let machine = machine.unwrap_or_default();
            return vec![Blocker {
                entity: format!("unit {}", doc.name),
                duty: "be recalled and removed".to_owned(),
                owner: format!("the agent of machine {machine}"),
                since_ms: None,
                last_error: None,
                help: format!("see that the agent of machine {machine} runs"),
            }];
        }
        Life::Dying => {}
    }
    let subordinates = documents.ids(&model.subordinates(id), BLOCKERS_MAX);
    if !subordinates.is_empty() {
        return subordinates.into_iter().flat_map(|unit| of_unit(documents, model, unit)).collect();
    }
    let attached = documents.document(&model.session(id)).is_some();
    if !attached {
        let machine = documents.document(&model.machine(doc.machine)).map(|machine| machine.name);
        let machine = machine.unwrap_or_default();
        return vec![Blocker {
            entity: format!("unit {}", doc.name),
            duty: "be removed: its agent never started".to_owned(),
            owner: format!("the agent of machine {machine}"),
            since_ms: None,
            last_error: None,
            help: format!("see that the agent of machine {machine} runs"),
        }];
    }
    let duty = duties(documents, model, id);
    vec![owed_by(documents, model, (id, &doc), duty)]
}

/// What the unit's agent has yet to do before it may say that it is dead.
fn duties(documents: &mut impl Documents, model: Model, id: Uuid) -> String {
    let mut scopes = Vec::new();
    for relation in documents.ids(&model.scopes_of(id), BLOCKERS_MAX) {
        let doc = documents.document(&model.relation(relation));
        scopes.extend(doc.filter(|doc| !doc.is_peer()).map(|doc| doc.key_text()));
    }
    match scopes.is_empty() {
        true => "stop and say that it is dead".to_owned(),
        false => format!("leave {}, stop and say that it is dead", scopes.join(", ")),
    }
}

/// A blocker whose owner is a unit's agent, with the failure that agent is in.
fn owed_by(
    documents: &mut impl Documents,
    model: Model,
    (id, doc): (Uuid, &UnitDoc),
    duty: String,
) -> Blocker {
    let replica = documents.document(&model.replica(id));
    let episode = replica.as_ref().and_then(|replica| replica.local.episode());
    let last_error = episode.map(|episode| format!("{}: {}", episode.operation, episode.reason));
    let help = match &last_error {
        Some(_) => format!("pintle resolved {} (or resolved --no-retry)", doc.name),
        None => format!("pintle why {}", doc.name),
    };
    Blocker {
        entity: format!("unit {}", doc.name),
        duty,
        owner: format!("the agent of unit {}", doc.name),
        since_ms: episode.map(|episode| episode.since_ms),
        last_error,
        help,
    }
}

/// A Dying application waits for its units, and for those of others in the scopes of its relations.
fn of_application(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Blocker> {
    let life = documents.document(&model.application_life(id));
    if life.is_none_or(|life| life == Life::Alive) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for unit in documents.ids(&model.units_of(id), BLOCKERS_MAX) {
        found.extend(of_unit(documents, model, unit));
    }
    for relation in documents.ids(&model.relations_of(id), BLOCKERS_MAX) {
        found.extend(members(documents, model, relation));
    }
    found.truncate(BLOCKERS_MAX);
    found
}

/// Everybody in a relation's scope owes leaving it. Nobody in scope: the janitor owes its removal.
fn members(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Blocker> {
    let Some(relation) = documents.document(&model.relation(id)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for unit in documents.ids(&model.scopes(id), BLOCKERS_MAX) {
        if let Some(doc) = documents.document(&model.unit(unit))
            && !planted::is(Planted::BlockersForgetScopes)
        {
            let duty = format!("leave relation {}", relation.key_text());
            found.push(owed_by(documents, model, (unit, &doc), duty));
        }
    }
    if found.is_empty() {
        found.push(Blocker {
            entity: format!("relation {}", relation.key_text()),
            duty: "be removed".to_owned(),
            owner: "the controller's janitor".to_owned(),
            since_ms: None,
            last_error: None,
            help: "nothing to do: it is removed in the next bites".to_owned(),
        });
    }
    found
}

/// A Dying machine waits for its units, then for its agent; a Dead one for whoever takes its instance away.
fn of_machine(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Blocker> {
    let Some(machine) = documents.document(&model.machine(id)) else {
        return Vec::new();
    };
    let dead = match documents.document(&model.machine_life(id)) {
        Some(Life::Alive) | None => return Vec::new(),
        Some(Life::Dying) => false,
        Some(Life::Dead) => true,
    };
    let units = documents.ids(&model.units_on(id), BLOCKERS_MAX);
    if !units.is_empty() {
        return units.into_iter().flat_map(|unit| of_unit(documents, model, unit)).collect();
    }
    let name = &machine.name;
    let (agent, provisioner) = (format!("the agent of machine {name}"), PROVISIONER.to_owned());
    let by_itself = "nothing to do: it comes by itself, within a minute".to_owned();
    let has_agent = documents.document(&model.machine_instance(id)).is_some();
    let (duty, owner, help) = match (dead, has_agent, machine.manual || machine.kept && !machine.left) {
        (true, true, true) => {
            let help =
                format!("it comes by itself; if its host is gone: pintle remove-machine --force {name}");
            ("take itself away", agent, help)
        }
        (true, _, _) => ("be released and removed", provisioner, by_itself),
        (false, _, _) => ("say that it is dead", agent.clone(), format!("see that {agent} runs")),
    };
    let (owner, since_ms, last_error, help) = match documents.document(&model.machine_trouble(id)) {
        Some(trouble) => {
            let help = format!("pintle retry-provisioning {name}");
            (PROVISIONER.to_owned(), Some(trouble.since_ms), Some(trouble.message), help)
        }
        None => (owner, None, None, help),
    };
    let (entity, duty) = (format!("machine {name}"), duty.to_owned());
    vec![Blocker { entity, duty, owner, since_ms, last_error, help }]
}
