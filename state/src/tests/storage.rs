//! Storage: created with units, attached, detached, and kept or removed when a unit ends.

use crate::charm::Storage;
use crate::documents::blockers::{EntityId, kept_content};
use crate::documents::prelude::StorageDoc;
use crate::lifecycle::machine;
use crate::lifecycle::storage::{self, ReportedStorage};
use crate::lifecycle::unit::Placement;
use crate::terms::cause::{Actor, Cause, Duty, Entity};
use crate::terms::force::Force;
use crate::terms::refusal::storage::StorageRefusal;
use crate::terms::refusal::{EntityKind, RefusalReason};
use crate::terms::secret::{SecretId, SecretOwnerKind};
use crate::terms::storage::{
    AttachedStorage, ERROR_BYTES_MAX, LOCATION_BYTES_MAX, STORAGE_OF_MACHINE_MAX, STORAGE_OF_UNIT_MAX,
    StorageDirective, StorageEvent, StorageId, StoragePool, StorageReport,
};
use crate::tests::commits::fixture::hook;
use crate::tests::dry_run::fixture::dry_run_together;
use crate::tests::lifecycle::fixture::{destroy_unit, machine_of};
use crate::tests::*;
use crate::transitions::requested_removal::{self, RemovalOptions};
use crate::unit::secrets::SecretWrite;

mod restores;

fn id(name: &str, number: u32) -> StorageId {
    StorageId { name: name.to_owned(), number }
}

fn directive(text: &str) -> StorageDirective {
    StorageDirective::parse(text).expect("a directive")
}

/// A world with a charm that requires one data, and up to three caches.
fn world() -> World {
    let mut world = World::new();
    let data = Storage { location: Some("/srv/data".into()), ..Storage::default() };
    let cache = Storage { count_min: 0, count_max: Some(3), ..Storage::default() };
    let storage = [("data".to_owned(), data), ("cache".to_owned(), cache)].into();
    world.upload("store", Charm { name: "store".into(), storage, ..Charm::default() });
    world
}

/// The instance; none if it is removed.
fn found(world: &World, id: &StorageId) -> Option<StorageDoc> {
    read(world.reader(), &MODEL.storage(id))
}

fn add(world: &mut World, unit: Uuid, name: &str, text: &str) -> Result<Vec<StorageId>, Refusal> {
    let directive = directive(text);
    world.run(|draft, ids| storage::add(draft, MODEL, unit, name, &directive, Creation { now_ms: 7, ids }))
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Refusal>) -> RefusalReason {
    *answer.expect_err("it is refused").reason
}

fn report(world: &mut World, id: &StorageId, report: StorageReport) {
    let doc = found(world, id).expect("it exists");
    let (machine, instance) = (doc.machine, doc.uuid);
    world
        .run(|draft, _| {
            let reported = ReportedStorage { id, instance, report: report.clone() };
            storage::record_report(draft, MODEL, machine, reported, 8)
        })
        .expect("it is on this machine");
}

fn provide(world: &mut World, id: &StorageId) {
    let unit = found(world, id).and_then(|doc| doc.attachment).expect("it is attached").unit;
    report(world, id, StorageReport::Provisioned { unit, location: format!("/srv/{id}") });
}

/// The unit runs a storage hook for the instance.
fn run_hook(world: &mut World, agent: &mut Agent, id: &StorageId, event: StorageEvent) {
    let doc = found(world, id).expect("it exists");
    let storage = AttachedStorage { instance: doc.uuid, kind: doc.kind, location: format!("/srv/{id}") };
    let hook = Hook::Storage { id: id.clone(), storage, event };
    let record = agent.record(Operation::Hook(hook), Outcome::Ok);
    assert_eq!(agent.commit(world, record), CommitOutcome::default());
}

/// A unit that has attached data/0 and has started.
fn attached() -> (World, Agent, StorageId) {
    let mut world = world();
    world.deploy("store", "store", 1);
    let mut agent = Agent::attach(&mut world, "store/0");
    let data = id("data", 0);
    provide(&mut world, &data);
    run_hook(&mut world, &mut agent, &data, StorageEvent::Attached);
    agent.start(&mut world);
    (world, agent, data)
}

