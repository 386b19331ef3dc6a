//! Secrets as users are shown them: everything but their contents.

use crate::documents::draft::{Reader, read, read_all};
use crate::documents::prelude::KeyParts;
use crate::documents::prelude::{Kind, Model, SecretDoc, SecretGrantDoc, secret_of_key};
use crate::documents::refusal::Refusal;
use crate::lifecycle::{secret, user_secret};
use crate::terms::names::{RelationEnds, Uuid};
use crate::terms::owner::Owner;
use crate::terms::secret::{RotatePolicy, SecretId, SecretOwnerKind, SecretReader};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The metadata of a secret. It contains no content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretInfo {
    /// The unit or the application that owns it; none if the users of the model do.
    pub owner: Option<Owner>,
    /// The name of a user's secret, or the label that a charm gave it; may be empty.
    pub label: String,
    /// The description; may be empty.
    pub description: String,
    /// How often it is rotated; none if the owner did not set it.
    pub rotate: Option<RotatePolicy>,
    /// When it is rotated next, in milliseconds since 1970 by the clock of the model.
    pub rotate_at_ms: Option<i64>,
    /// When the newest revision expires, in milliseconds since 1970 by the clock of the model.
    pub expire_at_ms: Option<i64>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it was changed last, in milliseconds since 1970.
    pub updated_ms: i64,
    /// The newest revision.
    pub revision: u64,
    /// When each revision was created that is not removed, in milliseconds since 1970.
    pub revisions: BTreeMap<u64, i64>,
    /// Who may read it besides its owner.
    pub access: Vec<SecretAccess>,
}

/// The permission to read a secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecretAccess {
    /// Who may read it.
    pub reader: SecretReader,
    /// What the permission depends on.
    pub scope: SecretScope,
}

/// What a permission to read a secret depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SecretScope {
    /// The model, for a user's secret.
    Model(Uuid),
    /// The relation in which a charm granted it.
    Relation(RelationEnds),
}

/// The secrets of a model, by id.
pub fn secrets(reader: &dyn Reader, model: Model) -> BTreeMap<SecretId, SecretInfo> {
    let all = read_all::<SecretDoc>(reader, &model.prefix(Kind::Secret)).into_iter();
    let ids = all.filter_map(|(key, _)| secret_of_key(KeyParts::of(&key)?.rest));
    // without those whose owner is removed, and which the janitor has not deleted yet
    let existing = ids.filter_map(|id| Some((id, secret::find(&mut { reader }, model, id).ok()?)));
    existing.filter_map(|(id, doc)| Some((id, info(reader, model, &doc)?))).collect()
}

/// The secret with this URI, or the user's secret with this name.
///
/// # Errors
/// If there is none.
pub fn find(reader: &dyn Reader, model: Model, text: &str) -> Result<(SecretId, SecretInfo), Refusal> {
    let (id, doc) = user_secret::find(&mut { reader }, model, text)?;
    let info = info(reader, model, &doc).ok_or_else(|| secret::not_found(id))?;
    Ok((id, info))
}

/// None if the owner is removed.
fn info(reader: &dyn Reader, model: Model, doc: &SecretDoc) -> Option<SecretInfo> {
    let owner = match doc.owner.kind {
        SecretOwnerKind::Unit => Some(Owner::Unit(read(reader, &model.unit(doc.owner.id))?.name)),
        SecretOwnerKind::Application => {
            Some(Owner::Application(read(reader, &model.application(doc.owner.id))?.name))
        }
        SecretOwnerKind::Model => None,
    };
    let mut access: Vec<SecretAccess> =
        doc.grants.values().filter_map(|grant| access(reader, model, grant)).collect();
    access.sort();
    Some(SecretInfo {
        owner,
        label: doc.label.clone(),
        description: doc.description.clone(),
        rotate: doc.rotate,
        rotate_at_ms: doc.rotate_at_ms,
        expire_at_ms: doc.expire_at_ms,
        created_ms: doc.created_ms,
        updated_ms: doc.updated_ms,
        revision: doc.newest(),
        revisions: doc.revisions.iter().map(|(revision, doc)| (*revision, doc.created_ms)).collect(),
        access,
    })
}

/// A grant of a user, or one whose relation exists.
fn access(reader: &dyn Reader, model: Model, grant: &SecretGrantDoc) -> Option<SecretAccess> {
    let scope = match grant.relation {
        None => SecretScope::Model(model.0),
        Some(relation) => SecretScope::Relation(read(reader, &model.relation(relation))?.end_names()),
    };
    Some(SecretAccess { reader: grant.reader.clone(), scope })
}
