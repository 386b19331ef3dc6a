//! The view of a machine for its agent: the units and the storage that are assigned to it.
//!
//! Called by the watches. They compute it again only after a commit that it may depend on ([`is_affected`]).

use crate::documents::draft::{Reader, read, read_all};
use crate::documents::effective_life;
use crate::documents::prelude::{KeyParts, Kind, Model, last_id};
use crate::terms::assignment::Assigned;
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::position::Position;
use crate::terms::provider_kind::ProviderKind;
use crate::terms::ssh_key::SshKey;
use crate::terms::storage::{MachineStorage, StorageId};
use crate::views::machine_storage;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A machine and all units that are assigned to it, as of one position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineView {
    /// The position.
    pub position: Position,
    /// The uuid of the model.
    pub model: Uuid,
    /// The name of the machine.
    pub name: String,
    /// The address of the machine; empty if it is not known yet.
    pub address: String,
    /// The life of the machine.
    pub life: Life,
    /// The units by uuid.
    pub units: BTreeMap<Uuid, Assigned>,
    /// Removed units of this machine, at most `RECALLS_SHOWN_MAX`, until the machine's agent confirms that no folder of
    /// them is left.
    pub recalls: BTreeSet<Uuid>,
    /// The storage whose content is or is to be on the machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<StorageId, MachineStorage>,
    /// The keys with which people may log in to the machine. None for a local machine, which has no users of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub ssh_keys: Vec<SshKey>,
}

/// Recalls in one view of a machine; the next ones follow when these are confirmed. A machine has at most 24 units at
/// the same time.
const RECALLS_SHOWN_MAX: usize = 100;

/// The machine and its units at the revision of the reader; none for a machine that does not exist. The store
/// generation of the position is nil, because a reader contains revisions only; the caller sets it.
pub fn view(reader: &dyn Reader, model: Model, id: Uuid) -> Option<MachineView> {
    let doc = read(reader, &model.machine(id))?;
    let life = read(reader, &model.machine_life(id))?;
    let mut units = BTreeMap::new();
    for (key, ()) in read_all(reader, &model.machine_units(id)) {
        let unit = last_id(&key)?;
        let doc = read(reader, &model.unit(unit))?;
        let life = effective_life::unit_life_of(&mut { reader }, model, unit, &doc);
        units.insert(unit, Assigned { name: doc.name, life });
    }
    let recalls = reader.scan(&model.recalls(id), "", RECALLS_SHOWN_MAX);
    let keys = read(reader, &model.ssh_keys()).unwrap_or_default();
    Some(MachineView {
        position: Position { revision: reader.revision(), ..Position::default() },
        model: model.0,
        name: doc.name,
        address: doc.address,
        life,
        units,
        recalls: recalls.iter().filter_map(|stored| last_id(&stored.key)).collect(),
        storage: machine_storage::on_machine(reader, model, id),
        ssh_keys: if has_own_users(reader, model, id) { keys } else { Vec::new() },
    })
}

/// Whether the machine has users of its own: it is not a folder of the controller's host.
fn has_own_users(reader: &dyn Reader, model: Model, id: Uuid) -> bool {
    let instance = read(reader, &model.machine_instance(id));
    instance.is_some_and(|instance| instance.provider != Some(ProviderKind::Local))
}

/// Whether a written document may have changed the view of this machine, as of the last one that was computed.
pub fn is_affected(shown: &MachineView, machine: Uuid, key: &str) -> bool {
    let Some(parts) = KeyParts::of(key).filter(|parts| parts.model == shown.model.to_string()) else {
        return false;
    };
    let ids = parts.ids();
    match parts.kind {
        Kind::Machine
        | Kind::MachineLife
        | Kind::MachineInstance
        | Kind::UnitOn
        | Kind::StorageOn
        | Kind::Recall => ids.first() == Some(&machine),
        Kind::SshKeys => true,
        Kind::Unit | Kind::UnitLife => ids.first().is_some_and(|unit| shown.units.contains_key(unit)),
        // the application of a unit, and of its principal
        Kind::ApplicationLife | Kind::SubordinateLink => !shown.units.is_empty(),
        // the declared location of the storage of its charm
        Kind::ApplicationCharm => !shown.storage.is_empty(),
        Kind::Storage => parts.rest.parse().is_ok_and(|id: StorageId| shown.storage.contains_key(&id)),
        _ => false,
    }
}
