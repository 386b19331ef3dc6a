//! The sizes of the responses to `why` and dry runs are bounded, however large the model is.

use crate::fixture::MemoryFixture;
use crate::support::*;
use api::error::ErrorCode;
use api::{DryRunRemoval, EntityState, Force, GetWhy, Handle, RemovalTarget, RemoveApplication};
use state::documents::draft::{Draft, Key};
use state::terms::cause::Count;
use state::terms::names::{UnitName, Uuid};

/// The number of entities of each kind that `why` examines.
const ENTITIES_MAX: u128 = 1_000;

#[tokio::test]
async fn why_and_dry_run_bound_their_answers_for_a_large_model() {
    let fixture = Fixture::in_memory().await;
    let model = fixture.model;
    for page in 0..=ENTITIES_MAX / 50 {
        let add = move |draft: &mut Draft<'_>| {
            for id in 0..50 {
                let key = model.application(Uuid(1 + page * 50 + id)).text().to_owned();
                draft.put(&Key::new(key), &1);
            }
            Ok(())
        };
        fixture.controller.run(add).await.expect("written");
    }
    let why = fixture.admin.handle(GetWhy { entity: entity("model") }).await.expect("it exists");
    let applications = Count { number: 1000, more: true };
    assert_eq!(why.now, EntityState::Model { applications, machines: Count { number: 0, more: false } });
    let units = |count| (0..count).map(|n| RemovalTarget::Unit(UnitName::new("web", n))).collect::<Vec<_>>();
    let refused = fixture
        .admin
        .handle(DryRunRemoval { removed: units(21), force: Force::No })
        .await
        .expect_err("too many");
    assert_eq!((refused.code, refused.message.lines().count()), (ErrorCode::Invalid, 1), "{refused}");
    assert!(refused.message.contains("at most 20"), "{refused}");
    let unknown = fixture
        .admin
        .handle(DryRunRemoval { removed: units(20), force: Force::No })
        .await
        .expect_err("it does not exist");
    assert_eq!(unknown.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn an_answer_with_too_many_causes_states_that_there_are_more() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 20).await;
    fixture
        .admin
        .handle(RemoveApplication { destroy_storage: false, application: "web".to_owned(), force: Force::No })
        .await
        .expect("it is Dying");
    let listed = async |fixture: &MemoryFixture, entity: &str| {
        let why =
            fixture.admin.handle(GetWhy { entity: crate::support::entity(entity) }).await.expect("it exists");
        (why.causes.len(), why.more)
    };
    assert_eq!(listed(&fixture, "web").await, (20, false));
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 21).await;
    fixture
        .admin
        .handle(RemoveApplication { destroy_storage: false, application: "web".to_owned(), force: Force::No })
        .await
        .expect("it is Dying");
    assert_eq!(listed(&fixture, "web").await, (20, true));
    assert_eq!(listed(&fixture, "model").await, (20, true));
}
