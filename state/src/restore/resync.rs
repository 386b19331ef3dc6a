//! Resynchronises one unit with a store that was restored from a backup (design 4).
//!
//! After a restore the controller may lack records that the unit has already published. The agent then sends
//! its whole published state as one resync record. A unit can be in more relations than one transaction may
//! touch, so the resync is applied in batches: first those that leave scopes, then that of the storage, then those that
//! enter relations. The transaction that stores the record follows
//! ([`commit`](crate::transitions::record_commit::commit)): a bag and the state of a unit would not fit into one.
//! Batches are idempotent: if the agent repeats the resync before it is acknowledged, batches that were already applied
//! change nothing, except that storage is provided once more.
//!
//! Each resync costs up to a hundred transactions. A unit therefore resynchronises at most once in
//! [`RESYNC_INTERVAL_MS`], except with a store generation that it has not resynchronised with. A number instead of a rate
//! would leave a unit without its records for ever: a store can also lose commits without a new generation (an etcd that
//! was restored from a copy of a second ago).
//!
//! Called by the unit agent's handler for records. Must never enter a relation for a unit that is being removed
//! (I21).

use crate::agents::record_bounds::require_length;
use crate::agents::record_validation::{Valid, require_lost_action, validate};
use crate::agents::replica;
use crate::agents::session::{self, AgentSession};
use crate::agents::teardown;
use crate::documents::draft::Draft;
use crate::documents::prelude::{Model, ReplicaDoc, last_id};
use crate::documents::refusal::Refusal;
use crate::lifecycle::creation::Creation;
use crate::lifecycle::pending_reentry;
use crate::lifecycle::storage::StorageOwner;
use crate::lifecycle::{action, relation, scope};
use crate::restore::resync_storage;
use crate::terms::names::{RelationNumber, Uuid};
use crate::terms::port_range::{PORT_RANGES_MAX, range_count};
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::record::RecordRefusal;
use crate::unit::local::{Local, RelationLocal};
use crate::unit::record::{DroppedWrite, Record};
use std::ops::Bound;

/// Scopes that are examined in one batch. Leaving one of them (2 writes) may remove a relation (9 writes) and both its
/// applications (10 writes each): 3 × 31 are 93 of a transaction's 600 writes.
const LEFT_PER_BATCH: usize = 3;
/// Relations that are examined in one batch, one read each, until one is entered; those that the store does not have
/// are dropped. An agent chooses how many it publishes.
///
/// To enter one takes 6 reads (relation, life, suspension, the other application's life, scope, bag) and 3 writes; if
/// a subordinate is created 5 reads (the existing one, its application, the sequence, machine capacity) and 9 writes
/// more. The capacity of the machine takes 25 reads in all: 40 + 25 + 11 are 76 of a transaction's 2,000.
const EXAMINED_PER_BATCH: usize = 40;

/// The least time between two resyncs of a unit with the same store generation: a process with the token of a unit that
/// repeats them causes one transaction in 6 s on average.
pub const RESYNC_INTERVAL_MS: i64 = 10 * 60 * 1000;

/// The position of the next batch of a resync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResyncProgress {
    /// The next scopes to examine are those after this key.
    Leave {
        /// The key of the last scope that was examined; empty at the start.
        after: String,
    },
    /// The storage, all at once: a unit has 16 instances at most.
    Storage,
    /// The next relations to enter are those after this number; none = the first.
    Enter {
        /// The last relation that was entered.
        after: Option<RelationNumber>,
    },
}

impl Default for ResyncProgress {
    fn default() -> ResyncProgress {
        ResyncProgress::Leave { after: String::new() }
    }
}

/// One batch of a resync.
#[derive(Clone, Copy, Debug)]
pub struct ResyncBatch<'a> {
    /// The resync record.
    pub record: &'a Valid<Record>,
    /// The position of the batch in it.
    pub position: &'a ResyncProgress,
}

