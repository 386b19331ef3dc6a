//! The hooks, the removals and the skipped hooks that a dry run predicts for units, relations and machines, compared with
//! those of spec A.7, A.11, A.12 and E.3. The removals are not made here.

use crate::documents::blockers::EntityId;
use crate::lifecycle::leadership;
use crate::lifecycle::machine;
use crate::terms::activity::Activity;
use crate::terms::cause::Entity;
use crate::terms::force::Force;
use crate::terms::hook_name::{HookName, RelationEventName};
use crate::terms::member_version::MemberVersion;
use crate::tests::dry_run::fixture::{
    ALL_PRESENT, dry_run_alone, dry_run_together, hooks, names, related_units,
};
use crate::tests::*;
use crate::transitions::dry_run::{self, AgentReports, DryRun, Removal};
use crate::unit::resolve::{Act, Now, next};

#[test]
fn scenario_86_a_dry_run_predicts_the_hooks_and_changes_nothing() {
    let mut world = World::new();
    let (id, shop, _) = related_units(&mut world);
    let number = world.number(id);
    let before = world.documents.map.clone();
    let result = dry_run_alone(&world, EntityId::Unit(shop.unit));
    assert_eq!(
        (names(&result.removed_immediately), names(&result.dying)),
        (vec![], vec!["unit shop/0".to_owned()])
    );
    let own: Vec<String> = hooks(&result).into_iter().filter(|hook| hook.starts_with("shop/0")).collect();
    assert_eq!(
        own,
        [
            format!("shop/0 db-relation-departed db:{number} db/0 departing=shop/0"),
            format!("shop/0 db-relation-broken db:{number}"),
            "shop/0 stop".to_owned(),
            "shop/0 remove".to_owned(),
        ]
    );
    let departed = format!("db/0 server-relation-departed server:{number} shop/0 departing=shop/0");
    assert!(hooks(&result).contains(&departed), "{:?}", result.hooks);
    assert_eq!(
        names(&result.removed_eventually),
        ["machine 0", "unit shop/0"],
        "the machine has no unit any more (E.3)"
    );
    assert_eq!((result.blockers, result.truncated), (vec![], false));
    assert_eq!(world.documents.map, before);
}

#[test]
fn a_dry_run_predicts_the_next_leader() {
    let mut world = World::new();
    let (_, shop, _) = related_units(&mut world);
    let elected = |world: &World| -> Vec<String> {
        let all = hooks(&dry_run_alone(world, EntityId::Unit(shop.unit)));
        all.into_iter().filter(|hook| hook.contains("leader-elected")).collect()
    };
    let claim = |draft: &mut Draft| leadership::claim(draft, MODEL, shop.unit, false).map(drop);
    world.run(|draft, _| claim(draft)).expect("nobody leads");
    assert_eq!(elected(&world), [""; 0], "nobody is left");
    let application = read(world.reader(), &MODEL.unit(shop.unit)).expect("the unit exists").application;
    let add = |world: &mut World| {
        world.run(|draft, ids| unit::add(draft, MODEL, application, None, 1, ids)).expect("it is alive")
    };
    add(&mut world);
    assert_eq!(elected(&world), ["shop/1 leader-elected"]);
    let (other, _) = add(&mut world);
    assert_eq!(elected(&world), [""; 0], "it may be either");
    world.run(|draft, _| unit::destroy(draft, MODEL, other, 60).map(drop)).expect("no agent has attached");
    assert_eq!(elected(&world), ["shop/1 leader-elected"]);
    world.run(|draft, _| unit::destroy(draft, MODEL, shop.unit, 60)).expect("the removal is accepted");
    assert_eq!(elected(&world), [""; 0], "it is under way already");
}

#[test]
fn a_removed_relation_runs_broken_hooks_on_both_ends() {
    let mut world = World::new();
    let (id, _, _) = related_units(&mut world);
    let number = world.number(id);
    let result = dry_run_alone(&world, EntityId::Relation(id));
    for (unit, endpoint) in [("shop/0", "db"), ("db/0", "server")] {
        let broken = format!("{unit} {endpoint}-relation-broken {endpoint}:{number}");
        assert!(hooks(&result).contains(&broken), "{:?}", result.hooks);
    }
    assert_eq!(result.removed_eventually.len(), 1, "{:?}", result.removed_eventually);
    assert_eq!(result.blockers, []);
}

#[test]
fn entities_without_started_agents_are_removed_immediately() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let result = dry_run_alone(&world, EntityId::Unit(unit));
    assert_eq!((names(&result.removed_immediately), result.hooks), (vec!["unit web/0".to_owned()], vec![]));
}

