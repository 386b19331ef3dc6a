//! Tests of the lifecycles: the scenarios of spec H.13, by number. Every commit is checked against the invariants.

use crate::documents::blockers::{BLOCKERS_MAX, EntityId, blockers};
use crate::documents::keys::UnitDoc;
use crate::lifecycle::application::{self, Deploy, Refresh};
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{machine, model, unit};
use crate::operations::{destruction, instance, leadership};
use crate::terms::cause::{Actor, Duty, Entity, RelationName};
use crate::terms::proxy::{Proxies, Proxy};
use crate::tests::*;
use crate::unit::snapshot::Change;

fn machine_of(world: &World, unit: Uuid) -> Uuid {
    read(world.reader(), &MODEL.unit(unit)).expect("it is there").machine
}

/// A machine that was destroyed by force and is Dying with its only unit, which has started.
fn dying_machine() -> (World, Agent, Uuid) {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let id = machine_of(&world, unit);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    destroy_unit(&mut world, unit);
    world.run(|draft, _| machine::destroy(draft, MODEL, id)).expect("its only unit is Dying");
    (world, agent, id)
}

fn destroy_unit(world: &mut World, id: Uuid) -> Destroyed {
    world.run(|draft, _| unit::destroy(draft, MODEL, id)).expect("it may go")
}

#[test]
fn a_deploy_creates_units_machines_and_peer_relations_in_one_transaction() {
    let mut world = World::new();
    let before = world.documents.revision;
    world.deploy("web", "web", 2);
    assert_eq!(world.documents.revision, before + 1);
    let (first, second) = (world.unit("web/0"), world.unit("web/1"));
    let view = view::machine(world.reader(), MODEL, machine_of(&world, second)).expect("it is there");
    assert_eq!((view.name.as_str(), view.address.as_str(), view.life), ("1", "127.0.1.1", Life::Alive));
    assert_ne!(machine_of(&world, first), machine_of(&world, second));
    let peer: Option<Uuid> = read(world.reader(), &MODEL.relation_key("web:ring"));
    assert!(peer.is_some());
}

#[test]
fn units_beyond_one_transaction_are_left_to_the_caller() {
    let mut world = World::new();
    let wish = Deploy { name: "web".into(), sha256: "web".into(), units: 50, now_ms: 1, ..Deploy::default() };
    let deployed = world.run(|draft, ids| application::deploy(draft, MODEL, &wish, ids)).expect("it deploys");
    assert!(deployed.units.len() > 1);
    assert_eq!(deployed.units.len() + deployed.units_remaining as usize, 50);
}

#[test]
fn unit_and_charm_numbers_are_never_reused() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let first = world.unit("web/0");
    assert_eq!(destroy_unit(&mut world, first), Destroyed::Removed);
    let (_, name) = world.run(|draft, ids| unit::add(draft, MODEL, app, None, 9, ids)).expect("it is added");
    assert_eq!(name.to_string(), "web/1");
    let wish = Refresh { sha256: "web".into(), forced: true, ..Refresh::default() };
    let charm =
        world.run(|draft, ids| application::refresh(draft, MODEL, app, &wish, ids)).expect("same charm");
    assert_eq!((charm.url.as_str(), charm.forced), ("local:web-0", true));
}

#[test]
fn scenario_164_the_units_of_a_destroyed_application_are_dying() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 3);
    let mut agents: Vec<Agent> =
        ["web/0", "web/1", "web/2"].iter().map(|name| Agent::attach(&mut world, name)).collect();
    let ring = read(world.reader(), &MODEL.relation_key("web:ring")).expect("a peer relation");
    for agent in &mut agents {
        agent.start(&mut world);
        agent.enter(&mut world, ring);
    }
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("it may go");
    for agent in &agents {
        assert_eq!(world.life(agent.unit), Some(Life::Dying), "without its agent's help");
        assert_eq!(
            read(world.reader(), &MODEL.unit_life(agent.unit)),
            Some(Life::Alive),
            "one document was written"
        );
    }
    for agent in &mut agents {
        assert!(!world.gone(app));
        agent.finish(&mut world);
    }
    assert!(world.gone(app) && world.gone(ring), "gone after the third");
}

