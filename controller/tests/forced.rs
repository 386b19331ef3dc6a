//! Force and the teardown budget wait for time that passes, whatever the wall clock is set to (I43); and nothing that
//! fails keeps them.

mod support;

use api::{ConfigChange, ConfigureModel, Force, GetWhy, Handle, RemoveApplication, RemoveUnit};
use controller::janitor::{Janitor, SWEEP_INTERVAL_MS};
use controller::store::Store;
use controller::store::memory::MemoryStore;
use state::documents::draft::{Draft, Key, read};
use state::terms::cause::Duty;
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use support::*;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
const MINUTE_MS: u64 = 60_000;

/// web/0, which has an agent that does nothing more.
async fn web() -> (Story<MemoryStore, Still>, Uuid) {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let unit = story.unit("web/0").await;
    story.agent_of("web/0").await;
    (story, unit)
}

async fn sweep(story: &Story<MemoryStore, Still>, janitor: &mut Janitor) {
    while janitor.sweep(&story.controller).await.expect("it sweeps") {}
}

/// The life that is written down; none for a unit that is gone.
async fn life(story: &Story<MemoryStore, Still>, unit: Uuid) -> Option<Life> {
    let model = story.model;
    story.controller.read(move |reader| read(reader, &model.unit_life(unit))).await
}

/// What is left of the wait before force removes web/0; the inner none: it has begun.
async fn wait_left_ms(story: &Story<MemoryStore, Still>, budget_timer: bool) -> Option<Option<i64>> {
    let causes = story.admin.handle(GetWhy { entity: "web/0".to_owned() }).await.expect("it is there").causes;
    causes.into_iter().find_map(|cause| match cause.duty {
        Duty::ForceRemoval { start_budget_timer, wait_left_ms } if start_budget_timer == budget_timer => {
            Some(wait_left_ms)
        }
        _ => None,
    })
}

#[tokio::test]
async fn force_has_its_minute_when_the_clock_is_set_forward() {
    let (story, unit) = web().await;
    let mut janitor = Janitor::default();
    story
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::AfterWait })
        .await
        .expect("it may go");
    sweep(&story, &mut janitor).await;
    story.controller.environment.step(DAY_MS);
    story.pass(MINUTE_MS - 1);
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, Some(Life::Dying), "its agent has a minute");
    story.pass(1);
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, Some(Life::Dead));
    sweep(&story, &mut janitor).await;
    story.controller.environment.step(DAY_MS);
    story.pass(MINUTE_MS - 1);
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, Some(Life::Dead), "its machine agent has another");
    story.pass(1);
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, None);
}

#[tokio::test]
async fn force_comes_in_its_minute_when_the_clock_is_set_back() {
    let (mut story, unit) = web().await;
    let mut janitor = Janitor::default();
    story
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::AfterWait })
        .await
        .expect("it may go");
    sweep(&story, &mut janitor).await;
    story.controller.environment.step(-DAY_MS);
    story.pass(MINUTE_MS);
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, Some(Life::Dead));
    // set back while no janitor was there to see it: a minute from its first sight
    story.restart();
    let mut janitor = Janitor::default();
    sweep(&story, &mut janitor).await;
    story.pass(MINUTE_MS);
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, None);
}

#[tokio::test]
async fn a_controller_that_starts_asks_no_wall_clock_how_long_it_was_away() {
    let (mut story, unit) = web().await;
    story
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::AfterWait })
        .await
        .expect("it may go");
    sweep(&story, &mut Janitor::default()).await;
    story.restart();
    story.controller.environment.step(DAY_MS);
    let mut janitor = Janitor::default();
    sweep(&story, &mut janitor).await;
    story.pass(MINUTE_MS - 1);
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, Some(Life::Dying), "its agent has a minute");
    story.pass(1);
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, Some(Life::Dead));
}

#[tokio::test]
async fn what_a_controller_saw_of_a_budget_is_kept_over_its_restarts() {
    let (mut story, unit) = web().await;
    budget(&story, "2h").await;
    story.admin.handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::No }).await.expect("it may go");
    // eight processes of 16 minutes each: an eighth of two hours is written down of each
    for at in 0..8 {
        assert_eq!(life(&story, unit).await, Some(Life::Dying), "process {at}");
        let mut janitor = Janitor::default();
        sweep(&story, &mut janitor).await;
        for _ in 0..16 {
            story.pass(MINUTE_MS);
            sweep(&story, &mut janitor).await;
        }
        story.restart();
    }
    assert_eq!(life(&story, unit).await, Some(Life::Dead));
}

