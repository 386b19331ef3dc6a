//! Models in which charms are developed: fake applications, and the clock that can be advanced.

use crate::documents::prelude::SecretDoc;
use crate::lifecycle::fake_application::{self, SetFakeSettings};
use crate::lifecycle::{machine, model};
use crate::terms::secret::{RotatePolicy, SecretId, SecretOwnerKind};
use crate::tests::*;
use crate::transitions::due_secrets;
use crate::unit::local::{Episode, Step};
use crate::unit::record::Timer;
use crate::unit::resolve::{Act, Now, next};
use crate::unit::secrets::SecretWrite;
use crate::unit::snapshot::Snapshot;
use crate::views::view;

fn for_development(world: &mut World) {
    let set = BTreeMap::from([("development".to_owned(), "true".to_owned())]);
    world.run(|draft, _| model::configure(draft, MODEL, &set, &[])).expect("a valid setting");
}

fn advance(world: &mut World, by_ms: u64) -> Result<u64, Refusal> {
    world.run(|draft, _| model::advance(draft, MODEL, by_ms))
}

fn deploy_fake(world: &mut World, name: &str, charm: &str, units: u32) -> Result<(), Refusal> {
    let application = Some(name.to_owned());
    let request = Deploy { application, sha256: charm.into(), units, fake: true, ..Deploy::default() };
    let deploy = |draft: &mut Draft, ids: &mut dyn FnMut() -> Uuid| {
        application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids })
    };
    world.run(deploy).map(drop)
}

