//! Tests of relations: scenarios 160 to 163, 174 and 175 of spec H.13, entering and leaving.

use crate::documents::prelude::{BagDoc, ScopeDoc};
use crate::lifecycle::creation::Creation;
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{application, cleanup, scope, unit};
use crate::terms::cause::{Actor, Cause, Duty, Entity, RelationName};
use crate::terms::owner::Owner;
use crate::tests::*;

fn destroy(world: &mut World, id: Uuid) -> Result<Destroyed, Refusal> {
    world.run(|draft, _| relation::destroy(draft, MODEL, id))
}

/// The refusal of one more relation of an endpoint.
pub fn limit_reached(endpoint: &str, limit: u32) -> (Code, RefusalReason) {
    reason(RelationRefusal::LimitReached { endpoint: endpoint.parse().expect("an endpoint"), limit })
}

/// web/0 and db/0, related and in scope.
pub fn pair(world: &mut World) -> (Uuid, Agent, Agent) {
    world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let id = world.integrate("web", "db").expect("the endpoints are compatible");
    let mut agents = ["web/0", "db/0"].map(|name| Agent::attach(world, name));
    for agent in &mut agents {
        agent.start(world);
        assert_eq!(agent.enter(world, id), CommitOutcome::default());
    }
    let [web, db] = agents;
    (id, web, db)
}

#[test]
fn scenario_160_an_empty_relation_is_removed_immediately_and_recreated_with_a_new_id() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let first = world.integrate("web", "db:server").expect("the endpoints are compatible");
    let number = world.number(first);
    assert_eq!(
        refused(world.integrate("db", "web")),
        reason(RelationRefusal::AlreadyExists { ends: "db:server web:db".parse().expect("the ends") })
    );
    assert_eq!(destroy(&mut world, first), Ok(Destroyed::Removed));
    let second = world.integrate("web", "db").expect("at once");
    assert!(world.is_removed(first) && second != first);
    assert_eq!(world.number(second), number + 1);
    assert_eq!(
        destroy(&mut world, first),
        Ok(Destroyed::Removed),
        "the old one's second time changes nothing"
    );
    assert_eq!(world.life(second), Some(Life::Alive));
}

#[test]
fn scenario_161_the_last_unit_out_removes_a_dying_relation() {
    let mut world = World::new();
    let (id, mut web, mut db) = pair(&mut world);
    let number = world.number(id);
    assert_eq!(destroy(&mut world, id), Ok(Destroyed::Dying));
    let revision = world.documents.map[MODEL.relation_life(id).text()].0;
    assert_eq!(destroy(&mut world, id), Ok(Destroyed::Dying));
    assert_eq!(world.documents.map[MODEL.relation_life(id).text()].0, revision, "the second is a no-op");
    web.broken(&mut world, number);
    assert_eq!(world.life(id), Some(Life::Dying));
    db.broken(&mut world, number);
    assert!(world.is_removed(id));
    world.integrate("web", "db").expect("at once");
}

#[test]
fn scenario_162_an_empty_relation_is_removed_with_an_application_without_units() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 0);
    let other = world.deploy("db", "db", 1);
    let id = world.integrate("web", "db").expect("the endpoints are compatible");
    let answer = world.run(|draft, _| application::destroy(draft, MODEL, app));
    assert_eq!(answer, Ok(Destroyed::Removed));
    assert!(world.is_removed(app) && world.is_removed(id));
    assert_eq!(world.life(other), Some(Life::Alive));
}

#[test]
fn scenario_163_the_last_unit_of_the_other_application_removes_a_dying_application() {
    let mut world = World::new();
    let (id, mut web, mut db) = pair(&mut world);
    let (app, number) = (
        read(world.reader(), &MODEL.application_name("web")).expect("the application exists"),
        world.number(id),
    );
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    assert_eq!(world.life(id), Some(Life::Dying), "derived from its application");
    web.finish(&mut world);
    assert!(!world.is_removed(app), "db/0 is in scope still");
    let revision = world.documents.revision;
    db.broken(&mut world, number);
    assert!(world.is_removed(app) && world.is_removed(id), "gone together");
    assert_eq!(world.documents.revision, revision + 1);
}

