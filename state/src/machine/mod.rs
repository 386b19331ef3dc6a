//! The machine agent: assigned and deployed units, and what to do about the difference.

pub mod plan;
