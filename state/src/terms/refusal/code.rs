//! The code of a refusal, on which programs decide.
//!
//! It follows from the reason: each enum of reasons has one match that gives the code of every variant.

/// The kind of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The entity does not exist.
    NotFound,
    /// The charm has no action of this name.
    UnknownAction,
    /// The name is taken.
    AlreadyExists,
    /// An entity that the request refers to is Dying or Dead (I21).
    NotAlive,
    /// The input is invalid.
    Invalid,
    /// Another entity must be removed or changed first; see the blockers.
    Busy,
    /// The request matches more than one entity.
    Ambiguous,
    /// The caller may not do this.
    Forbidden,
    /// A newer agent has attached: the caller is a copy (design 6).
    Fenced,
    /// A record with this sequence number and other content was applied before (design 4).
    Forked,
    /// The records before this one are missing.
    Gap {
        /// The sequence number that the controller needs next.
        expected: u64,
    },
    /// The unit was removed, which a tombstone proves (design 7).
    Removed,
}