#[test]
fn scenarios_165_and_166_a_unit_whose_agent_never_attached_is_removed_immediately() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let (first, second) = (world.unit("web/0"), world.unit("web/1"));
    assert_eq!(destroy_unit(&mut world, first), Destroyed::Removed);
    assert!(world.gone(first));
    assert_eq!(destroy_unit(&mut world, first), Destroyed::Removed, "a second time changes nothing");
    let revision = world.documents.revision;
    let answer = world.run(|draft, _| unit::destroy(draft, MODEL, Uuid(1)));
    assert_eq!(refused(answer).0, Code::NotFound);
    assert_eq!(world.documents.revision, revision);
    Agent::attach(&mut world, "web/1");
    assert_eq!(destroy_unit(&mut world, second), Destroyed::Dying);
    assert_eq!(world.life(second), Some(Life::Dying));
}

#[test]
fn a_late_attach_is_refused_with_the_tombstone() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let id = world.unit("web/0");
    destroy_unit(&mut world, id);
    let answer = world.run(|draft, _| session::attach(draft, MODEL, id, Uuid(1), held(0)));
    assert_eq!(refused(answer), (Code::Removed, "unit web/0 was removed".into()));
    let answer = world.run(|draft, _| session::attach(draft, MODEL, Uuid(3), Uuid(1), held(0)));
    assert_eq!(refused(answer).0, Code::NotFound, "not found is no evidence");
}

#[test]
fn scenario_168_a_unit_with_subordinates_cannot_be_dead() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    world.deploy("logging", "logging", 0);
    let id = world.integrate("web", "logging").expect("they fit");
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    agent.enter(&mut world, id);
    let (principal, subordinate) = (world.unit("web/0"), world.unit("logging/0"));
    destroy_unit(&mut world, principal);
    assert_eq!(world.life(subordinate), Some(Life::Dying), "I23: a principal's death is its subordinates'");
    let committed = agent.done(&mut world, Operation::SetDead);
    assert_eq!(committed.refusal.as_deref(), Some("unit web/0 cannot be dead: it has subordinates"));
    assert_eq!(world.life(principal), Some(Life::Dying));
}

#[test]
fn scenario_169_a_machine_with_an_alive_unit_is_not_removed() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let id = machine_of(&world, world.unit("web/0"));
    let answer = world.run(|draft, _| machine::destroy(draft, MODEL, id));
    let text = "cannot remove machine 0: unit web/0 is assigned to it";
    assert_eq!(refused(answer), (Code::Busy, text.into()));
}

#[test]
fn scenarios_170_and_171_a_dying_machine_is_dead_after_its_last_unit() {
    let (mut world, mut agent, id) = dying_machine();
    assert_eq!(world.life(id), Some(Life::Dying));
    let answer = world.run(|draft, _| machine::set_dead(draft, MODEL, id));
    assert_eq!(refused(answer).0, Code::Busy);
    agent.finish(&mut world);
    world.run(|draft, _| machine::set_dead(draft, MODEL, id)).expect("no units are left");
    world.run(|draft, _| machine::remove(draft, MODEL, id)).expect("it is dead");
    assert!(world.gone(id));
    world.run(|draft, _| machine::remove(draft, MODEL, id)).expect("a second time changes nothing");

    // 171: no user requests it
    world.deploy("db", "db", 1);
    let (unit, id) = (world.unit("db/0"), machine_of(&world, world.unit("db/0")));
    destroy_unit(&mut world, unit);
    assert_eq!(world.life(id), Some(Life::Dying));
}

