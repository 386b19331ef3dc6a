//! Builds the `StatusInfo` of the API, also from a stored status.

use api::StatusInfo;
use state::documents::prelude::StatusDoc;
use state::terms::status_message::StatusMessage;
use std::collections::BTreeMap;

pub(super) fn status_info<S>(current: S, message: StatusMessage, since_ms: Option<i64>) -> StatusInfo<S> {
    StatusInfo { current, message, since_ms, data: BTreeMap::new() }
}

pub(super) fn stored_status_info<S>(doc: StatusDoc<S>) -> StatusInfo<S> {
    StatusInfo { current: doc.status, message: doc.message, since_ms: Some(doc.since_ms), data: doc.data }
}
