//! Storage as the view of a unit shows it (spec/uniter.md A.13).

use crate::charm::StorageType;
use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

/// What a view shows of an instance that is attached to the unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StorageView {
    /// The instance.
    pub instance: Uuid,
    /// The kind.
    pub kind: StorageType,
    /// Where the unit finds it; none while the machine agent has not provided it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Whether the unit is to detach it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detaching: bool,
}
