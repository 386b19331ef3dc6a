//! What people are told about a model, over the map store.

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

async fn register(story: &Story<controller::store::memory::MemoryStore, Still>, sha256: &'static str, name: &str) {
    let charm = Charm { name: name.to_owned(), ..Charm::default() };
    let register = move |draft: &mut Draft<'_>| {
        register_archive(draft, sha256, charm.clone(), 10);
        Ok(())
    };
    story.controller.run(register).await.expect("taken");
}

fn refresh(sha256: &str) -> Refresh {
    let config = BTreeMap::new();
    Refresh { application: "web".to_owned(), sha256: sha256.to_owned(), forced: false, config }
}

#[tokio::test]
async fn machines_of_two_models_share_no_address() {
    let story = Story::in_memory().await;
    story
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
        let admin = story.admin.in_model(model);
        let deploy = Deploy { application: deploy.application.map(|name| format!("{name}x")), ..deploy };
        admin.handle(deploy).await.expect("deployed");
        let machines = admin.handle(ListMachines).await.expect("listed");
        all.extend(machines.into_iter().map(|machine| machine.address));
    }
    assert_eq!(all.len(), 6, "{all:?}");
}

#[tokio::test]
async fn a_charm_of_another_name_is_no_refresh() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    register(&story, "other", "other").await;
    register(&story, "newer", "web").await;
    let error = story.admin.handle(refresh("other")).await.expect_err("another charm");
    assert_eq!(error.message, "cannot refresh web: it runs charm web, not other");
    story.admin.handle(refresh("newer")).await.expect("the same charm");
}

#[tokio::test]
async fn a_unit_is_shown_with_the_charm_that_it_runs() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    register(&story, "newer", "web").await;
    let mut web = story.agent_of("web/0").await;
    let charm = |url: &str| CharmRef {
        url: url.to_owned(),
        revision: 0,
        sha256: "web".to_owned(),
        endpoints: Default::default(),
    };
    let record = web.record(Operation::InstallCharm(charm("local:web-0")));
    web.commit(record).await;
    story.admin.handle(refresh("newer")).await.expect("taken");
    let shown = || async {
        story.admin.handle(ShowUnit { unit: "web/0".to_owned() }).await.expect("it is there").charm_url
    };
    assert_eq!(shown().await, "local:web-0", "it has not taken the new one yet");
    let record = web.record(Operation::InstallCharm(charm("local:web-1")));
    web.commit(record).await;
    assert_eq!(shown().await, "local:web-1");
}

#[tokio::test]
async fn a_dying_units_causes_are_each_told_once() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    story.deploy("db", 1).await;
    let relation = story.integrate().await;
    let (mut web, mut db) = (story.agent_of("web/0").await, story.agent_of("db/0").await);
    for agent in [&mut web, &mut db] {
        let record = agent.record(Operation::Hook(Hook::Install));
        agent.commit(record).await;
    }
    web.enter(relation, "db", "db").await;
    db.enter(relation, "server", "web").await;
    story
        .admin
        .handle(RemoveApplication { application: "web".to_owned(), force: Force::No })
        .await
        .expect("taken");
    for entity in ["web/0", "web", "relation 0"] {
        let why = story.admin.handle(GetWhy { entity: entity.to_owned() }).await.expect("it is there");
        let of_web = why.causes.iter().filter(|cause| cause.entity.to_string() == "unit web/0").count();
        assert_eq!(of_web, 1, "{entity}: {:#?}", why.causes);
    }
}

#[tokio::test]
async fn a_machine_and_a_relation_are_found_by_kind_and_number() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    story.deploy("db", 1).await;
    story.integrate().await;
    for (entity, found) in [
        ("machine/0", "machine 0"),
        ("machine 0", "machine 0"),
        ("relation/0", "relation 0 (db:server web:db)"),
        ("relation web:db db:server", "relation 0 (db:server web:db)"),
        ("web:db db", "relation 0 (db:server web:db)"),
        ("web", "application web"),
        ("web/0", "unit web/0"),
    ] {
        let why = story.admin.handle(GetWhy { entity: entity.to_owned() }).await.expect(entity);
        assert_eq!(why.entity.to_string(), found);
    }
    assert!(story.admin.handle(GetWhy { entity: "machine/7".to_owned() }).await.is_err());
}

#[tokio::test]
async fn ended_actions_are_listed_and_the_oldest_beyond_the_bound_go() {
    let story = Story::in_memory().await;
    story.deploy("web", 1).await;
    let mut web = story.agent_of("web/0").await;
    let run = || Run { unit: "web/0".to_owned(), action: "backup".to_owned(), params: BTreeMap::new() };
    let beyond = 3;
    for n in 0..(ACTIONS_MAX + beyond) as u64 {
        let id = story.admin.handle(run()).await.expect("queued").id;
        assert_eq!(id, n + 1);
        let record = web.record(Operation::Action { id, name: "backup".to_owned() });
        web.commit(record).await;
    }
    let waits = story.admin.handle(run()).await.expect("queued").id;
    story.sweep_for_a_while().await;
    let kept: Vec<ActionInfo> = story.admin.handle(ListActions).await.expect("listed");
    assert_eq!((kept.len(), kept[0].id), (ACTIONS_MAX + 1, beyond as u64 + 1));
    let last = kept.last().expect("there are some");
    assert_eq!((last.id, last.status), (waits, ActionStatus::Pending), "what waits is kept");
    assert!(story.admin.handle(GetAction { id: 1 }).await.is_err());
    assert_eq!(story.admin.handle(GetAction { id: 4 }).await.expect("kept").status, ActionStatus::Completed);
}
