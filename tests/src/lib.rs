//! Library shared by the integration tests: the simulator, the model checker, scripted cases, the chaos run, and drivers of the real
//! programs. No product crate depends on it.

pub mod cases;
pub mod chaos;
pub mod crash_disk;
pub mod folder_operations;
pub mod host;
pub mod memory_unit;
pub mod model_check;
pub mod process_usage;
pub mod scene;
pub mod sim;
pub mod swarm;
pub mod tally;
pub mod terminal;
pub mod tool_cases;
