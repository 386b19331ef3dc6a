//! The inputs from which the view of a unit is computed: the documents at one revision, and the unit.
//!
//! Each part of the view is an `impl` of [`UnitViewReader`] in a file of its own (`view`, `secrets`, `storage`).

use crate::documents::draft::Reader;
use crate::documents::prelude::{Model, UnitDoc};
use crate::terms::names::Uuid;

/// Computes the parts of the view of one unit. It contains only what the unit may see (I31).
pub(crate) struct UnitViewReader<'a> {
    /// The documents at one revision.
    pub reader: &'a dyn Reader,
    pub model: Model,
    /// The viewing unit.
    pub unit: Uuid,
    /// The document of the viewing unit.
    pub doc: &'a UnitDoc,
}
