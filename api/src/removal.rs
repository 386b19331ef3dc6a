//! The simulation of a removal (`--dry-run`).

use crate::force::Force;
use crate::relations::RelationChoice;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::cause::Cause;
use state::terms::names::UnitName;

requests! { RemovalRequests {
    DryRunRemoval = post "/v1/models/{model}/dry-run-removal", Reader => DryRunResponse;
} }

/// Simulates the removal of these entities together; nothing is changed. Fails as the removal itself would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DryRunRemoval {
    /// The entities, at most [`DRY_RUN_TARGETS_MAX`].
    pub removed: Vec<RemovalTarget>,
    /// Whether they would be removed by force.
    #[serde(default)]
    pub force: Force,
}

/// An entity to remove, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RemovalTarget {
    /// A unit.
    Unit(String),
    /// An application.
    Application(String),
    /// A relation.
    Relation(RelationChoice),
    /// A machine.
    Machine(String),
}

/// The most entities of one simulation: each of them may be a whole application.
pub const DRY_RUN_TARGETS_MAX: usize = 20;

/// The result of a removal if every hook succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DryRunResponse {
    /// What is removed with the request itself: `unit web/0`.
    pub at_once: Vec<String>,
    /// What becomes Dying with it.
    pub dying: Vec<String>,
    /// The hooks that would run, in order.
    pub hooks: Vec<ExpectedHook>,
    /// The hooks of units that force removes immediately: they run only if their agents start them before that.
    #[serde(default)]
    pub left_out: Vec<ExpectedHook>,
    /// What is removed once all these hooks have succeeded.
    pub gone: Vec<String>,
    /// What would block the rest.
    pub blocked: Vec<Cause>,
    /// Whether the result is truncated.
    #[serde(default)]
    pub more: bool,
}

/// A hook that would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectedHook {
    /// The unit.
    pub unit: UnitName,
    /// The hook: `db-relation-departed db:1 db/0 departing=web/0`.
    pub hook: String,
}
