//! What removals have in common: force, and the simulation of a removal (`--dry-run`).

use crate::relations::RelationChoice;
use crate::request::requests;
use serde::{Deserialize, Serialize};
use state::terms::cause::Cause;
use state::terms::names::UnitName;

requests! { RemovalRequests {
    DryRunRemoval = post "/v1/models/{model}/dry-run-removal", Reader => Forecast;
} }

/// What removing all of these together would come to; nothing is changed. A refusal is the removal's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRunRemoval {
    /// At most [`DRY_RUN_TARGETS_MAX`].
    pub removed: Vec<RemovalTarget>,
    #[serde(default)]
    pub force: Force,
}

/// How long what is removed has for going by itself, before the controller does what its agents owe (spec E.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Force {
    /// As long as it takes.
    #[default]
    No,
    /// A minute: `--force`.
    AfterWait,
    /// No time: `--force --no-wait`.
    AtOnce,
}

impl Force {
    /// `no_wait` says nothing by itself.
    pub fn of(force: bool, no_wait: bool) -> Force {
        match (force, no_wait) {
            (false, _) => Force::No,
            (true, false) => Force::AfterWait,
            (true, true) => Force::AtOnce,
        }
    }
}

/// What is to be removed, as a person names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemovalTarget {
    Unit(String),
    Application(String),
    Relation(RelationChoice),
    Machine(String),
}

/// Removals that are foretold together: each of them may be a whole application's.
pub const DRY_RUN_TARGETS_MAX: usize = 20;

/// What a removal would come to if every hook succeeded; nothing was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    /// Gone with the removal itself: `unit web/0`.
    pub at_once: Vec<String>,
    /// Dying with it.
    pub dying: Vec<String>,
    /// In the order in which they would run.
    pub hooks: Vec<ExpectedHook>,
    /// Those of units that force removes at once: they run only if their agents are quicker.
    #[serde(default)]
    pub left_out: Vec<ExpectedHook>,
    /// Gone once all these hooks have succeeded.
    pub gone: Vec<String>,
    /// What would hold up the rest.
    pub blocked: Vec<Cause>,
    /// There is more of these than a forecast looks at.
    #[serde(default)]
    pub more: bool,
}

/// A hook that would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpectedHook {
    pub unit: UnitName,
    /// `db-relation-departed db:1 db/0 departing=web/0`.
    pub hook: String,
}
