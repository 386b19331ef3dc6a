//! Tests of the lifecycle of machines (scenarios 169 to 172): what is refused, when a Dying machine becomes Dead, instances
//! that are kept, and the log of their statuses.

use crate::documents::prelude::{GLOBAL, SubjectStatus};
use crate::lifecycle::machine::MachineRequest;
use crate::lifecycle::{application, constraints, machine, unit};
use crate::machine::provision::InstanceOwner;
use crate::terms::constraints::Constraints;
use crate::terms::hardware::Hardware;
use crate::terms::provider_kind::ProviderKind;
use crate::terms::status::{InstanceStatus, MachineAgentStatus};
use crate::tests::lifecycle::fixture::{destroy_unit, machine_of};
use crate::tests::*;
use crate::transitions::instance::{self, ProvisioningReport, RecordedReport};
use crate::transitions::machine_status_log;
use crate::views::desired_machines::desired_machines;

/// A Dying machine whose only unit has started and is Dying.
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

#[test]
fn the_provisioner_is_shown_whether_a_dying_machine_needs_the_agent_of_a_unit() {
    let (mut world, mut agent, id) = dying_machine();
    let shown = |world: &World| {
        let machine = desired_machines(world.reader(), MODEL).remove(0);
        assert_eq!(
            (machine.uuid, machine.life, machine.owner),
            (id, Life::Dying, InstanceOwner::Provisioner)
        );
        (machine.has_units, machine.needs_unit_agent)
    };
    assert_eq!(shown(&world), (true, true));
    agent.finish(&mut world);
    assert_eq!(shown(&world), (false, false));
    let mut unstarted = World::new();
    unstarted.deploy("web", "web", 1);
    Agent::attach(&mut unstarted, "web/0");
    let alive = desired_machines(unstarted.reader(), MODEL).remove(0);
    assert!(
        alive.has_units && !alive.needs_unit_agent,
        "the provisioner starts an instance for every Alive machine with units"
    );
}

#[test]
fn scenario_169_a_machine_with_an_alive_unit_is_not_removed() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let id = machine_of(&world, world.unit("web/0"));
    let answer = world.run(|draft, _| machine::destroy(draft, MODEL, id));
    let alive = MachineRefusal::UnitsAlive { machine: "0".to_owned(), units: vec![web0()] };
    assert_eq!(refused(answer), reason(alive));
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
    assert!(world.is_removed(id));
    world.run(|draft, _| machine::remove(draft, MODEL, id)).expect("a second time changes nothing");

    // 171: no user requests it
    world.deploy("db", "db", 1);
    let (unit, id) = (world.unit("db/0"), machine_of(&world, world.unit("db/0")));
    destroy_unit(&mut world, unit);
    assert_eq!(world.life(id), Some(Life::Dying));
}

#[test]
fn a_dying_machine_without_an_instance_is_dead_once_its_attached_units_are_removed() {
    let mut world = World::new();
    let web = world.deploy("web", "web", 1);
    let (first, id) = (world.unit("web/0"), machine_of(&world, world.unit("web/0")));
    let add_unit = |world: &mut World| {
        let added = world.run(|draft, ids| unit::add(draft, MODEL, web, Some("0"), 1, ids));
        added.expect("the machine is Alive").0
    };
    let (second, attached) = (add_unit(&mut world), add_unit(&mut world));
    let mut agent = Agent::attach(&mut world, "web/2");
    agent.start(&mut world);
    let absent = |world: &mut World| world.run(|draft, _| instance::record_absent(draft, MODEL, id, 9));
    assert_eq!(refused(absent(&mut world)), reason(MachineRefusal::Alive { machine: "0".to_owned() }));
    world.run(|draft, _| application::destroy(draft, MODEL, web)).expect("nothing refers to it");
    world.run(|draft, _| machine::destroy(draft, MODEL, id)).expect("its units are Dying");
    // each report removes one of the two units that no agent has attached for
    assert_eq!(absent(&mut world), Ok(RecordedReport::Repeat));
    assert_eq!(absent(&mut world), Ok(RecordedReport::Repeat));
    assert!(world.is_removed(first) && world.is_removed(second) && !world.is_removed(attached));
    let assigned = MachineRefusal::UnitsAssigned { machine: "0".to_owned() };
    assert_eq!(refused(absent(&mut world)), reason(assigned));
    agent.finish(&mut world);
    assert_eq!(absent(&mut world), Ok(RecordedReport::Done(id)));
    assert_eq!(world.life(id), Some(Life::Dead));
}