#[test]
fn a_unit_is_created_with_the_storage_that_its_charm_requires_or_its_user_requests() {
    let mut world = world();
    let request = |name: &str, storage: &[(&str, &str)]| Deploy {
        application: Some(name.into()),
        sha256: "store".into(),
        units: 2,
        storage: storage.iter().map(|(name, text)| (name.to_string(), directive(text))).collect(),
        ..Deploy::default()
    };
    let deploy = |world: &mut World, request: Deploy| {
        world.run(|draft, ids| application::deploy(draft, MODEL, &request, Creation { now_ms: 5, ids }))
    };
    deploy(&mut world, request("a", &[])).expect("data is required only");
    deploy(&mut world, request("b", &[("cache", "tmpfs,2,10M")])).expect("it is within the range");
    let of = |unit: &str| read(world.reader(), &MODEL.unit_storage(world.unit(unit))).unwrap_or_default();
    assert_eq!(of("a/1").into_iter().collect::<Vec<_>>(), [id("data", 1)]);
    assert_eq!(of("b/0").len(), 3);
    let refused = [
        (("x", "1"), StorageRefusal::NotDeclared { charm: "store".into(), name: "x".into() }),
        (("cache", "4"), StorageRefusal::WrongCount { name: "cache".into(), count: 4, min: 0, max: Some(3) }),
        (("data", "loop"), StorageRefusal::UnsuitablePool { name: "data".into(), pool: "loop".into() }),
        (("data", "ebs"), StorageRefusal::UnsuitablePool { name: "data".into(), pool: "ebs".into() }),
    ];
    for (storage, expected) in refused {
        assert_eq!(refusal(deploy(&mut world, request("c", &[storage]))), expected.into());
    }
}

#[test]
fn storage_that_a_unit_has_used_outlives_it_and_keeps_its_machine() {
    let (mut world, mut agent, data) = attached();
    let machine = machine_of(&world, agent.unit);
    let unused = add(&mut world, agent.unit, "cache", "1").expect("it is within the range");
    provide(&mut world, &unused[0]);
    let stays = requested_removal::storage_kept_after(world.reader(), MODEL, agent.unit);
    assert_eq!(stays, Some((vec![data.clone()], "0".to_owned())));
    let keeps = Cause::new(
        Entity::Machine("0".to_owned()),
        Duty::RemoveStorage { storage: vec![data.clone()] },
        Actor::Operator,
    );
    let planned = dry_run_together(world.reader(), MODEL, &[EntityId::Unit(agent.unit)], Force::No);
    assert_eq!(planned.expect("it is alive").kept, std::slice::from_ref(&keeps));
    assert_eq!(kept_content(&mut world.reader(), MODEL, machine), None, "it has a unit");
    destroy_unit(&mut world, agent.unit);
    run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
    agent.finish(&mut world);
    assert_eq!(world.life(machine), Some(Life::Alive), "it has the content");
    assert_eq!(kept_content(&mut world.reader(), MODEL, machine), Some(keeps));
    assert_eq!(found(&world, &data).map(|doc| (doc.life, doc.attachment)), Some((Life::Alive, None)));
    assert_eq!(found(&world, &unused[0]).map(|doc| doc.life), Some(Life::Dying), "nobody has used it");
    report(&mut world, &unused[0], StorageReport::Removed);
    assert_eq!(found(&world, &unused[0]), None);
    let kept = StorageRefusal::OnMachine { machine: "0".into(), storage: vec![data.clone()] };
    let removed = world.run(|draft, _| machine::destroy(draft, MODEL, machine));
    assert_eq!(refusal(removed), kept.into());

    let store = application_of(&world, "store");
    let unit = world.run(|draft, ids| {
        let creation = Creation { now_ms: 9, ids };
        let placement = Placement { to: None, attach: std::slice::from_ref(&data) };
        unit::add_with_storage(draft, MODEL, store, 1, placement, creation)
    });
    let (unit, _) = unit.expect("it is added to the machine of its storage");
    assert_eq!(machine_of(&world, unit), machine);
    let of_unit = read(world.reader(), &MODEL.unit_storage(unit)).unwrap_or_default();
    assert_eq!(of_unit.into_iter().collect::<Vec<_>>(), [data]);
}

