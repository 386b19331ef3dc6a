//! The units of a machine, as the controller sends them to its agent: which are assigned to it, and which others exist.

use crate::terms::life::Life;
use crate::terms::names::UnitName;
use serde::{Deserialize, Serialize};

/// A unit that is assigned to a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Assigned {
    /// The name of the unit.
    pub name: UnitName,
    /// The effective life. Dead: its agent has finished and is to be recalled.
    pub life: Life,
}

/// What the store has about the UUID of an entity (design 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Existence {
    /// It exists, with this life; for units and relations the effective life.
    Known(Life),
    /// It was removed, in this store generation. This is positive evidence.
    Tombstone,
    /// Nothing is recorded about it. This is never a reason to tear anything down.
    Unknown,
}
