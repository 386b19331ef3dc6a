//! Limits: full machines, and the capacity of endpoints.

use crate::lifecycle::creation::Creation;
use crate::lifecycle::machine::UNITS_MAX;
use crate::lifecycle::{application, machine, unit};
use crate::tests::relations::limit_reached;
use crate::tests::subordinates::fixture::{document, shown, started, subordinate_refused};
use crate::tests::*;

#[test]
fn no_subordinate_is_added_to_a_full_machine_and_the_principal_sees_why() {
    let mut world = World::new();
    let web = world.deploy("web", "web", 1);
    world.deploy("logging", "logging", 0);
    let id = world.integrate("web", "logging").expect("the endpoints are compatible");
    for _ in 1..UNITS_MAX {
        world.run(|draft, ids| unit::add(draft, MODEL, web, Some("0"), 1, ids)).expect("there is room");
    }
    let mut agent = started(&mut world, "web/0");
    assert!(shown(&world, agent.unit).unit.machine_full);
    let refusal = agent.enter(&mut world, id).refusal;
    let full = MachineRefusal::Full { machine: "0".to_owned(), max: UNITS_MAX };
    assert_eq!(refusal, Some(subordinate_refused("logging:host web:juju-info", full)));
    let last = world.unit("web/23");
    world.run(|draft, _| unit::destroy(draft, MODEL, last, 60)).expect("the removal is accepted");
    assert!(!shown(&world, agent.unit).unit.machine_full);
    assert_eq!(agent.enter(&mut world, id), CommitOutcome::default());
}

#[test]
fn a_full_machine_of_dying_units_is_destroyed_in_one_transaction() {
    let mut world = World::new();
    let apps: Vec<Uuid> = (0..UNITS_MAX)
        .map(|n| {
            let request = Deploy {
                application: Some(format!("w{n}")),
                sha256: "plain".into(),
                units: 1,
                to: (n > 0).then(|| "0".to_owned()),
                ..Deploy::default()
            };
            world
                .run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))
                .expect("room")
                .application
        })
        .collect();
    for app in apps {
        world.run(|draft, _| application::destroy(draft, MODEL, app)).expect("the removal is accepted");
    }
    let machine = document(&world, world.unit("w0/0")).machine;
    world.run(|draft, _| machine::destroy(draft, MODEL, machine)).expect("nobody there is alive");
}

#[test]
fn relation_limits_are_enforced_on_both_ends() {
    let mut world = World::new();
    let limited = |mut charm: Charm, name: &str, end: &str| {
        charm.endpoints.get_mut(end).expect("it has it").limit = Some(1);
        Charm { name: name.into(), ..charm }
    };
    for (name, charm) in [("one", limited(web(), "one", "db")), ("few", limited(db(), "few", "server"))] {
        world.upload(name, charm.clone());
        world.deploy(name, name, 0);
    }
    world.deploy("web", "web", 0);
    world.deploy("db", "db", 0);
    world.integrate("one", "few").expect("both are below their limits");
    for (left, right, end) in [("one", "db", "one:db"), ("web", "few", "few:server")] {
        assert_eq!(refused(world.integrate(left, right)), limit_reached(end, 1));
    }
}
