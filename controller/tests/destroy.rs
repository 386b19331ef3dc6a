//! destroy-model through the operator's API, executed by the janitor.

mod support;

use api::error::ErrorCode;
use api::{
    AddMachines, CreateModel, Deploy, DestroyModel, Ends, Force, GetStatus, GetWhy, Handle, InModel,
    Integrate, ListMachines, ListModels, RemoveDeadMachine,
};
use controller::janitor::Janitor;
use state::documents::draft::read;
use state::documents::prelude::{GLOBAL, TokenHolder};
use state::terms::cause::{Actor, Count, Duty, Entity};
use state::terms::life::Life;
use state::terms::refusal::model::ModelRefusal;
use std::collections::BTreeMap;
use support::*;
use test_support::memory_store::MemoryStore;

type MemoryFixture = Fixture<MemoryStore, FakeEnvironment>;

/// The limit for an event that happens at once or never.
const LONG: std::time::Duration = std::time::Duration::from_secs(10);

/// Runs a new janitor until nothing is left to do now.
async fn sweep(fixture: &MemoryFixture) {
    let mut janitor = Janitor::default();
    while janitor.sweep(&fixture.controller).await.expect("the sweep succeeds") {}
}

/// Deploys web/0 and db/0, in the scope of a relation. Their agents do nothing afterwards.
async fn related() -> MemoryFixture {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    fixture.attach_agent("web/0").await.enter(relation, "db", "db").await;
    fixture.attach_agent("db/0").await.enter(relation, "server", "web").await;
    fixture
}

#[tokio::test]
async fn a_model_that_is_being_removed_refuses_new_entities_and_why_names_its_blockers() {
    let fixture = related().await;
    let before = fixture.admin.handle(GetStatus).await.expect("it exists").model.status.current;
    fixture.admin.handle(DestroyModel { force: Force::No }).await.expect("the removal is accepted");
    let deploy = Deploy {
        application: None,
        sha256: "web".to_owned(),
        units: 1,
        to: None,
        config: BTreeMap::new(),
        ..Deploy::default()
    };
    let refusals = [
        fixture.admin.handle(deploy).await.expect_err("refused"),
        fixture
            .admin
            .handle(AddMachines { count: 1, manual: false, ..AddMachines::default() })
            .await
            .expect_err("refused"),
        fixture
            .admin
            .handle(Integrate(Ends { a: "web".to_owned(), b: "db".to_owned() }))
            .await
            .expect_err("refused"),
    ];
    for refusal in refusals {
        assert_eq!(refusal.code, ErrorCode::NotAlive);
        assert_eq!(refusal.message, message(ModelRefusal::BeingRemoved { name: "dev".to_owned() }));
    }
    let after = fixture.admin.handle(GetStatus).await.expect("it exists").model.status.current;
    assert_eq!((before.as_str(), after.as_str()), ("available", "destroying"));
    sweep(&fixture).await;
    let why = fixture.admin.handle(GetWhy { entity: entity("model") }).await.expect("it exists");
    assert_eq!((why.entity, why.life), (Entity::Model("dev".to_owned()), Life::Dying));
    let two = Count { number: 2, more: false };
    let left = Duty::EmptyModel { applications: two, machines: two, force: Force::No };
    assert_eq!(why.causes[0].duty, left);
    for unit in ["web/0", "db/0"] {
        let agent = Actor::UnitAgent(unit.parse().expect("a name"));
        assert!(why.causes.iter().any(|cause| cause.actor == agent), "{unit}: {:?}", why.causes);
    }
}

