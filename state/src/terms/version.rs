//! The version of a member of a relation, as it was delivered to the hooks of another unit.

use serde::{Deserialize, Serialize};

/// Identity of a membership's content: a unit that left and came back is another incarnation; `counter` grows with
/// each effective write of its bag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version {
    pub incarnation: u64,
    pub counter: u64,
}
