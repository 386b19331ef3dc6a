//! The charms of the load generator: a provider and a requirer, whose hooks count themselves.
//!
//! Each hook increments a counter in the state of the charm and reports it as the status. A requirer also publishes its name
//! when it joins. A provider publishes nothing, so that the units come to rest.

use anyhow::{Result, anyhow};
use charms::read::{CharmSource, ReadOptions};
use state::terms::hook_name::{HookName, RelationEventName};
use state::terms::status::WorkloadStatus;
use state::unit::hook_context::{HookContext, HookTrigger, ReportContent, Writes};
use state::unit::outcome::{HookResult, RunExit};
use state::unit::record::RunReport;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The counter in the state of the charm.
pub const COUNTER: &str = "n";
/// The option whose change makes every unit run config-changed.
pub const OPTION: &str = "level";

/// The side of the relation on which the units of a charm are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one provider.
    Provider,
    /// The units that require it.
    Requirer,
}

/// Packs the charm of a side, whose folder is made in `scratch`.
///
/// # Errors
/// If the folder cannot be written.
pub fn pack(scratch: &Path, side: Side) -> Result<CharmSource> {
    let (name, endpoints) = match side {
        Side::Provider => ("provider", "provides: {out: {interface: swarm}}"),
        Side::Requirer => ("requirer", "requires: {in: {interface: swarm}}"),
    };
    let folder = scratch.join(name);
    fs::create_dir_all(&folder)?;
    let metadata = format!("name: {name}\nsummary: swarm\ndescription: swarm\n{endpoints}\n");
    fs::write(folder.join("metadata.yaml"), metadata)?;
    fs::write(folder.join("config.yaml"), format!("options: {{{OPTION}: {{type: int, default: 0}}}}\n"))?;
    let dispatch = folder.join("dispatch");
    fs::write(&dispatch, "#!/bin/sh\n")?;
    fs::set_permissions(&dispatch, fs::Permissions::from_mode(0o755))?;
    let options = ReadOptions { cache: scratch.join("cache"), force: false };
    charms::read::read(&folder, &options).map_err(|problems| anyhow!("{problems:?}"))
}

/// What each hook does.
pub fn run_hook(context: &HookContext) -> HookResult {
    let before: usize = context.charm_state.get(COUNTER).and_then(|text| text.parse().ok()).unwrap_or(0);
    let count = (before + 1).to_string();
    let mut writes = Writes::default();
    writes.state.insert(COUNTER.to_owned(), Some(count.clone()));
    if let HookTrigger::Relation { hook: HookName::Relation { endpoint, event }, about } = &context.trigger
        && endpoint == "in"
        && *event == RelationEventName::Joined
    {
        writes
            .bags
            .entry(about.relation)
            .or_default()
            .unit
            .insert("name".to_owned(), context.unit.to_string());
    }
    let what = ReportContent::UnitStatus { status: WorkloadStatus::Active, message: count };
    let reports = vec![RunReport { number: 1, at_ms: 0, what }];
    HookResult { writes, reports, ..HookResult::without_writes(RunExit::Code(0)) }
}
