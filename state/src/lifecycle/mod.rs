//! The lifecycles of models, machines, applications, units and relations: added, destroyed, Dead, removed (spec E).
//!
//! Each function is a transition over a [`Draft`](crate::documents::draft::Draft). Applications, units, relations and
//! machines remove each other, so these four files import each other; no other files of this crate do.

pub mod application;
pub mod cleanup;
pub mod machine;
pub mod model;
pub mod relation;
pub mod unit;
