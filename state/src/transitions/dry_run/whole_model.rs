//! The dry run of the destruction of a model. Only the removal of its applications is simulated, as one removal; a machine
//! is listed if the simulation removes all of its units, and the model if nothing is left in it.
//!
//! Called for `destroy-model --dry-run`. Changes nothing.

use crate::documents::blockers::EntityId;
use crate::documents::draft::{Reader, read, read_all};
use crate::documents::prelude::{ApplicationDoc, Kind, MachineDoc, Model, last_id};
use crate::documents::refusal::Refusal;
use crate::terms::cause::Entity;
use crate::terms::force::Force;
use crate::terms::names::Uuid;
use crate::terms::refusal::EntityKind;
use crate::transitions::dry_run::result::DryRun;
use crate::transitions::dry_run::{AgentReports, DOCUMENTS_READ_MAX, Removal, TARGETS_MAX, dry_run_within};
use std::collections::BTreeSet;

/// Returns the effects of the destruction of a model. If it has more than [`TARGETS_MAX`] applications, the first ones
/// by name are simulated, and the result is marked as `truncated`.
///
/// # Errors
/// If the model does not exist.
pub fn dry_run_of_model(
    reader: &dyn Reader,
    model: Model,
    force: Force,
    now_ms: i64,
    reports: &AgentReports<'_>,
) -> Result<DryRun, Refusal> {
    let doc = read(reader, &model.model()).ok_or_else(|| Refusal::not_found(EntityKind::Model, model.0))?;
    let mut applications: Vec<(String, Uuid)> =
        read_all::<ApplicationDoc>(reader, &model.prefix(Kind::Application))
            .into_iter()
            .filter_map(|(key, application)| Some((application.name, last_id(&key)?)))
            .collect();
    applications.sort();
    let is_partial = applications.len() > TARGETS_MAX;
    let entities = applications.iter().take(TARGETS_MAX).map(|(_, id)| EntityId::Application(*id));
    let entities: Vec<EntityId> = entities.collect();
    let removal = Removal { entities: &entities, force, now_ms };
    let (mut result, unresponsive) = dry_run_within(reader, model, removal, reports, DOCUMENTS_READ_MAX)?;
    result.truncated |= is_partial;
    let listed: BTreeSet<&Entity> =
        result.removed_eventually.iter().chain(&result.removed_immediately).collect();
    let (mut removed, mut is_model_emptied) = (Vec::new(), true);
    let mut machines: Vec<(String, Uuid)> = read_all::<MachineDoc>(reader, &model.prefix(Kind::Machine))
        .into_iter()
        .filter_map(|(key, machine)| Some((machine.name, last_id(&key)?)))
        .collect();
    machines.sort();
    for (name, id) in machines {
        let units = read_all::<()>(reader, &model.machine_units(id));
        let units = units.iter().filter_map(|(key, ())| read(reader, &model.unit(last_id(key)?)));
        if units.into_iter().all(|unit| listed.contains(&Entity::Unit(unit.name))) {
            removed.push(Entity::Machine(name));
        } else {
            is_model_emptied = false;
        }
    }
    removed.retain(|machine| !listed.contains(machine));
    // a forced destruction removes the model eventually, whatever blocks it
    if force != Force::No || is_model_emptied && !is_partial && result.blockers.is_empty() {
        removed.push(Entity::Model(doc.name));
    }
    result.removed_eventually.extend(removed);
    result.blockers.splice(0..0, unresponsive);
    Ok(result)
}