/// web/0 with logging/0, in a suspended relation that both have left.
fn suspended(world: &mut World) -> (Uuid, Agent, Agent) {
    world.deploy("web", "web", 1);
    world.deploy("logging", "logging", 0);
    let id = world.integrate("web", "logging").expect("the endpoints are compatible");
    let mut web = Agent::attach(world, "web/0");
    web.start(world);
    web.enter(world, id);
    let mut logging = Agent::attach(world, "logging/0");
    logging.start(world);
    logging.enter(world, id);
    let created = logging.relation_hook(world.number(id), RelationEvent::Created);
    logging.done(world, created);
    world.run(|draft, _| relation::suspend(draft, MODEL, id, "", 8)).expect("it is alive");
    web.leave(world, id);
    logging.leave_by_broken(world, id);
    (id, web, logging)
}

/// Spec A.12: a subordinate is Dying with the relation that created it, even if the scope is empty and the relation is
/// removed immediately.
#[test]
fn a_dry_run_includes_the_subordinates_of_a_relation_with_an_empty_scope() {
    let mut world = World::new();
    let (id, _, mut logging) = suspended(&mut world);
    let result = dry_run_alone(&world, EntityId::Relation(id));
    let relation = format!("relation {} (logging:host web:juju-info)", world.number(id));
    assert_eq!(names(&result.removed_immediately), [relation]);
    assert_eq!(names(&result.dying), ["unit logging/0"]);
    assert_eq!(hooks(&result), ["logging/0 stop", "logging/0 remove"]);
    assert_eq!(
        (names(&result.removed_eventually), result.blockers),
        (vec!["unit logging/0".to_owned()], vec![])
    );

    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let record = logging.record(Operation::Hook(Hook::UpdateStatus), failed);
    logging.commit(&mut world, record);
    let result = dry_run_alone(&world, EntityId::Relation(id));
    let blocked: Vec<&Entity> = result.blockers.iter().map(|one| &one.entity).collect();
    let logging = Entity::Unit(UnitName::new("logging", 0));
    assert_eq!(
        (hooks(&result).len(), blocked),
        (0, vec![&logging]),
        "the relation is removed, the unit is not"
    );
}

/// Another unit of the application is Dying already, which is not part of the result of this removal.
#[test]
fn a_dry_run_omits_removals_that_were_requested_before() {
    let mut world = World::new();
    let (id, shop, mut db) = related_units(&mut world);
    let number = world.number(id);
    let app: Uuid = read(world.reader(), &MODEL.application_name("shop")).expect("the application exists");
    world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids)).expect("it is alive");
    let mut other = Agent::attach(&mut world, "shop/1");
    other.start(&mut world);
    other.enter(&mut world, id);
    let created = other.relation_hook(number, RelationEvent::Created);
    other.done(&mut world, created);
    let (unit, version) = (UnitName::new("shop", 1), MemberVersion { incarnation: 1, counter: 1 });
    let joined = db.relation_hook(number, RelationEvent::Joined { unit: unit.clone(), version });
    db.done(&mut world, joined);
    let changed = db.relation_hook(number, RelationEvent::Changed { unit, version });
    db.done(&mut world, changed);
    world.run(|draft, _| unit::destroy(draft, MODEL, other.unit, 60)).expect("the removal is accepted");

    let result = dry_run_alone(&world, EntityId::Unit(shop.unit));
    assert_eq!(
        (names(&result.dying), names(&result.removed_eventually)),
        (vec!["unit shop/0".to_owned()], vec!["machine 0".to_owned(), "unit shop/0".to_owned()])
    );
    let departed = format!("db/0 server-relation-departed server:{number} shop/0 departing=shop/0");
    let related: Vec<String> =
        hooks(&result).into_iter().filter(|hook| !hook.starts_with("shop/0")).collect();
    assert_eq!(related, [departed]);
    assert_eq!(
        dry_run_alone(&world, EntityId::Unit(other.unit)),
        DryRun::default(),
        "the unit is Dying already"
    );
    // By force, all is predicted again. Only a removal that does not wait skips the running hook.
    let what = Activity::from(&decides(&world, &mut other).expect("a hook is pending"));
    let running = |id: Uuid| (id == other.unit).then(|| what.clone());
    for force in [Force::AfterWait, Force::AtOnce] {
        let asked = &[EntityId::Unit(other.unit)][..];
        let result =
            dry_run_together(world.reader(), MODEL, asked, force).expect("the forced removal is accepted");
        assert!(
            names(&result.removed_eventually).contains(&"unit shop/1".to_owned()),
            "{:?}",
            result.removed_eventually
        );
        let reports = AgentReports { running_hook: &running, ..ALL_PRESENT };
        let runs =
            dry_run::dry_run(world.reader(), MODEL, Removal { entities: asked, force, now_ms: 1 }, &reports)
                .expect("the same");
        assert_eq!(
            (runs.skipped_hooks.is_empty(), runs.skipped_hooks),
            (force == Force::AfterWait, result.skipped_hooks)
        );
    }
    let all = dry_run_alone(&world, EntityId::Application(app));
    assert!(!names(&all.dying).contains(&"unit shop/1".to_owned()), "{:?}", all.dying);
    assert!(
        names(&all.removed_eventually).contains(&"application shop".to_owned()),
        "{:?}",
        all.removed_eventually
    );
}

