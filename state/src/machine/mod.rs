//! Machines: what a machine agent does about the units assigned to it (`plan`), and what a provider does about the
//! machines (`provision`).

pub mod plan;
pub mod provision;
