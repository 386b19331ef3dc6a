//! A position in a store: which store generation, and which revision in it.
//!
//! A bare revision means nothing after a store was restored from a backup (design, "Identity").

use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

/// A revision of one store generation. A bare revision means nothing after a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Position {
    /// The generation of the store. A restored backup starts a new one.
    pub store_generation: Uuid,
    /// The number of the commit within the store.
    pub revision: u64,
}
