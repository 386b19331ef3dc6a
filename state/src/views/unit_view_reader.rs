//! What the parts of a unit's view are computed from: each part is an `impl` of [`UnitViewReader`] in a file of its own
//! (`view`, `secrets`, `storage`).

use crate::documents::draft::Reader;
use crate::documents::prelude::{Model, UnitDoc};
use crate::terms::names::Uuid;

/// Reads the documents as one unit may see them.
pub(crate) struct UnitViewReader<'a> {
    /// The documents at one revision.
    pub reader: &'a dyn Reader,
    pub model: Model,
    /// The viewing unit.
    pub unit: Uuid,
    /// The document of the viewing unit.
    pub doc: &'a UnitDoc,
}
