//! The owner of a settings bag in a relation, or of a secret: a unit or an application.

use crate::terms::names::UnitName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whose settings bag or secret it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// One unit, whose charm writes the bag.
    Unit(UnitName),
    /// A whole application, whose leader writes the bag.
    Application(String),
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owner::Unit(unit) => write!(f, "unit \"{unit}\""),
            Owner::Application(name) => write!(f, "application \"{name}\""),
        }
    }
}
