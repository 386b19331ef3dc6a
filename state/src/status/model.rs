//! The status of a model itself.

use crate::documents::draft::{Reader, read};
use crate::documents::prelude::{Model, ModelDoc};
use crate::terms::status::ModelState;
use crate::terms::status_info::StatusInfo;
use crate::terms::status_message::StatusMessage;

/// The status of a model with this document.
pub fn model_state(reader: &dyn Reader, model: Model, doc: &ModelDoc) -> StatusInfo<ModelState> {
    let (state, since_ms) = match read(reader, &model.model_destruction()) {
        Some(destruction) => (ModelState::Destroying, destruction.since_ms),
        None => (ModelState::Available, doc.created_ms),
    };
    StatusInfo::new(state, StatusMessage::Empty, Some(since_ms))
}
