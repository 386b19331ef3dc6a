//! The shape of every stored document, one file per noun, each with the keys that name it. Imported through `keys`.

pub mod action;
pub mod application;
pub mod log;
pub mod machine;
pub mod model;
pub mod principal;
pub mod relation;
pub mod removal;
pub mod status;
pub mod unit;
