//! The identity of a state: states that no decision can distinguish are equal.

use super::documents::MODEL;
use super::steps::State;
use sha2::{Digest, Sha256};
use state::unit::local::{Local, Step};

impl State {
    /// Returns the identity of a state. Two states are equal if no decision can distinguish them: run counters and
    /// displayed statuses affect no decision, and a replica follows from the unit's local state.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        let own = MODEL.0.to_string().len() + 1;
        for (key, value) in &self.documents.0 {
            if key
                .get(own..)
                .is_some_and(|rest| KINDS_WITHOUT_EFFECT.iter().any(|kind| rest.starts_with(kind)))
            {
                continue;
            }
            digest.update(key.as_bytes());
            digest.update([0]);
            digest.update(value.as_bytes());
            digest.update([0]);
        }
        for (_, local) in &self.agents {
            digest.update(serde_json::to_vec(&local.as_ref().map(without_counters)).expect("plain data"));
        }
        digest.update(format!("{:?} {}", self.user_requests, self.crash));
        digest.finalize().into()
    }
}

/// Documents that affect no transition, view or agent decision of this model.
const KINDS_WITHOUT_EFFECT: &[&str] =
    &["replica/", "unit-status/", "agent-status/", "application-status/", "log/", "sequence/"];

/// Returns the local state without its counters of runs and records.
fn without_counters(local: &Local) -> Local {
    let mut local = local.clone();
    (local.sequence, local.run, local.digest) = (0, 0, String::new());
    if let Step::Started(run) = &mut local.step {
        run.number = 0;
    }
    for record in &mut local.outbox {
        (record.sequence, record.run) = (0, 0);
    }
    local
}
