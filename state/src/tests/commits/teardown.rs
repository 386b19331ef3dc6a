//! A unit ends after a user has requested it, or because it had started to in a store generation that was lost.

use crate::terms::refusal::record::RecordRefusal;
use crate::tests::commits::fixture::hook;
use crate::tests::subordinates::fixture::related_subordinate;
use crate::tests::*;

/// A person who has the token of one unit could end the unit and its subordinates, as if a user had removed it.
#[test]
fn an_alive_unit_cannot_end_itself() {
    let mut world = World::new();
    let (_, web, logging) = related_subordinate(&mut world);
    let failed = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
    let mut records = Vec::new();
    for last in [Hook::Stop, Hook::Remove] {
        for outcome in [Outcome::Ok, Outcome::Skipped, failed.clone()] {
            records.push(web.record(Operation::Hook(last.clone()), outcome));
        }
    }
    let ended: [fn(&mut Local); 3] =
        [|local| local.stopped = true, |local| local.removed = true, |local| local.dead = true];
    for end in ended {
        let mut resync = web.resync();
        end(resync.resync_local.as_mut().expect("a resync has a state"));
        records.push(resync);
    }
    let before = world.documents.map.clone();
    for record in records {
        let refusal = RecordRefusal::UnitAlive { unit: web0(), sequence: record.sequence };
        assert_eq!(refused(web.send(&mut world, &record)), reason(refusal), "{:?}", record.operation);
    }
    let dead = web.record(Operation::SetDead, Outcome::Ok);
    let refusal = web.send(&mut world, &dead).expect("it is answered").refusal;
    assert_eq!(refusal, Some(UnitRefusal::Alive { unit: web0() }.into()));
    let lives = |unit: Uuid| MODEL.unit_life(unit).text().to_owned();
    for unit in [web.unit, logging.unit] {
        assert_eq!(world.life(unit), Some(Life::Alive));
        assert_eq!(world.documents.map.get(&lives(unit)), before.get(&lives(unit)));
    }
}

/// A folder that claims to have started to end is believed once after a restore: at its first attach.
#[test]
fn an_attach_resumes_a_teardown_only_of_another_store_generation() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let mut web = Agent::attach(&mut world, "web/0");
    web.start(&mut world);
    let claim = |nonce, epoch, store_generation| {
        let nonce = Uuid(nonce);
        Attach { nonce, epoch, store_generation, teardown_started: true, boot: String::new() }
    };
    let attach = |world: &mut World, attach, generation| {
        let attached =
            world.run(|draft, _| session::attach(draft, MODEL, web.unit, attach, generation, false));
        (attached.map(|granted| granted.epoch).map_err(|refused| refused.code()), world.life(web.unit))
    };
    let alive = Some(Life::Alive);
    let claims = |world: &mut World, nonce: u128, of, other, epoch| {
        assert_eq!(attach(world, claim(nonce, epoch, Some(of)), of), (Ok(epoch + 1), alive));
        assert_eq!(attach(world, claim(nonce + 1, epoch + 1, Some(other)), of), (Err(Code::Fenced), alive));
        assert_eq!(attach(world, claim(nonce + 2, epoch + 1, None), of), (Err(Code::Fenced), alive));
        assert_eq!(attach(world, claim(nonce + 3, 0, None), of), (Ok(epoch + 2), alive));
        assert_eq!(attach(world, claim(nonce + 4, 0, Some(other)), of), (Ok(epoch + 3), alive));
    };
    claims(&mut world, 10, GENERATION, Uuid(99), web.epoch);
    let epoch = web.epoch + 3;
    let mut restored = world.copy();
    assert_eq!(
        attach(&mut restored, claim(20, epoch, Some(GENERATION)), RESTORED),
        (Ok(epoch + 1), Some(Life::Dying))
    );
    // its agent has attached after the restore, so what follows was started in the store generation in which it is Alive
    let mut restored = world.copy();
    let first = Attach { teardown_started: false, ..claim(21, epoch, Some(GENERATION)) };
    assert_eq!(attach(&mut restored, first, RESTORED), (Ok(epoch + 1), alive));
    claims(&mut restored, 30, RESTORED, GENERATION, epoch + 1);
}

/// What a unit had started before the restore, and had not recorded.
#[test]
fn a_unit_that_runs_or_retries_its_last_hook_has_started_to_end() {
    let mut world = World::new();
    world.deploy("web", "web", 1);
    let web = Agent::attach(&mut world, "web/0");
    let after = |record: Record| {
        let mut local = web.local.clone();
        local.apply(&Event::Finished(record));
        local.has_started_teardown()
    };
    let failed = |operation| {
        let outcome = Outcome::Failed { reason: FailureReason::exit(1), retry: None };
        web.record(operation, outcome)
    };
    assert!(!after(hook(&web)));
    assert!(!after(failed(Operation::Hook(Hook::UpdateStatus))));
    assert!(after(failed(Operation::Hook(Hook::Stop))));
    assert!(after(web.record(Operation::Hook(Hook::Remove), Outcome::Skipped)));
    assert!(after(web.record(Operation::SetDead, Outcome::Ok)), "its answer is awaited");
}
