//! `why`: how entities are named, and that each cause is listed once.

use crate::support::*;
use api::{Force, GetWhy, Handle, RemoveApplication};
use state::terms::operation::{Hook, Operation};

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
        .handle(RemoveApplication { destroy_storage: false, application: "web".to_owned(), force: Force::No })
        .await
        .expect("the request is accepted");
    for entity in ["web/0", "web", "relation 0"] {
        let why =
            fixture.admin.handle(GetWhy { entity: crate::support::entity(entity) }).await.expect("it exists");
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
        let why =
            fixture.admin.handle(GetWhy { entity: crate::support::entity(entity) }).await.expect(entity);
        assert_eq!(why.entity.to_string(), found);
    }
    assert!(fixture.admin.handle(GetWhy { entity: entity("machine/7") }).await.is_err());
}
