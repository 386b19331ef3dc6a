//! The transitions of secrets: a secret of users that a unit reads, and a time that has come.

use super::*;
use state::agents::secret_read::{self, SecretRead};
use state::agents::session::AgentSession;
use state::documents::prelude::SecretContentDoc;
use state::lifecycle::user_secret;
use state::terms::secret::SecretId;
use state::transitions::{due_secrets, secret_resealing};
use state::unit::secrets::SecretWrite;

/// Runs the transitions of users, of a unit that reads a secret, and of the janitor.
pub(super) async fn use_secrets<S: Store>(fixture: &mut Fixture<'_, S>) {
    let unit = fixture.unit("web/0").await;
    let epoch = fixture
        .store
        .read(move |reader| read(reader, &MODEL.session(unit)))
        .await
        .expect("it attached")
        .epoch;
    let id = SecretId::from_bits(1 << 100);
    let write = SecretWrite {
        label: Some("password".to_owned()),
        sealed: Some("sealed".to_owned()),
        expire_at_ms: Some(5),
        ..SecretWrite::default()
    };
    let add = write.clone();
    fixture.call("user_secret::add", move |draft| user_secret::add(draft, MODEL, id, &add, 1)).await;
    let names = ["web".to_owned()];
    fixture.call("user_secret::grant", move |draft| user_secret::grant(draft, MODEL, id, &names)).await;
    let consume = move |refresh| {
        let request = SecretRead { id: Some(id), label: None, peek: false, refresh };
        move |draft: &mut Draft<'_>| {
            secret_read::consume(
                draft,
                AgentSession { model: MODEL, unit, epoch, store_generation: Uuid(7) },
                &request,
            )
            .map(drop)
        }
    };
    fixture.call("secret_read::consume", consume(false)).await;
    fixture
        .call("user_secret::update", move |draft| {
            user_secret::update(draft, MODEL, id, &write, Some(true), 2)
        })
        .await;
    fixture.call("secret_read::consume", consume(true)).await;
    fixture
        .call("due_secrets::mark_due", |draft| {
            due_secrets::mark_due(draft, MODEL, 5);
            Ok(())
        })
        .await;
    let key = MODEL.secret_content(id, 2);
    let content = SecretContentDoc { sealed_for: user_secret::SEALED_FOR_USERS, sealed: "sealed".to_owned() };
    fixture
        .call("secret_resealing::replace_content", move |draft| {
            secret_resealing::replace_content(draft, key.text(), &content, "again");
            Ok(())
        })
        .await;
    let names = ["web".to_owned()];
    fixture.call("user_secret::revoke", move |draft| user_secret::revoke(draft, MODEL, id, &names)).await;
    fixture
        .call("user_secret::remove", move |draft| user_secret::remove(draft, MODEL, id, None, Uuid(900)))
        .await;
}