#[test]
fn scenario_174_no_unit_enters_a_dying_relation() {
    let mut world = World::new();
    let (id, ..) = pair(&mut world);
    let app = read(world.reader(), &MODEL.application_name("web")).expect("the application exists");
    world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids)).expect("it is alive");
    let mut late = Agent::attach(&mut world, "web/1");
    late.start(&mut world);
    destroy(&mut world, id).expect("the removal is accepted");
    let committed = late.enter(&mut world, id);
    let (unit, ends) = (UnitName::new("web", 1), "db:server web:db".parse().expect("the ends"));
    let dying = ScopeRefusal::RelationNotAlive { unit, ends, life: Life::Dying };
    assert_eq!(committed.refusal, Some(dying.into()));
    assert!(read(world.reader(), &MODEL.scope_of(late.unit, id)).is_none());
}

#[test]
fn scenario_175_a_peer_relation_is_removed_only_with_its_application() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let ring = read(world.reader(), &MODEL.relation_key(&"web:ring".parse().expect("the ends")))
        .expect("a peer relation");
    let peer = RelationRefusal::PeerRemoved { ends: "web:ring".parse().expect("the ends") };
    assert_eq!(refused(destroy(&mut world, ring)), reason(peer));
}

#[test]
fn a_unit_in_scope_cannot_be_dead_and_leaves_peer_scopes_with_its_death() {
    let mut world = World::new();
    let (id, mut web, _db) = pair(&mut world);
    let ring = read(world.reader(), &MODEL.relation_key(&"web:ring".parse().expect("the ends")))
        .expect("a peer relation");
    web.enter(&mut world, ring);
    world.run(|draft, _| unit::destroy(draft, MODEL, web.unit, 60)).expect("the removal is accepted");
    let committed = web.done(&mut world, Operation::SetDead);
    let in_scope = UnitRefusal::InScope { unit: web0(), ends: "db:server web:db".parse().expect("the ends") };
    assert_eq!(committed.refusal, Some(in_scope.into()));
    let number = world.number(id);
    web.broken(&mut world, number);
    assert_eq!(web.done(&mut world, Operation::SetDead), CommitOutcome::default());
    assert_eq!(read(world.reader(), &MODEL.scope_of(web.unit, ring)), None);
    assert_eq!(world.life(ring), Some(Life::Alive), "its application lives on");
}

#[test]
fn each_entry_is_a_new_incarnation_with_its_settings() {
    let mut world = World::new();
    let (id, mut web, _db) = pair(&mut world);
    let scope = MODEL.scope(id, Uuid(0), web.unit);
    let first: ScopeDoc = read(world.reader(), &scope).expect("in scope");
    let again = world
        .run(|draft, ids| scope::enter(draft, MODEL, web.unit, id, &Bag::new(), Creation { now_ms: 1, ids }));
    assert_eq!(again, Ok(()));
    assert_eq!(read(world.reader(), &scope), Some(first.clone()), "in scope already: it stays");
    // 1. A unit resyncs in batches, and one batch is applied. 2. Its folder is lost: it enters again, without any
    // knowledge of what was published (sim 55000707).
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("in scope");
    assert_eq!(bag.values, Bag::new(), "the unit has published only the settings of its entry");
    let settings = Bag::from([("private-address".to_owned(), "127.0.0.1".to_owned())]);
    world
        .run(|draft, ids| scope::enter(draft, MODEL, web.unit, id, &settings, Creation { now_ms: 1, ids }))
        .expect("in scope already");
    world
        .run(|draft, _| {
            relation::leave_scope(draft, MODEL, web.unit, id);
            Ok(())
        })
        .expect("no refusal");
    let left: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("I14: settings stay");
    assert_eq!(left.values["private-address"], "127.0.0.1");
    web.enter(&mut world, id);
    let second: ScopeDoc = read(world.reader(), &scope).expect("in scope");
    assert!(second.incarnation > first.incarnation);
    let bag: BagDoc = read(world.reader(), &MODEL.bag(id, web.unit)).expect("its settings");
    assert!(bag.counter > left.counter);
}

