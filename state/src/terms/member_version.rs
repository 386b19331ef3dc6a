//! The version of a member of a relation, as it was delivered to the hooks of another unit.

use serde::{Deserialize, Serialize};

/// Identifies the content of a membership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemberVersion {
    /// Which entry of the unit into the scope: a unit that left and returned has another incarnation.
    pub incarnation: u64,
    /// Incremented by each effective write of the member's bag.
    pub counter: u64,
}
