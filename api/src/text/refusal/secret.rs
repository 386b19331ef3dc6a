//! Refusals of requests about secrets, in English. Charms parse the first three (spec/hook-tools.md 2.6).

use crate::text::refusal::refusal_text::RefusalText;
use state::terms::refusal::secret::{SecretLimit, SecretRefusal};

pub(super) fn text(reason: &SecretRefusal) -> RefusalText {
    let hint = match reason {
        SecretRefusal::NoRoom { .. } => {
            Some("remove secrets or older revisions that nobody reads".to_owned())
        }
        _ => None,
    };
    RefusalText { message: message(reason), hint }
}

fn message(reason: &SecretRefusal) -> String {
    match reason {
        SecretRefusal::NotFound { name } => format!("secret {name:?} not found"),
        SecretRefusal::UnknownConsumerLabel { label } => format!("consumer label {label:?} not found"),
        SecretRefusal::PermissionDenied => "permission denied".to_owned(),
        SecretRefusal::NotLeader { unit } => {
            format!("cannot change a secret of the application: {unit} is not the leader")
        }
        SecretRefusal::LabelExists { label } => format!("secret with label {label:?} already exists"),
        SecretRefusal::Exists { id } => format!("secret {id} already exists"),
        SecretRefusal::RevisionNotFound { id, revision } => {
            format!("secret revision {revision} of \"{id}\" not found")
        }
        SecretRefusal::TooMany { what, max } => format!("too many {}: {max} at most", limited(*what)),
        SecretRefusal::NoRoom { bytes, max } => {
            format!(
                "cannot store the content: all secrets of the owner would take {bytes} bytes, at most {max}"
            )
        }
        SecretRefusal::Sealed { id } => {
            format!("cannot open the content of secret {id}: its key is missing or the content is damaged")
        }
        SecretRefusal::Empty => "empty secret value not valid".to_owned(),
        SecretRefusal::BadContent { key } => format!("key {key:?} not valid, or its value is not in base64"),
        SecretRefusal::OfCharm { id } => {
            format!("cannot change secret {id}: it belongs to an application or a unit")
        }
        SecretRefusal::UnknownReader { name } => format!("application {name:?} not found"),
    }
}

fn limited(what: SecretLimit) -> &'static str {
    match what {
        SecretLimit::Secrets => "secrets of one owner",
        SecretLimit::Revisions => "revisions of one secret",
        SecretLimit::Grants => "grants of one secret",
        SecretLimit::Consumed => "secrets that one unit reads",
        SecretLimit::ContentBytes => "bytes of the values of a secret, in base64",
        SecretLimit::TextBytes => "bytes of a label or description",
    }
}
