//! Refusals: why a transition is not allowed.
//!
//! A refused transition has changed nothing. The message and the hint are for people; the code is for programs
//! (design 15).

use crate::documents::prelude::Model;
use crate::terms::cause::Cause;
use crate::terms::names::InvalidName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The entity does not exist.
    NotFound,
    /// The name is taken.
    AlreadyExists,
    /// An entity that the request refers to is Dying or Dead (I21).
    NotAlive,
    /// The input is invalid.
    Invalid,
    /// Another entity must be removed or changed first; see the blockers.
    Busy,
    /// The request matches more than one entity.
    Ambiguous,
    /// The caller may not do this.
    Forbidden,
    /// A newer agent has attached: the caller is a copy (design 6).
    Fenced,
    /// A record with this sequence number and other content was applied before (design 4).
    Forked,
    /// The records before this one are missing.
    Gap {
        /// The sequence number that the controller needs next.
        expected: u64,
    },
    /// The unit was removed, which a tombstone proves (design 7).
    Removed,
}

/// A transition that is not allowed, and what to do instead (style 1.10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The kind of refusal.
    pub code: Code,
    /// What is not possible, and why.
    pub message: String,
    /// A command or a change that helps.
    pub hint: Option<String>,
    /// What has to happen first.
    pub blockers: Vec<Cause>,
    /// The model of the blockers. The controller needs it to add since when they wait; it is not sent. It is
    /// boxed because every answer has room for a refusal.
    #[serde(skip)]
    pub model: Option<Box<Model>>,
}

impl From<InvalidName> for Refusal {
    fn from(InvalidName { message, hint }: InvalidName) -> Refusal {
        Refusal::new(Code::Invalid, message).hint(hint)
    }
}

impl Refusal {
    /// A refusal without a hint and without blockers.
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), hint: None, blockers: Vec::new(), model: None }
    }

    /// A refusal because the entity does not exist: `unit web/7 not found`.
    pub fn not_found(kind: &str, name: impl fmt::Display) -> Refusal {
        Refusal::new(Code::NotFound, format!("{kind} {name} not found"))
    }

    /// This refusal with a command or a change that helps.
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }

    /// This refusal with what has to happen first.
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
