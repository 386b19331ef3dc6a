//! A position in a store: a store generation and a revision in it. Also the answer of a transition with the revision of
//! its commit.
//!
//! A bare revision means nothing after a store was restored from a backup (design, "Identity"). The store returns
//! [`Committed`], and the API transmits it as it is.

use crate::terms::names::Uuid;
use serde::{Deserialize, Serialize};

/// A revision of one store generation. A bare revision means nothing after a restore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Position {
    /// The generation of the store. A restored backup starts a new one.
    pub store_generation: Uuid,
    /// The number of the commit within the store.
    pub revision: u64,
}

/// The result of a transition that was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Committed{A}"))]
pub struct Committed<A> {
    /// The value that the transition returned.
    pub answer: A,
    /// The revision of the commit; if the transition wrote nothing, the revision that it read.
    pub revision: u64,
}

impl<A> Committed<A> {
    /// The same commit with another answer.
    pub fn map<B>(self, other: impl FnOnce(A) -> B) -> Committed<B> {
        Committed { answer: other(self.answer), revision: self.revision }
    }
}
