//! The documents of tokens: the principal that holds each token, a user or an agent, and the tokens of each agent.
//!
//! They belong to no model: their keys are those of [`GLOBAL`](crate::documents::key::GLOBAL).

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

/// The holder of a token. The document is stored under the digest of the token; the token itself is never stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TokenHolder {
    /// A person.
    User {
        /// The name of the user.
        name: String,
        /// What the user may do.
        role: UserRole,
    },
    /// The agent of a machine.
    Machine {
        /// The machine's model.
        model: Model,
        /// The machine.
        machine: Uuid,
    },
    /// The agent of a unit.
    Unit {
        /// The unit's model.
        model: Model,
        /// The unit.
        unit: Uuid,
    },
    /// The holder of an enrolment token, which enrols one manually provisioned machine, once, before it expires.
    EnrollingMachine {
        /// The machine's model.
        model: Model,
        /// The machine.
        machine: Uuid,
        /// When the token expires, in milliseconds of the wall clock.
        expires_ms: i64,
    },
    /// The agent of a machine that was removed while the agent was unreachable. The token only permits fetching
    /// the removal and confirming it.
    RemovedMachine {
        /// The machine's model, which may be removed as well.
        model: Model,
        /// The machine.
        machine: Uuid,
    },
}

/// What a user may do. Each role includes the roles before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserRole {
    /// Read models.
    Read,
    /// Change models.
    Write,
    /// Create and destroy models; provision machines.
    Admin,
}

impl Model {
    /// The holder of the token with this digest.
    pub fn token(&self, sha256: &str) -> Key<TokenHolder> {
        self.key_by_name(Kind::Token, sha256)
    }
    /// The digest of the token of a unit or a machine, by which the token is found when it is revoked.
    pub fn token_digest(&self, entity: Uuid) -> Key<String> {
        self.key(Kind::TokenOf, &[entity])
    }
    /// The digest of the token of a removed machine whose agent has not confirmed the removal.
    pub fn retired_token_digest(&self, machine: Uuid) -> Key<String> {
        self.key(Kind::RetiredToken, &[machine])
    }
}
