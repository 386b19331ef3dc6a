//! The whole system in one thread from one seed (design 14): the production core, agent loop and controller handlers
//! on a simulated disk, network, clock, charms and users. Nothing here decides what the product would decide.
//!
//! Reading order: `world` (time, chance, who runs), `mix` (a seed's faults), `system` (one run); then the ports:
//! `disk`, `network`, `charms` with `script`, `clock`, `store`; `machine`, `provider` and `user` (who else acts); `checks` (the
//! promises) and `mutants` (the faults that each of them must see); `session` (many runs, as the command does them).

pub mod campaign;
pub mod charms;
pub mod checks;
pub mod clock;
pub mod disk;
pub mod faults;
pub mod fleet;
pub mod machine;
pub mod mutants;
pub mod network;
pub mod operator;
pub mod profile;
pub mod provider;
pub mod script;
pub mod shrink;
pub mod store;
pub mod system;
pub mod world;
