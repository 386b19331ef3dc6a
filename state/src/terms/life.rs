//! Life: Alive, Dying, Dead, and the only ways forward. "Removed" is the absence of the record.

use serde::{Deserialize, Serialize};

/// The life of an entity. The order is the only direction it can move in (seed 001: "no such thing can ever
/// change to an earlier state").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    #[default]
    Alive,
    Dying,
    Dead,
}

impl Life {
    /// Effective life: the furthest of an entity's own life and the lives it is derived from (design 5).
    pub fn most_advanced(self, other: Life) -> Life {
        self.max(other)
    }

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
