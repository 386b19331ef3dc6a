//! Library shared by the integration tests: the simulator, the model checker, scripted cases, and drivers of the real
//! programs. No product crate depends on it.

pub mod cases;
pub mod crash_disk;
pub mod crash_scenarios;
pub mod host;
pub mod model_check;
pub mod scene;
pub mod sim;
pub mod tally_scenario;
pub mod terminal;
pub mod tool_cases;
