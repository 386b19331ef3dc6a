//! What a relation hook sees of its relation, and the status of a unit whose relation hook has failed.

use crate::documents::prelude::StatusDoc;
use crate::terms::member_version::MemberVersion;
use crate::terms::names::RelationNumber;
use crate::terms::start_reason::StartReason;
use crate::terms::status::AgentStatus;
use crate::tests::relations::pair;
use crate::tests::*;
use crate::unit::hook_context::{GoalStatus, HookContext, HookRelation};
use crate::unit::hook_context_builder::{ContextInput, build};
use crate::unit::local::Run;

fn joined(unit: &str) -> RelationEvent {
    let version = MemberVersion { incarnation: 1, counter: 1 };
    RelationEvent::Joined { unit: unit.parse().expect("a unit"), version }
}

fn departed(unit: &str) -> RelationEvent {
    let unit: UnitName = unit.parse().expect("a unit");
    RelationEvent::Departed { unit: unit.clone(), departing: unit }
}

/// The relation as the hook of web/0 reads it, after the hooks `before`.
fn seen(before: &[RelationEvent], event: RelationEvent) -> HookRelation {
    let mut world = World::new();
    let (id, mut web, _db) = pair(&mut world);
    let number = world.number(id);
    for event in before {
        let operation = web.relation_hook(number, event.clone());
        web.done(&mut world, operation);
    }
    let mut context = context_of(&world, &web, number, event);
    context.relations.remove(&number).expect("the unit is in the relation")
}

/// The context of a relation hook of web/0.
fn context_of(world: &World, web: &Agent, number: RelationNumber, event: RelationEvent) -> HookContext {
    let view = view::full_view(world.reader(), MODEL, web.unit).expect("the unit exists");
    let view = Snapshot::from_full(view.delta).expect("a full view is complete");
    let operation = web.relation_hook(number, event);
    let run = Run::new(web.local.run + 1, operation, StartReason::Requested);
    let input = ContextInput {
        declared: &charms::web(),
        id_suffix: "0",
        is_leader: false,
        device: None,
        commands: None,
        message_text: |_| String::new(),
    };
    build(&web.local, &view, &run, &input).expect("it is a hook")
}

#[test]
fn goal_state_names_the_units_that_are_being_removed() {
    let mut world = World::new();
    let (id, web, db) = pair(&mut world);
    let number = world.number(id);
    let goals = |world: &World| {
        let goal_state = context_of(world, &web, number, joined("db/0")).goal_state;
        [&goal_state.units["web/0"], &goal_state.relations["db"]["db/0"]].map(|goal| goal.status)
    };
    let alive = goals(&world);
    assert!(alive.iter().all(|status| matches!(status, GoalStatus::Workload(_))), "{alive:?}");
    world.run(|draft, _| unit::destroy(draft, MODEL, db.unit, 60)).expect("the removal is accepted");
    assert_eq!(goals(&world), [alive[0], GoalStatus::Dying]);
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    assert_eq!(goals(&world), [GoalStatus::Dying; 2]);
}

#[test]
fn scenarios_108_and_109_a_hook_sees_its_own_change_of_the_members() {
    let members = |event| {
        seen(&[joined("db/0")], event).members.into_iter().map(|unit| unit.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(members(departed("db/0")), Vec::<String>::new());
    assert_eq!(members(joined("db/1")), ["db/0", "db/1"]);
}

#[test]
fn scenario_110_a_broken_hook_sees_no_alive_relation() {
    let before = [joined("db/0"), departed("db/0")];
    assert!(seen(&before, RelationEvent::Broken).is_broken());
    assert!(!seen(&before[..1], departed("db/0")).is_broken());
}

#[test]
fn scenarios_41_and_42_the_error_names_the_hook_the_relation_and_the_remote_unit() {
    let version = MemberVersion { incarnation: 1, counter: 1 };
    let changed = RelationEvent::Changed { unit: UnitName::new("db", 0), version };
    for (event, hook, remote) in [
        (joined("db/0"), "db-relation-joined", Some("db/0")),
        (changed, "db-relation-changed", Some("db/0")),
        (departed("db/0"), "db-relation-departed", Some("db/0")),
        (RelationEvent::Broken, "db-relation-broken", None),
    ] {
        let mut world = World::new();
        let (id, mut web, _db) = pair(&mut world);
        let number = world.number(id);
        let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
        let record = web.record(web.relation_hook(number, event), failed);
        web.commit(&mut world, record);
        let status: StatusDoc<AgentStatus> =
            read(world.reader(), &MODEL.agent_status(web.unit)).expect("it was reported");
        assert_eq!(status.status, AgentStatus::Error);
        let text = |key: &str| {
            status.data.get(key).map(|value| value.as_str().map_or(value.to_string(), str::to_owned))
        };
        let found = [text("hook"), text("relation-id"), text("remote-unit")];
        assert_eq!(found, [Some(hook.to_owned()), Some(number.to_string()), remote.map(str::to_owned)]);
    }
}
