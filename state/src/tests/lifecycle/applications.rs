//! Applications: deployment, refresh, configuration and destruction.

use crate::charm::Base;
use crate::charm::OptionType;
use crate::charm::options::OptionProblem;
use crate::documents::prelude::{MachineDoc, UnitDoc};
use crate::lifecycle::application::{self, Deploy, Refresh};
use crate::lifecycle::creation::require_count;
use crate::lifecycle::unit::Destroyed;
use crate::lifecycle::{application_settings, machine, model, unit};
use crate::terms::cause::{Actor, Entity};
use crate::terms::force::Force;
use crate::tests::lifecycle::fixture::{destroy_unit, machine_of};
use crate::tests::*;
use crate::transitions::destruction;
use crate::views::machine_view;

#[test]
fn a_deploy_creates_units_machines_and_peer_relations_in_one_transaction() {
    let mut world = World::new();
    let before = world.documents.revision;
    world.deploy("web", "web", 2);
    assert_eq!(world.documents.revision, before + 1);
    let (first, second) = (world.unit("web/0"), world.unit("web/1"));
    let view = machine_view::view(world.reader(), MODEL, machine_of(&world, second))
        .expect("the machine has a view");
    assert_eq!((view.name.as_str(), view.address.as_str(), view.life), ("1", "127.0.1.1", Life::Alive));
    assert_ne!(machine_of(&world, first), machine_of(&world, second));
    let peer: Option<Uuid> =
        read(world.reader(), &MODEL.relation_key(&"web:ring".parse().expect("the ends")));
    assert!(peer.is_some());
}

#[test]
fn units_beyond_one_transaction_are_left_to_the_caller() {
    let mut world = World::new();
    let request =
        Deploy { application: Some("web".into()), sha256: "web".into(), units: 50, ..Deploy::default() };
    let deployed = world
        .run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))
        .expect("it deploys");
    assert!(deployed.units.len() > 1);
    assert_eq!(deployed.units.len() + deployed.units_remaining as usize, 50);
}

#[test]
fn only_the_first_unit_of_a_deployment_goes_to_the_machine_that_it_names() {
    let mut world = World::new();
    world.run(|draft, _| machine::add(draft, MODEL, Uuid(900), 1)).expect("it is added");
    let (name, to) = ("web".to_owned(), Some("0".to_owned()));
    let request = Deploy { application: Some(name), sha256: "web".into(), units: 2, to, ..Deploy::default() };
    world
        .run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))
        .expect("it deploys");
    assert_eq!(machine_of(&world, world.unit("web/0")), Uuid(900));
    assert_ne!(machine_of(&world, world.unit("web/1")), Uuid(900));
}

#[test]
fn one_request_adds_at_most_a_thousand_units_or_machines() {
    let mut world = World::new();
    let mut deploy = |units| {
        let request =
            Deploy { application: Some("web".into()), sha256: "web".into(), units, ..Deploy::default() };
        world.run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))
    };
    let too_many = |kind| reason(RefusalReason::TooManyAdded { count: 1_001, kind, max: 1_000 });
    assert_eq!(refused(deploy(1_001)), too_many(AddedKind::Units));
    let deployed = deploy(1_000).expect("1000 units are allowed");
    assert_eq!(deployed.units.len() + deployed.units_remaining as usize, 1_000);
    assert_eq!(require_count(1_000, AddedKind::Machines), Ok(()));
    assert_eq!(refused(require_count(1_001, AddedKind::Machines)), too_many(AddedKind::Machines));
}

#[test]
fn unit_and_charm_numbers_are_never_reused() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let first = world.unit("web/0");
    assert_eq!(destroy_unit(&mut world, first), Destroyed::Removed);
    let (_, name) = world.run(|draft, ids| unit::add(draft, MODEL, app, None, 9, ids)).expect("it is added");
    assert_eq!(name.to_string(), "web/1");
    let request =
        Refresh { application: "web".into(), sha256: "web".into(), forced: true, ..Refresh::default() };
    let charm = world
        .run(|draft, ids| application::refresh(draft, MODEL, &request, Creation { now_ms: 5, ids }))
        .expect("same charm");
    assert_eq!((charm.url.as_str(), charm.forced), ("local:web-1", true), "also for the same content");
}

#[test]
fn scenario_164_the_units_of_a_destroyed_application_are_dying() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 3);
    let mut agents: Vec<Agent> =
        ["web/0", "web/1", "web/2"].iter().map(|name| Agent::attach(&mut world, name)).collect();
    let ring = read(world.reader(), &MODEL.relation_key(&"web:ring".parse().expect("the ends")))
        .expect("a peer relation");
    for agent in &mut agents {
        agent.start(&mut world);
        agent.enter(&mut world, ring);
    }
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    for agent in &agents {
        assert_eq!(world.life(agent.unit), Some(Life::Dying), "without its agent's help");
        assert_eq!(
            read(world.reader(), &MODEL.unit_life(agent.unit)),
            Some(Life::Alive),
            "one document was written"
        );
    }
    for agent in &mut agents {
        assert!(!world.is_removed(app));
        agent.finish(&mut world);
    }
    assert!(world.is_removed(app) && world.is_removed(ring), "removed with the last unit");
}

