//! Why a transition did not happen. Nothing was changed; the text is for people, the code for programs (design 15).

use crate::documents::keys::Model;
use crate::terms::cause::Cause;
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

/// A transition that is not allowed (style 1.10: what cannot be done, and what to do).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub code: Code,
    pub message: String,
    pub hint: Option<String>,
    /// What has to happen first.
    pub blockers: Vec<Cause>,
    /// The model of the blockers, for the controller, which adds since when they wait. Not sent; boxed, since every
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

    pub fn blockers(mut self, model: Model, blockers: Vec<Cause>) -> Refusal {
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
