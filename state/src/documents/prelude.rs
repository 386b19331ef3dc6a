//! Re-exports of all documents and their keys, to import from one place.
//!
//! The documents are in `documents`, one file per noun; what all keys have in common is in `key`.

pub use crate::documents::action::*;
pub use crate::documents::application::*;
pub use crate::documents::key::*;
pub use crate::documents::log::*;
pub use crate::documents::machine::*;
pub use crate::documents::model::*;
pub(crate) use crate::documents::relation::first_relation_of;
pub use crate::documents::relation::*;
pub use crate::documents::removal::*;
pub use crate::documents::secret::*;
pub use crate::documents::status::*;
pub use crate::documents::storage::*;
pub use crate::documents::token_holder::*;
pub use crate::documents::unit::*;
pub use crate::terms::unit_documents::*;
