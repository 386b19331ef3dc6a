//! Why a transition did not happen. Nothing was changed; the text is for people, the code for programs (design 15).

use super::keys::Model;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    NotFound,
    AlreadyExists,
    /// What it would refer to is Dying or Dead (I21).
    NotAlive,
    Invalid,
    /// Something else must go first: see the blockers.
    Busy,
    Ambiguous,
    Forbidden,
    /// A newer agent has attached: this one is a copy (design 6).
    Fenced,
    /// This sequence was applied with another content (design 4).
    Forked,
    /// Records before this one are missing.
    Gap {
        expected: u64,
    },
    /// The unit is gone for good: positive evidence (design 7).
    Removed,
}

/// What holds an entity that is on its way out: who owes what. Computed, never stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocker {
    /// What blocks: `unit web/0`.
    pub entity: String,
    /// What has to happen to it.
    pub duty: String,
    /// Whose duty that is: `the agent of unit web/0`.
    pub owner: String,
    /// Wall clock in milliseconds: since when its owner is held up. None: no document says.
    pub since_ms: Option<i64>,
    /// The failure its owner is held up by.
    pub last_error: Option<String>,
    /// What a person can do.
    pub help: String,
}

/// A transition that is not allowed (style 1.10: what cannot be done, and what to do).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
    pub blockers: Vec<Blocker>,
    /// Where the blockers are: whoever answers knows since when they are owed. Not spoken; boxed, since every
    /// answer has room for a refusal.
    #[serde(skip)]
    pub model: Option<Box<Model>>,
}

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), hint: None, blockers: Vec::new(), model: None }
    }

    pub fn not_found(kind: &str, name: impl fmt::Display) -> Refusal {
        Refusal::new(Code::NotFound, format!("{kind} {name} not found"))
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    pub fn blockers(mut self, model: Model, blockers: Vec<Blocker>) -> Refusal {
        (self.model, self.blockers) = (Some(Box::new(model)), blockers);
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
