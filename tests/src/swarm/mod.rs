//! A load generator: thousands of unit agents in one process, against a real `pintle-controller` with SQLite.
//!
//! Each agent is the production loop over a unit in memory (`memory_unit`). It speaks the real protocol over real TLS with a
//! client of its own, as the process of a real agent has: one connection for its watch and one for its requests. Ten units
//! share a simulated machine, which has an address of its own. Machine agents do not run: `fleet` sends the requests with
//! which they give units their tokens and remove dead ones. The load generator never decides for the product and never
//! writes to the store; after the controller was stopped it reads the store to show that no record was lost.
//!
//! Reading order: `controller_process` (starts, kills and measures the controller), `link` (what an agent sends, counted),
//! `charm` (what the units run), `fleet` (machines and units), `scenario` (what `cargo swarm` measures).

pub mod charm;
pub mod controller_process;
pub mod fleet;
pub mod link;
pub mod scenario;
