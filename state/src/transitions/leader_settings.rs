//! The settings of an application that only its leader may write (leader-set), and that all its units read.

use crate::agents::record_validation::require_run;
use crate::agents::session::{self, AgentSession};
use crate::documents::draft::Draft;
use crate::documents::prelude::LeaderWriteNumber;
use crate::documents::refusal::Refusal;
use crate::lifecycle::leadership::is_leader;
use crate::terms::leader_settings::LeaderSettingsView;
use crate::terms::refusal::write::WriteRefusal;
use crate::terms::settings::{self, BagChange};
use crate::unit::leader_settings;
use serde::{Deserialize, Serialize};

/// A change of the leader settings by a running hook of the leader (leader-set).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaderWrite {
    /// The generation of the leadership in which the hook runs.
    pub generation: u64,
    /// The number of the run.
    pub run: u64,
    /// The tool call in that run.
    pub call: u32,
    /// The new value of each key; the empty string removes the key.
    pub change: BagChange,
}

/// Changes the leader settings of the unit's application, and returns them (spec/hook-tools.md 2.2).
///
/// A write is applied once, however often it arrives: the agent waits for the answer to each one, so only the last one
/// can arrive again, and changes nothing then.
///
/// # Errors
/// If a newer agent has attached, the unit is not the leader in this generation, the settings would be too large, or a
/// copy of the unit's folder has written with this number or a higher one.
pub fn write(
    draft: &mut Draft,
    session: AgentSession,
    write: &LeaderWrite,
) -> Result<LeaderSettingsView, Refusal> {
    let AgentSession { model, unit, .. } = session;
    let doc = session::check_epoch(draft, session)?;
    let last_run = draft.get(&model.replica(unit)).map_or(0, |replica| replica.local.run);
    require_run(last_run, write.run)?;
    if !is_leader(draft, model, unit, &doc, Some(write.generation)) {
        return Err(WriteRefusal::LeaderOnly.into());
    }
    let key = model.leader_settings(doc.application);
    let mut stored = draft.get(&key).unwrap_or_default();
    let LeaderWrite { generation, run, call, .. } = *write;
    let number = LeaderWriteNumber { generation, epoch: session.epoch, run, call };
    if number < stored.number {
        return Err(WriteRefusal::Overtaken.into());
    }
    leader_settings::check_change(&stored.values, &write.change)
        .map_err(|problem| WriteRefusal::InvalidLeaderSettings { problem })?;
    if settings::apply(&mut stored.values, &write.change) {
        if number == stored.number {
            return Err(WriteRefusal::Overtaken.into());
        }
        stored.version += 1;
        stored.number = number;
        draft.put(&key, &stored);
    }
    Ok(stored.view())
}