#[test]
fn the_machine_goes_with_its_last_unit_and_storage() {
    let (mut world, mut agent, data) = attached();
    let machine = machine_of(&world, agent.unit);
    destroy_unit(&mut world, agent.unit);
    run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
    agent.finish(&mut world);
    world.run(|draft, _| storage::destroy(draft, MODEL, &data, false, 9)).expect("no unit has it");
    assert_eq!(world.life(machine), Some(Life::Alive), "the content is not deleted yet");
    report(&mut world, &data, StorageReport::Removed);
    assert_eq!((found(&world, &data), world.life(machine)), (None, Some(Life::Dying)));
}

#[test]
fn storage_is_removed_with_its_unit_or_application_on_request() {
    let options = RemovalOptions { force: Force::No, destroy_storage: true };
    for with_application in [false, true] {
        let (mut world, mut agent, data) = attached();
        let (store, unit) = (application_of(&world, "store"), agent.unit);
        let removed = world.run(|draft, _| match with_application {
            true => requested_removal::remove_application(draft, MODEL, store, options, 9),
            false => requested_removal::remove_unit(draft, MODEL, unit, options, 9),
        });
        removed.expect("it is alive");
        run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
        assert_eq!(found(&world, &data).map(|doc| doc.life), Some(Life::Dying));
        report(&mut world, &data, StorageReport::Removed);
        agent.finish(&mut world);
        assert_eq!(found(&world, &data), None);
    }
}

/// 1. A unit has used data/0, and is removed without it.
/// 2. Another unit gets data/0, and is removed at once, because its agent has not attached yet.
#[test]
fn storage_is_removed_with_a_unit_that_is_removed_at_once() {
    let (mut world, mut agent, data) = attached();
    let store = application_of(&world, "store");
    destroy_unit(&mut world, agent.unit);
    run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
    agent.finish(&mut world);
    let placement = Placement { to: None, attach: std::slice::from_ref(&data) };
    let added = world.run(|draft, ids| {
        unit::add_with_storage(draft, MODEL, store, 1, placement, Creation { now_ms: 9, ids })
    });
    let (unit, _) = added.expect("no unit has the storage");
    let options = RemovalOptions { force: Force::No, destroy_storage: true };
    world
        .run(|draft, _| requested_removal::remove_unit(draft, MODEL, unit, options, 9))
        .expect("the removal is accepted");
    assert!(world.is_removed(unit));
    assert_eq!(found(&world, &data).map(|doc| doc.life), Some(Life::Dying));
}

#[test]
fn storage_is_attached_to_one_unit_only() {
    let (mut world, _, data) = attached();
    let store = application_of(&world, "store");
    let placement = Placement { to: None, attach: std::slice::from_ref(&data) };
    for count in [0, 2] {
        let added = world.run(|draft, ids| {
            unit::add_with_storage(draft, MODEL, store, count, placement, Creation { now_ms: 9, ids })
        });
        assert_eq!(refusal(added), StorageRefusal::AttachedToSeveral.into());
    }
}

#[test]
fn scenario_167_a_unit_is_not_dead_before_it_has_detached_its_storage() {
    let (mut world, agent, data) = attached();
    destroy_unit(&mut world, agent.unit);
    let dead = world.run(|draft, _| unit::set_dead(draft, MODEL, agent.unit));
    let expected = StorageRefusal::UnitHasStorage { unit: "store/0".parse().expect("a name"), id: data };
    assert_eq!(refusal(dead), expected.into());
}