#[test]
fn scenarios_173_and_177_a_dying_application_accepts_nothing_new_and_keeps_its_name() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    world.deploy("db", "db", 1);
    let mut agent = Agent::attach(&mut world, "web/0");
    agent.start(&mut world);
    world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    let answer = world.run(|draft, ids| unit::add(draft, MODEL, app, None, 1, ids));
    assert_eq!(refused(answer).0, Code::NotAlive);
    assert_eq!(refused(world.integrate("web", "db")).0, Code::NotAlive);
    let request =
        Deploy { application: Some("web".into()), sha256: "web".into(), units: 1, ..Deploy::default() };
    let refusal = world
        .run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))
        .expect_err("the name is in use");
    assert_eq!(refusal.code(), Code::AlreadyExists);
    assert_eq!(refusal.blockers[0].entity, Entity::Unit(agent.local.name.clone()));
    assert_eq!(refusal.blockers[0].actor, Actor::UnitAgent(agent.local.name.clone()));
    agent.finish(&mut world);
    world
        .run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))
        .expect("the name is free");
    assert_eq!(
        read::<UnitDoc>(world.reader(), &MODEL.unit(world.unit("web/1"))).expect("a new one").name.number,
        1
    );
}

/// Two applications may run charms of one name with different content.
#[test]
fn charms_of_one_name_never_share_a_url() {
    let mut world = World::new();
    let web = Charm { name: "web".into(), ..Charm::default() };
    world.upload("other", web);
    let url = |world: &World, app| read(world.reader(), &MODEL.application_charm(app)).expect("deployed").url;
    let first = world.deploy("web", "web", 0);
    let second = world.deploy("shop", "other", 0);
    assert_eq!([url(&world, first), url(&world, second)], ["local:web-0", "local:web-1"]);
    world.run(|draft, _| application::destroy(draft, MODEL, first)).expect("the removal is accepted");
    let third = world.deploy("web", "other", 0);
    assert_eq!(url(&world, third), "local:web-2");
}

/// A unit that is added later gets a machine of the same base.
#[test]
fn new_machines_have_the_requested_base_of_the_application() {
    let mut world = World::new();
    let base = Base::parse("ubuntu@22.04");
    let request = Deploy {
        application: Some("web".into()),
        sha256: "web".into(),
        units: 1,
        base: base.clone(),
        ..Deploy::default()
    };
    let app = world
        .run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))
        .expect("deployed");
    world.run(|draft, ids| unit::add(draft, MODEL, app.application, None, 1, ids)).expect("added");
    world.deploy("db", "db", 1);
    let requested = ["0", "1", "2"].map(|name| {
        let machine = read(world.reader(), &MODEL.machine_name(name)).expect("it exists");
        read::<MachineDoc>(world.reader(), &MODEL.machine(machine)).expect("it exists").requested_base
    });
    assert_eq!(requested, [base.clone(), base, None]);
}

#[test]
fn config_is_parsed_by_type_and_all_or_nothing() {
    let mut world = World::new();
    let app = world.deploy("web", "web", 1);
    let mut set = |pairs: &[(&str, &str)], reset: &[&str]| {
        let pairs = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let reset: Vec<String> = reset.iter().map(|name| name.to_string()).collect();
        let answer = world.run(|draft, _| application_settings::configure(draft, MODEL, app, &pairs, &reset));
        (answer, read(world.reader(), &MODEL.application_config(app)).expect("it has one"))
    };
    let (answer, config) = set(&[("port", "8080"), ("title", "x")], &[]);
    answer.expect("both fit");
    assert_eq!(config, BTreeMap::from([("port".to_owned(), 8080.into()), ("title".to_owned(), "x".into())]));
    let (answer, same) = set(&[("port", "many"), ("title", "y"), ("colour", "red")], &["size"]);
    let unknown = |option: &str| OptionProblem::Unknown { option: option.to_owned() };
    let (option, expected, value) = ("port".to_owned(), OptionType::Int, "many".to_owned());
    let problems =
        vec![unknown("colour"), OptionProblem::WrongType { option, expected, value }, unknown("size")];
    let invalid = ApplicationRefusal::InvalidSettings { problems };
    assert_eq!((refused(answer), same), (reason(invalid), config));
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
    world.run(|draft, _| application_settings::configure(draft, MODEL, app, &config, &[])).expect("it fits");
    world.integrate("web", "db").expect("the endpoints are compatible");
    let mut next = web();
    next.config.remove("title");
    next.endpoints.extend([endpoint("second-ring", Role::Peer, "ring")]);
    let mut broken = next.clone();
    broken.endpoints.remove("db");
    for (sha256, charm) in [("next", next), ("broken", broken)] {
        world.upload(sha256, charm);
    }
    let request =
        |sha256: &str| Refresh { application: "web".into(), sha256: sha256.into(), ..Refresh::default() };
    let answer = world.run(|draft, ids| {
        application::refresh(draft, MODEL, &request("broken"), Creation { now_ms: 5, ids })
    });
    assert_eq!(
        refused(answer),
        reason(ApplicationRefusal::BreaksRelation {
            application: "web".to_owned(),
            ends: "db:server web:db".parse().expect("the ends")
        })
    );
    let charm = world
        .run(|draft, ids| application::refresh(draft, MODEL, &request("next"), Creation { now_ms: 5, ids }))
        .expect("it fits");
    assert_eq!(charm.url, "local:web-1");
    let kept: BTreeMap<String, serde_json::Value> =
        read(world.reader(), &MODEL.application_config(app)).expect("some");
    assert_eq!(kept, BTreeMap::from([("port".to_owned(), 81.into())]));
    assert!(
        read(world.reader(), &MODEL.relation_key(&"web:second-ring".parse().expect("the ends"))).is_some()
    );
}