#[test]
fn an_existing_instance_is_kept_and_its_record_remains_until_it_is_handed_over() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let id = machine_of(&world, unit);
    let keep = move |draft: &mut Draft<'_>| {
        machine::keep_instance(draft, MODEL, id)?;
        machine::destroy(draft, MODEL, id)
    };
    let text = "cannot keep the instance of machine 0: it has none yet";
    assert_eq!(refused(world.run(|draft, _| keep(draft))), (Code::Invalid, text.into()));
    world.run(|draft, _| instance::reserve_nonce(draft, MODEL, id, "local", Uuid(5))).expect("it is Alive");
    world
        .run(|draft, _| instance::record_started(draft, MODEL, id, "local-0", "127.0.0.1"))
        .expect("it was meant");
    let kept = |world: &World| read(world.reader(), &MODEL.machine(id)).map(|machine| machine.kept);
    assert_eq!(refused(world.run(|draft, _| keep(draft))).0, Code::Busy, "a unit on it is alive");
    assert_eq!(kept(&world), Some(false), "nothing of a removal that is refused");
    destroy_unit(&mut world, unit);
    world.run(|draft, _| keep(draft)).expect("its only unit is gone");
    world.run(|draft, _| machine::set_dead(draft, MODEL, id)).expect("no units are left");
    world
        .run(|draft, _| instance::record_agent_uninstalled(draft, MODEL, id))
        .expect("its agent has taken itself away");
    assert!(read(world.reader(), &MODEL.machine(id)).expect("it is to be handed over").left);
    world.run(|draft, _| keep(draft)).expect("a second time changes nothing");
    world.run(|draft, _| machine::remove(draft, MODEL, id)).expect("it is Dead");
    assert!(world.gone(id));

    // an instance that is not kept is removed by its provider
    world.deploy("db", "db", 1);
    let (unit, id) = (world.unit("db/0"), machine_of(&world, world.unit("db/0")));
    destroy_unit(&mut world, unit);
    world.run(|draft, _| machine::set_dead(draft, MODEL, id)).expect("no units are left");
    world
        .run(|draft, _| instance::record_agent_uninstalled(draft, MODEL, id))
        .expect("its agent has taken itself away");
    assert_eq!(world.life(id), Some(Life::Dead));
    let late = world.run(|draft, _| machine::keep_instance(draft, MODEL, id));
    let text = "cannot keep the instance of machine 1: it is being taken away";
    assert_eq!(refused(late), (Code::Invalid, text.into()));
}

#[test]
fn a_dying_machine_whose_start_is_not_recorded_is_served_until_its_units_are_removed() {
    let (mut world, mut agent, id) = dying_machine();
    let intend =
        |nonce| move |draft: &mut Draft<'_>| instance::reserve_nonce(draft, MODEL, id, "local", Uuid(nonce));
    let mut elsewhere = world.copy();
    assert_eq!(elsewhere.run(|draft, _| intend(5)(draft)), Ok(Uuid(5)));
    agent.finish(&mut world);
    assert_eq!(refused(world.run(|draft, _| intend(6)(draft))).0, Code::NotAlive, "nothing ends on it");
}

#[test]
fn scenario_172_no_unit_is_assigned_to_a_dying_machine() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let answer = world.run(|draft, ids| unit::add(draft, MODEL, app, Some("0"), 1, ids));
    assert_eq!(answer.expect("the machine is alive").1.to_string(), "web/1");
    for name in ["web/0", "web/1"] {
        let id = world.unit(name);
        destroy_unit(&mut world, id);
    }
    let answer = world.run(|draft, ids| unit::add(draft, MODEL, app, Some("0"), 1, ids));
    let text = "cannot assign a unit to machine 0: the machine is not alive";
    assert_eq!(refused(answer), (Code::NotAlive, text.into()));
    let answer = world.run(|draft, ids| unit::add(draft, MODEL, app, Some("9"), 1, ids));
    assert_eq!(refused(answer), (Code::NotFound, "machine 9 not found".into()));
}

#[test]
fn scenarios_173_and_177_a_dying_application_accepts_nothing_new_and_keeps_its_name() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("it may go");
    let answer = world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids));
    assert_eq!(refused(answer).0, Code::NotAlive);
    assert_eq!(refused(world.integrate("web", "db")).0, Code::NotAlive);
    let wish = Deploy { name: "web".into(), sha256: "web".into(), units: 1, ..Deploy::default() };
    let refusal = world.run(|draft, ids| application::deploy(draft, MODEL, &wish, ids)).expect_err("void");
    assert_eq!(refusal.code, Code::AlreadyExists);
    assert_eq!(refusal.blockers[0].entity, Entity::Unit(agent.local.name.clone()));
    assert_eq!(refusal.blockers[0].actor, Actor::UnitAgent(agent.local.name.clone()));
    agent.finish(&mut world);
    world.run(|draft, ids| application::deploy(draft, MODEL, &wish, ids)).expect("the name is free");
    assert_eq!(
        read::<UnitDoc>(world.reader(), &MODEL.unit(world.unit("web/1"))).expect("a new one").name.number,
        1
    );
}