#[test]
fn endpoints_are_inferred_or_refused_in_one_line() {
    let mut world = World::new();
    world.deploy("web", "web", 0);
    world.deploy("db", "db", 0);
    world.deploy("plain", "plain", 0);
    let application = || "web".to_owned();
    let ends = |ends: &[&str]| ends.iter().map(|end| (*end).to_owned()).collect();
    let (left_ends, right_ends) = (&["web:db", "web:ring", "web:juju-info"], &["plain:juju-info"]);
    let cases = [
        ("web", "nobody", not_found(EntityKind::Application, "nobody")),
        (
            "web:dbx",
            "db",
            reason(RelationRefusal::UnknownEndpoint {
                application: application(),
                endpoint: "dbx".to_owned(),
            }),
        ),
        ("web", "web", reason(RelationRefusal::SameApplication { application: application() })),
        ("web:", "db", reason(RelationRefusal::InvalidEnd { text: "web:".to_owned() })),
        (
            "web",
            "plain",
            reason(RelationRefusal::NoCommonInterface { left: ends(left_ends), right: ends(right_ends) }),
        ),
    ];
    for (left, right, expected) in cases {
        assert_eq!(refused(world.integrate(left, right)), expected);
    }
    let mut two = db();
    two.endpoints.extend([endpoint("mirror", Role::Provider, "mysql")]);
    let mut one = web();
    one.endpoints.get_mut("db").expect("it has it").limit = Some(1);
    for (sha256, charm) in [("two", two), ("one", one)] {
        world.upload(sha256, charm);
    }
    world.deploy("two", "two", 0);
    world.deploy("one", "one", 0);
    let pair = |two: &str| ("web:db".to_owned(), format!("two:{two}"));
    let ambiguous = RelationRefusal::AmbiguousEndpoints { pairs: vec![pair("mirror"), pair("server")] };
    assert_eq!(refused(world.integrate("web", "two")), reason(ambiguous));
    world.integrate("one", "db").expect("below its limit");
    assert_eq!(refused(world.integrate("one", "two:server")), limit_reached("one:db", 1));
}

/// A transaction reads at most a hundred documents, which does not limit what is counted.
#[test]
fn capacity_counts_all_relations_of_an_application() {
    let mut world = World::new();
    let mut one = web();
    one.endpoints.get_mut("db").expect("it has it").limit = Some(120);
    world.upload("one", one);
    world.deploy("one", "one", 0);
    for at in 0..120 {
        let name = format!("db{at}");
        world.deploy(&name, "db", 0);
        world.integrate("one", &name).expect("below its limit");
    }
    world.deploy("late", "db", 0);
    assert_eq!(refused(world.integrate("one", "late")), limit_reached("one:db", 120));
}

#[test]
fn relations_that_use_the_capacity_of_an_endpoint_are_named_with_what_frees_it() {
    let mut world = World::new();
    let mut one = web();
    one.endpoints.get_mut("db").expect("it has it").limit = Some(2);
    world.upload("one", one);
    world.deploy("one", "one", 1);
    for name in ["db", "spare", "late"] {
        world.deploy(name, "db", 1);
    }
    let dying = world.integrate("one", "db").expect("below its limit");
    let stays = world.integrate("one", "spare").expect("below its limit");
    let mut agent = Agent::attach(&mut world, "one/0");
    agent.start(&mut world);
    agent.enter(&mut world, dying);
    assert_eq!(destroy(&mut world, dying), Ok(Destroyed::Dying));
    let mut blockers = world.integrate("one", "late").expect_err("it has no capacity left").blockers;
    blockers.sort_by(|a, b| a.entity.cmp(&b.entity));
    let named =
        |id, ends: &str| RelationName { number: world.number(id), ends: ends.parse().expect("the ends") };
    let leave = Duty::LeaveScopes { relations: vec![named(dying, "db:server one:db")] };
    let endpoint = "one:db".parse().expect("an endpoint");
    let used = Entity::Relation(named(stays, "one:db spare:server"));
    let created_ms = read(world.reader(), &MODEL.relation(stays)).expect("the relation exists").created_ms;
    let free = Cause::new(used, Duty::FreeCapacity { endpoint }, Actor::Operator).since(created_ms);
    assert_eq!(blockers, [Cause::of_unit_agent(&UnitName::new("one", 0), leave), free]);
}

