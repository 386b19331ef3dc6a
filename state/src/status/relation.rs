//! The status of a relation, and the relations of a model in the order of their numbers.

use crate::documents::draft::{Reader, read, read_all};
use crate::documents::prelude::{Kind, Model, RelationDoc, ScopeDoc, last_id};
use crate::terms::life::Life;
use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::status::RelationState;
use crate::terms::status_info::StatusInfo;
use crate::terms::status_message::StatusMessage;

/// The relations of a model, in the order of their numbers.
pub fn relations(reader: &dyn Reader, model: Model) -> Vec<(Uuid, RelationDoc)> {
    let all = read_all(reader, &model.prefix(Kind::Relation));
    let mut all: Vec<_> = all.into_iter().filter_map(|(key, doc)| Some((last_id(&key)?, doc))).collect();
    all.sort_by_key(|(_, doc): &(Uuid, RelationDoc)| doc.number);
    all
}

/// Returns the relation with this number.
pub fn relation_of_number(reader: &dyn Reader, model: Model, number: RelationNumber) -> Option<Uuid> {
    relations(reader, model).into_iter().find(|(_, doc)| doc.number == number).map(|(id, _)| id)
}

/// The status of a relation with this document and effective life: whether both sides have units in its scope, and
/// whether it is suspended.
pub fn relation_state(
    reader: &dyn Reader,
    model: Model,
    id: Uuid,
    doc: &RelationDoc,
    life: Life,
) -> StatusInfo<RelationState> {
    let present = read_all::<ScopeDoc>(reader, &model.scopes(id));
    let joined =
        doc.ends.iter().all(|end| present.iter().any(|(_, entry)| entry.application == end.application));
    let created = |status| StatusInfo::new(status, StatusMessage::Empty, Some(doc.created_ms));
    match (life, read(reader, &model.relation_suspended(id))) {
        (Life::Dying | Life::Dead, _) => created(RelationState::Broken),
        (Life::Alive, Some(suspended)) => {
            let status =
                if present.is_empty() { RelationState::Suspended } else { RelationState::Suspending };
            StatusInfo::new(status, StatusMessage::OfOperator(suspended.message), Some(suspended.since_ms))
        }
        (Life::Alive, None) => created(if joined { RelationState::Joined } else { RelationState::Joining }),
    }
}
