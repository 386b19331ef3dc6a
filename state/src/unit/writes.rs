//! What a hook writes: buffered until its process exits 0, or said at once (spec/hook-tools.md 3).

use super::record::SAID_MAX;
use crate::terms::names::RelationNumber;
use crate::terms::settings::BagChange;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Documents one hook may write: of a transaction's 100, without what the record says and without some 20 of the
/// record's own (sequence, digest, replica, ...).
pub const WRITES_MAX: usize = 100 - SAID_MAX - 20;

/// Bytes of a transaction's 1 MiB that a unit's own data may take: the rest is for what a record says, and for heads.
pub const HOOK_WRITES_BYTES_MAX: usize = (1 << 20) - REPORTS_BYTES_MAX - (16 << 10);

/// What one record says, as JSON: 60 lines of some 4 KiB. Of an action what it was given and its log share it.
pub const REPORTS_BYTES_MAX: usize = SAID_MAX * (4 << 10);

/// Parameters of an action, as JSON: a file of keys or certificates.
pub const PARAMS_BYTES_MAX: usize = 64 << 10;

/// Bytes as JSON.
pub(crate) fn size(value: &impl Serialize) -> usize {
    serde_json::to_vec(value).expect("plain data").len()
}

/// The endpoint that stands for all endpoints in [`Ports`].
pub const ALL_ENDPOINTS: &str = "*";

/// Port ranges (`80/tcp`) by endpoint, [`ALL_ENDPOINTS`] among them.
pub type Ports = BTreeMap<String, BTreeSet<String>>;

/// What a hook's success will change. Default = nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Writes {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bags: BTreeMap<RelationNumber, BagWrites>,
    #[serde(skip_serializing_if = "PortWrites::is_empty")]
    pub ports: PortWrites,
    /// None deletes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, Option<String>>,
    #[serde(skip_serializing_if = "ActionWrites::is_empty")]
    pub action: ActionWrites,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reboot: Option<Reboot>,
}

/// When the machine is rebooted for a hook that asked (spec A.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reboot {
    /// When the hook has succeeded.
    AfterHook,
    /// At once: the hook is ended, nothing it wrote stands, and it is run again first thing after the boot.
    Now,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BagWrites {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unit: BagChange,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub application: BagChange,
}

/// Opened first, then closed. Closing at [`ALL_ENDPOINTS`] closes the range at every endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortWrites {
    pub open: Ports,
    pub close: Ports,
}

impl PortWrites {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.close.is_empty()
    }

    /// What is open once `self` is applied to `opened`.
    pub fn applied_to(&self, opened: &Ports) -> Ports {
        let mut ports = opened.clone();
        for (endpoint, ranges) in &self.open {
            ports.entry(endpoint.clone()).or_default().extend(ranges.iter().cloned());
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

/// An action's results: sent when the action ends, whatever its exit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ActionWrites {
    pub results: Map<String, Value>,
    /// Why the charm says it failed.
    pub failed: Option<String>,
}

impl ActionWrites {
    pub fn is_empty(&self) -> bool {
        self.results.is_empty() && self.failed.is_none()
    }
}

/// Said at once: it stands even if the hook fails (spec/hook-tools.md 3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportContent {
    UnitStatus {
        status: String,
        message: String,
    },
    ApplicationStatus {
        status: String,
        message: String,
    },
    /// To the stream `unit.<unit>.juju-log`.
    Log {
        level: Level,
        text: String,
    },
    ActionLog(String),
    WorkloadVersion(String),
    /// A line the charm printed, to the stream `unit.<unit>.<hook>` (spec/hook-tools.md 5.6).
    Output {
        hook: String,
        level: Level,
        text: String,
    },
}

/// What one line or status may be long: a record's 64 of them are a quarter of a transaction.
pub const TEXT_BYTES_MAX: usize = 4 << 10;

impl ReportContent {
    /// A line of a log; the others are statuses, of which the last stands.
    pub fn is_log_line(&self) -> bool {
        match self {
            ReportContent::Log { .. } | ReportContent::ActionLog(_) | ReportContent::Output { .. } => true,
            ReportContent::UnitStatus { .. }
            | ReportContent::ApplicationStatus { .. }
            | ReportContent::WorkloadVersion(_) => false,
        }
    }

    /// The same, with a text too long cut and saying so.
    pub fn truncated(mut self) -> ReportContent {
        let text = match &mut self {
            ReportContent::UnitStatus { message, .. } | ReportContent::ApplicationStatus { message, .. } => {
                message
            }
            ReportContent::Log { text, .. } | ReportContent::Output { text, .. } => text,
            ReportContent::ActionLog(text) | ReportContent::WorkloadVersion(text) => text,
        };
        if text.len() > TEXT_BYTES_MAX {
            let is_boundary = |at: &usize| text.is_char_boundary(*at);
            let end = (0..=TEXT_BYTES_MAX).rev().find(is_boundary).unwrap_or(0);
            let left_out = text.len() - end;
            text.truncate(end);
            text.push_str(&format!("... ({left_out} more bytes)"));
        }
        self
    }
}

#[test]
fn a_text_too_long_is_cut_at_a_character_and_says_so() {
    let long = ReportContent::ActionLog(format!("x{}", "é".repeat(TEXT_BYTES_MAX)));
    let ReportContent::ActionLog(text) = long.truncated() else { panic!("it stays what it was") };
    assert!(text.ends_with("é... (4098 more bytes)") && text.len() < TEXT_BYTES_MAX + 30, "{}", text.len());
    let short = ReportContent::WorkloadVersion("1.0".into());
    assert_eq!(short.clone().truncated(), short);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    Trace,
    Debug,
    Info,
    Warning,
    Error,
    Critical,
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Level::Trace => "TRACE",
            Level::Debug => "DEBUG",
            Level::Info => "INFO",
            Level::Warning => "WARNING",
            Level::Error => "ERROR",
            Level::Critical => "CRITICAL",
        })
    }
}

/// A write beyond what one bag or one record may hold; the text is for the charm. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLarge(pub String);

impl Writes {
    /// Documents a commit writes for them: each bag is one; ports, charm state and action results are one each.
    pub(super) fn documents(&self) -> usize {
        let bags = self.bags.values();
        bags.map(|bag| usize::from(!bag.unit.is_empty()) + usize::from(!bag.application.is_empty()))
            .sum::<usize>()
            + usize::from(!self.ports.is_empty())
            + usize::from(!self.state.is_empty())
            + usize::from(!self.action.is_empty())
    }
}