#[tokio::test]
async fn force_destroys_a_model_without_agents_across_restarts() {
    let mut fixture = related().await;
    let (unit, model) = (fixture.unit("web/0").await, fixture.model);
    let token = fixture.token(unit, TokenHolder::Unit { model, unit }).await;
    assert!(fixture.controller.authenticate(&token).await.is_ok());
    fixture.admin.handle(DestroyModel { force: Force::AtOnce }).await.expect("the removal is accepted");
    // 1. One sweep runs. 2. The controller dies. 3. A new one continues, and dies again.
    for _ in 0..3 {
        Janitor::default().sweep(&fixture.controller).await.expect("the sweep succeeds");
        fixture.restart();
    }
    sweep(&fixture).await;
    let machines = fixture.admin.handle(ListMachines).await.expect("it is held by its machines");
    assert!(!machines.is_empty());
    for machine in &machines {
        assert_eq!(machine.life, Life::Dead);
        fixture.admin.handle(RemoveDeadMachine { machine: machine.uuid }).await.expect("it is dead");
    }
    sweep(&fixture).await;
    assert_eq!(fixture.admin.handle(ListModels).await.expect("none is left"), []);
    let removed = fixture.admin.handle(GetStatus).await.expect_err("it was removed");
    assert_eq!(removed.code, ErrorCode::NotFound);
    assert!(fixture.controller.authenticate(&token).await.is_err(), "the tokens of its agents were revoked");
    let left = fixture.controller.read(move |reader| {
        let own = reader.scan(&format!("{}/", model.0), "", usize::MAX).len();
        (own, read(reader, &GLOBAL.tombstone(model.0)).map(|tombstone| tombstone.name))
    });
    assert_eq!(left.await, (0, Some("dev".to_owned())));
    let again = CreateModel { name: "dev".to_owned(), ..CreateModel::default() };
    assert_ne!(fixture.admin.handle(again).await.expect("its name is free").uuid, model.0);
}

#[tokio::test]
async fn removing_the_last_machine_wakes_the_janitor() {
    let fixture = Fixture::in_memory().await;
    let add = AddMachines { count: 2, manual: false, ..AddMachines::default() };
    fixture.admin.handle(add).await.expect("the model is alive");
    fixture.admin.handle(DestroyModel { force: Force::AtOnce }).await.expect("the removal is accepted");
    fixture.controller.wait_for_sweep(u64::MAX).await;
    sweep(&fixture).await;
    for machine in fixture.admin.handle(ListMachines).await.expect("they exist") {
        fixture.admin.handle(RemoveDeadMachine { machine: machine.uuid }).await.expect("force made it dead");
        let woken = tokio::time::timeout(LONG, fixture.controller.wait_for_sweep(u64::MAX)).await;
        woken.expect("the fixture's clock stands still: only a call wakes it");
    }
    sweep(&fixture).await;
    assert_eq!(fixture.admin.handle(ListModels).await.expect("none is left"), []);
}

/// The work between the request and the end of an empty model. A regular sweep works on every model.
#[tokio::test]
async fn the_work_to_destroy_a_model_does_not_depend_on_the_number_of_other_models() {
    let fixture = Fixture::in_memory().await;
    let mut janitor = Janitor::default();
    let mut created = 0;
    let mut snapshots_with = async |models: usize| {
        while created < models {
            let create = CreateModel { name: format!("other-{created}"), ..CreateModel::default() };
            fixture.admin.handle(create).await.expect("a new name");
            created += 1;
        }
        let ended = CreateModel { name: "ended".to_owned(), ..CreateModel::default() };
        let ended = fixture.admin.handle(ended).await.expect("a new name");
        let in_ended = fixture.admin.in_model(&ended.uuid.to_string());
        in_ended.handle(DestroyModel::default()).await.expect("accepted");
        let before = fixture.controller.store.snapshots();
        while janitor.sweep_urgent(&fixture.controller).await.expect("the sweep succeeds") {}
        let taken = fixture.controller.store.snapshots() - before;
        let left = in_ended.handle(GetStatus).await.expect_err("it was removed");
        assert_eq!(left.code, ErrorCode::NotFound);
        let rest = fixture.controller.read(move |reader| {
            let prefix = format!("{}/", ended.uuid);
            reader.scan(&prefix, "", 10).into_iter().map(|stored| stored.key).collect::<Vec<_>>()
        });
        assert_eq!(rest.await, Vec::<String>::new(), "also its leftovers");
        taken
    };
    let alone = snapshots_with(0).await;
    assert_eq!(snapshots_with(40).await, alone);
}
