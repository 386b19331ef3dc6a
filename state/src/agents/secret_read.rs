//! The transition by which a unit reads a secret (spec/hook-tools.md 2.6).
//!
//! Reading is a transition of its own ([`consume`]), because the first read decides which revision the unit reads from
//! then on, even if its hook fails later. Called by the handler of `secret-get`.

use crate::agents::session::{self, AgentSession};
use crate::documents::draft::Draft;
use crate::documents::prelude::SecretContentDoc;
use crate::documents::refusal::Refusal;
use crate::lifecycle::secret::{find, find_by_label, may_read, prune, put, require_bytes, track};
use crate::terms::refusal::secret::{SecretLimit, SecretRefusal};
use crate::terms::secret::{CONSUMED_MAX, LABEL_BYTES_MAX, SecretId};
use serde::{Deserialize, Serialize};

/// Which secret a unit reads, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretRead {
    /// The secret; none if only its label is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SecretId>,
    /// The label; with an id, the label that the unit gives the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether to return the newest revision, once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub peek: bool,
    /// Whether to read the newest revision from now on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refresh: bool,
}

/// A sealed content that may be opened for the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadableSecret {
    /// The secret.
    pub id: SecretId,
    /// The revision.
    pub revision: u64,
    /// The content.
    pub content: SecretContentDoc,
}

/// Returns the content that a unit reads. The first read fixes the revision that the unit reads from then on.
///
/// A secret that is not granted and one that does not exist are refused for different reasons, because charms tell them
/// apart by the text of the tool (spec/hook-tools.md 2.6). A unit learns nothing from that without an id, which is 96
/// random bits.
///
/// # Errors
/// If a newer agent has attached, there is no such secret or revision, the unit may not read it, the label is too long or
/// used for another secret, an own one too, or the unit reads too many secrets.
pub fn consume(
    draft: &mut Draft,
    session: AgentSession,
    request: &SecretRead,
) -> Result<ReadableSecret, Refusal> {
    let AgentSession { model, unit, .. } = session;
    let doc = session::check_epoch(draft, session)?;
    let key = model.secrets_consumed(unit);
    let mut consumed = draft.get(&key).unwrap_or_default();
    let label = request.label.as_deref().unwrap_or_default();
    let id = match request.id {
        Some(id) => id,
        None => [unit, doc.application]
            .into_iter()
            .find_map(|owner| find_by_label(draft, model, owner, label))
            .or_else(|| consumed.iter().find(|(_, entry)| entry.label == label).map(|(id, _)| *id))
            .ok_or_else(|| SecretRefusal::UnknownConsumerLabel { label: label.to_owned() })?,
    };
    let secret = find(draft, model, id)?;
    if !may_read(draft, model, &secret, unit, &doc) {
        return Err(SecretRefusal::PermissionDenied.into());
    }
    let before = consumed.get(&id).cloned();
    let mut entry = before.clone().unwrap_or_default();
    if before.is_none() || request.refresh {
        entry.revision = secret.newest();
    }
    if request.id.is_some() && !label.is_empty() {
        let mut owned = [unit, doc.application].into_iter();
        let is_of_other = |owner| find_by_label(draft, model, owner, label).is_some_and(|other| other != id);
        if owned.any(is_of_other)
            || consumed.iter().any(|(other, entry)| *other != id && entry.label == label)
        {
            return Err(SecretRefusal::LabelExists { label: label.to_owned() }.into());
        }
        require_bytes(label, LABEL_BYTES_MAX)?;
        entry.label = label.to_owned();
    }
    let revision = if request.peek { secret.newest() } else { entry.revision };
    let content = draft
        .get(&model.secret_content(id, revision))
        .ok_or(SecretRefusal::RevisionNotFound { id, revision })?;
    if before.as_ref() != Some(&entry) {
        if before.is_none() && consumed.len() >= CONSUMED_MAX {
            return Err(SecretRefusal::TooMany { what: SecretLimit::Consumed, max: CONSUMED_MAX }.into());
        }
        let tracked = before.map(|entry| entry.revision);
        let left = tracked.filter(|left| *left != entry.revision);
        track(draft, model, unit, id, tracked, entry.revision);
        consumed.insert(id, entry);
        draft.put(&key, &consumed);
        if let Some(left) = left {
            let mut after = secret.clone();
            prune(draft, model, id, &mut after, left);
            put(draft, model, id, Some(&secret), &after);
        }
    }
    Ok(ReadableSecret { id, revision, content })
}