#[test]
fn scenario_176_blockers_are_never_empty_and_name_the_failure() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let id = machine_of(&world, unit);
    assert_eq!(
        blockers(&mut world.reader(), MODEL, EntityId::Application(app)),
        vec![],
        "Alive waits for nothing"
    );
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("it may go");
    let named = |world: &World, entity| {
        let found = blockers(&mut world.reader(), MODEL, entity);
        found.into_iter().map(|b| (b.entity, b.actor, b.last_error)).collect::<Vec<_>>()
    };
    let name = UnitName::new("web", 0);
    let machine = (Entity::Unit(name.clone()), Actor::MachineAgent("0".to_owned()), None);
    assert_eq!(named(&world, EntityId::Application(app)), vec![machine.clone()], "never attached");
    let mut agent = Agent::attach(&mut world, "web/0");
    let failed = Outcome::Failed { reason: "exit status 1".into(), retry: None };
    let record = agent.record(Operation::Hook(Hook::Install), failed);
    agent.commit(&mut world, record);
    let own = |error| (Entity::Unit(name.clone()), Actor::UnitAgent(name.clone()), error);
    let error = Some("hook install: exit status 1".to_owned());
    assert_eq!(named(&world, EntityId::Unit(unit)), vec![own(error.clone())]);
    assert_eq!(named(&world, EntityId::Application(app)), vec![own(error)]);
    let refusal = world.run(|draft, _| unit::remove(draft, MODEL, unit)).expect_err("it is not dead");
    assert_eq!((refusal.code, refusal.blockers.len()), (Code::Busy, 1));
    agent.done(&mut world, Operation::Hook(Hook::Install));
    agent.done(&mut world, Operation::SetDead);
    assert_eq!(named(&world, EntityId::Unit(unit)), vec![machine]);
    world.run(|draft, _| unit::remove(draft, MODEL, unit)).expect("it is dead");
    assert!(world.gone(app));
    let never_started = (Entity::Machine("0".to_owned()), Actor::Provisioner, None);
    assert_eq!(named(&world, EntityId::Machine(id)), vec![never_started]);
}

#[test]
fn a_unit_that_leaves_several_relations_is_one_blocker_and_blockers_are_bounded() {
    let mut world = World::new();
    let web = world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    world.deploy("shop", "shop", 1);
    let relations =
        [world.integrate("web", "db").expect("they fit"), world.integrate("shop", "db").expect("they fit")];
    let mut agents = ["web/0", "db/0", "shop/0"].map(|name| Agent::attach(&mut world, name));
    for (agent, of) in agents.iter_mut().zip([&relations[..1], &relations[..], &relations[1..]]) {
        agent.start(&mut world);
        of.iter().for_each(|relation| drop(agent.enter(&mut world, *relation)));
    }
    let db = read(world.reader(), &MODEL.application_name("db")).expect("it is there");
    world.run(|draft, _| application::destroy(draft, MODEL, db)).expect("it may go");
    let told = |world: &World, entity| {
        let all = blockers(&mut world.reader(), MODEL, entity).into_iter();
        all.map(|one| (one.entity.to_string(), one.duty)).collect::<Vec<_>>()
    };
    let named = |id, ends: &str| RelationName { number: world.number(id), ends: ends.to_owned() };
    let of_web = named(relations[0], "db:server web:db");
    let of_shop = named(relations[1], "db:server shop:db");
    let both = vec![of_web.clone(), of_shop.clone()];
    let of_db = [
        ("unit db/0".to_owned(), Duty::Terminate { relations: both }),
        ("unit web/0".to_owned(), Duty::LeaveScopes { relations: vec![of_web] }),
        ("unit shop/0".to_owned(), Duty::LeaveScopes { relations: vec![of_shop] }),
    ];
    assert_eq!(told(&world, EntityId::Application(db)), of_db);
    assert_eq!(told(&world, EntityId::Application(web)), []);

    // a unit of another application that is in two relations of a dying one
    world.upload("cache", db_of_two());
    let cache = world.deploy("cache", "cache", 0);
    let of_cache = ["one", "two"].map(|endpoint| {
        let id = world.integrate(&format!("cache:{endpoint}"), "shop:db").expect("they fit");
        agents[2].enter(&mut world, id);
        RelationName { number: world.number(id), ends: format!("cache:{endpoint} shop:db") }
    });
    world.run(|draft, _| application::destroy(draft, MODEL, cache)).expect("it may go");
    assert_eq!(
        told(&world, EntityId::Application(cache)),
        [("unit shop/0".to_owned(), Duty::LeaveScopes { relations: of_cache.to_vec() })]
    );

    let many = world.deploy("many", "plain", 7);
    for _ in 0..23 {
        world.run(|draft, ids| unit::add(draft, MODEL, many, None, 1, ids)).expect("it is alive");
    }
    world.run(|draft, _| application::destroy(draft, MODEL, many)).expect("it may go");
    assert_eq!(told(&world, EntityId::Application(many)).len(), BLOCKERS_MAX + 1);
}

