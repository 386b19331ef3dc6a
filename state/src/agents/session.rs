//! Agent sessions: which agent may write for a unit (design 6, I34).
//!
//! Each agent that attaches gets a higher epoch, and every request of an older epoch is refused, so two agents
//! never write for one unit. Called by the unit agent's handlers and by every transition that a unit agent
//! requests.

use crate::agents::own_bags::insert_own_bags;
use crate::agents::record_bounds::require_identifier;
use crate::agents::record_validation::{NUMBER_MAX, SESSIONS_LOST_MAX};
use crate::documents::draft::Draft;
use crate::documents::prelude::{Model, SessionDoc, SessionOrigin, UnitDoc};
use crate::documents::refusal::Refusal;
use crate::lifecycle::unit::resume_teardown;
use crate::terms::names::Uuid;
use crate::terms::refusal::session::SessionRefusal;
use crate::unit::local::Local;
use serde::{Deserialize, Serialize};

/// The number of nonces of first attaches that are stored for one unit. The folder of a unit is lost and created
/// again a few times at most, and no request is delayed for longer than that takes.
const FIRST_ATTACHES_KEPT: usize = 8;

/// Starts a session: increments the epoch of the unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Attach {
    /// A nonce that is stored in the journal before it is sent: the same nonce gets the same epoch again.
    pub nonce: Uuid,
    /// The last epoch of this agent's folder; 0 if it never had a session. With it the controller distinguishes a
    /// copy of an agent from a new one.
    pub epoch: u64,
    /// The store generation that granted this epoch: two generations may grant the same epoch. None only with epoch 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_generation: Option<Uuid>,
    /// Whether the unit has started to end ([`Local::has_started_teardown`]). After a restore the unit may be Alive again in
    /// the store; the first attach then sets it Dying, and only that one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub teardown_started: bool,
    /// The boot id of the unit's machine; empty if it is not known. After a reboot the unit runs start again, which its
    /// replica cannot show. No document has it: controllers that share a store
    /// state it, and one with a database keeps it in memory.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
}

impl Attach {
    /// Refuses an attach that no correct agent sends, whatever the store contains.
    ///
    /// # Errors
    /// If the boot id exceeds the bound of an identifier.
    pub fn validate(&self) -> Result<(), Refusal> {
        require_boot(&self.boot)
    }
}

/// Refuses a boot id that no correct agent sends.
///
/// # Errors
/// If it exceeds the bound of an identifier.
pub fn require_boot(boot: &String) -> Result<(), Refusal> {
    require_identifier(boot)
}

/// The session under which the agent of a unit sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentSession {
    /// The model of the unit.
    pub model: Model,
    /// The unit.
    pub unit: Uuid,
    /// The epoch that the agent was granted.
    pub epoch: u64,
    /// The generation of the store that has received the request.
    pub store_generation: Uuid,
}

/// The session that an attach was granted. The agent compares its disk with it
/// ([`reconcile`](crate::agents::reconciliation::reconcile)), and does not act on a view that is older than the
/// revision of the attach, because the session may depend on it (I48).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantedSession {
    /// The current store generation.
    pub store_generation: Uuid,
    /// The epoch of the session; the agent sends it with every request.
    pub epoch: u64,
    /// The replica of the unit's state as of the last record that was applied; none before the first.
    pub replica: Option<Local>,
}

