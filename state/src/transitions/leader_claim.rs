//! The requests of a unit agent about the leadership of its application (design 13): to claim, renew or release it.
//!
//! Only the newest session of a unit may send them. What a claim changes is in `lifecycle::leadership`. Called by the
//! unit agent's handlers.

use crate::agents::session::{self, AgentSession};
use crate::documents::draft::Draft;
use crate::documents::refusal::Refusal;
use crate::lifecycle::leadership::{self, GrantedLease};

/// Claims or renews the leadership for the unit of a session ([`leadership::claim`]), or releases it. Returns what was
/// granted; none if another unit is the leader, and after a release.
///
/// # Errors
/// If a newer agent has attached, or the unit is Dead.
pub fn answer(
    draft: &mut Draft,
    session: AgentSession,
    release: bool,
    may_take_over: bool,
) -> Result<Option<GrantedLease>, Refusal> {
    session::check_epoch(draft, session)?;
    let AgentSession { model, unit, .. } = session;
    if release {
        leadership::release(draft, model, unit);
        return Ok(None);
    }
    leadership::claim(draft, model, unit, may_take_over)
}

/// Requires that a unit may claim leadership, before its lease is touched that the store keeps. Changes nothing.
///
/// # Errors
/// As [`answer`].
pub fn require_claimant(draft: &mut Draft, session: AgentSession) -> Result<(), Refusal> {
    session::check_epoch(draft, session)?;
    leadership::require_not_dead(draft, session.model, session.unit).map(drop)
}
