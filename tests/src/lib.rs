//! What the tests share.

pub mod cases;
pub mod host;
pub mod scene;
pub mod sim;
pub mod story;
pub mod tool_cases;