/// A database charm with two endpoints.
fn db_of_two() -> Charm {
    let endpoints = ["one", "two"].map(|name| endpoint(name, Role::Provider, "mysql"));
    Charm { name: "cache".into(), endpoints: endpoints.into(), ..Charm::default() }
}

#[test]
fn a_dying_unit_never_deployed_is_removed_without_an_agent() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    assert_eq!(refused(world.run(|draft, _| unit::remove(draft, MODEL, unit))).0, Code::Busy);
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("it may go");
    assert!(!machine::has_attached_unit(world.reader(), MODEL, machine_of(&world, unit)));
    let view = view::machine(world.reader(), MODEL, machine_of(&world, unit)).expect("it is there");
    assert_eq!((view.units[&unit].life, view.units[&unit].attached), (Life::Dying, false));
    world.run(|draft, _| unit::remove(draft, MODEL, unit)).expect("nothing was begun");
    assert!(world.gone(unit) && world.gone(app));
}

#[test]
fn leadership_is_granted_renewed_transferred_and_released() {
    let mut world = World::new();
    world.deploy("web", "web", 2);
    let mut agents = [Agent::attach(&mut world, "web/0"), Agent::attach(&mut world, "web/1")];
    let [first, second] = [agents[0].unit, agents[1].unit];
    let claim = |world: &mut World, unit, over| {
        let claimed = world.run(|draft, _| leadership::claim(draft, MODEL, unit, over)).expect("a unit");
        match claimed {
            leadership::ClaimOutcome::Granted(grant) => (true, grant.holder_name.number, grant.generation),
            leadership::ClaimOutcome::HeldByOther(grant) => {
                (false, grant.holder_name.number, grant.generation)
            }
        }
    };
    assert_eq!(claim(&mut world, first, false), (true, 0, 1), "never led before");
    assert_eq!(claim(&mut world, first, false), (true, 0, 1), "a renewal is no new generation");
    assert_eq!(claim(&mut world, second, false), (false, 0, 1));
    assert_eq!(claim(&mut world, second, true), (true, 1, 2));
    agents[1].start(&mut world);
    destroy_unit(&mut world, second);
    agents[1].done(&mut world, Operation::SetDead);
    assert_eq!(claim(&mut world, first, false), (true, 0, 3), "released by the dead");
    world
        .run(|draft, _| {
            leadership::release(draft, MODEL, first);
            Ok(())
        })
        .expect("no refusal");
    assert_eq!(claim(&mut world, first, false), (true, 0, 4));
    let answer = world.run(|draft, _| leadership::claim(draft, MODEL, second, true));
    assert_eq!(refused(answer), (Code::NotAlive, "unit web/1 is dead".into()));
}