/// Attaches an agent: grants it the next epoch of its unit. `store_generation` is that of the store; `is_connected` is
/// whether an agent of the unit has an open stream. A second agent is refused until that stream ends (design 6).
///
/// The agent has journaled the nonce before: the same nonce again (a reply was lost) gets the same epoch. A
/// unit that was removed is refused with the tombstone as evidence (design 7).
///
/// A folder that holds an epoch older than the newest is a copy of a folder whose agent continued (I34). A folder
/// with a newer epoch is not a copy: the store was restored, and the first folder that attaches then continues. Its
/// copies are recognised by the store generation:
///
/// 1. A folder is copied, and the store is restored from a backup.
/// 2. An agent attaches for one folder, and gets the epoch that the lost store generation had granted to the
///    other.
/// 3. The agent of the other folder attaches with that epoch, and may have any number of further records. Only the
///    store generation distinguishes the two.
pub fn attach(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    attach: Attach,
    store_generation: Uuid,
    is_connected: bool,
) -> Result<GrantedSession, Refusal> {
    require_unit(draft, model, unit)?;
    if attach.nonce == Uuid(0) {
        // a stored nil nonce means that the unit is being removed by force
        return Err(SessionRefusal::NilNonce.into());
    }
    let session = draft.get(&model.session(unit)).unwrap_or_default();
    if is_connected && session.nonce != attach.nonce {
        return Err(SessionRefusal::OtherAgentConnected.into());
    }
    if session.is_fenced() {
        return Err(SessionRefusal::RemovedByForce.into());
    }
    let mut replica = draft.get(&model.replica(unit)).map(|replica| replica.local);
    if let Some(replica) = &mut replica {
        insert_own_bags(draft, model, unit, replica);
        // 1. A run reports a status, and has no record yet.
        // 2. The folder of the unit is lost.
        // 3. The next agent takes over the replica. A report of its run with the same number would be ignored
        //    (cargo sim 64005408).
        let reported_run = draft.get(&model.unit_status(unit)).map_or(0, |status| status.number.run);
        replica.run = replica.run.max(reported_run);
    }
    let sequence = replica.as_ref().map_or(0, |replica| replica.sequence);
    let current_grant = session.granted.filter(|granted| granted.store_generation == store_generation);
    if session.epoch > 0 && session.nonce == attach.nonce {
        // An agent stores the epoch before it sends a record under it, and never sends that nonce again. A
        // nonce that is sent after a record comes from another folder, copied while the first attach was under
        // way.
        if session.granted.is_some_and(|granted| granted.sequence != sequence) {
            return Err(SessionRefusal::NewerAgent { newest: session.epoch, epoch: attach.epoch }.into());
        }
        let epoch = session.epoch;
        if session.granted.is_some() && current_grant.is_none() {
            // The store was restored since: its generation grants the session again.
            let granted = Some(SessionOrigin { store_generation, sequence });
            draft.put(&model.session(unit), &SessionDoc { granted, ..session });
        }
        return Ok(GrantedSession { store_generation, epoch, replica });
    }
    // 1. A first attach is sent twice, and one of the two requests is delayed.
    // 2. Its agent is terminated, and the next one attaches: another nonce, a higher epoch.
    // 3. The delayed request arrives with epoch 0. Treated as an empty folder, it would fence the running
    //    agent.
    let is_delayed = attach.epoch == 0 && session.first_attach_nonces.contains(&attach.nonce);
    let is_of_lost_generation = current_grant.is_some() && attach.store_generation != Some(store_generation);
    if is_delayed || attach.epoch > 0 && (attach.epoch < session.epoch || is_of_lost_generation) {
        return Err(SessionRefusal::NewerAgent { newest: session.epoch, epoch: attach.epoch }.into());
    }
    if attach.epoch > session.epoch.saturating_add(SESSIONS_LOST_MAX).min(NUMBER_MAX) {
        return Err(SessionRefusal::EpochNotGranted { epoch: attach.epoch }.into());
    }
    let epoch = session.epoch.max(attach.epoch) + 1;
    let mut first_attach_nonces = session.first_attach_nonces;
    if attach.epoch == 0 {
        first_attach_nonces.push(attach.nonce);
        let surplus = first_attach_nonces.len().saturating_sub(FIRST_ATTACHES_KEPT);
        first_attach_nonces.drain(..surplus);
    }
    // 1. A unit resynchronises, and its re-entry into a relation is pending.
    // 2. Its folder is lost before the re-entry is done.
    // 3. The next agent takes a replica without the relation, and enters it like any other unit.
    let mut pending_reentry = session.pending_reentry;
    let known = |id: &Uuid| {
        let mut all = replica.iter().flat_map(|replica| replica.relations.values());
        all.any(|relation| relation.uuid == *id)
    };
    pending_reentry.retain(known);
    let granted = Some(SessionOrigin { store_generation, sequence });
    draft.put(
        &model.session(unit),
        &SessionDoc { epoch, nonce: attach.nonce, first_attach_nonces, granted, pending_reentry },
    );
    // 1. A unit is removed, and has run stop.
    // 2. The store is restored from a backup made before, in which the unit is Alive.
    // 3. The unit cannot start again (I1), so it is removed again.
    // The first attach to a store generation decides this, because its folder then has only seen views of other store
    // generations. In its own generation a unit ends after a user's request only: see `agents::teardown`.
    // Until a unit has attached, the store cannot tell a folder of another generation from a process that has the unit's
    // token and claims to be one. This is accepted: only root on the machine of the unit has the token then, the unit has
    // run no hook in this generation, and its storage is detached, not deleted.
    let is_of_other_generation = attach.epoch > 0
        && current_grant.is_none()
        && attach.store_generation.is_some_and(|of_folder| of_folder != store_generation);
    if attach.teardown_started && is_of_other_generation {
        resume_teardown(draft, model, unit);
    }
    Ok(GrantedSession { store_generation, epoch, replica })
}

/// Refuses a request of any session but the unit's newest. Returns the unit.
pub fn check_epoch(draft: &mut Draft, session: AgentSession) -> Result<UnitDoc, Refusal> {
    let AgentSession { model, unit, epoch, store_generation } = session;
    let doc = require_unit(draft, model, unit)?;
    let session = draft.get(&model.session(unit)).unwrap_or_default();
    if session.is_fenced() {
        return Err(SessionRefusal::RemovedByForce.into());
    }
    let newest = session.epoch;
    let is_granted_here = session.granted.is_none_or(|granted| granted.store_generation == store_generation);
    if epoch == newest && epoch > 0 && is_granted_here {
        return Ok(doc);
    }
    if epoch > newest || epoch == newest && epoch > 0 {
        // 1. An agent attaches.
        // 2. The store is restored from a backup made before, or after the agent attached.
        // 3. The agent continues to send. Treated as a copy, it would stop permanently, and no agent would
        //    serve the unit; so this refusal makes it attach again. If its record were accepted, the agent would compare the
        //    revision of that commit with its view, which is of the former generation and may have a higher revision: a
        //    secret hook that is done would run again (cargo sim 1795793608953).
        let expected = draft.get(&model.replica(unit)).map_or(0, |replica| replica.local.sequence) + 1;
        return Err(SessionRefusal::EpochOfOtherGeneration { epoch, newest, expected }.into());
    }
    Err(SessionRefusal::NewerAgent { newest, epoch }.into())
}

fn require_unit(draft: &mut Draft, model: Model, unit: Uuid) -> Result<UnitDoc, Refusal> {
    if let Some(doc) = draft.get(&model.unit(unit)) {
        return Ok(doc);
    }
    Err(match draft.get(&model.tombstone(unit)) {
        Some(tombstone) => SessionRefusal::UnitRemoved { name: tombstone.name }.into(),
        None => SessionRefusal::UnknownUnit { unit }.into(),
    })
}
