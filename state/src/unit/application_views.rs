//! What a view shows of the unit's application: its charm and its leader.

use crate::charm::Charm;
use crate::terms::names::UnitName;
use crate::terms::unit_documents::CharmDoc;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The charm of the unit's application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CharmView {
    /// Which charm it is.
    pub charm: CharmDoc,
    /// What the charm declares.
    pub declared: Arc<Charm>,
}

/// The leadership lease of the unit's application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaderView {
    /// The leader.
    pub holder: UnitName,
    /// The generation of the lease, which increases whenever the holder changes.
    pub generation: u64,
}