/// Applies one batch of a resync; returns the position of the next batch, and what was dropped. No position means that
/// the rest is applied with the record, or that the record was applied before.
///
/// # Errors
/// If a newer agent has attached, or the record may not be applied next.
pub fn apply_batch(
    draft: &mut Draft,
    session: AgentSession,
    batch: ResyncBatch,
    creation: Creation,
) -> Result<(Option<ResyncProgress>, Vec<DroppedWrite>), Refusal> {
    let (AgentSession { model, unit: id, .. }, ResyncBatch { record, position }) = (session, batch);
    let doc = session::check_epoch(draft, session)?;
    if !replica::is_next(draft, model, id, record)? {
        return Ok((None, Vec::new()));
    }
    let Some(published) = &record.resync_local else { return Ok((None, Vec::new())) };
    // as the commit of the record does at the end: what it would refuse changes no scope, and does not avoid the interval
    let stored = replica::replica_or_empty(draft, model, id, &doc);
    validate(id, &doc, &stored, record)?;
    require_length(range_count(&record.writes.ports.applied_to(&stored.local.ports)), PORT_RANGES_MAX)?;
    require_lost_action(published.last_action.unwrap_or(0), action::last_granted(draft, model))?;
    let replica = draft.get(&model.replica(id));
    if replica.is_some_and(|replica| is_too_soon(&replica, session.store_generation, creation.now_ms)) {
        return Err(RecordRefusal::ResyncRepeated { interval_ms: RESYNC_INTERVAL_MS }.into());
    }
    // a unit that is ending is Dying by now, so that it enters no relation (I21)
    teardown::require_requested(draft, model, id, &doc, record)?;
    Ok(match position {
        ResyncProgress::Leave { after } => {
            if after.is_empty() {
                // re-entries that are pending since the previous resync
                pending_reentry::clear(draft, model, id);
            }
            (Some(leave_batch(draft, model, id, published, after)), Vec::new())
        }
        ResyncProgress::Storage => {
            let owner = StorageOwner { id, doc: &doc };
            resync_storage::apply(draft, model, owner, &published.storage, creation.now_ms);
            (Some(ResyncProgress::Enter { after: None }), Vec::new())
        }
        ResyncProgress::Enter { after } => enter_batch(draft, model, id, published, *after, creation),
    })
}

/// Whether the unit has resynchronised with this store generation a moment ago. A clock that was set back since refuses
/// nothing for longer than [`RESYNC_INTERVAL_MS`].
fn is_too_soon(replica: &ReplicaDoc, store_generation: Uuid, now_ms: i64) -> bool {
    replica.local.store_generation == Some(store_generation)
        && replica.resync_ms.is_some_and(|last_ms| now_ms.saturating_sub(last_ms).abs() < RESYNC_INTERVAL_MS)
}

/// Leaves the scopes that the unit had left before the store was restored: nothing else removes the unit from them,
/// and it could never be Dead.
fn leave_batch(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    published: &Local,
    after: &str,
) -> ResyncProgress {
    let known = |id: &Uuid| published.relations.values().any(|relation| relation.uuid == *id);
    let scopes = draft.page::<()>(&model.scopes_of(unit), after, LEFT_PER_BATCH);
    for left in scopes.iter().filter_map(|(key, ())| last_id(key)).filter(|id| !known(id)) {
        relation::leave_scope(draft, model, unit, left);
    }
    match scopes.last() {
        Some((last, ())) if scopes.len() == LEFT_PER_BATCH => ResyncProgress::Leave { after: last.clone() },
        Some(_) | None => ResyncProgress::Storage,
    }
}

/// Enters the next relation that the store has. No position follows the last one.
fn enter_batch(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    published: &Local,
    mut after: Option<RelationNumber>,
    mut creation: Creation,
) -> (Option<ResyncProgress>, Vec<DroppedWrite>) {
    let mut dropped = Vec::new();
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut rest = published.relations.range((from, Bound::Unbounded));
    for _ in 0..EXAMINED_PER_BATCH {
        let Some((number, local)) = rest.next() else { return (None, dropped) };
        after = Some(*number);
        let (is_known, refused) = enter(draft, model, unit, *number, local, creation.reborrow());
        dropped.extend(refused);
        if is_known {
            break;
        }
    }
    (Some(ResyncProgress::Enter { after }), dropped)
}

/// Enters a relation. One that the store does not have is dropped; the unit observes that it is missing and runs its
/// departure. Returns whether the store has it, and the dropped entry.
fn enter(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    number: RelationNumber,
    local: &RelationLocal,
    creation: Creation,
) -> (bool, Option<DroppedWrite>) {
    // A relation that is published under other numbers, too, is entered under its own one only.
    let is_known = draft.get(&model.relation(local.uuid)).is_some_and(|doc| doc.number == number);
    let entered = match is_known {
        true => scope::reenter(draft, model, unit, local.uuid, &local.bag, creation),
        false => Err(Refusal::not_found(EntityKind::Relation, local.uuid)),
    };
    let dropped = |refusal: Refusal| DroppedWrite::Entry { relation: number, refusal: *refusal.reason };
    (is_known, entered.err().map(dropped))
}
