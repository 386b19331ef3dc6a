//! Life: Alive, Dying, Dead.
//!
//! A life only moves forward. "Removed" is not a life: it is the absence of the document.

use serde::{Deserialize, Serialize};

/// The life of an entity. The order is the only direction in which it can change ("no such thing can
/// ever change to an earlier state").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// The entity exists and its removal was not requested.
    #[default]
    Alive,
    /// The removal of the entity was requested; its agent runs the last hooks.
    Dying,
    /// The last hooks have run; only the document and its leftovers have to be deleted.
    Dead,
}

impl Life {
    /// The later of two lives. Effective life is the latest of an entity's own life and the lives it is derived
    /// from (design 5).
    pub fn most_advanced(self, other: Life) -> Life {
        self.max(other)
    }

    /// Whether the life is Alive.
    pub fn is_alive(self) -> bool {
        self == Life::Alive
    }
}

impl std::fmt::Display for Life {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Life::Alive => "alive",
            Life::Dying => "dying",
            Life::Dead => "dead",
        })
    }
}
