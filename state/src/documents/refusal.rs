//! Refusals: why a transition is not allowed, and what has to happen first.
//!
//! A refused transition changes nothing. The reason is a type ([`RefusalReason`]); its code and, in
//! `api::text::refusal`, its English follow from it (design 15).

use crate::documents::prelude::Model;
use crate::terms::cause::Cause;
use crate::terms::refusal::{EntityKind, RefusalReason};
use std::fmt;

pub use crate::terms::refusal::code::Code;

/// The answer of a transition that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why it is not allowed. It is boxed, so that the result of a transition stays small.
    pub reason: Box<RefusalReason>,
    /// What has to happen first.
    pub blockers: Vec<Cause>,
    /// The model of the blockers. The controller needs it to add the times at which the waits began.
    pub model: Option<Box<Model>>,
}

impl Refusal {
    /// A refusal without blockers.
    pub fn new(reason: impl Into<RefusalReason>) -> Refusal {
        Refusal { reason: Box::new(reason.into()), blockers: Vec::new(), model: None }
    }

    /// A refusal because an entity does not exist. `name` is its name, number or uuid.
    pub fn not_found(kind: EntityKind, name: impl fmt::Display) -> Refusal {
        Refusal::new(RefusalReason::NotFound { kind, name: name.to_string() })
    }

    /// The kind of refusal.
    pub fn code(&self) -> Code {
        self.reason.code()
    }

    /// This refusal with what has to happen first.
    pub fn blockers(mut self, model: Model, blockers: Vec<Cause>) -> Refusal {
        (self.model, self.blockers) = (Some(Box::new(model)), blockers);
        self
    }
}

impl<R: Into<RefusalReason>> From<R> for Refusal {
    fn from(reason: R) -> Refusal {
        Refusal::new(reason)
    }
}
