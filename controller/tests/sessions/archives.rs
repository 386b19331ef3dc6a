//! Charm archives: a unit fetches only its own, and a lost one is reported.

use crate::support::*;
use api::error::ErrorCode;
use api::{FetchArchive, Handle};

#[tokio::test]
async fn a_unit_fetches_archives_of_its_own_charm_only() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let own = web
        .api
        .handle(FetchArchive { sha256: "web".to_owned() })
        .await
        .expect_err("registered, and never kept");
    assert_eq!(own.code, ErrorCode::Unavailable);
    let other =
        web.api.handle(FetchArchive { sha256: "db".to_owned() }).await.expect_err("another application's");
    let none = web.api.handle(FetchArchive { sha256: "no".to_owned() }).await.expect_err("it does not exist");
    assert_eq!((other.code, none.code), (ErrorCode::NotFound, ErrorCode::NotFound));
    assert_eq!(other.message.replace("db", "no"), none.message, "indistinguishable");
}

#[tokio::test]
async fn a_lost_archive_is_reported_with_a_hint() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let error = web
        .api
        .handle(FetchArchive { sha256: "web".to_owned() })
        .await
        .expect_err("it was registered and never kept");
    assert_eq!(error.code, ErrorCode::Unavailable);
    assert!(error.message.contains("missing or damaged"), "{error}");
    assert_eq!(
        web.api
            .handle(FetchArchive { sha256: "../client.yaml".to_owned() })
            .await
            .expect_err("no digest")
            .code,
        ErrorCode::NotFound
    );
}