/// The next step of the unit's agent.
fn decides(world: &World, agent: &mut Agent) -> Option<Operation> {
    loop {
        let view = view::full_view(world.reader(), MODEL, agent.unit).expect("there is a view");
        let view = Snapshot::from_full(view.delta).expect("complete");
        let now = Now { boot: "b".to_owned(), ..Now::hypothetical() };
        match next(&agent.local, Some(&view), &now).act {
            Act::Start(run) => return Some(run.operation),
            Act::ChangeLeadership(generation) => agent.local.apply(&Event::LeadershipChanged(generation)),
            Act::RecordOutcome(record) => return Some(record.operation),
            _ => return None,
        }
    }
}

/// Spec A.7, first rows, and A.11, first choice: a running hook finishes before its unit or relation is removed, and
/// makes further hooks pending.
#[test]
fn a_dry_run_finishes_running_hooks_first() {
    let mut world = World::new();
    world.deploy("shop", "shop", 1);
    world.deploy("db", "db", 1);
    let id = world.integrate("shop", "db").expect("the endpoints are compatible");
    let number = world.number(id);
    let (mut shop, mut db) = (Agent::attach(&mut world, "shop/0"), Agent::attach(&mut world, "db/0"));
    let simulate = |world: &World, entity, (running, what): (Uuid, Activity)| {
        let reports =
            AgentReports { running_hook: &|id| (id == running).then(|| what.clone()), ..ALL_PRESENT };
        hooks(
            &dry_run::dry_run(
                world.reader(),
                MODEL,
                Removal { entities: &[entity], force: Force::No, now_ms: 1 },
                &reports,
            )
            .expect("the removal is accepted"),
        )
    };
    let (is_install, is_joined) = (
        |one: &Operation| matches!(one, Operation::Hook(Hook::Install)),
        |one: &Operation| {
            let event = RelationEventName::Joined;
            let name = HookName::Relation { endpoint: "server".to_owned(), event };
            Activity::from(one) == Activity::Hook { name, remote_unit: Some(UnitName::new("shop", 0)) }
        },
    );
    while let Some(operation) = decides(&world, &mut shop) {
        if is_install(&operation) {
            assert_eq!(simulate(&world, EntityId::Unit(shop.unit), (db.unit, Activity::SetDead)), [""; 0]);
            let result =
                simulate(&world, EntityId::Unit(shop.unit), (shop.unit, Activity::hook(HookName::Install)));
            assert_eq!(result, ["shop/0 remove"]);
        }
        shop.done(&mut world, operation);
    }
    let mut operation = decides(&world, &mut db).expect("no operation has started");
    while !is_joined(&operation) {
        db.done(&mut world, operation);
        operation = decides(&world, &mut db).expect("it is not joined yet");
    }
    let of_db = |what: Activity| {
        let result = simulate(&world, EntityId::Relation(id), (db.unit, what)).into_iter();
        result.filter(|hook| hook.starts_with("db/0 server-relation-")).collect::<Vec<_>>()
    };
    let broken = format!("db/0 server-relation-broken server:{number}");
    assert_eq!(of_db(Activity::hook(HookName::UpdateStatus)).join(", "), broken);
    assert_eq!(
        of_db(Activity::from(&operation)),
        [
            format!("db/0 server-relation-changed server:{number} shop/0"),
            format!("db/0 server-relation-departed server:{number} shop/0 departing=shop/0"),
            broken,
        ]
    );
}

/// Spec E.3 last row and E.5: a machine without units is Dying, its agent reports that it is dead, its provider removes
/// it.
#[test]
fn a_dry_run_predicts_the_removal_of_a_machine_without_units() {
    let mut world = World::new();
    let (_, shop, _) = related_units(&mut world);
    let result = dry_run_alone(&world, EntityId::Unit(shop.unit));
    assert_eq!(names(&result.removed_eventually), ["machine 0", "unit shop/0"]);
    let name = world.run(|draft, _| machine::add(draft, MODEL, Uuid(900), 1)).expect("one more");
    let (result, name) = (dry_run_alone(&world, EntityId::Machine(Uuid(900))), format!("machine {name}"));
    assert_eq!(
        (names(&result.dying), names(&result.removed_eventually), result.blockers),
        (vec![name.clone()], vec![name], vec![])
    );
}
