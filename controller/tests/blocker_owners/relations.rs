//! Units and subordinate applications name what they wait for: the resumption of a relation, or an integration.

use crate::fixture::{MemoryFixture, cause_of, causes, now};
use crate::support::*;
use api::{AddUnits, Deploy, GetWhy, Handle, Integrate, SuspendRelation};
use state::charm::{Charm, Endpoint, Role, Scope};
use state::lifecycle::archive;
use state::terms::cause::{Actor, Duty, Entity, RelationName, Remedy};
use std::collections::BTreeMap;

#[tokio::test]
async fn units_that_wait_for_a_suspended_relation_name_it() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    fixture.deploy("db", 1).await;
    fixture.attach_agent("web/0").await;
    let (number, _) = fixture.integrate().await;
    fixture.advance(1_000);
    fixture
        .admin
        .handle(SuspendRelation { relation: number, message: "db moves".to_owned() })
        .await
        .expect("it exists");
    let suspended_ms = now(&fixture);
    fixture.advance(1_000);
    let relation = RelationName { number, ends: "db:server web:db".parse().expect("the ends") };
    for entity in ["web/0", "web", "model", "web:db db:server"] {
        let listed = causes(&fixture, entity).await;
        let waits = cause_of(&listed, &Entity::Relation(relation.clone()));
        assert_eq!(waits.duty, Duty::ResumeRequest { message: "db moves".to_owned() });
        assert_eq!((&waits.actor, waits.since_ms), (&Actor::Operator, suspended_ms));
        assert_eq!(waits.remedy(), Remedy::ResumeRelation { relation: number });
    }
    let first = fixture.admin.handle(GetWhy { entity: entity("web") }).await.expect("it exists").causes;
    assert_eq!(
        first.iter().filter(|cause| matches!(cause.duty, Duty::ResumeRequest { .. })).count(),
        1,
        "{first:?}"
    );
}

/// Deploys the subordinate application `side`, which has one endpoint of this scope.
async fn deploy_subordinate(fixture: &MemoryFixture, scope: Scope) {
    let add = move |draft: &mut state::documents::draft::Draft<'_>| {
        let endpoint = Endpoint {
            name: "host".to_owned(),
            role: Role::Requirer,
            interface: "sql".to_owned(),
            scope,
            limit: None,
            optional: false,
        };
        let endpoints = BTreeMap::from([("host".to_owned(), endpoint)]);
        let charm = Charm { name: "side".to_owned(), subordinate: true, endpoints, ..Charm::default() };
        archive::register(draft, "side", Some(charm), 10);
        Ok(())
    };
    fixture.controller.run(add).await.expect("a new archive");
    let deploy = Deploy {
        application: None,
        sha256: "side".to_owned(),
        units: 1,
        to: None,
        config: BTreeMap::new(),
        ..Deploy::default()
    };
    fixture.admin.handle(deploy).await.expect("the deployment succeeds");
}

#[tokio::test]
async fn a_relation_of_global_scope_gives_a_subordinate_no_principal() {
    for units in [0, 1] {
        let fixture = Fixture::in_memory().await;
        deploy_subordinate(&fixture, Scope::Global).await;
        fixture.deploy("db", units).await;
        let ends = api::Ends { a: "side".to_owned(), b: "db".to_owned() };
        fixture.admin.handle(Integrate(ends)).await.expect("the endpoints are compatible");
        let listed = causes(&fixture, "side").await;
        assert_eq!(
            cause_of(&listed, &Entity::Application("side".to_owned())).duty,
            Duty::Integrate,
            "{units} units"
        );
    }
}

#[tokio::test]
async fn a_subordinate_without_principals_waits_for_an_integration() {
    let fixture = Fixture::in_memory().await;
    deploy_subordinate(&fixture, Scope::Container).await;
    let listed = causes(&fixture, "side").await;
    let waits = cause_of(&listed, &Entity::Application("side".to_owned()));
    assert_eq!((&waits.actor, &waits.duty), (&Actor::Operator, &Duty::Integrate));

    // it is integrated with an application that has no units yet
    fixture.deploy("db", 0).await;
    let ends = api::Ends { a: "side".to_owned(), b: "db".to_owned() };
    fixture.admin.handle(Integrate(ends)).await.expect("the endpoints are compatible");
    let listed = causes(&fixture, "side").await;
    let waits = cause_of(&listed, &Entity::Application("side".to_owned()));
    assert_eq!(waits.duty, Duty::AddPrincipalUnit { principal: "db".to_owned() });
    let added = AddUnits { attach_storage: Vec::new(), application: "db".to_owned(), units: 1, to: None };
    fixture.admin.handle(added).await.expect("it is alive");
    let listed = causes(&fixture, "side").await;
    assert!(
        listed.iter().all(|cause| cause.entity != Entity::Application("side".to_owned())),
        "its unit was created with the principal: {listed:?}"
    );
}
