//! The status of a relation, and the relations of a model in the order of their numbers.

use super::status_info::status_info;
use api::{RelationEnd, RelationStatus};
use state::charm::Role;
use state::documents::draft::{Reader, read, read_all};
use state::documents::effective_life;
use state::documents::prelude::{Kind, Model, RelationDoc, ScopeDoc, last_id};
use state::terms::life::Life;
use state::terms::names::{RelationNumber, Uuid};
use state::terms::status::RelationState;
use state::terms::status_message::StatusMessage;

pub(super) fn relations(reader: &dyn Reader, model: Model) -> Vec<(Uuid, RelationDoc)> {
    let all = read_all(reader, &model.prefix(Kind::Relation));
    let mut all: Vec<_> = all.into_iter().filter_map(|(key, doc)| Some((last_id(&key)?, doc))).collect();
    all.sort_by_key(|(_, doc): &(Uuid, RelationDoc)| doc.number);
    all
}

/// Returns the relation with this number.
pub fn relation_of_number(reader: &dyn Reader, model: Model, number: RelationNumber) -> Option<Uuid> {
    relations(reader, model).into_iter().find(|(_, doc)| doc.number == number).map(|(id, _)| id)
}

pub(super) fn relation_status(reader: &dyn Reader, model: Model, id: Uuid) -> Option<RelationStatus> {
    let doc = &read(reader, &model.relation(id))?;
    let mut ends: Vec<RelationEnd> = doc
        .ends
        .iter()
        .map(|end| RelationEnd {
            application: end.application_name.clone(),
            endpoint: end.endpoint.clone(),
            role: end.role,
        })
        .collect();
    ends.sort_by_key(|end| end.role != Role::Provider);
    let life = effective_life::relation_life_of(&mut { reader }, model, id, doc);
    let present = read_all::<ScopeDoc>(reader, &model.scopes(id));
    let joined =
        doc.ends.iter().all(|end| present.iter().any(|(_, entry)| entry.application == end.application));
    let created = |status| status_info(status, StatusMessage::Empty, Some(doc.created_ms));
    let status = match (life, read(reader, &model.relation_suspended(id))) {
        (Life::Dying | Life::Dead, _) => created(RelationState::Broken),
        (Life::Alive, Some(suspended)) => {
            let status =
                if present.is_empty() { RelationState::Suspended } else { RelationState::Suspending };
            status_info(status, StatusMessage::OfOperator(suspended.message), Some(suspended.since_ms))
        }
        (Life::Alive, None) => created(if joined { RelationState::Joined } else { RelationState::Joining }),
    };
    Some(RelationStatus {
        uuid: id,
        number: doc.number,
        life,
        interface: doc.ends[0].interface.clone(),
        scope: doc.scope,
        ends,
        status,
    })
}
