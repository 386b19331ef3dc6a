//! The writes of a hook, and the limits of their size.
//!
//! Most writes are buffered and take effect only if the hook's process exits with 0 ([`Writes`]). Reports
//! ([`ReportContent`]: statuses and log lines) take effect immediately, even if the hook fails (spec/hook-tools.md
//! 3). The limits guarantee that a record always fits into one transaction of the store.

use super::middle_cut;
use super::secrets::{SecretWrite, SecretWrites};
use crate::terms::activity::Activity;
use crate::terms::names::RelationNumber;
pub use crate::terms::port_range::Ports;
use crate::terms::process_result::ProcessResult;
use crate::terms::refusal::write::LeaderSettingsProblem;
use crate::terms::settings::BagChange;
use crate::terms::status::WorkloadStatus;
use crate::terms::store_engine::StoreEngine;
use crate::terms::string_enum::string_enum;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;

/// The most reports (log lines and statuses) that one record carries. The agent sends further ones while the hook
/// runs, or drops them and reports how many.
pub const REPORTS_MAX: usize = 60;

/// The most documents that one hook may write: the 600 of a transaction, minus one for each of the record's reports,
/// minus 40 for the record's own documents (replica, status, life and others), minus those of 300 relations in which the
/// record of a config-changed hook publishes new addresses.
pub const HOOK_DOCUMENTS_MAX: usize = 600 - REPORTS_MAX - 40 - 300;

/// The most bytes of a unit's own data in a transaction: its 1.25 MiB, minus the reports of the record, minus 272 KiB for
/// the keys and the other fields of documents, some 460 bytes for each of 600.
pub const HOOK_WRITES_BYTES_MAX: usize = (1 << 20) - REPORTS_BYTES_MAX - (16 << 10);

/// The same with SQLite, most of which are settings of relations: the largest bag (4 MiB) and 1 MiB for the others, escapes
/// and keys. What is no setting of a relation has [`HOOK_WRITES_BYTES_MAX`] with every engine, because it is part of larger
/// documents (the replica, an action, the secrets of an owner).
pub const LARGE_HOOK_WRITES_BYTES_MAX: usize = 5 << 20;

/// The bytes that the output of an action's process has in any case: an action publishes no addresses, so that at most 240
/// documents take 460 bytes each of the 272 KiB, and 160 KiB are left.
pub const OUTPUT_BYTES_MIN: usize = 128 << 10;

/// The most bytes of all changes of a hook as they are sent: a deletion has its key. A request has 4 MiB, with the reports
/// of the record.
pub const HOOK_SENT_BYTES_MAX: usize = 2 << 20;

/// The same with SQLite: the 5 MiB that are stored, and 3 MiB of keys that are deleted.
pub const LARGE_HOOK_SENT_BYTES_MAX: usize = 8 << 20;

impl StoreEngine {
    /// The most bytes of a unit's own data and the changes of one hook, of which settings of relations are most.
    pub fn hook_writes_bytes_max(self) -> usize {
        match self {
            StoreEngine::Sqlite => LARGE_HOOK_WRITES_BYTES_MAX,
            StoreEngine::Etcd => HOOK_WRITES_BYTES_MAX,
        }
    }

    /// The most bytes of all changes of a hook as they are sent.
    pub fn hook_sent_bytes_max(self) -> usize {
        match self {
            StoreEngine::Sqlite => LARGE_HOOK_SENT_BYTES_MAX,
            StoreEngine::Etcd => HOOK_SENT_BYTES_MAX,
        }
    }
}

/// The most bytes of the reports in one record, as JSON: 60 reports of about 4 KiB. An action's parameters and its
/// log share this limit.
pub const REPORTS_BYTES_MAX: usize = REPORTS_MAX * (4 << 10);

/// The most bytes of an action's parameters, as JSON: enough for a file of keys or certificates.
pub const PARAMS_BYTES_MAX: usize = 64 << 10;

/// Returns the size of a value as JSON in bytes.
pub(crate) fn size(value: &impl Serialize) -> usize {
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, value).expect("plain data");
    counted.0
}

