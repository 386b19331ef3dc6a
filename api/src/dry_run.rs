//! The simulation of a removal (`--dry-run`).

use crate::relations::RelationChoice;
use crate::request::requests;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::terms::force::Force;
use state::terms::names::UnitName;

pub use state::transitions::dry_run::{DryRun, ExpectedHook};

requests! { DryRunRequests {
    DryRunRemoval = post "/v1/models/{model}/dry-run-removal", Reader => DryRun;
} }

/// Simulates the removal of these entities together; nothing is changed. Fails as the removal itself would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DryRunRemoval {
    /// The entities, at most [`DRY_RUN_TARGETS_MAX`].
    pub removed: Vec<RemovalTarget>,
    /// Whether they would be removed by force.
    #[serde(default)]
    pub force: Force,
}

/// An entity to remove, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum RemovalTarget {
    /// A unit.
    Unit(UnitName),
    /// An application.
    Application(String),
    /// A relation.
    Relation(RelationChoice),
    /// A machine.
    Machine(String),
}

/// The most entities of one simulation: each of them may be a whole application.
pub const DRY_RUN_TARGETS_MAX: usize = state::transitions::dry_run::TARGETS_MAX;
