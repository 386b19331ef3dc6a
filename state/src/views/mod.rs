//! What the controller shows its agents: the full view of a unit or a machine, and the delta of each revision (design 9).
//!
//! Views are read, never written: they are functions of the documents at one revision, so that the fold of all deltas
//! is the full view.

pub mod delta;
pub mod inline_settings;
pub mod view;
