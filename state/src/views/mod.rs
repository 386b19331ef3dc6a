//! The views that the controller sends to its agents and its provisioner: the full view of a unit or a machine, and the
//! delta of each revision (design 9); the machines of a model.
//!
//! Views are computed and never stored: they are functions of the documents at one revision, and applying all deltas to
//! a full view gives the full view at the last revision. Called by the watches and by the handlers of
//! agents and of the provisioner; the status of units and dry runs use the view of a unit, too.

pub mod decision_view;
pub mod delta;
pub mod dependencies;
pub mod desired_machines;
pub mod inline_settings;
mod machine_storage;
pub mod machine_view;
pub mod requested_bag;
pub mod secrets;
pub mod storage;
mod unit_view_reader;
pub mod view;
