//! Who speaks for a unit: each attaching agent gets a higher epoch, and older ones are refused (design 6, I34).

use crate::documents::draft::Draft;
use crate::documents::keys::{Model, ReplicaDoc, SessionDoc, SessionOrigin};
use crate::documents::refusal::{Code, Refusal};
use crate::operations::{force, hook_commit};
use crate::terms::names::Uuid;
use std::collections::BTreeSet;

/// First attaches of one unit that are remembered: a folder is lost and made again a few times in a unit's life, and a
/// message is not late for longer than that.
const NEWCOMERS_KEPT: usize = 8;

/// What an agent's folder says of the session it had before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// 0 = a folder that never had one.
    pub epoch: u64,
    /// The store's history it was granted in; none with epoch 0 only.
    pub store_generation: Option<Uuid>,
}

/// A session granted.
#[derive(Clone, Debug, PartialEq)]
pub struct Attached {
    pub epoch: u64,
    /// What the controller knows of the unit's own memory; none before its first record.
    pub replica: Option<ReplicaDoc>,
}

/// An agent begins to speak for its unit. The nonce was journaled by the agent first: the same nonce again (a reply
/// was lost) gets the same epoch. A unit that was removed is refused with the tombstone as evidence (design 7).
/// `store_generation` is the store's own.
///
/// A folder that held an older epoch than the newest is a copy of one that went on (I34). One with a newer epoch is
/// not: the store was restored. Then the first folder to come is the one that goes on:
///
/// 1. a folder is copied, and the store is restored from an older copy;
/// 2. an agent attaches for one folder, and is granted the epoch that the lost history had granted to the other;
/// 3. the other comes with that epoch, and as many records more as it likes. Only the history tells them apart.
pub fn attach(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    nonce: Uuid,
    (held, store_generation): (Held, Uuid),
) -> Result<Attached, Refusal> {
    require_unit(draft, model, unit)?;
    if nonce == Uuid(0) {
        // kept, it would say that the unit is removed by force
        return Err(Refusal::new(Code::Invalid, "a session's nonce is not nil"));
    }
    let session = draft.get(&model.session(unit)).unwrap_or_default();
    if force::is_fenced(&session) {
        return Err(forced());
    }
    let mut replica = draft.get(&model.replica(unit));
    if let Some(replica) = &mut replica {
        hook_commit::restore_bags(draft, model, unit, &mut replica.local);
        // 1. A run says how its unit is, and has no record yet. 2. The unit's folder is lost. 3. The next agent takes
        // the replica. A run of its by the same number would say nothing new (cargo sim 64005408).
        let told = draft.get(&model.unit_status(unit)).map_or(0, |status| status.number.0);
        replica.local.run = replica.local.run.max(told);
    }
    let sequence = replica.as_ref().map_or(0, |replica| replica.sequence);
    let granted_here = session.granted.filter(|granted| granted.store_generation == store_generation);
    if session.epoch > 0 && session.nonce == nonce {
        // An agent writes the epoch down before it sends a record under it, and never sends that nonce again. Whoever
        // does after a record has another folder, copied while the nonce was on its way.
        if session.granted.is_some_and(|granted| granted.sequence != sequence) {
            return Err(newer(session.epoch, held.epoch));
        }
        return Ok(Attached { epoch: session.epoch, replica });
    }
    // 1. a first attach is sent twice, and one copy of it is late;
    // 2. its agent dies, and the next one attaches: another nonce, a higher epoch;
    // 3. the late copy arrives with epoch 0. Taken for an empty folder, it would fence the agent that lives.
    let late = held.epoch == 0 && session.newcomers.contains(&nonce);
    let of_a_lost_history = granted_here.is_some() && held.store_generation != Some(store_generation);
    if late || held.epoch > 0 && (held.epoch < session.epoch || of_a_lost_history) {
        return Err(newer(session.epoch, held.epoch));
    }
    let Some(epoch) = session.epoch.max(held.epoch).checked_add(1) else {
        return Err(Refusal::new(Code::Invalid, format!("epoch {} was never granted", held.epoch)));
    };
    let mut newcomers = session.newcomers;
    if held.epoch == 0 {
        newcomers.push(nonce);
        let surplus = newcomers.len().saturating_sub(NEWCOMERS_KEPT);
        newcomers.drain(..surplus);
    }
    // 1. A unit restates, and is shut out of a relation. 2. Its folder is lost before that was done. 3. The next agent takes
    // a replica that knows nothing of the relation, and is to enter it like any other.
    let mut pending_reentry = session.pending_reentry;
    let known = |id: &Uuid| {
        let mut all = replica.iter().flat_map(|replica| replica.local.relations.values());
        all.any(|relation| relation.uuid == *id)
    };
    pending_reentry.retain(known);
    let granted = Some(SessionOrigin { store_generation, sequence });
    draft.put(&model.session(unit), &SessionDoc { epoch, nonce, newcomers, granted, pending_reentry });
    if replica.as_ref().is_some_and(|replica| replica.local.is_tearing_down()) {
        crate::lifecycle::unit::resume_teardown(draft, model, unit);
    }
    Ok(Attached { epoch, replica })
}

/// Refuses whoever does not hold the unit's newest session.
pub fn check_epoch(draft: &mut Draft, model: Model, unit: Uuid, epoch: u64) -> Result<(), Refusal> {
    require_unit(draft, model, unit)?;
    let session = draft.get(&model.session(unit)).unwrap_or_default();
    if force::is_fenced(&session) {
        return Err(forced());
    }
    let newest = session.epoch;
    if epoch == newest && epoch > 0 {
        return Ok(());
    }
    if epoch > newest {
        // 1. an agent attaches; 2. the store is restored from a copy made before; 3. the agent goes on sending.
        // Taken for a copy, it would end for good, and nobody would serve the unit. It is to attach again.
        let text = format!("epoch {epoch} was not granted here (the newest is {newest}): attach again");
        let expected = draft.get(&model.replica(unit)).map_or(0, |replica| replica.sequence) + 1;
        return Err(Refusal::new(Code::Gap { expected }, text));
    }
    Err(newer(newest, epoch))
}

/// Notes that the unit could not be let into a relation that it takes itself to be in, or that it takes itself to be
/// in none of those any more.
pub(crate) fn pending_reentry(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    change: impl FnOnce(&mut BTreeSet<Uuid>),
) {
    let mut session = draft.get(&model.session(unit)).unwrap_or_default();
    let before = session.pending_reentry.clone();
    change(&mut session.pending_reentry);
    if session.pending_reentry != before {
        draft.put(&model.session(unit), &session);
    }
}

fn forced() -> Refusal {
    Refusal::new(Code::Fenced, "this unit is removed by force: the controller acts in its agent's place")
        .hint("its machine agent takes the folder away")
}

fn newer(newest: u64, epoch: u64) -> Refusal {
    let message = format!("a newer agent of this unit has attached (epoch {newest}, this one is {epoch})");
    Refusal::new(Code::Fenced, message).hint("this agent is a copy; stop it")
}

fn require_unit(draft: &mut Draft, model: Model, unit: Uuid) -> Result<(), Refusal> {
    if draft.get(&model.unit(unit)).is_some() {
        return Ok(());
    }
    Err(match draft.get(&model.tombstone(unit)) {
        Some(tombstone) => {
            Refusal::new(Code::Removed, format!("{} {} was removed", tombstone.kind, tombstone.name))
        }
        None => Refusal::new(Code::NotFound, format!("unit {unit} is unknown to the controller")),
    })
}
