//! Storage after a restore: the store shows storage hooks that ran after the backup as not run, until the unit
//! resynchronises.

use super::*;

/// Attaches the agent to the restored store, and resynchronises.
fn resync(older: &mut World, agent: &mut Agent) {
    agent.attach_restored(older);
    let resync = agent.resync();
    assert_eq!(agent.commit(older, resync), CommitOutcome::default());
}

fn detach(world: &mut World, id: &StorageId) {
    world.run(|draft, _| storage::detach(draft, MODEL, id, 9)).expect("it is attached");
}

/// The location and whether the unit has run storage-attached; none if no unit has the instance.
fn attachment(world: &World, id: &StorageId) -> Option<(Option<String>, bool)> {
    let attachment = found(world, id)?.attachment?;
    Some((attachment.location, attachment.attached))
}

/// 1. A unit is being removed. 2. A backup is made. 3. The unit runs storage-detaching and its other last hooks.
/// 4. The backup is restored. (sim 1795737157082: the unit was refused to be Dead, without end)
#[test]
fn a_unit_that_has_detached_its_storage_after_a_backup_can_be_dead() {
    for destroy_storage in [false, true] {
        let (mut world, mut agent, data) = attached();
        let (unit, options) = (agent.unit, RemovalOptions { force: Force::No, destroy_storage });
        world
            .run(|draft, _| requested_removal::remove_unit(draft, MODEL, unit, options, 9))
            .expect("the removal is accepted");
        let mut older = world.copy();
        run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
        agent.done(&mut world, Operation::Hook(Hook::Stop));
        resync(&mut older, &mut agent);
        agent.finish(&mut older);
        let kept = found(&older, &data).map(|doc| (doc.life, doc.attachment));
        let life = if destroy_storage { Life::Dying } else { Life::Alive };
        assert_eq!(kept, Some((life, None)), "the content is deleted on request only");
    }
}

/// 1. A backup is made before the unit has attached its storage. 2. The backup is restored, and the unit is removed.
///    Nobody has used the storage, so it does not stay.
#[test]
fn storage_that_no_unit_has_used_does_not_outlive_its_unit_after_a_restore() {
    let mut world = world();
    world.deploy("store", "store", 1);
    let mut agent = Agent::attach(&mut world, "store/0");
    let (unit, data) = (agent.unit, id("data", 0));
    let mut older = world.copy();
    let options = RemovalOptions { force: Force::No, destroy_storage: false };
    older
        .run(|draft, _| requested_removal::remove_unit(draft, MODEL, unit, options, 9))
        .expect("the removal is accepted");
    resync(&mut older, &mut agent);
    agent.finish(&mut older);
    assert!(found(&older, &data).is_none_or(|doc| doc.life != Life::Alive), "{:?}", found(&older, &data));
}

/// 1. A user detaches storage. 2. A backup is made. 3. The unit runs storage-detaching. 4. The backup is restored: no
///    hook will run any more.
#[test]
fn storage_that_was_detached_after_a_backup_does_not_detach_without_end() {
    let (mut world, mut agent, data) = attached();
    detach(&mut world, &data);
    let mut older = world.copy();
    run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
    resync(&mut older, &mut agent);
    assert_eq!(attachment(&older, &data), None);
}

/// 1. A backup is made. 2. A user detaches storage, and its unit runs storage-detaching. 3. The backup is restored: the storage
///    is provided again before the unit uses it.
#[test]
fn storage_whose_detachment_is_lost_is_provided_and_attached_again() {
    let (mut world, mut agent, data) = attached();
    let mut older = world.copy();
    detach(&mut world, &data);
    run_hook(&mut world, &mut agent, &data, StorageEvent::Detaching);
    resync(&mut older, &mut agent);
    assert_eq!(attachment(&older, &data), Some((None, false)));
    provide(&mut older, &data);
    run_hook(&mut older, &mut agent, &data, StorageEvent::Attached);
    assert_eq!(attachment(&older, &data), Some((Some("/srv/data/0".into()), true)));
}

/// 1. A backup is made. 2. A unit runs storage-attached. 3. The backup is restored. 4. The storage is detached: the unit
///    must run its hook first. The storage is known to be used, so that its content is kept.
#[test]
fn storage_that_was_attached_after_a_backup_is_not_taken_for_unused() {
    let mut world = world();
    world.deploy("store", "store", 1);
    let mut agent = Agent::attach(&mut world, "store/0");
    let data = id("data", 0);
    provide(&mut world, &data);
    agent.start(&mut world);
    let mut older = world.copy();
    run_hook(&mut world, &mut agent, &data, StorageEvent::Attached);
    resync(&mut older, &mut agent);
    let is_attached = Some((Some("/srv/data/0".into()), true));
    assert_eq!(attachment(&older, &data), is_attached);
    assert!(found(&older, &data).is_some_and(|doc| doc.used));
    detach(&mut older, &data);
    assert_eq!(attachment(&older, &data), is_attached, "its hook has to run");
}
