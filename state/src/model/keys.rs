//! All documents and their keys, to import from one place. The documents are in `documents`, one file per noun; what all
//! keys have in common is in `key`.

pub use super::documents::action::*;
pub use super::documents::application::*;
pub use super::documents::log::*;
pub use super::documents::machine::*;
pub use super::documents::model::*;
pub use super::documents::principal::*;
pub use super::documents::relation::*;
pub(super) use super::documents::relation::{key_text, line_of};
pub use super::documents::removal::*;
pub use super::documents::status::*;
pub use super::documents::unit::*;
pub use super::key::*;
