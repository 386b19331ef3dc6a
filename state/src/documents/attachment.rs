//! Whether an agent has attached for a unit: decided here alone.
//!
//! Until an agent has attached, the unit has had no visible effect and is removed without an agent. From then on the
//! unit needs its agent for its last hooks, until a forced removal acts for that agent. Transitions, views, statuses
//! and `why` match on [`Attachment`].

use crate::documents::document_reads::Documents;
use crate::documents::prelude::{Model, SessionDoc};
use crate::terms::names::Uuid;

/// Whether an agent has attached for a unit, or a forced removal has fenced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// No agent has attached.
    Never,
    /// An agent has attached: only an agent can finish the unit.
    Attached,
    /// A forced removal acts for the unit, and no agent can write any more.
    Fenced {
        /// Whether an agent had attached before.
        had_attached: bool,
    },
}

impl Attachment {
    /// That of the unit with this session; none if there is no session document.
    pub fn of(session: Option<&SessionDoc>) -> Attachment {
        match session {
            None => Attachment::Never,
            Some(session) if session.is_fenced() => {
                Attachment::Fenced { had_attached: session.granted.is_some() }
            }
            Some(_) => Attachment::Attached,
        }
    }

    /// Whether an agent of the unit has attached at any time.
    pub fn has_attached(self) -> bool {
        match self {
            Attachment::Never => false,
            Attachment::Attached => true,
            Attachment::Fenced { had_attached } => had_attached,
        }
    }
}

/// Returns the attachment of a unit.
pub fn attachment(documents: &mut impl Documents, model: Model, unit: Uuid) -> Attachment {
    Attachment::of(documents.document(&model.session(unit)).as_ref())
}