#[test]
fn detaching_waits_for_the_hook_only_if_the_unit_has_attached_it() {
    let (mut world, mut agent, data) = attached();
    let cache = add(&mut world, agent.unit, "cache", "1").expect("it is within the range").remove(0);
    for id in [&data, &cache] {
        world.run(|draft, _| storage::detach(draft, MODEL, id, 9)).expect("it is attached");
    }
    assert!(found(&world, &data).is_some_and(|doc| doc.attachment.is_some_and(|a| a.detaching)));
    assert!(found(&world, &cache).is_some_and(|doc| doc.attachment.is_none()), "no hook has seen it");
    let released = world.run(|draft, _| storage::release_content(draft, MODEL, &data));
    let (id, pool) = (data.clone(), StoragePool::Rootfs);
    assert_eq!(refusal(released), StorageRefusal::NotReleasable { id, pool }.into());
    let in_use = world.run(|draft, _| storage::destroy(draft, MODEL, &data, false, 9));
    assert_eq!(refusal(in_use), StorageRefusal::InUse { id: data.clone() }.into());
    run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
    let unit = agent.unit;
    world.run(|draft, _| storage::attach(draft, MODEL, unit, &data)).expect("no unit has it");
    let again = world.run(|draft, _| storage::detach(draft, MODEL, &cache, 9));
    assert_eq!(refusal(again), StorageRefusal::NotAttached { id: cache.clone() }.into());
    world.run(|draft, _| storage::destroy(draft, MODEL, &cache, false, 9)).expect("no unit has it");
    assert_eq!(found(&world, &cache), None, "it was never provided");
}

#[test]
fn storage_of_another_machine_or_unit_is_not_attached() {
    let (mut world, _, data) = attached();
    let store = application_of(&world, "store");
    let other = world.run(|draft, ids| unit::add(draft, MODEL, store, None, 1, ids)).expect("it is alive").0;
    let attach = |world: &mut World| world.run(|draft, _| storage::attach(draft, MODEL, other, &data));
    let holder = Some("store/0".parse().expect("a name"));
    assert_eq!(
        refusal(attach(&mut world)),
        StorageRefusal::Attached { id: data.clone(), unit: holder }.into()
    );
    let cache = add(&mut world, other, "cache", "1").expect("it is within the range").remove(0);
    world.run(|draft, _| storage::detach(draft, MODEL, &cache, 9)).expect("it is attached");
    let first = world.unit("store/0");
    let elsewhere = world.run(|draft, _| storage::attach(draft, MODEL, first, &cache));
    assert_eq!(refusal(elsewhere), StorageRefusal::OtherMachine { id: cache, machine: "1".into() }.into());
}

#[test]
fn a_hook_adds_storage_within_what_its_charm_declares() {
    let (mut world, mut agent, _) = attached();
    let mut record = hook(&agent);
    record.writes.storage = [("cache".to_owned(), 2)].into();
    assert_eq!(agent.commit(&mut world, record), CommitOutcome::default());
    let of_unit = read(world.reader(), &MODEL.unit_storage(agent.unit)).unwrap_or_default();
    assert_eq!(of_unit.len(), 3);
    let mut record = hook(&agent);
    record.writes.storage = [("cache".to_owned(), 2)].into();
    let refused = agent.commit(&mut world, record).refusal;
    let expected = StorageRefusal::WrongCount { name: "cache".into(), count: 4, min: 0, max: Some(3) };
    assert_eq!(refused, Some(expected.into()));
}

#[test]
fn the_storage_of_a_unit_is_bounded() {
    let mut world = World::new();
    let many = Storage { count_min: 0, count_max: None, ..Storage::default() };
    let storage = [("many".to_owned(), many)].into();
    world.upload("store", Charm { name: "store".into(), storage, ..Charm::default() });
    world.deploy("store", "store", 1);
    let unit = world.unit("store/0");
    add(&mut world, unit, "many", &STORAGE_OF_UNIT_MAX.to_string()).expect("a unit may have as many");
    for text in ["1", "4294967295"] {
        assert!(
            matches!(
                refusal(add(&mut world, unit, "many", text)),
                RefusalReason::Storage(StorageRefusal::TooMany { .. })
            ),
            "{text}"
        );
    }
}

