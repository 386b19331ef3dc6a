//! The text that a failed tool case prints: the expected and the actual value.

/// Describes the difference between the expected and the actual `what`.
pub fn difference(what: &str, expected: impl std::fmt::Debug, actual: impl std::fmt::Debug) -> String {
    format!("  {what}: expected {expected:?}\n  {:1$}  actual   {actual:?}", "", what.len())
}
