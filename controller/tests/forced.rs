//! Forced removal and the teardown budget count elapsed time, independent of the wall clock (I43), and other failures
//! do not block them.

mod support;

use api::{ConfigChange, ConfigureModel, Force, GetWhy, Handle, RemoveApplication, RemoveUnit};
use controller::janitor::{Janitor, SWEEP_INTERVAL_MS};
use controller::store::Store;
use state::documents::draft::{Draft, Key, read};
use state::terms::cause::{Duty, Entity};
use state::terms::force::{ForcePhase, ForcedBy};
use state::terms::life::Life;
use state::terms::names::{UnitName, Uuid};
use std::collections::BTreeMap;
use support::*;
use test_support::memory_store::MemoryStore;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const MINUTE_MS: u64 = 60_000;

/// Deploys web/0, whose agent attaches and then does nothing.
async fn web() -> (Fixture<MemoryStore, FakeEnvironment>, Uuid) {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let unit = fixture.unit("web/0").await;
    fixture.attach_agent("web/0").await;
    (fixture, unit)
}

async fn sweep(fixture: &Fixture<MemoryStore, FakeEnvironment>, janitor: &mut Janitor) {
    while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
}

/// Returns the stored life; none if the unit was removed.
async fn life(fixture: &Fixture<MemoryStore, FakeEnvironment>, unit: Uuid) -> Option<Life> {
    let model = fixture.model;
    fixture.controller.read(move |reader| read(reader, &model.unit_life(unit))).await
}

/// Returns the remaining wait before the forced removal of web/0. The inner none means that the removal has started.
async fn wait_left_ms(
    fixture: &Fixture<MemoryStore, FakeEnvironment>,
    started_by: ForcedBy,
) -> Option<Option<i64>> {
    let causes = fixture.admin.handle(GetWhy { entity: entity("web/0") }).await.expect("it exists").causes;
    causes.into_iter().find_map(|cause| match cause.duty {
        Duty::ForceRemoval { by, phase } if by == started_by => Some(match phase {
            ForcePhase::Waiting { left_ms } => Some(left_ms),
            ForcePhase::Acting => None,
        }),
        _ => None,
    })
}

#[tokio::test]
async fn force_waits_a_full_minute_when_the_clock_is_set_forward() {
    let (fixture, unit) = web().await;
    let mut janitor = Janitor::default();
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::AfterWait,
        })
        .await
        .expect("the removal is accepted");
    sweep(&fixture, &mut janitor).await;
    fixture.controller.environment.step_wall_clock(DAY_MS);
    fixture.advance(MINUTE_MS - 1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, Some(Life::Dying), "its agent has a minute");
    fixture.advance(1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, Some(Life::Dead));
    sweep(&fixture, &mut janitor).await;
    fixture.controller.environment.step_wall_clock(DAY_MS);
    fixture.advance(MINUTE_MS - 1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, Some(Life::Dead), "its machine agent has another");
    fixture.advance(1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, None);
}

#[tokio::test]
async fn force_starts_after_a_minute_when_the_clock_is_set_back() {
    let (mut fixture, unit) = web().await;
    let mut janitor = Janitor::default();
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::AfterWait,
        })
        .await
        .expect("the removal is accepted");
    sweep(&fixture, &mut janitor).await;
    fixture.controller.environment.step_wall_clock(-DAY_MS);
    fixture.advance(MINUTE_MS);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, Some(Life::Dead));
    // the clock was set back before the janitor's first visit: the minute starts at that visit
    fixture.restart();
    let mut janitor = Janitor::default();
    sweep(&fixture, &mut janitor).await;
    fixture.advance(MINUTE_MS);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, None);
}

#[tokio::test]
async fn time_without_a_controller_does_not_count_for_force() {
    let (mut fixture, unit) = web().await;
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::AfterWait,
        })
        .await
        .expect("the removal is accepted");
    sweep(&fixture, &mut Janitor::default()).await;
    fixture.restart();
    fixture.controller.environment.step_wall_clock(DAY_MS);
    let mut janitor = Janitor::default();
    sweep(&fixture, &mut janitor).await;
    fixture.advance(MINUTE_MS - 1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, Some(Life::Dying), "its agent has a minute");
    fixture.advance(1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, Some(Life::Dead));
}

#[tokio::test]
async fn the_elapsed_part_of_a_budget_is_kept_across_restarts() {
    let (mut fixture, unit) = web().await;
    budget(&fixture, "2h").await;
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::No,
        })
        .await
        .expect("the removal is accepted");
    // eight processes of 16 minutes each: each stores a checkpoint after an eighth of two hours
    for at in 0..8 {
        assert_eq!(life(&fixture, unit).await, Some(Life::Dying), "process {at}");
        let mut janitor = Janitor::default();
        sweep(&fixture, &mut janitor).await;
        for _ in 0..16 {
            fixture.advance(MINUTE_MS);
            sweep(&fixture, &mut janitor).await;
        }
        fixture.restart();
    }
    assert_eq!(life(&fixture, unit).await, Some(Life::Dead));
}

