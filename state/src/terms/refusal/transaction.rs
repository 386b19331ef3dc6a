//! Why a transaction is not committed: it exceeds a bound of the store (design 5).

use crate::terms::refusal::code::Code;
use serde::{Deserialize, Serialize};

/// A transaction that exceeds a bound: a bug of the transition, or input that the caller should have bounded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TransactionRefusal {
    /// It reads too much.
    TooManyReads {
        /// The number of its reads.
        count: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// It writes too many documents.
    TooManyWrites {
        /// The number of its writes.
        count: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// What it writes is too large.
    TooLarge {
        /// The bytes of its keys and documents, or of its request to etcd, which also has the keys of what it has read.
        bytes: usize,
        /// The most bytes that are allowed.
        max: usize,
    },
}

impl TransactionRefusal {
    /// The code of this refusal.
    pub fn code(&self) -> Code {
        match self {
            TransactionRefusal::TooManyReads { .. }
            | TransactionRefusal::TooManyWrites { .. }
            | TransactionRefusal::TooLarge { .. } => Code::Invalid,
        }
    }
}
