//! Decisions about machines: which folder belongs to which unit (`claims`), what a machine agent does about the units of
//! its machine (`plan`) and its storage (`storage`), and what the provisioner does about the machines of a model (`provision`).

pub mod claims;
pub mod plan;
pub mod provision;
pub mod storage;
