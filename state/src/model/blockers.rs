//! What holds an entity that is on its way out: who owes what, since when, and what keeps them (design 5, I26,
//! scenario 176). Computed from the documents, never kept.

use super::effective::{self, Documents};
use super::keys::{Model, UnitDoc};
use super::refusal::Blocker;
use crate::life::Life;
use crate::names::Uuid;

/// Blockers that people are told of; of more, they need only know that there are more.
pub const BLOCKERS_MAX: usize = 20;
/// Blockers looked for: one that is not told says that there are more.
const LOOKED_FOR: usize = BLOCKERS_MAX + 1;

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

/// What an entity that is Dying or Dead waits for; empty for one that is Alive or gone. Beyond [`BLOCKERS_MAX`] there
/// is one more at most.
pub fn blockers(documents: &mut impl Documents, model: Model, entity: Entity) -> Vec<Blocker> {
    let mut found = match entity {
        Entity::Unit(id) => of_unit(documents, model, id),
        Entity::Application(id) => of_application(documents, model, id),
        Entity::Relation(id) => match effective::relation_life(documents, model, id) {
            Some(Life::Dying | Life::Dead) => members(documents, model, &[id], &[]),
            Some(Life::Alive) | None => Vec::new(),
        },
        Entity::Machine(id) => of_machine(documents, model, id),
    };
    found.truncate(LOOKED_FOR);
    found
}

/// What stands in the way of a removal, and only a person removes.
pub(super) fn by_hand(entity: String, help: String) -> Blocker {
    let (duty, owner) = ("be removed".to_owned(), "operator".to_owned());
    Blocker { entity, duty, owner, since_ms: None, last_error: None, help }
}

/// Who has yet to leave a relation that is suspended, and goes on when it is resumed.
pub fn of_suspended(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<Blocker> {
    if !documents.any(&model.scopes(id)) {
        return Vec::new();
    }
    members(documents, model, &[id], &[])
}

/// Relations that hold the places of an endpoint: one that is Alive goes by a person's hand, another once it is left.
pub(super) fn of_places(
    documents: &mut impl Documents,
    model: Model,
    place: &str,
    relations: &[Uuid],
) -> Vec<Blocker> {
    let mut found = Vec::new();
    for id in relations.iter().take(LOOKED_FOR) {
        let going = blockers(documents, model, Entity::Relation(*id));
        if !going.is_empty() {
            found.extend(going);
        } else if let Some(doc) = documents.document(&model.relation(*id)) {
            let ends = doc.key_text();
            let duty = format!("be removed: relation {} holds a place of {place}", doc.number);
            let help = format!("pintle remove-relation {ends}");
            let since_ms = Some(doc.created_ms);
            found.push(Blocker { duty, since_ms, ..by_hand(format!("relation {ends}"), help) });
        }
    }
    found.truncate(LOOKED_FOR);
    found
}

/// A Dead unit waits for its machine agent, a Dying one for its subordinates, and for its own agent unless that one
/// waits for these alone. When its life ended is no document's to say.
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
    vec![own(documents, model, (id, &doc))]
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

/// What the unit's agent has yet to do before it may say that it is dead.
fn own(documents: &mut impl Documents, model: Model, (id, doc): (Uuid, &UnitDoc)) -> Blocker {
    let scopes = to_leave(documents, model, id);
    let duty = match scopes.is_empty() {
        true => "stop and say that it is dead".to_owned(),
        false => format!("leave {}, stop and say that it is dead", listed(&scopes)),
    };
    owed_by(documents, model, (id, doc), duty)
}

/// The relations whose scopes the unit's agent leaves; those of peers it leaves with its death.
fn to_leave(documents: &mut impl Documents, model: Model, id: Uuid) -> Vec<String> {
    let mut scopes = Vec::new();
    for relation in documents.ids(&model.scopes_of(id), LOOKED_FOR) {
        let doc = documents.document(&model.relation(relation));
        scopes.extend(doc.filter(|doc| !doc.is_peer()).map(|doc| doc.key_text()));
    }
    scopes
}

fn listed(all: &[String]) -> String {
    match all.get(..BLOCKERS_MAX) {
        Some(some) if some.len() < all.len() => format!("{} and more", some.join(", ")),
        _ => all.join(", "),
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
    let units = documents.ids(&model.units_of(id), LOOKED_FOR);
    let mut found = Vec::new();
    for unit in &units {
        found.extend(of_unit(documents, model, *unit));
    }
    let relations = documents.ids(&model.relations_of(id), LOOKED_FOR);
    found.extend(members(documents, model, &relations, &units));
    found
}

/// Everybody in these relations' scopes owes leaving them, and says so in one line; `told` are units that have said
/// what they owe. Nobody in scope: the janitor owes a relation's removal.
fn members(documents: &mut impl Documents, model: Model, relations: &[Uuid], told: &[Uuid]) -> Vec<Blocker> {
    let mut stay: Vec<(Uuid, UnitDoc, Vec<String>)> = Vec::new();
    let mut found = Vec::new();
    for id in relations {
        let Some(relation) = documents.document(&model.relation(*id)) else {
            continue;
        };
        let present = documents.ids(&model.scopes(*id), LOOKED_FOR);
        if present.is_empty() {
            found.push(Blocker {
                entity: format!("relation {}", relation.key_text()),
                duty: "be removed".to_owned(),
                owner: "the controller's janitor".to_owned(),
                since_ms: None,
                last_error: None,
                help: "nothing to do: it is removed in the next bites".to_owned(),
            });
        }
        for unit in present.into_iter().filter(|unit| !told.contains(unit)) {
            match stay.iter_mut().find(|(id, ..)| *id == unit) {
                Some((_, _, scopes)) => scopes.push(relation.key_text()),
                None => {
                    let doc = documents.document(&model.unit(unit));
                    stay.extend(doc.map(|doc| (unit, doc, vec![relation.key_text()])));
                }
            }
        }
    }
    for (unit, doc, scopes) in stay {
        let relations = if scopes.len() == 1 { "relation" } else { "relations" };
        let duty = format!("leave {relations} {}", listed(&scopes));
        found.push(owed_by(documents, model, (unit, &doc), duty));
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
    let units = documents.ids(&model.units_on(id), LOOKED_FOR);
    if !units.is_empty() {
        return units.into_iter().flat_map(|unit| of_unit(documents, model, unit)).collect();
    }
    let name = &machine.name;
    let (agent, provisioner) = (format!("the agent of machine {name}"), PROVISIONER.to_owned());
    let by_itself = "nothing to do while pintle up runs: it comes by itself".to_owned();
    let has_agent = documents.document(&model.machine_instance(id)).is_some();
    let (duty, owner, help) = match (dead, has_agent, machine.manual || machine.kept && !machine.left) {
        (true, true, true) => {
            let help = match documents.document(&model.forced(id)) {
                Some(_) => {
                    "it comes by itself; if its host is gone, force ends it within a minute".to_owned()
                }
                None => {
                    format!("it comes by itself; if its host is gone: pintle remove-machine --force {name}")
                }
            };
            ("take itself away", agent, help)
        }
        (true, _, _) => ("be released and removed", provisioner, by_itself),
        (false, true, _) => ("say that it is dead", agent.clone(), format!("see that {agent} runs")),
        (false, false, _) => ("be said to be dead: it was never started", provisioner, by_itself),
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
