//! destroy-model through the door people use, with the janitor.

mod support;

use api::error::ErrorCode;
use api::{
    AddMachines, CreateModel, Deploy, DestroyModel, Ends, Force, GetStatus, GetWhy, Handle, Integrate,
    ListMachines, ListModels, RemoveDeadMachine,
};
use controller::janitor::Janitor;
use controller::store::memory::MemoryStore;
use state::documents::draft::read;
use state::documents::keys::{GLOBAL, TokenHolder};
use state::terms::cause::{Actor, Count, Duty, Forced};
use state::terms::life::Life;
use std::collections::BTreeMap;
use support::*;

type Told = Story<MemoryStore, Still>;

/// For what happens at once or never.
const LONG: std::time::Duration = std::time::Duration::from_secs(10);

/// A janitor of a new process works until nothing is left to do now.
async fn sweep(story: &Told) {
    let mut janitor = Janitor::default();
    while janitor.sweep(&story.controller).await.expect("it sweeps") {}
}

/// web/0 and db/0, in the scope of a relation; none of their agents acts any more.
async fn related() -> Told {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    story.deploy("db", 1).await;
    let relation = story.integrate().await;
    story.agent_of("web/0").await.enter(relation, "db", "db").await;
    story.agent_of("db/0").await.enter(relation, "server", "web").await;
    story
}

#[tokio::test]
async fn a_model_that_is_being_removed_refuses_what_is_new_and_why_names_what_holds_it() {
    let story = related().await;
    let before = story.admin.handle(GetStatus).await.expect("it is there").model.status.current;
    story.admin.handle(DestroyModel { force: Force::No }).await.expect("it may go");
    let deploy =
        Deploy { application: None, sha256: "web".to_owned(), units: 1, to: None, config: BTreeMap::new() };
    let refusals = [
        story.admin.handle(deploy).await.expect_err("refused"),
        story.admin.handle(AddMachines { count: 1, manual: false }).await.expect_err("refused"),
        story
            .admin
            .handle(Integrate(Ends { a: "web".to_owned(), b: "db".to_owned() }))
            .await
            .expect_err("refused"),
    ];
    for refusal in refusals {
        assert_eq!(refusal.code, ErrorCode::NotAlive);
        assert_eq!(refusal.message, "model dev is being removed: nothing new may come into it");
    }
    let after = story.admin.handle(GetStatus).await.expect("it is there").model.status.current;
    assert_eq!((before.as_str(), after.as_str()), ("available", "destroying"));
    sweep(&story).await;
    let why = story.admin.handle(GetWhy { entity: "model".to_owned() }).await.expect("it is there");
    assert_eq!((why.entity.to_string(), why.life), ("model dev".to_owned(), Life::Dying));
    let two = Count { number: 2, more: false };
    let left = Duty::EmptyModel { applications: two, machines: two, force: Forced::No };
    assert_eq!(why.causes[0].duty, left);
    for unit in ["web/0", "db/0"] {
        let agent = Actor::UnitAgent(unit.parse().expect("a name"));
        assert!(why.causes.iter().any(|cause| cause.actor == agent), "{unit}: {:?}", why.causes);
    }
}

#[tokio::test]
async fn a_model_without_agents_goes_by_force_whichever_janitor_does_it() {
    let mut story = related().await;
    let (unit, model) = (story.unit("web/0").await, story.model);
    let token = story.token(unit, TokenHolder::Unit { model, unit }).await;
    assert!(story.controller.session(&token).await.is_ok());
    story.admin.handle(DestroyModel { force: Force::AtOnce }).await.expect("it may go");
    // 1. One bite; 2. the controller dies; 3. another one goes on, and dies again.
    for _ in 0..3 {
        Janitor::default().sweep(&story.controller).await.expect("it sweeps");
        story.restart();
    }
    sweep(&story).await;
    let machines = story.admin.handle(ListMachines).await.expect("it is held by its machines");
    assert!(!machines.is_empty());
    for machine in &machines {
        assert_eq!(machine.life, Life::Dead);
        story.admin.handle(RemoveDeadMachine { machine: machine.uuid }).await.expect("it is dead");
    }
    sweep(&story).await;
    assert_eq!(story.admin.handle(ListModels).await.expect("none is left"), []);
    let gone = story.admin.handle(GetStatus).await.expect_err("it is gone");
    assert_eq!(gone.code, ErrorCode::NotFound);
    assert!(story.controller.session(&token).await.is_err(), "its agents are nobody");
    let left = story.controller.read(move |reader| {
        let own = reader.scan(&format!("{}/", model.0), "", usize::MAX).len();
        (own, read(reader, &GLOBAL.tombstone(model.0)).map(|tombstone| tombstone.name))
    });
    assert_eq!(left.await, (0, Some("dev".to_owned())));
    let again = CreateModel { name: "dev".to_owned(), ..CreateModel::default() };
    assert_ne!(story.admin.handle(again).await.expect("its name is free").uuid, model.0);
}

#[tokio::test]
async fn the_last_machine_to_go_wakes_the_janitor() {
    let story = Story::in_memory().await;
    let add = AddMachines { count: 2, manual: false };
    story.admin.handle(add).await.expect("the model is alive");
    story.admin.handle(DestroyModel { force: Force::AtOnce }).await.expect("it may go");
    story.controller.wait_for_sweep(u64::MAX).await;
    sweep(&story).await;
    for machine in story.admin.handle(ListMachines).await.expect("they are there") {
        story.admin.handle(RemoveDeadMachine { machine: machine.uuid }).await.expect("force made it dead");
    }
    let woken = tokio::time::timeout(LONG, story.controller.wait_for_sweep(u64::MAX)).await;
    woken.expect("the story's clock stands still: only a call wakes it");
    sweep(&story).await;
    assert_eq!(story.admin.handle(ListModels).await.expect("none is left"), []);
}
