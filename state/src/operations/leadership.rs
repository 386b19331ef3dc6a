//! Leadership: which unit holds the grant of its application, the generation of that grant, and the settings that only
//! the holder may write (design 13).
//!
//! A grant contains no times. The caller counts the lease and passes as an argument whether the grant may be
//! taken over. At most one unit of an application holds the grant. Called by the unit agent's handlers and when
//! a unit is Dead or removed.

use crate::documents::draft::Draft;
use crate::documents::prelude::{GrantDoc, LeaderWriteNumber, Model, UnitDoc};
use crate::documents::refusal::{Code, Refusal};
use crate::documents::sequence;
use crate::operations::record_validation::require_run;
use crate::operations::session;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::settings::{self, BagChange};
use crate::unit::leader_settings::{self, LeaderSettingsView};
use serde::{Deserialize, Serialize};

/// The length of a lease of the leadership: after a claim, no other unit becomes the leader for this long (design 13).
pub const LEASE_MS: u64 = 60_000;

/// The leadership that a claim was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrantedLease {
    /// The generation of the leadership.
    pub generation: u64,
    /// How long it lasts, from the time at which the unit *sent* the claim (design 13).
    pub lease_ms: u64,
}

/// Claims the leadership of its application for a unit, or renews its claim.
///
/// Returns none if another unit is the leader. A free grant is granted immediately. A grant of another unit is
/// taken over only if `may_take_over`: the caller, which counts the lease, has found it expired. A new holder gets
/// a new generation. The caller must have checked the epoch ([`crate::operations::session::check_epoch`]) in the
/// same draft. Refused if the unit is Dead.
pub fn claim(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    may_take_over: bool,
) -> Result<Option<GrantedLease>, Refusal> {
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found("unit", unit))?;
    if draft.get(&model.unit_life(unit)) == Some(Life::Dead) {
        return Err(Refusal::new(Code::NotAlive, format!("unit {} is dead", doc.name)));
    }
    let key = model.leader(doc.application);
    match draft.get(&key) {
        Some(held) if held.holder == unit => Ok(Some(granted(&held))),
        Some(_) if !may_take_over => Ok(None),
        Some(_) | None => {
            let generation = sequence::take(draft, model, &generation_sequence(doc.application)) + 1;
            let grant = GrantDoc { holder: unit, holder_name: doc.name, generation };
            draft.put(&key, &grant);
            Ok(Some(granted(&grant)))
        }
    }
}

fn granted(grant: &GrantDoc) -> GrantedLease {
    GrantedLease { generation: grant.generation, lease_ms: LEASE_MS }
}

/// Releases the leadership of a unit, because its agent returned the grant or because it is Dead or removed.
/// The next claim is granted immediately.
pub fn release(draft: &mut Draft, model: Model, unit: Uuid) {
    let Some(doc) = draft.get(&model.unit(unit)) else {
        return;
    };
    let key = model.leader(doc.application);
    if draft.get(&key).is_some_and(|grant| grant.holder == unit) {
        draft.remove(&key);
    }
}

/// A change of the leader settings by a running hook of the leader (leader-set).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaderWrite {
    /// The leadership in which the hook runs, the run and the tool call.
    pub number: LeaderWriteNumber,
    /// The new value of each key; the empty string removes the key.
    pub change: BagChange,
}

/// Changes the leader settings of the unit's application, and returns them (spec/hook-tools.md 2.2).
///
/// A write is applied once, however often it arrives, because a repetition does not have a higher number than the write
/// that was applied last. A write that is overtaken by a later one of the same leadership changes nothing.
///
/// # Errors
/// If a newer agent has attached, the unit is not the leader in this generation, or the settings would be too large.
pub fn write_settings(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    epoch: u64,
    write: &LeaderWrite,
) -> Result<LeaderSettingsView, Refusal> {
    session::check_epoch(draft, model, unit, epoch)?;
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found("unit", unit))?;
    let last_run = draft.get(&model.replica(unit)).map_or(0, |replica| replica.local.run);
    require_run(last_run, write.number.run)?;
    if !is_leader(draft, model, unit, &doc, Some(write.number.generation)) {
        return Err(Refusal::new(Code::Forbidden, "not the leader"));
    }
    let key = model.leader_settings(doc.application);
    let mut stored = draft.get(&key).unwrap_or_default();
    if write.number < stored.number {
        return Ok(stored.view());
    }
    if let Some(reason) = leader_settings::refusal_reason(&stored.values, &write.change) {
        return Err(Refusal::new(Code::Invalid, reason));
    }
    if settings::apply(&mut stored.values, &write.change) {
        stored.version += 1;
        stored.number = write.number;
        draft.put(&key, &stored);
    }
    Ok(stored.view())
}

/// Whether the unit holds the grant of its application in this transaction. If `generation` is given, it must
/// be that of the grant: the unit may have lost and regained the leadership meanwhile (design 13).
pub(crate) fn is_leader(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    doc: &UnitDoc,
    generation: Option<u64>,
) -> bool {
    let grant = draft.get(&model.leader(doc.application)).filter(|grant| grant.holder == unit);
    grant.is_some_and(|grant| generation.is_none_or(|generation| generation == grant.generation))
}

/// The sequence that numbers the grants of an application; it outlives each grant.
pub(crate) fn generation_sequence(application: Uuid) -> String {
    format!("leader/{application}")
}
