//! `cargo chaos`: a real etcd, several controllers and units that pass balls to each other, while processes are killed,
//! stopped and cut off. In the end no pass may be lost or done twice.
//!
//! [`plan`] draws all faults from a seed before the run. [`run`] starts the system, carries the plan out, measures each
//! second whether a user is answered ([`probes`]), and compares what the units have written with what must be there
//! ([`check`]).

pub mod check;
pub mod plan;
pub mod probes;
pub mod run;
pub mod system;
