//! The storage in the view of a machine, for its agent.

use crate::charm::StorageType;
use crate::documents::application::charm_of;
use crate::documents::draft::{Reader, read};
use crate::documents::prelude::{Model, StorageDoc};
use crate::terms::life::Life;
use crate::terms::names::Uuid;
use crate::terms::storage::{MachineAttachment, MachineStorage, StorageId};
use std::collections::BTreeMap;

/// The storage on a machine.
pub(crate) fn on_machine(
    reader: &dyn Reader,
    model: Model,
    machine: Uuid,
) -> BTreeMap<StorageId, MachineStorage> {
    let ids = read(reader, &model.machine_storage(machine)).unwrap_or_default();
    let shown = ids.into_keys().filter_map(|id| {
        let doc = read(reader, &model.storage(&id))?;
        let storage = MachineStorage {
            instance: doc.uuid,
            kind: doc.kind,
            pool: doc.pool,
            size_mib: doc.size_mib,
            removed: doc.life != Life::Alive && doc.attachment.is_none(),
            attachment: attachment(reader, model, &id, &doc),
        };
        Some((id, storage))
    });
    shown.collect()
}

/// The attachment of an instance, with what the charm of its unit declares about it.
fn attachment(
    reader: &dyn Reader,
    model: Model,
    id: &StorageId,
    doc: &StorageDoc,
) -> Option<MachineAttachment> {
    let attachment = doc.attachment.as_ref()?;
    let unit = read(reader, &model.unit(attachment.unit));
    let charm = unit.and_then(|unit| charm_of(&mut { reader }, model, unit.application));
    let declared = charm.as_ref().and_then(|(_, charm)| charm.storage.get(&id.name));
    let location = declared.and_then(|declared| declared.location.clone());
    let location = location.filter(|_| doc.kind == StorageType::Filesystem);
    // several instances are mounted side by side below the location
    let is_single = declared.is_some_and(|declared| declared.count_max == Some(1));
    let wanted_location = location.map(|location| match is_single {
        true => location,
        false => format!("{}/{id}", location.trim_end_matches('/')),
    });
    Some(MachineAttachment {
        unit: attachment.unit,
        wanted_location,
        read_only: declared.is_some_and(|declared| declared.read_only),
        location: attachment.location.clone(),
    })
}
