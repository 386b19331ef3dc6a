//! Refusals as tests compare them: the code and the reason.

use crate::documents::refusal::{Code, Refusal};
use crate::terms::refusal::{EntityKind, RefusalReason};

/// The code and the reason of a refusal.
pub fn refused<T: std::fmt::Debug>(answer: Result<T, Refusal>) -> (Code, RefusalReason) {
    let refusal = answer.expect_err("it is refused");
    (refusal.code(), *refusal.reason)
}

/// A refusal with its code, as [`refused`] returns it.
pub fn reason(reason: impl Into<RefusalReason>) -> (Code, RefusalReason) {
    let reason = reason.into();
    (reason.code(), reason)
}

/// The refusal because an entity does not exist.
pub fn not_found(kind: EntityKind, name: &str) -> (Code, RefusalReason) {
    reason(RefusalReason::NotFound { kind, name: name.to_owned() })
}