#[test]
fn a_kept_machine_is_removed_only_after_its_agent_is_uninstalled() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let id = machine_of(&world, unit);
    let keep = move |draft: &mut Draft<'_>| {
        machine::keep_instance(draft, MODEL, id)?;
        machine::destroy(draft, MODEL, id)
    };
    let no_instance = MachineRefusal::NoInstance { machine: "0".to_owned() };
    assert_eq!(refused(world.run(|draft, _| keep(draft))), reason(no_instance));
    world
        .run(|draft, _| instance::reserve_nonce(draft, MODEL, id, ProviderKind::Local, Uuid(5)))
        .expect("it is Alive");
    world
        .run(|draft, _| instance::record_started(draft, MODEL, id, "local-0", "127.0.0.1"))
        .expect("its nonce was reserved");
    let kept = |world: &World| read(world.reader(), &MODEL.machine(id)).map(|machine| machine.keep_instance);
    assert_eq!(refused(world.run(|draft, _| keep(draft))).0, Code::Busy, "a unit on it is alive");
    assert_eq!(kept(&world), Some(false), "a refused removal changes nothing");
    destroy_unit(&mut world, unit);
    world.run(|draft, _| keep(draft)).expect("its only unit is gone");
    world.run(|draft, _| machine::set_dead(draft, MODEL, id)).expect("no units are left");
    world
        .run(|draft, _| instance::record_agent_uninstalled(draft, MODEL, id))
        .expect("its agent is uninstalled");
    assert!(read(world.reader(), &MODEL.machine(id)).expect("its instance is kept").agent_uninstalled);
    world.run(|draft, _| keep(draft)).expect("a second time changes nothing");
    world.run(|draft, _| machine::remove(draft, MODEL, id)).expect("it is Dead");
    assert!(world.is_removed(id));
    assert_eq!(
        read(world.reader(), &GLOBAL.retired_token_digest(id)),
        None,
        "the token of an agent that was uninstalled is not kept"
    );

    // an instance that is not kept is removed by its provider
    world.deploy("db", "db", 1);
    let (unit, id) = (world.unit("db/0"), machine_of(&world, world.unit("db/0")));
    destroy_unit(&mut world, unit);
    world.run(|draft, _| machine::set_dead(draft, MODEL, id)).expect("no units are left");
    world
        .run(|draft, _| instance::record_agent_uninstalled(draft, MODEL, id))
        .expect("its agent is uninstalled");
    assert_eq!(world.life(id), Some(Life::Dead));
    let refusal = world.run(|draft, _| machine::keep_instance(draft, MODEL, id));
    let released = MachineRefusal::InstanceBeingReleased { machine: "1".to_owned() };
    assert_eq!(refused(refusal), reason(released));
}

#[test]
fn an_instance_may_be_started_for_a_dying_machine_that_still_has_units() {
    let (mut world, mut agent, id) = dying_machine();
    let reserve = |nonce| {
        move |draft: &mut Draft<'_>| {
            instance::reserve_nonce(draft, MODEL, id, ProviderKind::Local, Uuid(nonce))
        }
    };
    let mut with_unit = world.copy();
    assert_eq!(with_unit.run(|draft, _| reserve(5)(draft)), Ok(Uuid(5)));
    agent.finish(&mut world);
    assert_eq!(refused(world.run(|draft, _| reserve(6)(draft))).0, Code::NotAlive, "no unit is left on it");
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
    assert_eq!(refused(answer), reason(MachineRefusal::NotAlive { machine: "0".to_owned() }));
    let answer = world.run(|draft, ids| unit::add(draft, MODEL, app, Some("9"), 1, ids));
    assert_eq!(refused(answer), not_found(EntityKind::Machine, "9"));
}