#[test]
fn the_storage_of_a_machine_is_bounded_and_attached_storage_counts_for_its_unit() {
    let mut world = World::new();
    let many = Storage { count_min: 0, count_max: None, ..Storage::default() };
    let one = Storage { count_min: 1, ..Storage::default() };
    world.upload(
        "store",
        Charm { name: "store".into(), storage: [("many".to_owned(), many)].into(), ..Charm::default() },
    );
    world.upload(
        "one",
        Charm { name: "one".into(), storage: [("one".to_owned(), one)].into(), ..Charm::default() },
    );
    let store = world.deploy("store", "store", 1);
    let machine = read(world.reader(), &MODEL.machine(machine_of(&world, world.unit("store/0"))))
        .expect("it exists")
        .name;
    let unit_on_machine = |world: &mut World, application: Uuid| {
        world
            .run(|draft, ids| unit::add(draft, MODEL, application, Some(&machine), 1, ids))
            .map(|added| added.0)
    };
    let too_many =
        |reason: RefusalReason| matches!(reason, RefusalReason::Storage(StorageRefusal::TooMany { .. }));
    let first = world.unit("store/0");
    add(&mut world, first, "many", &STORAGE_OF_UNIT_MAX.to_string()).expect("a unit may have as many");
    let second = unit_on_machine(&mut world, store).expect("it is alive");
    let moved = add(&mut world, second, "many", "1").expect("it is within the range").remove(0);
    world.run(|draft, _| storage::detach(draft, MODEL, &moved, 9)).expect("it is attached");
    let full = world.run(|draft, _| storage::attach(draft, MODEL, first, &moved));
    assert!(too_many(refusal(full)), "the unit has as many as it may have");
    world.run(|draft, _| storage::attach(draft, MODEL, second, &moved)).expect("this unit has room");

    let left = STORAGE_OF_MACHINE_MAX - STORAGE_OF_UNIT_MAX - 1;
    add(&mut world, second, "many", &(STORAGE_OF_UNIT_MAX - 1).to_string()).expect("the second is full");
    let third = unit_on_machine(&mut world, store).expect("it is alive");
    let rest = left - (STORAGE_OF_UNIT_MAX - 1);
    add(&mut world, third, "many", &rest.to_string()).expect("the machine may have as many");
    assert!(rest < STORAGE_OF_UNIT_MAX, "the third unit has room");
    assert!(too_many(refusal(add(&mut world, third, "many", "1"))), "the machine has not");
    let other = world.deploy("one", "one", 0);
    assert!(too_many(refusal(unit_on_machine(&mut world, other))), "also not for a new unit");
}

#[test]
fn a_location_is_an_absolute_path_and_an_error_is_one_bounded_line() {
    let (mut world, agent, data) = attached();
    let doc = found(&world, &data).expect("it exists");
    let provision = |world: &mut World, location: &str| {
        let report = StorageReport::Provisioned { unit: agent.unit, location: location.to_owned() };
        world.run(|draft, _| {
            let reported = ReportedStorage { id: &data, instance: doc.uuid, report: report.clone() };
            storage::record_report(draft, MODEL, doc.machine, reported, 8)
        })
    };
    let long = |bytes: usize| format!("/{}", "x".repeat(bytes - 1));
    provision(&mut world, &long(LOCATION_BYTES_MAX)).expect("it is a path");
    for wrong in ["", "srv", "/srv\nunit", "/srv\0", &long(LOCATION_BYTES_MAX + 1)] {
        let refused = refusal(provision(&mut world, wrong));
        assert_eq!(refused, StorageRefusal::InvalidLocation { id: data.clone() }.into(), "{wrong:?}");
    }
    let error = format!("a\nb\u{1b}{}", "x".repeat(ERROR_BYTES_MAX));
    report(&mut world, &data, StorageReport::Failed { error });
    let stored = found(&world, &data).and_then(|doc| doc.error).expect("it is stored");
    assert!(stored.starts_with("a b x") && stored.len() == ERROR_BYTES_MAX, "{stored:?}");
}

