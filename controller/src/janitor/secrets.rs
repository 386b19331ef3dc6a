//! Marks secrets that are due for rotation or expiry, and reseals contents that an older key has sealed.
//!
//! A content is sealed again with the newest key in a transaction of its own, which changes it only if it is still the
//! same: a crash in the middle leaves each content sealed with a key that the key file has.

use super::batch::{log_and_skip, next_page};
use crate::callers::Controller;
use crate::environment::Environment;
use crate::secret_keys::{SealedFor, SecretKeys};
use crate::store::Store;
use api::error::ApiError;
use state::documents::draft::{Draft, Reader, StoredDocument, parse};
use state::documents::prelude::{KeyParts, Kind, Model, SecretContentDoc, secret_of_key};
use state::transitions::{due_secrets, secret_resealing};

/// The contents that one sweep reads: up to 768 KiB each, some hundred bytes as a rule.
const CONTENTS_PER_SWEEP: usize = 40;

/// Marks the secrets that are due. Returns true if there is more to do now.
pub(super) async fn mark_due<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
) -> Result<bool, ApiError> {
    let now_ms = controller.environment.wall_ms();
    if !controller.read_available(move |reader| due_secrets::is_any_due(reader, model, now_ms)).await {
        return Ok(false);
    }
    let marked = controller.run(move |draft| Ok(due_secrets::mark_due(draft, model, now_ms))).await;
    Ok(log_and_skip("mark the due secrets of model", model.0, marked)?.is_some_and(|marked| marked.answer))
}

/// Seals a page of contents again that an older key has sealed. `after` is the last key of the page before; it is empty
/// again after the last page. Returns true if there is more to do now.
pub(super) async fn seal_again<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
    after: &mut String,
) -> Result<bool, ApiError> {
    let Some(keys) = controller.environment.secret_keys().filter(|keys| keys.has_older()) else {
        return Ok(false);
    };
    let mut from = std::mem::take(after);
    let (page, last) = controller
        .read_available(move |reader| {
            let prefix = model.prefix(Kind::SecretContent);
            let page = next_page(reader, &prefix, &mut from, CONTENTS_PER_SWEEP);
            let contents = page.iter().filter_map(|stored| content(reader, stored)).collect::<Vec<_>>();
            (contents, from)
        })
        .await;
    *after = last;
    for (key, content) in page {
        let salt = [controller.environment.random(), controller.environment.random()];
        let Some(sealed) = sealed_again(keys, model, &key, &content, salt) else { continue };
        let transition = move |draft: &mut Draft<'_>| {
            secret_resealing::replace_content(draft, &key, &content, &sealed);
            Ok(())
        };
        log_and_skip("seal the secrets again of model", model.0, controller.run(transition).await)?;
    }
    Ok(!after.is_empty())
}

fn content(reader: &dyn Reader, stored: &StoredDocument) -> Option<(String, SecretContentDoc)> {
    Some((stored.key.clone(), parse(reader, stored)?))
}

/// The content sealed with the newest key; none if it is, or cannot be opened.
fn sealed_again(
    keys: &SecretKeys,
    model: Model,
    key: &str,
    content: &SecretContentDoc,
    salt: [u128; 2],
) -> Option<String> {
    if keys.is_newest(&content.sealed) {
        return None;
    }
    let secret = secret_of_key(KeyParts::of(key)?.rest)?;
    let sealed_for = SealedFor { model: model.0, secret, writer: content.sealed_for };
    keys.seal(sealed_for, &keys.unseal(sealed_for, &content.sealed)?, salt)
}