/// Counts what is written, and keeps nothing: settings have several MiB, and each tool call measures them.
pub(crate) struct Counted(pub(crate) usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The endpoint that stands for all endpoints in [`Ports`].
pub const ALL_ENDPOINTS: &str = "*";

/// The changes that take effect if the hook succeeds. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Writes {
    /// Relation settings.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bags: BTreeMap<RelationNumber, BagWrites>,
    /// Opened and closed ports.
    #[serde(skip_serializing_if = "PortWrites::is_empty")]
    pub ports: PortWrites,
    /// Keys of the charm's stored state (state-set). `None` deletes the key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, Option<String>>,
    /// The results of an action, which are sent even if it fails.
    #[serde(skip_serializing_if = "ActionWrites::is_empty")]
    pub action: ActionWrites,
    /// Secrets that the hook creates, changes or removes.
    #[serde(skip_serializing_if = "SecretWrites::is_empty")]
    pub secrets: SecretWrites,
    /// The storage that the unit requests (storage-add): how many instances, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<String, u32>,
    /// The reboot that the hook requested (juju-reboot).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reboot: Option<Reboot>,
}

/// When the machine reboots after a hook has requested it (spec A.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reboot {
    /// After the hook has succeeded.
    AfterHook,
    /// Immediately (`juju-reboot --now`): the hook is killed, its writes are discarded, and it runs again first after
    /// the boot.
    Now,
}

/// Changed settings of one relation. An empty value deletes the key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BagWrites {
    /// The unit's own settings.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unit: BagChange,
    /// The settings of the unit's application, which only the leader may change.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub application: BagChange,
}

/// Port changes: first ranges are opened, then closed. Closing a range at [`ALL_ENDPOINTS`] closes it at every
/// endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PortWrites {
    /// The ranges to open.
    pub open: Ports,
    /// The ranges to close.
    pub close: Ports,
}

impl PortWrites {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.close.is_empty()
    }

    /// Returns the open ports after these changes are applied to `opened`.
    pub fn applied_to(&self, opened: &Ports) -> Ports {
        let mut ports = opened.clone();
        for (endpoint, ranges) in &self.open {
            ports.entry(endpoint.clone()).or_default().extend(ranges);
        }
        for (endpoint, ranges) in &self.close {
            for (at, open) in &mut ports {
                if endpoint == ALL_ENDPOINTS || endpoint == at {
                    open.retain(|range| !ranges.contains(range));
                }
            }
        }
        ports.retain(|_, ranges| !ranges.is_empty());
        ports
    }
}

/// The results of an action. They are sent when the action ends, whether it succeeds or fails.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ActionWrites {
    /// The results that the charm set with action-set.
    pub results: Map<String, Value>,
    /// How the process of the action has exited; none before, or if it was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessResult>,
    /// The message of action-fail, if the charm called it.
    pub failed: Option<String>,
}

impl ActionWrites {
    /// Whether the action has set no result, has no exit code and has not failed.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty() && self.process.is_none() && self.failed.is_none()
    }
}

/// A report of a hook, which takes effect immediately, even if the hook fails (spec/hook-tools.md 3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReportContent {
    /// The workload status of the unit (status-set).
    UnitStatus {
        /// The status.
        status: WorkloadStatus,
        /// The charm's message.
        message: String,
    },
    /// The status of the application (status-set --application). Only the leader may set it.
    ApplicationStatus {
        /// The status.
        status: WorkloadStatus,
        /// The charm's message.
        message: String,
    },
    /// A line of juju-log.
    Log {
        /// The severity.
        level: Level,
        /// The line.
        text: String,
    },
    /// A line of action-log.
    ActionLog(String),
    /// The workload's version (application-version-set).
    WorkloadVersion(String),
    /// A line that the charm printed (spec/hook-tools.md 5.6).
    Output {
        /// The run in which it printed it.
        run: Activity,
        /// The severity: warning for stderr.
        level: Level,
        /// The line.
        text: String,
    },
}

/// A status or log line that a hook reported. It takes effect even if the hook fails. Reports are numbered within their
/// run, so that lost replies do not change their order and a report that is sent twice is stored once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunReport {
    /// The number of the report within its run, from 1.
    pub number: u32,
    /// The wall clock in milliseconds since 1970, for display only.
    pub at_ms: i64,
    /// The status or line.
    pub what: ReportContent,
}

/// The most bytes of one line or status message: the 60 of a record take a fifth of a transaction's 1.25 MiB.
pub const TEXT_BYTES_MAX: usize = 4 << 10;

impl ReportContent {
    /// Whether this is a log line. The others are statuses, of which only the last one matters.
    pub fn is_log_line(&self) -> bool {
        match self {
            ReportContent::Log { .. } | ReportContent::ActionLog(_) | ReportContent::Output { .. } => true,
            ReportContent::UnitStatus { .. }
            | ReportContent::ApplicationStatus { .. }
            | ReportContent::WorkloadVersion(_) => false,
        }
    }