#[tokio::test]
async fn a_forced_wait_completes_across_restarts_and_why_shows_the_remaining_time() {
    let (mut fixture, unit) = web().await;
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::AfterWait,
        })
        .await
        .expect("the removal is accepted");
    let left = async |fixture: &Fixture<MemoryStore, FakeEnvironment>| {
        wait_left_ms(fixture, ForcedBy::Operator).await.expect("it is forced")
    };
    // each process runs for 11 s, of which 10 s are stored
    for at in 0..6 {
        let mut janitor = Janitor::default();
        sweep(&fixture, &mut janitor).await;
        fixture.advance(SWEEP_INTERVAL_MS);
        fixture.controller.environment.step_wall_clock(DAY_MS);
        let left_ms = 50_000 - 10_000 * at;
        assert_eq!(left(&fixture).await, (left_ms > 0).then_some(left_ms));
        sweep(&fixture, &mut janitor).await;
        fixture.advance(1_000);
        fixture.restart();
    }
    assert_eq!(life(&fixture, unit).await, Some(Life::Dead));
}

/// 45 units are forced: a sweep stores their timers in two commits, of 40 and of five.
#[tokio::test]
async fn force_timers_are_stored_in_batches() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 45).await;
    for at in 0..45 {
        fixture.attach_agent(&format!("web/{at}")).await;
        let unit = format!("web/{at}");
        fixture
            .admin
            .handle(RemoveUnit {
                destroy_storage: false,
                unit: unit.parse().expect("a unit"),
                force: Force::AfterWait,
            })
            .await
            .expect("the removal is accepted");
    }
    let mut janitor = Janitor::default();
    sweep(&fixture, &mut janitor).await;
    fixture.advance(SWEEP_INTERVAL_MS);
    let before = fixture.controller.store.newest_revision();
    sweep(&fixture, &mut janitor).await;
    assert_eq!(fixture.controller.store.newest_revision() - before, 2);
}

async fn budget(fixture: &Fixture<MemoryStore, FakeEnvironment>, value: &str) {
    let set = BTreeMap::from([("teardown-budget".to_owned(), value.to_owned())]);
    let change = ConfigChange { set, reset: Vec::new() };
    fixture.admin.handle(ConfigureModel { change }).await.expect("it is a duration");
}

#[tokio::test]
async fn a_unit_with_a_budget_shows_when_force_starts() {
    let (fixture, _) = web().await;
    budget(&fixture, "20s").await;
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::No,
        })
        .await
        .expect("the removal is accepted");
    let left = async || wait_left_ms(&fixture, ForcedBy::Budget).await;
    assert_eq!(left().await, Some(Some(20_000)), "the janitor has not visited it yet");
    // the removal wakes the janitor: the budget counts from here on
    fixture.controller.wait_for_sweep(u64::MAX).await;
    let mut janitor = Janitor::default();
    sweep(&fixture, &mut janitor).await;
    fixture.advance(5_000);
    assert_eq!(left().await, Some(Some(15_000)));
    fixture
        .admin
        .handle(RemoveApplication { destroy_storage: false, application: "web".to_owned(), force: Force::No })
        .await
        .expect("the removal is accepted");
    let causes = fixture.admin.handle(GetWhy { entity: entity("web") }).await.expect("it exists").causes;
    let forced = causes.iter().find(|cause| {
        cause.entity == Entity::Unit(UnitName::new("web", 0))
            && matches!(cause.duty, Duty::ForceRemoval { .. })
    });
    assert!(forced.is_some(), "an application shows it as well: {causes:?}");
}

#[tokio::test]
async fn a_budget_counts_elapsed_time_only() {
    let (fixture, unit) = web().await;
    let mut janitor = Janitor::default();
    budget(&fixture, "2h").await;
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::No,
        })
        .await
        .expect("the removal is accepted");
    sweep(&fixture, &mut janitor).await;
    sweep(&fixture, &mut janitor).await;
    fixture.controller.environment.step_wall_clock(DAY_MS);
    sweep(&fixture, &mut janitor).await;
    fixture.advance(60 * MINUTE_MS - 1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, Some(Life::Dying), "it has two hours");
    // the budget is reduced to an hour, which counts from its start
    budget(&fixture, "1h").await;
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, Some(Life::Dying), "an hour is not over");
    fixture.advance(1);
    sweep(&fixture, &mut janitor).await;
    assert_eq!(life(&fixture, unit).await, Some(Life::Dead));
}

#[tokio::test]
async fn leftovers_that_cannot_be_deleted_do_not_block_force() {
    let (fixture, unit) = web().await;
    let (model, lost) = (fixture.model, "x".repeat(30_000));
    // one batch of these would be 40 keys of 30 kB, more than a transaction may contain
    for half in 0..2 {
        let lost = lost.clone();
        let leave = move |draft: &mut Draft<'_>| {
            (0..20).for_each(|n| draft.put(&Key::new(format!("lost/{lost}{half}/{n}")), &1));
            draft.put(&model.cleanup(Uuid(5)), &vec!["lost/".to_owned()]);
            Ok(())
        };
        fixture.controller.run(leave).await.expect("written");
    }
    fixture
        .admin
        .handle(RemoveUnit {
            destroy_storage: false,
            unit: "web/0".parse().expect("a unit"),
            force: Force::AtOnce,
        })
        .await
        .expect("the removal is accepted");
    let mut janitor = Janitor::default();
    for _ in 0..10 {
        janitor.sweep(&fixture.controller).await.ok();
    }
    assert_eq!(life(&fixture, unit).await, None);
}