#[test]
fn config_is_parsed_by_type_and_all_or_nothing() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let mut set = |pairs: &[(&str, &str)], reset: &[&str]| {
        let pairs = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let reset: Vec<String> = reset.iter().map(|name| name.to_string()).collect();
        let answer = world.run(|draft, _| application::configure(draft, MODEL, app, &pairs, &reset));
        (answer, read(world.reader(), &MODEL.application_config(app)).expect("it has one"))
    };
    let (answer, config) = set(&[("port", "8080"), ("title", "x")], &[]);
    answer.expect("both fit");
    assert_eq!(config, BTreeMap::from([("port".to_owned(), 8080.into()), ("title".to_owned(), "x".into())]));
    let (answer, same) = set(&[("port", "many"), ("title", "y"), ("colour", "red")], &["size"]);
    let (code, text) = refused(answer);
    assert_eq!((code, same), (Code::Invalid, config));
    for part in
        ["option \"port\" expected int, got \"many\"", "unknown option \"colour\"", "unknown option \"size\""]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let (answer, config) = set(&[], &["port"]);
    answer.expect("it is an option");
    assert_eq!(config, BTreeMap::from([("title".to_owned(), "x".into())]));
}

#[test]
fn a_refresh_keeps_compatible_settings_and_breaks_no_relation() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let config = BTreeMap::from([("port".to_owned(), "81".to_owned()), ("title".to_owned(), "x".to_owned())]);
    world.run(|draft, _| application::configure(draft, MODEL, app, &config, &[])).expect("it fits");
    world.integrate("web", "db").expect("they fit");
    let mut next = web();
    next.config.remove("title");
    next.endpoints.extend([endpoint("second-ring", Role::Peer, "ring")]);
    let mut broken = next.clone();
    broken.endpoints.remove("db");
    for (sha256, charm) in [("next", next), ("broken", broken)] {
        world.upload(sha256, charm);
    }
    let wish = |sha256: &str| Refresh { sha256: sha256.into(), ..Refresh::default() };
    let answer = world.run(|draft, ids| application::refresh(draft, MODEL, app, &wish("broken"), ids));
    assert_eq!(
        refused(answer),
        (Code::Busy, "cannot refresh web: it would break relation \"db:server web:db\"".into())
    );
    let charm =
        world.run(|draft, ids| application::refresh(draft, MODEL, app, &wish("next"), ids)).expect("it fits");
    assert_eq!(charm.url, "local:web-1");
    let kept: BTreeMap<String, serde_json::Value> =
        read(world.reader(), &MODEL.application_config(app)).expect("some");
    assert_eq!(kept, BTreeMap::from([("port".to_owned(), 81.into())]));
    assert!(read(world.reader(), &MODEL.relation_key("web:second-ring")).is_some());
}

#[test]
fn deploy_and_refresh_limit_peer_relations_to_what_one_transaction_can_leave() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let with_peers = |count: usize| {
        let mut charm = web();
        charm.endpoints.extend((1..count).map(|n| endpoint(&format!("ring-{n}"), Role::Peer, "ring")));
        charm
    };
    for (sha256, charm) in [("eight", with_peers(8)), ("nine", with_peers(9))] {
        world.upload(sha256, charm);
    }
    let too_many = (Code::Invalid, "charm web has 9 peer relations, at most 8".to_owned());
    let wish = Deploy { name: "other".into(), sha256: "nine".into(), ..Deploy::default() };
    assert_eq!(refused(world.run(|draft, ids| application::deploy(draft, MODEL, &wish, ids))), too_many);
    let mut refresh = |sha256: &str| {
        let wish = Refresh { sha256: sha256.into(), ..Refresh::default() };
        world.run(|draft, ids| application::refresh(draft, MODEL, app, &wish, ids))
    };
    assert_eq!(refused(refresh("nine")), too_many);
    refresh("eight").expect("a unit can leave them");
    assert_eq!(refused(refresh("nine")), too_many);
}

