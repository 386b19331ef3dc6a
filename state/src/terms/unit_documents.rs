//! Documents that the view of a unit contains as they are stored: the charm of its application, statuses, and the
//! request to resolve its error. Their keys are in `documents`.

use crate::terms::resource::Resources;
use crate::terms::status::WorkloadStatus;
use crate::terms::status_message::StatusMessage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The charm of an application. It is a separate document, so that a refresh touches nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CharmDoc {
    /// The digest of the charm archive.
    pub sha256: String,
    /// The name of the charm.
    pub name: String,
    /// The charm URL: `local:web-3`.
    pub url: String,
    /// The revision of the charm in this model, from 0.
    pub revision: u32,
    /// Whether the refresh was made with `--force-units`, which replaces the charm even while a hook is in
    /// error (spec A.6).
    pub forced: bool,
    /// The digests of the archives that were assigned before, newest last. A refresh may overtake a unit that
    /// downloads or installs one of them. The view does not contain them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub previous: Vec<String>,
    /// The files that users have attached to the resources of the charm.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub resources: Resources,
}

/// The most digests in [`CharmDoc::previous`]: as many refreshes may overtake one download.
const PREVIOUS_ARCHIVES_MAX: usize = 8;

impl CharmDoc {
    /// Whether this archive is assigned to the application, or was recently.
    pub fn assigns(&self, sha256: &str) -> bool {
        self.sha256 == sha256 || self.previous.iter().any(|earlier| earlier == sha256)
    }

    /// Whether the application uses this archive or file: it must not be removed.
    pub fn uses(&self, sha256: &str) -> bool {
        self.assigns(sha256) || self.resources.digests().any(|digest| digest == sha256)
    }

    /// The digests for the next charm's [`CharmDoc::previous`].
    pub(crate) fn previous_of_next(&self) -> Vec<String> {
        let mut previous = self.previous.clone();
        previous.push(self.sha256.clone());
        let surplus = previous.len().saturating_sub(PREVIOUS_ARCHIVES_MAX);
        previous.split_off(surplus)
    }
}

/// A request to resolve the error of a unit (`pintle resolved`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResolvedDoc {
    /// The error episode that it resolves; the request does not apply to a later one.
    pub episode: u64,
    /// Whether to run the failed hook again instead of skipping it.
    pub retry: bool,
}

/// A status that a charm or an agent has set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "{S}Doc"))]
pub struct StatusDoc<S = WorkloadStatus> {
    /// The status.
    pub status: S,
    /// The message.
    pub message: StatusMessage,
    /// Additional data, for example the relation of a failed hook.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
    /// When the status was set.
    pub since_ms: i64,
    /// Which report set it. A report that arrives late never replaces that of a higher number (design 4).
    pub number: ReportNumber,
}

/// Orders the reports of one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReportNumber {
    /// The number of the run.
    pub run: u64,
    /// The number of the report within the run ([`RunReport::number`](crate::unit::writes::RunReport::number)).
    pub report: u32,
}
