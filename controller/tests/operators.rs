//! The requests of operators about a model, on the in-memory store.

mod support;

use api::{
    ActionInfo, CreateModel, Deploy, Force, GetAction, GetWhy, Handle, InModel, ListActions, ListMachines,
    Refresh, RemoveApplication, Run, ShowUnit,
};
use controller::janitor::ACTIONS_MAX;
use state::charm::Charm;
use state::documents::draft::Draft;
use state::lifecycle::application::register_archive;
use state::terms::status::ActionStatus;
use state::unit::operation::{CharmRef, Hook, Operation};
use std::collections::{BTreeMap, BTreeSet};
use support::*;

async fn register(
    fixture: &Fixture<test_support::memory_store::MemoryStore, FakeEnvironment>,
    sha256: &'static str,
    name: &str,
) {
    let charm = Charm { name: name.to_owned(), ..Charm::default() };
    let register = move |draft: &mut Draft<'_>| {
        register_archive(draft, sha256, charm.clone(), 10);
        Ok(())
    };
    fixture.controller.run(register).await.expect("the request is accepted");
}

fn refresh(sha256: &str) -> Refresh {
    let config = BTreeMap::new();
    Refresh { application: "web".to_owned(), sha256: sha256.to_owned(), forced: false, config }
}

#[tokio::test]
async fn machines_of_two_models_share_no_address() {
    let fixture = Fixture::in_memory().await;
    fixture
        .admin
        .handle(CreateModel { name: "other".to_owned(), ..CreateModel::default() })
        .await
        .expect("made");
    let mut all = BTreeSet::new();
    for model in ["dev", "other", "dev"] {
        let deploy = Deploy {
            application: Some(format!("web{}", all.len())),
            sha256: "web".to_owned(),
            units: 2,
            to: None,
            config: BTreeMap::new(),
        };
        let admin = fixture.admin.in_model(model);
        let deploy = Deploy { application: deploy.application.map(|name| format!("{name}x")), ..deploy };
        admin.handle(deploy).await.expect("deployed");
        let machines = admin.handle(ListMachines).await.expect("listed");
        all.extend(machines.into_iter().map(|machine| machine.address));
    }
    assert_eq!(all.len(), 6, "{all:?}");
}

#[tokio::test]
async fn a_refresh_to_a_charm_of_another_name_is_refused() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    register(&fixture, "other", "other").await;
    register(&fixture, "newer", "web").await;
    let error = fixture.admin.handle(refresh("other")).await.expect_err("another charm");
    assert_eq!(error.message, "cannot refresh web: it runs charm web, not other");
    fixture.admin.handle(refresh("newer")).await.expect("the same charm");
}

#[tokio::test]
async fn a_unit_is_shown_with_the_charm_that_it_runs() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    register(&fixture, "newer", "web").await;
    let mut web = fixture.attach_agent("web/0").await;
    let charm = |url: &str| CharmRef {
        url: url.to_owned(),
        revision: 0,
        sha256: "web".to_owned(),
        endpoints: Default::default(),
    };
    let record = web.record(Operation::InstallCharm(charm("local:web-0")));
    web.commit(record).await;
    fixture.admin.handle(refresh("newer")).await.expect("the request is accepted");
    let shown = || async {
        fixture.admin.handle(ShowUnit { unit: "web/0".to_owned() }).await.expect("it exists").charm_url
    };
    assert_eq!(shown().await, "local:web-0", "it has not taken the new one yet");
    let record = web.record(Operation::InstallCharm(charm("local:web-1")));
    web.commit(record).await;
    assert_eq!(shown().await, "local:web-1");
}

#[tokio::test]
async fn each_cause_of_a_dying_unit_is_listed_once() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    let relation = fixture.integrate().await;
    let (mut web, mut db) = (fixture.attach_agent("web/0").await, fixture.attach_agent("db/0").await);
    for agent in [&mut web, &mut db] {
        let record = agent.record(Operation::Hook(Hook::Install));
        agent.commit(record).await;
    }
    web.enter(relation, "db", "db").await;
    db.enter(relation, "server", "web").await;
    fixture
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: Force::No })
        .await
        .expect("the request is accepted");
    for entity in ["web/0", "web", "relation 0"] {
        let why = fixture.admin.handle(GetWhy { entity: entity.to_owned() }).await.expect("it exists");
        let of_web = why.causes.iter().filter(|cause| cause.entity.to_string() == "unit web/0").count();
        assert_eq!(of_web, 1, "{entity}: {:#?}", why.causes);
    }
}

#[tokio::test]
async fn a_machine_and_a_relation_are_found_by_kind_and_number() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    fixture.integrate().await;
    for (entity, found) in [
        ("machine/0", "machine 0"),
        ("machine 0", "machine 0"),
        ("relation/0", "relation 0 (db:server web:db)"),
        ("relation web:db db:server", "relation 0 (db:server web:db)"),
        ("web:db db", "relation 0 (db:server web:db)"),
        ("web", "application web"),
        ("web/0", "unit web/0"),
    ] {
        let why = fixture.admin.handle(GetWhy { entity: entity.to_owned() }).await.expect(entity);
        assert_eq!(why.entity.to_string(), found);
    }
    assert!(fixture.admin.handle(GetWhy { entity: "machine/7".to_owned() }).await.is_err());
}

#[tokio::test]
async fn completed_actions_beyond_the_limit_are_deleted_oldest_first() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let mut web = fixture.attach_agent("web/0").await;
    let run = || Run { unit: "web/0".to_owned(), action: "backup".to_owned(), params: BTreeMap::new() };
    let beyond = 3;
    for n in 0..(ACTIONS_MAX + beyond) as u64 {
        let id = fixture.admin.handle(run()).await.expect("the action is enqueued").id;
        assert_eq!(id, n + 1);
        let record = web.record(Operation::Action { id, name: "backup".to_owned() });
        web.commit(record).await;
    }
    let waits = fixture.admin.handle(run()).await.expect("the action is enqueued").id;
    fixture.sweep_for_a_while().await;
    let kept: Vec<ActionInfo> = fixture.admin.handle(ListActions).await.expect("listed");
    assert_eq!((kept.len(), kept[0].id), (ACTIONS_MAX + 1, beyond as u64 + 1));
    let last = kept.last().expect("there are some");
    assert_eq!((last.id, last.status), (waits, ActionStatus::Pending), "what waits is kept");
    assert!(fixture.admin.handle(GetAction { id: 1 }).await.is_err());
    assert_eq!(
        fixture.admin.handle(GetAction { id: 4 }).await.expect("the action is kept").status,
        ActionStatus::Completed
    );
}
