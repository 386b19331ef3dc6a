//! Why entities wait.

pub mod non_removal_causes;
