//! Builds the `StatusInfo` of the API, also from a stored status, and names the base that `status` shows.

use api::StatusInfo;
use state::charm::Base;
use state::documents::prelude::StatusDoc;
use state::terms::status_message::StatusMessage;
use std::collections::BTreeMap;

/// The base of units whose charm declares none, and of machines, in a form that clients can parse.
const BASE: (&str, &str) = ("ubuntu", "24.04");

pub(super) fn status_info<S>(current: S, message: StatusMessage, since_ms: Option<i64>) -> StatusInfo<S> {
    StatusInfo { current, message, since_ms, data: BTreeMap::new() }
}

pub(super) fn stored_status_info<S>(doc: StatusDoc<S>) -> StatusInfo<S> {
    StatusInfo { current: doc.status, message: doc.message, since_ms: Some(doc.since_ms), data: doc.data }
}

pub(super) fn base() -> Base {
    Base { name: BASE.0.to_owned(), channel: BASE.1.to_owned(), architectures: Vec::new() }
}
