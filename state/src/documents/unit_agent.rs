//! Whether an agent has attached for a unit: decided here alone.
//!
//! Until an agent has attached, the unit has had no visible effect and is removed without an agent. From then on the
//! unit needs its agent for its last hooks, until a forced removal acts for that agent. Transitions, views, statuses
//! and `why` match on [`UnitAgent`].

use crate::documents::document_reads::Documents;
use crate::documents::prelude::{Model, SessionDoc};
use crate::terms::names::Uuid;

/// What has acted for a unit so far, as far as the store knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitAgent {
    /// No agent has attached.
    NeverAttached,
    /// An agent has attached: only an agent can finish the unit.
    Attached,
    /// A forced removal acts for the unit, and no agent can write any more.
    ActedForByForce {
        /// Whether an agent had attached before.
        had_attached: bool,
    },
}

impl UnitAgent {
    /// The agent of the unit with this session; none if there is no session document.
    pub fn of(session: Option<&SessionDoc>) -> UnitAgent {
        match session {
            None => UnitAgent::NeverAttached,
            Some(session) if session.is_fenced() => {
                UnitAgent::ActedForByForce { had_attached: session.granted.is_some() }
            }
            Some(_) => UnitAgent::Attached,
        }
    }

    /// Whether an agent of the unit has attached at any time.
    pub fn has_attached(self) -> bool {
        match self {
            UnitAgent::NeverAttached => false,
            UnitAgent::Attached => true,
            UnitAgent::ActedForByForce { had_attached } => had_attached,
        }
    }
}

/// What has acted for a unit.
pub fn unit_agent(documents: &mut impl Documents, model: Model, unit: Uuid) -> UnitAgent {
    UnitAgent::of(documents.document(&model.session(unit)).as_ref())
}