fn set_settings(
    world: &mut World,
    unit: Option<&str>,
    settings: Option<&[(&str, &str)]>,
) -> Result<(), Refusal> {
    let bag = |pairs: &[(&str, &str)]| -> Bag {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    let request = SetFakeSettings {
        application: "postgres".to_owned(),
        left: "web:db".to_owned(),
        right: "postgres:server".to_owned(),
        unit: unit.map(|unit| unit.parse().expect("a unit name")),
        settings: settings.map(bag),
    };
    world
        .run(|draft, ids| fake_application::set_settings(draft, MODEL, &request, Creation { now_ms: 7, ids }))
}

/// What the janitor does, until nothing is left to do.
fn end_fake_units(world: &mut World) {
    loop {
        let ended = fake_application::pending_teardowns(world.reader(), MODEL);
        if ended.is_empty() {
            return;
        }
        for end in ended {
            world.run(|draft, _| fake_application::tear_down(draft, MODEL, end, 9)).expect("it ends");
        }
    }
}

/// Unit web/0 with an agent, in a relation with postgres/0 and postgres/1, which are fake.
fn related(world: &mut World) -> (Uuid, Agent) {
    for_development(world);
    world.deploy("web", "web", 1);
    deploy_fake(world, "postgres", "db", 2).expect("it deploys");
    let relation = world.integrate("web:db", "postgres:server").expect("the endpoints are compatible");
    let mut web = Agent::attach(world, "web/0");
    web.start(world);
    web.enter(world, relation);
    for unit in ["postgres/0", "postgres/1"] {
        set_settings(world, Some(unit), Some(&[("host", unit)])).expect("a fake unit");
    }
    set_settings(world, None, Some(&[("version", "14")])).expect("a fake application");
    (relation, web)
}

fn view(world: &World, unit: &str) -> Snapshot {
    let full = view::full_view(world.reader(), MODEL, world.unit(unit)).expect("there is a view");
    Snapshot::from_full(full.delta).expect("complete")
}

#[test]
fn a_fake_unit_is_an_ordinary_member_and_needs_no_agent() {
    let mut world = World::new();
    let (relation, _) = related(&mut world);
    let seen = |world: &World| {
        let shown = view(world, "web/0").relations.remove(&world.number(relation)).expect("it is shown");
        let host = |name: &str| shown.version(&name.parse().expect("a unit name")).is_some();
        (host("postgres/0"), host("postgres/1"))
    };
    assert_eq!(seen(&world), (true, true));
    let machine = read(world.reader(), &MODEL.unit(world.unit("postgres/1"))).expect("a unit").machine;
    let doc: MachineDoc = read(world.reader(), &MODEL.machine(machine)).expect("a machine");
    assert!(doc.manual, "no provider starts it");
    set_settings(&mut world, Some("postgres/1"), None).expect("it leaves");
    assert_eq!(seen(&world), (true, false));
}

#[test]
fn fake_units_leave_and_are_removed_without_agents() {
    let mut world = World::new();
    let (relation, mut web) = related(&mut world);
    let (first, machine) = (world.unit("postgres/0"), {
        let unit: UnitDoc = read(world.reader(), &MODEL.unit(world.unit("postgres/0"))).expect("a unit");
        unit.machine
    });
    world.run(|draft, _| unit::destroy(draft, MODEL, first, 8)).expect("it exists");
    end_fake_units(&mut world);
    assert!(world.is_removed(first) && !world.is_removed(relation));
    let postgres = read(world.reader(), &MODEL.application_name("postgres")).expect("an application");
    world.run(|draft, _| application::destroy(draft, MODEL, postgres)).expect("it exists");
    end_fake_units(&mut world);
    assert!(!world.is_removed(relation), "web/0 has not run broken");
    web.leave_by_broken(&mut world, relation);
    assert!(world.is_removed(relation) && world.is_removed(postgres));
    world.run(|draft, _| machine::set_dead(draft, MODEL, machine)).expect("it is empty and Dying");
}

#[test]
fn fake_units_leave_a_relation_that_is_removed_from_the_other_side_or_suspended() {
    let mut world = World::new();
    let (relation, mut web) = related(&mut world);
    let members =
        |world: &World| read_all::<serde_json::Value>(world.reader(), &MODEL.scopes(relation)).len();
    assert_eq!(members(&world), 3);
    world.run(|draft, _| relation::suspend(draft, MODEL, relation, "", 8)).expect("it is Alive");
    end_fake_units(&mut world);
    assert_eq!(members(&world), 1);
    world.run(|draft, _| relation::resume(draft, MODEL, relation)).expect("it is Alive");
    set_settings(&mut world, Some("postgres/0"), Some(&[])).expect("it enters again");
    world.run(|draft, _| relation::destroy(draft, MODEL, relation)).expect("it exists");
    end_fake_units(&mut world);
    assert_eq!(members(&world), 1);
    web.leave_by_broken(&mut world, relation);
    assert!(world.is_removed(relation) && !world.is_removed(world.unit("postgres/0")));
}

#[test]
fn only_a_model_for_development_has_fake_applications_and_only_these_are_set() {
    let mut world = World::new();
    let not_here = reason(ModelRefusal::NotForDevelopment { name: "dev".to_owned() });
    assert_eq!(refused(deploy_fake(&mut world, "postgres", "db", 1)), not_here);
    for_development(&mut world);
    let subordinate = ApplicationRefusal::CannotBeFake { charm: "logging".to_owned() };
    assert_eq!(refused(deploy_fake(&mut world, "logging", "logging", 0)), reason(subordinate));
    world.deploy("web", "web", 1);
    world.deploy("postgres", "db", 1);
    world.integrate("web:db", "postgres:server").expect("the endpoints are compatible");
    let real = ApplicationRefusal::NotFake { application: "postgres".to_owned() };
    let set = set_settings(&mut world, Some("postgres/0"), Some(&[]));
    assert_eq!(refused(set), reason(real));
    deploy_fake(&mut world, "other", "db", 0).expect("it deploys");
    let other = read(world.reader(), &MODEL.application_name("other")).expect("an application");
    let placed = world.run(|draft, ids| unit::add(draft, MODEL, other, Some("0"), 5, ids));
    assert_eq!(refused(placed), reason(ApplicationRefusal::FakePlaced { application: "other".to_owned() }));
}

#[test]
fn a_fake_unit_enters_no_relation_of_container_scope() {
    let mut world = World::new();
    for_development(&mut world);
    deploy_fake(&mut world, "web", "web", 1).expect("it deploys");
    world.deploy("logging", "logging", 0);
    let relation = world.integrate("web", "logging").expect("the endpoints are compatible");
    let doc = read(world.reader(), &MODEL.relation(relation)).expect("a relation");
    let [left, right] = [&doc.ends[0], &doc.ends[1]].map(|end| end.name().to_string());
    let unit = Some("web/0".parse().expect("a unit name"));
    let request =
        SetFakeSettings { application: "web".to_owned(), left, right, unit, settings: Some(Bag::new()) };
    let set = world.run(|draft, ids| {
        fake_application::set_settings(draft, MODEL, &request, Creation { now_ms: 7, ids })
    });
    let reason = reason(ApplicationRefusal::FakeInContainer { application: "web".to_owned() });
    assert_eq!(refused(set), reason);
    let logging: UnitName = "logging/0".parse().expect("a unit name");
    assert!(read(world.reader(), &MODEL.unit_name(&logging)).is_none(), "no subordinate was created");
}

#[test]
fn the_clock_is_advanced_only_in_a_model_for_development_and_by_less_than_a_year() {
    let mut world = World::new();
    let not_here = reason(ModelRefusal::NotForDevelopment { name: "dev".to_owned() });
    assert_eq!(refused(advance(&mut world, 1)), not_here);
    for_development(&mut world);
    let year_ms = 8760 * 3600 * 1000;
    assert_eq!(refused(advance(&mut world, year_ms)), reason(ModelRefusal::AdvancedTooFar));
    assert_eq!(advance(&mut world, 5), Ok(5));
    assert_eq!(advance(&mut world, year_ms - 1), Ok(year_ms + 4));
}

#[test]
fn an_advanced_clock_makes_retries_and_update_status_due_once() {
    let mut world = World::new();
    for_development(&mut world);
    world.deploy("plain", "plain", 1);
    let mut agent = Agent::attach(&mut world, "plain/0");
    agent.start(&mut world);
    advance(&mut world, 3_600_000).expect("for development");
    let timer =
        |advanced_ms| Timer { boot: "b".to_owned(), started_ms: 1_000_000, delay_ms: 300_000, advanced_ms };
    let failed = |advanced_ms| {
        Step::Failed(Episode {
            id: 9,
            operation: Operation::Hook(Hook::UpdateStatus),
            reason: FailureReason::Interrupted,
            since_ms: 0,
            failures: 1,
            retry: Some(timer(advanced_ms)),
        })
    };
    let now = Now { boot: "b".to_owned(), since_boot_ms: 1_000_000, ..Now::hypothetical() };
    let act = |world: &World, local: &Local| {
        let mut view = view(world, "plain/0");
        view.position.store_generation = local.store_generation.unwrap_or_default();
        next(local, Some(&view), &now).act
    };
    agent.local.step = failed(3_600_000);
    let Act::Wait(waits) = act(&world, &agent.local) else { panic!("the retry is not due") };
    assert_eq!(waits.until_ms, Some(1_300_000), "what passed before counts no longer");
    advance(&mut world, 299_999).expect("for development");
    let Act::Wait(waits) = act(&world, &agent.local) else { panic!("the retry is not due") };
    assert_eq!(waits.until_ms, Some(1_000_001));
    advance(&mut world, 1).expect("for development");
    assert!(matches!(act(&world, &agent.local), Act::Start(_)));
}

#[test]
fn an_advanced_clock_rotates_secrets_and_later_ones_are_counted_from_it() {
    let mut world = World::new();
    for_development(&mut world);
    world.deploy("plain", "plain", 1);
    let mut agent = Agent::attach(&mut world, "plain/0");
    agent.start(&mut world);
    let hour_ms = 3_600_000;
    let doc = |world: &World, id: u128| -> SecretDoc {
        read(world.reader(), &MODEL.secret(SecretId::from_bits(id << 90))).expect("it exists")
    };
    let mut create = |world: &mut World, id: u128| {
        let mut record = agent.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
        let write = SecretWrite {
            created: Some(SecretOwnerKind::Unit),
            rotate: Some(RotatePolicy::Hourly),
            expire_at_ms: Some(record.at_ms + 2 * hour_ms),
            sealed: Some("sealed".to_owned()),
            ..SecretWrite::default()
        };
        record.writes.secrets.insert(SecretId::from_bits(id << 90), write);
        assert_eq!(agent.commit(world, record), CommitOutcome::default());
    };
    let mark = |world: &mut World| {
        let is_due = due_secrets::is_any_due(world.reader(), MODEL, 1000);
        world.run(|draft, _| Ok(due_secrets::mark_due(draft, MODEL, 1000))).expect("it is allowed");
        is_due
    };
    create(&mut world, 1);
    assert!(!mark(&mut world));
    advance(&mut world, 3_600_000).expect("for development");
    assert!(mark(&mut world) && doc(&world, 1).rotation_due);
    create(&mut world, 2);
    assert!(!mark(&mut world) && !doc(&world, 2).rotation_due, "an hour after it was created");
    advance(&mut world, 3_600_000).expect("for development");
    assert!(mark(&mut world) && doc(&world, 2).rotation_due);
    let is_expired = |id| {
        let secret = doc(&world, id);
        secret.revisions[&secret.newest()].expired
    };
    assert_eq!((is_expired(1), is_expired(2)), (true, false));
}

/// A charm that sets an expiry and prints it at once must read what it reads in the next hook.
#[test]
fn a_hook_reads_the_expiry_that_it_has_set_as_later_hooks_read_it() {
    let mut world = World::new();
    for_development(&mut world);
    world.deploy("plain", "plain", 1);
    let mut agent = Agent::attach(&mut world, "plain/0");
    agent.start(&mut world);
    advance(&mut world, 3_600_000).expect("for development");
    let view = |world: &World| {
        let view = view::full_view(world.reader(), MODEL, agent.unit).expect("the unit exists");
        Snapshot::from_full(view.delta).expect("it is whole")
    };
    let mut record = agent.record(Operation::Hook(Hook::UpdateStatus), Outcome::Ok);
    let id = SecretId::from_bits(1 << 90);
    let write = SecretWrite {
        created: Some(SecretOwnerKind::Unit),
        expire_at_ms: Some(record.at_ms + 5_000),
        sealed: Some("sealed".to_owned()),
        ..SecretWrite::default()
    };
    let mut context = hook_context::context();
    context.model.advanced_ms = view(&world).model.advanced_ms;
    context.write_secret(id, write).expect("it is small");
    let shown = context.own_secret(id).expect("it was created").expire_at_ms;
    record.writes = context.writes;
    assert_eq!(agent.send(&mut world, &record), Ok(CommitOutcome::default()));
    let owned = view(&world).secrets[&id].owned.clone().expect("the unit owns it");
    assert_eq!(owned.secret.expire_at_ms, shown);
}
