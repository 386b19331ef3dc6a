//! Who may call the controller: tokens, stored under their hash. They belong to no model.

use crate::documents::draft::Key;
use crate::documents::key::{Kind, Model};
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

/// Whose a token is. Stored under the token's hash, never under the token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TokenHolder {
    User {
        name: String,
        role: UserRole,
    },
    Machine {
        model: Model,
        machine: Uuid,
    },
    Unit {
        model: Model,
        unit: Uuid,
    },
    /// Who may introduce a machine that a person brings, once, and not later than this.
    EnrollingMachine {
        model: Model,
        machine: Uuid,
        expires_ms: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UserRole {
    Read,
    Write,
    Admin,
}

impl Model {
    /// Under [`GLOBAL`].
    pub fn token(&self, sha256: &str) -> Key<TokenHolder> {
        self.named(Kind::Token, sha256)
    }
    /// Under [`GLOBAL`]: which token a unit or machine has, to revoke it: entity -> hash.
    pub fn token_of(&self, entity: Uuid) -> Key<String> {
        self.key(Kind::TokenOf, &[entity])
    }
}
