//! Documents of the principals that may call the controller, users and agents: the holder of each token. They belong
//! to no model.

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
    /// An enrolment token: it enrols one manually provisioned machine, once, until it expires.
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
    /// The holder of the token with this digest. Under [`GLOBAL`](crate::documents::key::GLOBAL).
    pub fn token(&self, sha256: &str) -> Key<TokenHolder> {
        self.key_by_name(Kind::Token, sha256)
    }
    /// The digest of the token of a unit or a machine, with which the token is revoked. Under
    /// [`GLOBAL`](crate::documents::key::GLOBAL).
    pub fn token_of(&self, entity: Uuid) -> Key<String> {
        self.key(Kind::TokenOf, &[entity])
    }
    /// The digest of the token of a removed machine whose agent has not confirmed the removal. Under
    /// [`GLOBAL`](crate::documents::key::GLOBAL).
    pub fn retired_token(&self, machine: Uuid) -> Key<String> {
        self.key(Kind::RetiredToken, &[machine])
    }
}
