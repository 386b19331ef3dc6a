//! Simulator of the whole system: one thread, one seed, virtual time (design 14).
//!
//! It runs the production core, the production agent loop and the production controller handlers on a simulated
//! disk, network, clock, provider, charms and operators. It must not decide anything that the product decides.
//!
//! Reading order: `random`, `world` and `world/tasks` (time, chance, scheduling), `fact` (what the checks observe),
//! `profile` (the faults of a seed), `system` (one schedule); then the ports: `disk`, `network`, `charms` with `script`
//! and `secret_script`, `clock`, `store`; then the other actors: `machine`, `fleet`, `provider`, `operator`; then
//! `checks` (the properties) and `mutants` (the faults that the checks must detect); last `campaign`, which runs many
//! seeds for `cargo sim`, and `shrink`, which simplifies one that fails.

pub mod campaign;
pub mod charms;
pub mod checks;
pub mod clock;
pub mod disk;
pub mod fact;
pub mod faults;
pub mod fleet;
pub mod identities;
pub mod machine;
pub mod mutants;
pub mod network;
pub mod operator;
pub mod profile;
pub mod provider;
pub mod random;
pub mod script;
pub mod secret_script;
pub mod shrink;
pub mod store;
pub mod system;
pub mod world;
