//! A relation as it is shown: its ends and its status (`state::status::relation`).

use api::{RelationEnd, RelationStatus};
use state::charm::Role;
use state::documents::draft::{Reader, read};
use state::documents::effective_life;
use state::documents::prelude::Model;
use state::status::relation::relation_state;
use state::terms::names::Uuid;

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
    Some(RelationStatus {
        uuid: id,
        number: doc.number,
        life,
        interface: doc.ends[0].interface.clone(),
        scope: doc.scope,
        ends,
        status: relation_state(reader, model, id, doc, life),
    })
}
