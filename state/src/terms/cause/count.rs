//! A number of entities that an answer does not list.

use serde::{Deserialize, Serialize};

/// A number of entities, counted up to a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Count {
    /// The number of entities counted.
    pub number: usize,
    /// Whether there are more entities than counted.
    pub more: bool,
}

impl From<usize> for Count {
    fn from(number: usize) -> Count {
        Count { number, more: false }
    }
}
