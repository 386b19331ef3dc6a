//! Secrets of users: their contents are sealed before they are stored, and shown to no request but the one that
//! reveals.

use crate::support::*;
use api::error::ErrorCode;
use api::{
    AddSecret, GetSecret, GrantSecret, Handle, ListSecrets, ReadSecret, RemoveSecret, RevealSecret,
    RevokeSecret, UpdateSecret,
};
use controller::store::Store;
use state::agents::secret_read::SecretRead;
use state::terms::refusal::secret::SecretRefusal;
use state::terms::secret::{SecretContent, SecretId};
use std::collections::BTreeMap;

/// `s3cret` in base64, which occurs in no document.
const CANARY: &str = "czNjcmV0";

fn content(value: &str) -> SecretContent {
    SecretContent(BTreeMap::from([("password".to_owned(), value.to_owned())]))
}

fn add(name: &str, content: SecretContent) -> AddSecret {
    AddSecret { name: name.to_owned(), description: "a test".to_owned(), content }
}

#[tokio::test]
async fn the_content_of_a_secret_of_users_is_sealed_and_revealed_by_one_request() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let id: SecretId = fixture.admin.handle(add("token", content(CANARY))).await.expect("it is added").secret;
    let reveal = |revision| RevealSecret { secret: "token".to_owned(), revision };
    assert_eq!(fixture.admin.handle(reveal(None)).await, Ok(content(CANARY)));
    let update = UpdateSecret {
        secret: format!("secret:{id}"),
        name: None,
        description: None,
        auto_prune: None,
        content: Some(content("AAAA")),
    };
    fixture.admin.handle(update).await.expect("it is changed");
    assert_eq!(fixture.admin.handle(reveal(None)).await, Ok(content("AAAA")));
    assert_eq!(fixture.admin.handle(reveal(Some(1))).await, Ok(content(CANARY)));
    let missing = fixture.admin.handle(reveal(Some(3))).await.expect_err("there are two");
    assert_eq!(missing.message, message(SecretRefusal::RevisionNotFound { id, revision: 3 }));
    let listed = fixture.admin.handle(ListSecrets).await.expect("they are listed");
    let info = fixture.admin.handle(GetSecret { secret: id.to_string() }).await.expect("it exists");
    assert_eq!((listed.len(), &listed[&id]), (1, &info.secret));
    assert_eq!((&info.secret.owner, info.secret.label.as_str()), (&None, "token"));
    let shown = serde_json::to_string(&(&listed, &info)).expect("plain data");
    let stored = fixture.controller.store.read(|reader| reader.scan("", "", 10_000)).await;
    assert!(stored.iter().any(|document| document.key.contains(id.as_str())), "the scan covers secrets");
    let documents: Vec<&str> = stored.iter().map(|document| &*document.value).collect();
    for text in documents.into_iter().chain([shown.as_str()]) {
        assert!(!text.contains(CANARY) && !text.contains("s3cret"), "{text}");
    }
}

#[tokio::test]
async fn a_unit_reads_a_secret_of_users_while_it_is_granted_to_its_application() {
    let fixture = Fixture::in_memory().await;
    fixture.deploy("web", 1).await;
    let web = fixture.attach_agent("web/0").await;
    let secret = fixture.admin.handle(add("token", content(CANARY))).await.expect("it is added").secret;
    let read = || {
        let read = SecretRead { id: Some(secret), label: None, peek: false, refresh: false };
        web.api.handle(ReadSecret { epoch: web.epoch, read })
    };
    let denied = message(SecretRefusal::PermissionDenied);
    assert_eq!(read().await.expect_err("it is not granted").message, denied);
    let (token, applications) = ("token".to_owned(), vec!["web".to_owned()]);
    let grant = GrantSecret { secret: token.clone(), applications: applications.clone() };
    fixture.admin.handle(grant).await.expect("it is granted");
    assert_eq!(read().await, Ok(content(CANARY)));
    fixture.admin.handle(RevokeSecret { secret: token.clone(), applications }).await.expect("it is revoked");
    assert_eq!(read().await.expect_err("it is revoked").message, denied);
    fixture.admin.handle(RemoveSecret { secret: token, revision: None }).await.expect("it is removed");
    let missing = read().await.expect_err("it is removed");
    assert_eq!(
        (missing.code, missing.message),
        (ErrorCode::NotFound, message(SecretRefusal::NotFound { name: secret.to_string() }))
    );
}

#[tokio::test]
async fn a_content_that_no_hook_could_write_is_refused() {
    let fixture = Fixture::in_memory().await;
    let refused = |content: SecretContent| async {
        fixture.admin.handle(add("token", content)).await.expect_err("it is refused").message
    };
    assert_eq!(refused(SecretContent::default()).await, message(SecretRefusal::Empty));
    let of_key = |key: &str| message(SecretRefusal::BadContent { key: key.to_owned() });
    assert_eq!(refused(content("no base64")).await, of_key("password"));
    let short = SecretContent(BTreeMap::from([("ab".to_owned(), CANARY.to_owned())]));
    assert_eq!(refused(short).await, of_key("ab"));
    let large = refused(content(&"A".repeat(1_000_000))).await;
    assert!(!large.contains("AAAA"), "{large}");
    assert_eq!(fixture.admin.handle(ListSecrets).await, Ok(BTreeMap::new()));
}
