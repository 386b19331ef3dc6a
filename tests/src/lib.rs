//! What the tests share.

pub mod cases;
pub mod sim;
pub mod tool_cases;
pub mod host;