#[test]
fn the_statuses_that_a_machine_has_had_are_stored_until_it_is_removed() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let id = machine_of(&world, unit);
    let log = |world: &World| {
        let machine = read(world.reader(), &MODEL.machine(id)).expect("it exists");
        let log = machine_status_log::read(&mut { world.reader() }, MODEL, id, &machine);
        (machine.created_ms, log.changes.into_iter().map(|change| (change.since_ms, change.status)).collect())
    };
    let (created_ms, changes): (i64, Vec<_>) = log(&world);
    let mut expected = vec![
        (created_ms, SubjectStatus::MachineAgent(MachineAgentStatus::Pending)),
        (created_ms, SubjectStatus::Instance(InstanceStatus::Pending)),
    ];
    assert_eq!(changes, expected);
    let failed = ProvisioningReport::Failed { message: "no room".to_owned() };
    let (instance_id, address) = ("local-0".to_owned(), "127.0.0.1".to_owned());
    let started = ProvisioningReport::Started { instance_id, address, base: None, hardware: None };
    let starting = ProvisioningReport::Starting { provider: ProviderKind::Local, nonce: Uuid(5) };
    for (now_ms, report) in
        [(9, &starting), (10, &failed), (11, &failed), (20, &started), (21, &started), (30, &failed)]
    {
        world.run(|draft, _| instance::record(draft, MODEL, id, report, now_ms)).expect("it is possible");
    }
    expected.extend([
        (10, SubjectStatus::Instance(InstanceStatus::ProvisioningError)),
        (20, SubjectStatus::Instance(InstanceStatus::Running)),
        (20, SubjectStatus::MachineAgent(MachineAgentStatus::Started)),
        (30, SubjectStatus::Instance(InstanceStatus::ProvisioningError)),
    ]);
    assert_eq!(log(&world).1, expected);
    destroy_unit(&mut world, unit);
    world.run(|draft, _| machine::set_dead(draft, MODEL, id)).expect("no units are left");
    world.run(|draft, _| machine::remove(draft, MODEL, id)).expect("it is Dead");
    assert_eq!(read(world.reader(), &MODEL.status_log(id)), None);
}

#[test]
fn a_machine_has_the_constraints_of_its_request_and_those_of_the_model_for_other_keys() {
    let mut world = World::new();
    let parsed = |text: &str| text.parse::<Constraints>().expect("they are constraints");
    world.run(|draft, _| constraints::set(draft, MODEL, None, &parsed("mem=2G cores=4"))).expect("it exists");
    let deploy =
        Deploy { sha256: "web".into(), units: 1, constraints: parsed("mem=8G"), ..Deploy::default() };
    world.run(|draft, ids| application::deploy(draft, MODEL, &deploy, created(ids))).expect("it deploys");
    let of = |world: &World, id| read(world.reader(), &MODEL.machine(id)).expect("it exists").constraints;
    let unit = world.unit("web/0");
    assert_eq!(of(&world, machine_of(&world, unit)), parsed("mem=8G cores=4"));
    let request = MachineRequest { constraints: parsed("cores=1"), ..MachineRequest::default() };
    let id = Uuid(900);
    world.run(|draft, _| machine::add_requested(draft, MODEL, id, request.clone(), 1)).expect("it is added");
    assert_eq!(of(&world, id), parsed("mem=2G cores=1"));
}

#[test]
fn the_hardware_of_an_instance_is_recorded_unless_it_cannot_be_shown() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let unit = world.unit("web/0");
    let id = machine_of(&world, unit);
    let starting = ProvisioningReport::Starting { provider: ProviderKind::Local, nonce: Uuid(5) };
    world.run(|draft, _| instance::record(draft, MODEL, id, &starting, 1)).expect("it is possible");
    let hardware = |arch: &str| Some(Hardware { arch: arch.to_owned(), cores: 2, mem_mib: 4096 });
    for (reported, recorded) in [
        (hardware("arm64"), hardware("arm64")),
        (hardware("arm64 mem=1"), None),
        (hardware("amd64"), hardware("amd64")),
        (hardware(""), None),
        (hardware(&"a".repeat(33)), None),
    ] {
        let (instance_id, address) = ("local-0".to_owned(), "127.0.0.1".to_owned());
        let started = ProvisioningReport::Started { instance_id, address, base: None, hardware: reported };
        world.run(|draft, _| instance::record(draft, MODEL, id, &started, 2)).expect("it is possible");
        let instance = read(world.reader(), &MODEL.machine_instance(id)).expect("it is recorded");
        assert_eq!(instance.hardware, recorded);
    }
}
