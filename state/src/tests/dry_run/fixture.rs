//! The fixture of the tests of dry runs: dry runs of present agents, and two related applications.

use crate::documents::blockers::EntityId;
use crate::terms::cause::Entity;
use crate::terms::force::Force;
use crate::terms::member_version::MemberVersion;
use crate::tests::*;
use crate::transitions::dry_run::{self, AgentReports, DryRun, Removal};

/// All agents are present.
pub const ALL_PRESENT: AgentReports<'_> = AgentReports { silent_agent: &|_| None, running_hook: &|_| None };

pub fn dry_run_together(
    reader: &dyn Reader,
    model: Model,
    entities: &[EntityId],
    force: Force,
) -> Result<DryRun, Refusal> {
    dry_run::dry_run(reader, model, Removal { entities, force, now_ms: 1 }, &ALL_PRESENT)
}

pub fn dry_run_within(
    reader: &dyn Reader,
    model: Model,
    removal: Removal<'_>,
    documents_read_max: usize,
) -> Result<DryRun, Refusal> {
    dry_run::dry_run_within(reader, model, removal, &ALL_PRESENT, documents_read_max)
        .map(|(result, _)| result)
}

pub fn dry_run_alone(world: &World, entity: EntityId) -> DryRun {
    dry_run_together(world.reader(), MODEL, &[entity], Force::No).expect("the removal is accepted")
}

pub fn hooks(result: &DryRun) -> Vec<String> {
    result.hooks.iter().map(|expected| format!("{} {}", expected.unit, expected.hook)).collect()
}

/// web/0 and db/0 in a relation, each having observed the other.
pub fn related_units(world: &mut World) -> (Uuid, Agent, Agent) {
    world.deploy("shop", "web", 1);
    world.deploy("db", "db", 1);
    let id = world.integrate("shop", "db").expect("the endpoints are compatible");
    let number = world.number(id);
    let (mut shop, mut db) = (Agent::attach(world, "shop/0"), Agent::attach(world, "db/0"));
    for agent in [&mut shop, &mut db] {
        agent.start(world);
        agent.enter(world, id);
        let created = agent.relation_hook(number, RelationEvent::Created);
        agent.done(world, created);
    }
    let version = MemberVersion { incarnation: 1, counter: 1 };
    for (agent, other) in [(&mut shop, "db/0"), (&mut db, "shop/0")] {
        let unit: UnitName = other.parse().expect("a name");
        for event in [
            RelationEvent::Joined { unit: unit.clone(), version },
            RelationEvent::Changed { unit: unit.clone(), version },
        ] {
            let hook = agent.relation_hook(number, event);
            agent.done(world, hook);
        }
    }
    (id, shop, db)
}

/// The entities in the notation of these tests, which is independent of the texts of messages.
pub fn names(all: &[Entity]) -> Vec<String> {
    let notation = |entity: &Entity| match entity {
        Entity::Unit(name) => format!("unit {name}"),
        Entity::Application(name) => format!("application {name}"),
        Entity::Relation(name) => format!("relation {} ({})", name.number, name.ends),
        Entity::Machine(name) => format!("machine {name}"),
        Entity::Model(name) => format!("model {name}"),
    };
    all.iter().map(notation).collect()
}
