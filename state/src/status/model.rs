//! The status of a model itself, and those that it has had.

use crate::documents::draft::{Reader, read};
use crate::documents::prelude::{Model, ModelDoc, StatusChange, SubjectStatus};
use crate::terms::status::ModelState;
use crate::terms::status_info::StatusInfo;
use crate::terms::status_message::StatusMessage;

/// The statuses that a model with this document has had: each has only one, until it is destroyed.
pub fn status_log(reader: &dyn Reader, model: Model, doc: &ModelDoc) -> Vec<StatusChange> {
    let change = |state, since_ms| StatusChange {
        since_ms,
        status: SubjectStatus::Model(state),
        message: StatusMessage::Empty,
    };
    let destroying = read(reader, &model.model_destruction())
        .map(|destruction| change(ModelState::Destroying, destruction.since_ms));
    [change(ModelState::Available, doc.created_ms)].into_iter().chain(destroying).collect()
}

/// The status of a model with this document.
pub fn model_state(reader: &dyn Reader, model: Model, doc: &ModelDoc) -> StatusInfo<ModelState> {
    let (state, since_ms) = match read(reader, &model.model_destruction()) {
        Some(destruction) => (ModelState::Destroying, destruction.since_ms),
        None => (ModelState::Available, doc.created_ms),
    };
    StatusInfo::new(state, StatusMessage::Empty, Some(since_ms))
}
