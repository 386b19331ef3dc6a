//! A position in a store: which store generation, and which revision in it.
//!
//! A bare revision means nothing after a store was restored from a backup (design, "Identity").

use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

/// A place in a store's history. A bare revision means nothing after a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    pub store_generation: Uuid,
    pub revision: u64,
}
