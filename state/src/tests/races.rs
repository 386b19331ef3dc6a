//! Tests of races: two transitions that are drafted on the same documents and are allowed alone, but not in this
//! order. The one that commits second finds that a document it read has changed.

use crate::lifecycle::application::Deploy;
use crate::lifecycle::creation::Creation;
use crate::lifecycle::leadership;
use crate::lifecycle::{application, machine, scope, unit};
use crate::tests::relations::pair;
use crate::tests::*;

type Call = Box<dyn Fn(&mut Draft, &mut dyn FnMut() -> Uuid) -> Result<(), Refusal>>;

fn call(transition: impl Fn(&mut Draft, &mut dyn FnMut() -> Uuid) -> Result<(), Refusal> + 'static) -> Call {
    Box::new(transition)
}

/// `early` commits. `late`, which was drafted before that, conflicts. Run again, it is refused with this code, or
/// succeeds if the code is none.
fn excludes(base: &World, early: &Call, late: &Call, then: Option<Code>) {
    let mut world = base.copy();
    let stale = world.documents.clone();
    world.run(early).expect("allowed alone");
    world.stale = Some(stale);
    assert_eq!(world.run(late), Err(crate::tests::stale()));
    world.stale = None;
    assert_eq!(world.run(late).err().map(|refusal| refusal.code()), then);
}

#[test]
fn entering_a_scope_and_removing_the_relation_exclude_each_other() {
    let mut world = World::new();
    let (id, web, db) = pair(&mut world);
    let app = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids)).expect("alive");
    let late = Agent::attach(&mut world, "web/1").unit;
    let enter = call(move |draft, ids| {
        scope::enter(draft, MODEL, late, id, &Bag::new(), Creation { now_ms: 1, ids })
    });
    let destroy_unit = call(move |draft, _| unit::destroy(draft, MODEL, late, 60).map(|_| ()));
    let destroy_application = call(move |draft, _| application::destroy(draft, MODEL, app).map(|_| ()));
    excludes(&world, &destroy_unit, &enter, Some(Code::NotAlive));
    excludes(&world, &destroy_application, &enter, Some(Code::NotAlive));

    // the last unit leaves while another enters
    let leave = |unit| {
        call(move |draft, _| {
            relation::leave_scope(draft, MODEL, unit, id);
            Ok(())
        })
    };
    world.run(leave(db.unit)).expect("no refusal");
    world.run(leave(web.unit)).expect("no refusal");
    let destroy = call(move |draft, _| relation::destroy(draft, MODEL, id).map(|_| ()));
    excludes(&world, &destroy, &enter, Some(Code::NotFound));
    excludes(&world, &enter, &destroy, None);
}

#[test]
fn one_of_the_last_two_departing_units_removes_the_relation() {
    let mut world = World::new();
    let (id, web, db) = pair(&mut world);
    world.run(|draft, _| relation::destroy(draft, MODEL, id)).expect("the removal is accepted");
    let leave = |unit| {
        call(move |draft, _| {
            relation::leave_scope(draft, MODEL, unit, id);
            Ok(())
        })
    };
    let (first, second) = (leave(web.unit), leave(db.unit));
    excludes(&world, &first, &second, None);
    excludes(&world, &second, &first, None);
    world.run(first).expect("no refusal");
    world.run(second).expect("no refusal");
    assert!(world.is_removed(id));
}

#[test]
fn no_entity_is_added_to_one_that_is_being_removed() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let unit = world.unit("web/0");
    let machine = read(world.reader(), &MODEL.unit(unit)).expect("the unit exists").machine;
    let destroy = call(move |draft, _| application::destroy(draft, MODEL, app).map(|_| ()));
    let add = call(move |draft, ids| unit::add(draft, MODEL, app, None, 1, ids).map(|_| ()));
    excludes(&world, &destroy, &add, Some(Code::NotAlive));
    let relate = call(|draft, ids| relation::add(draft, MODEL, ["web", "db"], ids(), 1).map(|_| ()));
    excludes(&world, &destroy, &relate, Some(Code::NotAlive));
    excludes(&world, &relate, &destroy, None);
    // the last unit leaves the machine while another is assigned
    let remove = call(move |draft, _| unit::destroy(draft, MODEL, unit, 60).map(|_| ()));
    let share = call(move |draft, ids| unit::add(draft, MODEL, app, Some("0"), 1, ids).map(|_| ()));
    excludes(&world, &remove, &share, Some(Code::NotAlive));
    excludes(&world, &share, &remove, None);
    let first = attach(9, 0);
    let attach = call(move |draft, _| {
        session::attach(draft, MODEL, unit, first.clone(), GENERATION, false).map(|_| ())
    });
    excludes(&world, &remove, &attach, Some(Code::Removed));
    excludes(&world, &attach, &remove, None);
    // the machine is destroyed while a unit is assigned
    Agent::attach(&mut world, "web/0");
    world.run(remove).expect("the removal is accepted");
    let end = call(move |draft, _| machine::destroy(draft, MODEL, machine));
    excludes(&world, &end, &share, Some(Code::NotAlive));
    excludes(&world, &share, &end, Some(Code::Busy));
}

#[test]
fn names_leaders_and_relations_are_unique_under_concurrency() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    world.deploy("db", "db", 1);
    let request =
        Deploy { application: Some("shop".into()), sha256: "web".into(), units: 1, ..Deploy::default() };
    let deploy = call(move |draft, ids| {
        application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }).map(|_| ())
    });
    excludes(&world, &deploy, &deploy, Some(Code::AlreadyExists));
    let relate = call(|draft, ids| relation::add(draft, MODEL, ["web", "db"], ids(), 1).map(|_| ()));
    excludes(&world, &relate, &relate, Some(Code::AlreadyExists));
    // the last free capacity of an endpoint, whose relations are counted without being recorded
    let mut one = web();
    one.endpoints.get_mut("db").expect("it has it").limit = Some(1);
    world.upload("one", one);
    world.deploy("one", "one", 0);
    world.deploy("spare", "db", 0);
    let relate = |to| call(move |draft, ids| relation::add(draft, MODEL, ["one", to], ids(), 1).map(drop));
    excludes(&world, &relate("db"), &relate("spare"), Some(Code::Busy));
    let (one, two) = (world.unit("web/0"), world.unit("web/1"));
    let claim = |unit| call(move |draft, _| leadership::claim(draft, MODEL, unit, false).map(|_| ()));
    excludes(&world, &claim(one), &claim(two), None);
}
