//! The shape of every stored document, one file per noun, each with the keys that name it. Imported through `keys`.

mod action;
mod application;
mod log;
mod machine;
mod model;
mod principal;
mod relation;
mod removal;
mod status;
mod unit;

pub use action::*;
pub use application::*;
pub use log::*;
pub use machine::*;
pub use model::*;
pub use principal::*;
pub use relation::*;
pub(super) use relation::{key_text, line_of};
pub use removal::*;
pub use status::*;
pub use unit::*;
