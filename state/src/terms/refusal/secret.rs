//! Why a request about a secret is refused.

use crate::terms::names::UnitName;
use crate::terms::refusal::code::Code;
use crate::terms::secret::SecretId;
use serde::{Deserialize, Serialize};

/// Why a request about a secret is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SecretRefusal {
    /// The secret does not exist, or its existence is not for the caller to know.
    NotFound {
        /// The id or label that was requested.
        name: String,
    },
    /// The unit has no secret with this label of its own.
    UnknownConsumerLabel {
        /// The label.
        label: String,
    },
    /// The unit was not granted access to the secret.
    PermissionDenied,
    /// The unit does not lead the application that owns the secret.
    NotLeader {
        /// The unit.
        unit: UnitName,
    },
    /// Another secret of the owner has the label.
    LabelExists {
        /// The label.
        label: String,
    },
    /// A secret with this id exists already.
    Exists {
        /// The id.
        id: SecretId,
    },
    /// The revision does not exist.
    RevisionNotFound {
        /// The secret.
        id: SecretId,
        /// The revision.
        revision: u64,
    },
    /// A limit of secrets is exceeded.
    TooMany {
        /// What there are too many of.
        what: SecretLimit,
        /// The most that are possible.
        max: usize,
    },
    /// The contents of all secrets of the owner would take too many bytes.
    NoRoom {
        /// Their bytes.
        bytes: u64,
        /// The most that are possible.
        max: u64,
    },
    /// The content of the secret cannot be opened: the key with which it was sealed is missing, or the content is
    /// damaged.
    Sealed {
        /// The id.
        id: SecretId,
    },
    /// A user's secret without content.
    Empty,
    /// A key of a content is not valid, or its value is not in base64.
    BadContent {
        /// The key.
        key: String,
    },
    /// A charm owns the secret, so that users do not change it.
    OfCharm {
        /// The id.
        id: SecretId,
    },
    /// An application or unit that was named for a grant does not exist.
    UnknownReader {
        /// Its name.
        name: String,
    },
}

crate::terms::string_enum::string_enum! {
    /// What is limited.
    SecretLimit {
        /// Secrets of one owner.
        Secrets = "secrets",
        /// Revisions of one secret.
        Revisions = "revisions",
        /// Grants of one secret.
        Grants = "grants",
        /// Secrets that one unit reads.
        Consumed = "consumed",
        /// Bytes of a content.
        ContentBytes = "content-bytes",
        /// Bytes of a label or description.
        TextBytes = "text-bytes",
    }
}

impl SecretRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            SecretRefusal::NotFound { .. }
            | SecretRefusal::UnknownConsumerLabel { .. }
            | SecretRefusal::RevisionNotFound { .. }
            | SecretRefusal::UnknownReader { .. } => Code::NotFound,
            SecretRefusal::PermissionDenied | SecretRefusal::NotLeader { .. } => Code::Forbidden,
            SecretRefusal::LabelExists { .. } | SecretRefusal::Exists { .. } => Code::AlreadyExists,
            SecretRefusal::TooMany { .. }
            | SecretRefusal::NoRoom { .. }
            | SecretRefusal::Empty
            | SecretRefusal::OfCharm { .. }
            | SecretRefusal::BadContent { .. } => Code::Invalid,
            SecretRefusal::Sealed { .. } => Code::Busy,
        }
    }
}
