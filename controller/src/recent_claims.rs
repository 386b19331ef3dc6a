//! The claims of leadership that were decided since the last commit.
//!
//! An idle unit agent repeats its claim every 15 s, also while nothing is committed. A claim that changes nothing depends
//! on documents only, so until the next commit its answer is the same, and the store need not be read again, which costs
//! two threads a wake-up each. Whether a lease has expired depends on the time and is not kept here. Used by the handler
//! of `Claim`, which holds the lock of the lease when it looks an answer up: see the race described in `leases`.

use state::agents::session::AgentSession;
use state::documents::draft::Revision;
use state::lifecycle::leadership::GrantedLease;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// What was decided about the claim of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedClaim {
    /// The application of the unit.
    pub application: Uuid,
    /// What the claim is granted without a change of the store; none if another unit is the leader.
    pub lease: Option<GrantedLease>,
}

/// What was decided, by unit, with the epoch of the session.
type DecidedByUnit = BTreeMap<Uuid, (u64, DecidedClaim)>;

/// The claims that were decided since the last commit.
#[derive(Default)]
pub struct RecentClaims(Mutex<(Revision, DecidedByUnit)>);

impl RecentClaims {
    /// Returns what was decided about the claim of a session since `newest` was committed.
    pub fn decided(&self, session: AgentSession, newest: Revision) -> Option<DecidedClaim> {
        let recent = self.0.lock().expect("no holder panics");
        let (epoch, decided) = recent.1.get(&session.unit).filter(|_| recent.0 == newest)?;
        (*epoch == session.epoch).then_some(*decided)
    }

    /// Records what was decided from documents of `newest` or later.
    pub fn insert(&self, session: AgentSession, decided: DecidedClaim, newest: Revision) {
        let mut recent = self.0.lock().expect("no holder panics");
        if recent.0 != newest {
            *recent = (newest, BTreeMap::new());
        }
        recent.1.insert(session.unit, (session.epoch, decided));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::documents::prelude::GLOBAL;

    #[test]
    fn a_claim_is_decided_again_after_each_commit_and_for_each_session() {
        let (recent, decided) = (RecentClaims::default(), DecidedClaim { application: Uuid(9), lease: None });
        let session = |epoch| AgentSession { model: GLOBAL, unit: Uuid(1), epoch, store_generation: Uuid(7) };
        recent.insert(session(3), decided, 5);
        assert_eq!(recent.decided(session(3), 5), Some(decided));
        assert_eq!((recent.decided(session(3), 6), recent.decided(session(4), 5)), (None, None));
        recent.insert(AgentSession { unit: Uuid(2), ..session(3) }, decided, 6);
        assert_eq!(recent.decided(session(3), 6), None);
    }
}