    /// Shortens a text longer than [`TEXT_BYTES_MAX`] to its beginning and its end, with `mark` of the number of missing
    /// bytes between them.
    pub fn shortened(mut self, mark: fn(usize) -> String) -> ReportContent {
        let text = match &mut self {
            ReportContent::UnitStatus { message, .. } | ReportContent::ApplicationStatus { message, .. } => {
                message
            }
            ReportContent::Log { text, .. } | ReportContent::Output { text, .. } => text,
            ReportContent::ActionLog(text) | ReportContent::WorkloadVersion(text) => text,
        };
        middle_cut::shorten(text, TEXT_BYTES_MAX, mark);
        self
    }
}

string_enum! {
    /// The severity of a log line, in ascending order.
    Level {
        /// `TRACE`
        Trace = "TRACE",
        /// `DEBUG`
        Debug = "DEBUG",
        /// `INFO`
        Info = "INFO",
        /// `WARNING`
        Warning = "WARNING",
        /// `ERROR`
        Error = "ERROR",
        /// `CRITICAL`
        Critical = "CRITICAL",
    }
}

/// Why a hook tool cannot write. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookWriteError {
    /// A relation setting contains NUL.
    ContainsNul {
        /// The name of the setting.
        key: String,
    },
    /// The settings of a relation exceed [`BAG_BYTES_MAX`](crate::terms::settings::BAG_BYTES_MAX).
    BagTooLarge {
        /// Their bytes.
        bytes: usize,
    },
    /// More than [`PORT_RANGES_MAX`](crate::terms::port_range::PORT_RANGES_MAX) port ranges would be open, or are opened or
    /// closed by the hook.
    TooManyPorts {
        /// Their number.
        count: usize,
    },
    /// The hook changes more than [`HOOK_DOCUMENTS_MAX`] documents.
    TooManyDocuments,
    /// The unit's data and the changes of the hook exceed [`StoreEngine::hook_writes_bytes_max`].
    WritesTooLarge {
        /// Their bytes.
        bytes: usize,
        /// The engine whose bound they exceed.
        engine: StoreEngine,
    },
    /// What is no setting of a relation exceeds [`HOOK_WRITES_BYTES_MAX`]: the stored state of the charm, and what the hook
    /// changes.
    OtherWritesTooLarge {
        /// Their bytes.
        bytes: usize,
    },
    /// The changes of the hook, deletions included, exceed [`StoreEngine::hook_sent_bytes_max`].
    TooManyChanges {
        /// Their bytes.
        bytes: usize,
        /// The engine whose bound they exceed.
        engine: StoreEngine,
    },
    /// The leader settings cannot be stored.
    LeaderSettings(LeaderSettingsProblem),
}

impl Writes {
    /// Returns how many documents a commit of these writes changes, at most: one for each bag, one each for the ports, the
    /// charm's state and the action's results, and those of secrets and storage.
    pub(crate) fn documents(&self) -> usize {
        let bags = self.bags.values();
        bags.map(|bag| usize::from(!bag.unit.is_empty()) + usize::from(!bag.application.is_empty()))
            .sum::<usize>()
            + usize::from(!self.ports.is_empty())
            + usize::from(!self.state.is_empty())
            + usize::from(!self.action.is_empty())
            + self.secret_documents()
            + self.storage_documents()
    }

    /// The instances, their sequence and their two indexes.
    fn storage_documents(&self) -> usize {
        match self.storage.is_empty() {
            true => 0,
            false => self.storage.values().fold(3, |all, count| all.saturating_add(*count as usize)),
        }
    }

    /// The documents that a commit of the secrets changes, with the indexes of the unit's and the application's
    /// secrets, and the list of what the unit reads; or a third of the documents that it reads: a transaction has room
    /// for three reads of each write.
    fn secret_documents(&self) -> usize {
        if self.secrets.is_empty() {
            return 0;
        }
        let once = 2 + usize::from(self.secrets.values().any(|write| write.refreshed));
        let documents = self.secrets.values().map(SecretWrite::document_count).sum::<usize>() + once;
        let reads = self.secrets.values().map(SecretWrite::read_count).sum::<usize>();
        documents.max(reads.div_ceil(3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end_and_states_the_missing_bytes() {
        let text = format!("begin{}end", "x".repeat(20_000));
        let mark = |bytes: usize| format!("|{bytes}|");
        let long = ReportContent::Log { level: Level::Info, text };
        let ReportContent::Log { text, .. } = long.shortened(mark) else { panic!("the variant changed") };
        assert!(text.starts_with("begin") && text.contains("|15912|") && text.ends_with("end"), "{text}");
        assert!(text.len() < TEXT_BYTES_MAX + 30, "{}", text.len());
        let short = ReportContent::WorkloadVersion("1.0".into());
        assert_eq!(short.clone().shortened(mark), short);
    }
}
