//! The settings of an application that only its leader may write (leader-set), and that all its units read.

use crate::agents::record_validation::require_run;
use crate::agents::session;
use crate::documents::draft::Draft;
use crate::documents::prelude::{LeaderWriteNumber, Model};
use crate::documents::refusal::Refusal;
use crate::lifecycle::leadership::is_leader;
use crate::terms::leader_settings::LeaderSettingsView;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::terms::refusal::write::WriteRefusal;
use crate::terms::settings::{self, BagChange};
use crate::unit::leader_settings;
use serde::{Deserialize, Serialize};

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
pub fn write(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    epoch: u64,
    write: &LeaderWrite,
) -> Result<LeaderSettingsView, Refusal> {
    session::check_epoch(draft, model, unit, epoch)?;
    let doc = draft.get(&model.unit(unit)).ok_or_else(|| Refusal::not_found(EntityKind::Unit, unit))?;
    let last_run = draft.get(&model.replica(unit)).map_or(0, |replica| replica.local.run);
    require_run(last_run, write.number.run)?;
    if !is_leader(draft, model, unit, &doc, Some(write.number.generation)) {
        return Err(WriteRefusal::LeaderOnly.into());
    }
    let key = model.leader_settings(doc.application);
    let mut stored = draft.get(&key).unwrap_or_default();
    if write.number < stored.number {
        return Ok(stored.view());
    }
    if let Some(problem) = leader_settings::problem(&stored.values, &write.change) {
        return Err(WriteRefusal::InvalidLeaderSettings { problem }.into());
    }
    if settings::apply(&mut stored.values, &write.change) {
        stored.version += 1;
        stored.number = write.number;
        draft.put(&key, &stored);
    }
    Ok(stored.view())
}