#[test]
fn a_relation_is_found_by_its_ends() {
    let mut world = World::new();
    world.deploy("web", "web", 0);
    world.deploy("db", "db", 0);
    let id = world.integrate("web", "db").expect("the endpoints are compatible");
    let mut find = |a: &str, b: &str| world.run(|draft, _| relation::find(draft, MODEL, a, b));
    for (a, b) in [("web", "db"), ("db", "web:db"), ("db:server", "web")] {
        assert_eq!(find(a, b), Ok(id), "{a} {b}");
    }
    assert_eq!(
        refused(find("web:ring", "db")),
        reason(RelationRefusal::NotFound { left: "web:ring".to_owned(), right: "db".to_owned() })
    );
    assert_eq!(refused(find("web", "web")).0, Code::NotFound);
    assert!(find("web:ring", "web:ring").is_ok());
    // among many others
    for n in 0..50 {
        let name = format!("db{n}");
        world.deploy(&name, "db", 0);
        let id = world.integrate("web:db", &format!("{name}:server")).expect("the endpoints are compatible");
        assert_eq!(world.run(|draft, _| relation::find(draft, MODEL, "web", &name)), Ok(id));
    }
}

#[test]
fn bags_of_a_removed_relation_are_deleted_in_batches() {
    let mut world = World::new();
    let (id, ..) = pair(&mut world);
    let plant = |draft: &mut Draft, from: u128| {
        for owner in from..from + 50 {
            let bag = BagDoc::new(Owner::Unit(UnitName::new("web", owner as u32 + 9)));
            draft.put(&MODEL.bag(id, Uuid(5000 + owner)), &bag);
        }
    };
    for from in [0, 50] {
        world
            .run(|draft, _| {
                plant(draft, from);
                Ok(())
            })
            .expect("no refusal");
    }
    destroy(&mut world, id).expect("the removal is accepted");
    for (key, _) in read_all::<ScopeDoc>(world.reader(), &MODEL.scopes(id)) {
        let unit = last_id(&key).expect("a unit");
        world
            .run(|draft, _| {
                relation::leave_scope(draft, MODEL, unit, id);
                Ok(())
            })
            .expect("no refusal");
    }
    assert!(world.is_removed(id));
    let mut batches = 0;
    while world.run(|draft, _| Ok(cleanup::clean_batch(draft, MODEL, id))).expect("no refusal") {
        batches += 1;
        assert!(batches < 10, "it ends");
    }
    assert!(read_all::<BagDoc>(world.reader(), &MODEL.bags(id)).is_empty());
    assert_eq!(read(world.reader(), &MODEL.cleanup(id)), None);
    assert!(batches >= 2);
}

#[test]
fn an_application_with_many_relations_is_destroyed_by_one_transaction_and_cleaned_up_in_batches() {
    let mut world = World::new();
    let app = world.deploy("db", "db", 0);
    let ids: Vec<Uuid> = (0..23)
        .map(|n| {
            let name = format!("w{n}");
            world.deploy(&name, "web", 0);
            world.integrate(&name, "db").expect("the endpoints are compatible")
        })
        .collect();
    let answer = world.run(|draft, _| application::destroy(draft, MODEL, app));
    assert_eq!(answer, Ok(Destroyed::Dying));
    let mut batches = 0;
    while read(world.reader(), &MODEL.application_relation_removal(app)).is_some() {
        world
            .run(|draft, _| {
                application::remove_next_batch(draft, MODEL, app);
                Ok(())
            })
            .expect("no refusal");
        batches += 1;
        assert!(batches < 20, "it ends");
    }
    assert!(world.is_removed(app) && ids.iter().all(|id| world.is_removed(*id)));
}