#[test]
fn invalid_names_and_unknown_archives_are_refused() {
    let mut world = World::new();
    world.deploy("web", "web", 0);
    let mut deploy = |name: &str, sha256: &str, to: Option<&str>| {
        let to = to.map(str::to_owned);
        let wish = Deploy { name: name.into(), sha256: sha256.into(), units: 1, to, ..Deploy::default() };
        refused(world.run(|draft, ids| application::deploy(draft, MODEL, &wish, ids)))
    };
    assert_eq!(
        deploy("web", "web", None),
        (Code::AlreadyExists, "application \"web\" already exists".into())
    );
    assert_eq!(deploy("Web", "web", None), (Code::Invalid, "invalid application name \"Web\"".into()));
    assert_eq!(deploy("other", "none", None), (Code::NotFound, "charm archive none not found".into()));
    assert_eq!(deploy("other", "web", Some("4")), (Code::NotFound, "machine 4 not found".into()));
    let answer = world.run(|draft, _| model::create(draft, Uuid(8), "dev", 1));
    assert_eq!(refused(answer), (Code::AlreadyExists, "model \"dev\" already exists".into()));
    world.run(|draft, _| destruction::destroy(draft, MODEL, None, 2)).expect("it is there");
    let refusal =
        world.run(|draft, _| model::create(draft, Uuid(8), "dev", 1)).expect_err("it is there still");
    assert_eq!(refusal.message, "model \"dev\" already exists and is being removed");
    assert_eq!(refusal.hint.as_deref(), Some("what holds it: pintle why model -m dev"));
}

#[test]
fn model_settings_have_defaults_and_types() {
    let mut world = World::new();
    let view = |world: &World| {
        let view = model::model_view(&mut world.reader(), MODEL).expect("it is there");
        (view.update_status_ms, view.hook_retries_max)
    };
    assert_eq!(view(&world), (300_000, Some(10)));
    let set = |world: &mut World, key: &str, value: &str| {
        let set = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        world.run(|draft, _| model::configure(draft, MODEL, &set, &[]))
    };
    assert_eq!(set(&mut world, "update-status-hook-interval", "10s"), Ok(vec![]));
    assert_eq!(set(&mut world, "max-hook-retries", "unlimited"), Ok(vec![]));
    assert_eq!(view(&world), (10_000, None));
    assert_eq!(set(&mut world, "automatically-retry-hooks", "false"), Ok(vec![]));
    assert_eq!(view(&world), (10_000, Some(0)));
    assert_eq!(set(&mut world, "test-mode", "true"), Ok(vec!["test-mode".to_owned()]));
    assert_eq!(refused(set(&mut world, "update-status-hook-interval", "soon")).0, Code::Invalid);
}

#[test]
fn units_see_the_proxies_of_the_model_as_they_are_set_and_reset() {
    let mut world = World::new();
    world.deploy("plain", "plain", 1);
    let proxies = |world: &World| model::model_view(&mut world.reader(), MODEL).expect("it is there").proxies;
    assert_eq!(proxies(&world), Proxies::default());
    let names = Proxies::SETTINGS.into_iter();
    let set = names.map(|name| (name.to_owned(), format!("to-{name}"))).collect();
    assert_eq!(world.run(|draft, _| model::configure(draft, MODEL, &set, &[])), Ok(vec![]), "all are known");
    let expected = Proxies {
        legacy: Proxy {
            http: "to-http-proxy".into(),
            https: "to-https-proxy".into(),
            ftp: "to-ftp-proxy".into(),
            no_proxy: "to-no-proxy".into(),
        },
        charm: Proxy {
            http: "to-juju-http-proxy".into(),
            https: "to-juju-https-proxy".into(),
            ftp: "to-juju-ftp-proxy".into(),
            no_proxy: "to-juju-no-proxy".into(),
        },
    };
    assert_eq!(proxies(&world), expected);
    let shown = world.sent[&world.unit("plain/0")].last().cloned();
    assert!(matches!(shown, Some(Change::Model(view)) if view.proxies == expected), "it is told at once");
    let all = Proxies::SETTINGS.map(str::to_owned);
    let reset = world.run(|draft, _| model::configure(draft, MODEL, &BTreeMap::new(), &all));
    assert_eq!((reset, proxies(&world)), (Ok(vec![]), Proxies::default()));
}