#[test]
fn deploy_and_refresh_limit_peer_relations_to_what_one_transaction_can_leave() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let with_peers = |count: usize| {
        let mut charm = web();
        charm.endpoints.extend((1..count).map(|n| endpoint(&format!("ring-{n}"), Role::Peer, "ring")));
        charm
    };
    for (sha256, charm) in [("eight", with_peers(8)), ("nine", with_peers(9))] {
        world.upload(sha256, charm);
    }
    let too_many = reason(ApplicationRefusal::TooManyPeers { charm: "web".to_owned(), peers: 9, max: 8 });
    let request = Deploy { application: Some("other".into()), sha256: "nine".into(), ..Deploy::default() };
    assert_eq!(
        refused(world.run(|draft, ids| application::deploy(
            draft,
            MODEL,
            &request,
            Creation { now_ms: 5, ids }
        ))),
        too_many
    );
    let mut refresh = |sha256: &str| {
        let request = Refresh { application: "web".into(), sha256: sha256.into(), ..Refresh::default() };
        world.run(|draft, ids| application::refresh(draft, MODEL, &request, Creation { now_ms: 5, ids }))
    };
    assert_eq!(refused(refresh("nine")), too_many);
    refresh("eight").expect("a unit can leave them");
    assert_eq!(refused(refresh("nine")), too_many);
    let (name, to) = ("other".to_owned(), Some("0".to_owned()));
    let request =
        Deploy { application: Some(name), sha256: "eight".into(), units: 50, to, ..Deploy::default() };
    let deployed = world
        .run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))
        .expect("it deploys");
    let machines: BTreeSet<Uuid> =
        deployed.units.iter().map(|name| machine_of(&world, world.unit(&name.to_string()))).collect();
    let shared = machine_of(&world, world.unit("web/0"));
    assert!(
        machines.contains(&shared) && machines.len() > 1,
        "a unit with a machine of its own is among them"
    );
}

#[test]
fn invalid_names_and_unknown_archives_are_refused() {
    let mut world = World::new();
    world.deploy("web", "web", 0);
    let mut deploy = |name: &str, sha256: &str, to: Option<&str>| {
        let to = to.map(str::to_owned);
        let request = Deploy {
            application: Some(name.into()),
            sha256: sha256.into(),
            units: 1,
            to,
            ..Deploy::default()
        };
        refused(
            world.run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids })),
        )
    };
    assert_eq!(
        deploy("web", "web", None),
        reason(ApplicationRefusal::AlreadyExists { name: "web".to_owned() })
    );
    let invalid = ApplicationRefusal::InvalidName { name: "Web".to_owned() };
    assert_eq!(deploy("Web", "web", None), reason(invalid));
    let too_long = ApplicationRefusal::NameTooLong { length: 300, max: 63 };
    assert_eq!(deploy(&"w".repeat(300), "web", None), reason(too_long));
    assert_eq!(deploy("other", "none", None), not_found(EntityKind::CharmArchive, "none"));
    assert_eq!(deploy("other", "web", Some("4")), not_found(EntityKind::Machine, "4"));
    let answer = world.run(|draft, _| model::create(draft, Uuid(8), "dev", 1));
    assert_eq!(refused(answer), reason(ModelRefusal::AlreadyExists { name: "dev".to_owned() }));
    world.run(|draft, _| destruction::destroy(draft, MODEL, Force::No, 2)).expect("the model exists");
    let answer = world.run(|draft, _| model::create(draft, Uuid(8), "dev", 1));
    assert_eq!(refused(answer), reason(ModelRefusal::PredecessorExists { name: "dev".to_owned() }));
}
