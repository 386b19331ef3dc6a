//! Decisions about machines: what a machine agent does about the units assigned to it (`plan`), and what a
//! provider does about the machines of a model (`provision`).

/// Which units a machine agent deploys, recalls and reports as removed.
pub mod plan;
/// Which instances a provisioner creates and terminates.
pub mod provision;
