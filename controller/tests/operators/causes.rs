//! `why`: how entities are named, and that each cause is listed once.

use crate::support::*;
use api::error::ErrorCode;
use api::{Force, GetWhy, Handle, RemoveApplication};
use state::terms::cause::{Entity, RelationName};
use state::terms::names::UnitName;
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
        let web = Entity::Unit(UnitName::new("web", 0));
        let of_web = why.causes.iter().filter(|cause| cause.entity == web).count();
        assert_eq!(of_web, 1, "{entity}: {:#?}", why.causes);
    }
}

#[tokio::test]
async fn a_machine_and_a_relation_are_found_by_kind_and_number() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    fixture.integrate().await;
    let machine = Entity::Machine("0".to_owned());
    let ends = "db:server web:db".parse().expect("the ends");
    let relation = Entity::Relation(RelationName { number: 0, ends });
    for (entity, found) in [
        ("machine/0", &machine),
        ("machine 0", &machine),
        ("relation/0", &relation),
        ("relation web:db db:server", &relation),
        ("web:db db", &relation),
        ("web", &Entity::Application("web".to_owned())),
        ("web/0", &Entity::Unit(UnitName::new("web", 0))),
    ] {
        let why =
            fixture.admin.handle(GetWhy { entity: crate::support::entity(entity) }).await.expect(entity);
        assert_eq!(&why.entity, found);
    }
    let unknown =
        fixture.admin.handle(GetWhy { entity: entity("machine/7") }).await.expect_err("no machine 7");
    assert_eq!(unknown.code, ErrorCode::NotFound);
}