#[test]
fn a_late_report_about_another_instance_or_attachment_changes_nothing() {
    let (mut world, mut agent, data) = attached();
    let doc = found(&world, &data).expect("it exists");
    let send = |world: &mut World, instance, report: StorageReport| {
        let machine = doc.machine;
        world
            .run(|draft, _| {
                let reported = ReportedStorage { id: &data, instance, report: report.clone() };
                storage::record_report(draft, MODEL, machine, reported, 8)
            })
            .expect("it is ignored");
    };
    send(&mut world, Uuid(1), StorageReport::Removed);
    send(&mut world, doc.uuid, StorageReport::Removed);
    assert_eq!(found(&world, &data), Some(doc.clone()), "it is attached");
    world.run(|draft, _| storage::detach(draft, MODEL, &data, 9)).expect("it is attached");
    run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
    send(&mut world, doc.uuid, StorageReport::Provisioned { unit: agent.unit, location: "/late".into() });
    assert!(found(&world, &data).is_some_and(|doc| doc.attachment.is_none()));
    let elsewhere = world.run(|draft, _| {
        let reported = ReportedStorage { id: &data, instance: doc.uuid, report: StorageReport::Removed };
        storage::record_report(draft, MODEL, Uuid(1), reported, 8)
    });
    let expected = RefusalReason::NotFound { kind: EntityKind::Storage, name: data.to_string() };
    assert_eq!(refusal(elsewhere), expected);
}

/// A unit that detaches what nobody asked for would have room for further instances.
#[test]
fn a_detachment_that_nobody_requested_changes_nothing() {
    let (mut world, mut agent, data) = attached();
    let before = found(&world, &data);
    run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
    assert_eq!(found(&world, &data), before);
    world.run(|draft, _| storage::detach(draft, MODEL, &data, 9)).expect("it is attached");
    run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
    assert!(found(&world, &data).is_some_and(|doc| doc.attachment.is_none()));
}

/// 1. A hook creates a secret, adds two caches, and adds more of data than its charm allows.
/// 2. The record is refused because of the last, and the hook is run again.
#[test]
fn a_refused_record_creates_neither_its_secrets_nor_a_part_of_its_storage() {
    let (mut world, mut agent, _) = attached();
    let secret = SecretId::from_bits(1);
    let mut record = hook(&agent);
    let write = SecretWrite {
        created: Some(SecretOwnerKind::Unit),
        sealed: Some("one".to_owned()),
        ..SecretWrite::default()
    };
    record.writes.secrets.insert(secret, write);
    record.writes.storage.extend([("cache".to_owned(), 2), ("data".to_owned(), 1)]);
    let outcome = agent.commit(&mut world, record);
    assert!(outcome.refusal.is_some(), "{outcome:?}");
    assert_eq!(read(world.reader(), &MODEL.secret(secret)), None);
    assert_eq!(found(&world, &id("cache", 1)), None);
    assert_eq!(found(&world, &id("cache", 2)), None);
}

fn application_of(world: &World, name: &str) -> Uuid {
    read(world.reader(), &MODEL.application_name(name)).expect("it is deployed")
}

/// 1. Storage is provided for a unit, which has not run storage-attached.
/// 2. A user removes it by force. It is released at once, and its content is still on the machine.
/// 3. The index of the machine must not have it as Alive, which would keep the machine.
#[test]
fn storage_that_is_removed_before_its_hook_is_dying_for_its_machine() {
    let mut world = world();
    world.deploy("store", "store", 1);
    let unit = world.unit("store/0");
    let data = id("data", 0);
    provide(&mut world, &data);
    world.run(|draft, _| storage::destroy(draft, MODEL, &data, true, 9)).expect("it is forced");
    let machine = machine_of(&world, unit);
    let on_machine = read(world.reader(), &MODEL.machine_storage(machine)).expect("its content is there");
    assert_eq!(on_machine.get(&data), Some(&Life::Dying));
    report(&mut world, &data, StorageReport::Removed);
    assert_eq!(found(&world, &data), None);
}