#[tokio::test]
async fn a_minute_comes_though_the_controller_dies_within_it_and_why_tells_what_is_left() {
    let (mut story, unit) = web().await;
    story
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::AfterWait })
        .await
        .expect("it may go");
    let left = async |story: &Story<MemoryStore, Still>| wait_left_ms(story, false).await.expect("it is forced");
    // each process lives for 11 s, and 10 s of it are written down
    for at in 0..6 {
        let mut janitor = Janitor::default();
        sweep(&story, &mut janitor).await;
        story.pass(SWEEP_INTERVAL_MS);
        story.controller.environment.step(DAY_MS);
        let left_ms = 50_000 - 10_000 * at;
        assert_eq!(left(&story).await, (left_ms > 0).then_some(left_ms));
        sweep(&story, &mut janitor).await;
        story.pass(1_000);
        story.restart();
    }
    assert_eq!(life(&story, unit).await, Some(Life::Dead));
}

/// 45 units are forced; a sweep that looks at all of them makes two commits, of 40 and of five.
#[tokio::test]
async fn what_many_have_waited_is_written_down_together() {
    let story = Story::in_memory().await;
    story.deploy("web", 45).await;
    for at in 0..45 {
        story.agent_of(&format!("web/{at}")).await;
        let unit = format!("web/{at}");
        story
            .admin
            .handle(RemoveUnit { unit: unit.to_owned(), force: Force::AfterWait })
            .await
            .expect("it may go");
    }
    let mut janitor = Janitor::default();
    sweep(&story, &mut janitor).await;
    story.pass(SWEEP_INTERVAL_MS);
    let before = story.controller.store.newest();
    sweep(&story, &mut janitor).await;
    assert_eq!(story.controller.store.newest() - before, 2);
}

async fn budget(story: &Story<MemoryStore, Still>, value: &str) {
    let set = BTreeMap::from([("teardown-budget".to_owned(), value.to_owned())]);
    let change = ConfigChange { set, reset: Vec::new() };
    story.admin.handle(ConfigureModel { change }).await.expect("it is a duration");
}

#[tokio::test]
async fn a_unit_on_a_budget_says_when_force_comes_from_its_removal_on() {
    let (story, _) = web().await;
    budget(&story, "20s").await;
    story.admin.handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::No }).await.expect("it may go");
    let left = async || wait_left_ms(&story, true).await;
    assert_eq!(left().await, Some(Some(20_000)), "no janitor has visited it yet");
    // which is asked to: the budget is spent from here on
    story.controller.wait_for_sweep(u64::MAX).await;
    let mut janitor = Janitor::default();
    sweep(&story, &mut janitor).await;
    story.pass(5_000);
    assert_eq!(left().await, Some(Some(15_000)));
    story
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: Force::No })
        .await
        .expect("it may go");
    let causes = story.admin.handle(GetWhy { entity: "web".to_owned() }).await.expect("it is there").causes;
    let forced = causes.iter().find(|cause| {
        cause.entity.to_string() == "unit web/0" && matches!(cause.duty, Duty::ForceRemoval { .. })
    });
    assert!(forced.is_some(), "of an application too: {causes:?}");
}

#[tokio::test]
async fn a_budget_is_spent_by_time_that_passes() {
    let (story, unit) = web().await;
    let mut janitor = Janitor::default();
    budget(&story, "2h").await;
    story.admin.handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::No }).await.expect("it may go");
    sweep(&story, &mut janitor).await;
    sweep(&story, &mut janitor).await;
    story.controller.environment.step(DAY_MS);
    sweep(&story, &mut janitor).await;
    story.pass(60 * MINUTE_MS - 1);
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, Some(Life::Dying), "it has two hours");
    // half of it is taken back: an hour from its beginning
    budget(&story, "1h").await;
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, Some(Life::Dying), "an hour is not over");
    story.pass(1);
    sweep(&story, &mut janitor).await;
    assert_eq!(life(&story, unit).await, Some(Life::Dead));
}

#[tokio::test]
async fn leftovers_that_cannot_be_cleared_keep_nobody() {
    let (story, unit) = web().await;
    let (model, lost) = (story.model, "x".repeat(30_000));
    // one bite of these would be 40 keys of 30 kB, more than a transaction takes
    for half in 0..2 {
        let lost = lost.clone();
        let leave = move |draft: &mut Draft<'_>| {
            (0..20).for_each(|n| draft.put(&Key::new(format!("lost/{lost}{half}/{n}")), &1));
            draft.put(&model.cleanup(Uuid(5)), &vec!["lost/".to_owned()]);
            Ok(())
        };
        story.controller.run(leave).await.expect("written");
    }
    story
        .admin
        .handle(RemoveUnit { unit: "web/0".to_owned(), force: Force::AtOnce })
        .await
        .expect("it may go");
    let mut janitor = Janitor::default();
    for _ in 0..10 {
        janitor.sweep(&story.controller).await.ok();
    }
    assert_eq!(life(&story, unit).await, None);
}
