//! Which units and machines belong to fake applications, and therefore have no agents (`lifecycle::fake_application`).

use crate::documents::document_reads::Documents;
use crate::documents::prelude::{Model, UnitDoc, last_id};
use crate::terms::names::Uuid;

/// Whether the unit has no agent because its application is fake.
pub fn is_fake(documents: &mut impl Documents, model: Model, unit: &UnitDoc) -> bool {
    documents.document(&model.fake_application(unit.application)).is_some()
}

/// Whether the machine has units of a fake application, so that it never enrols. No other units are on it.
pub fn is_fake_machine(documents: &mut impl Documents, model: Model, machine: Uuid) -> bool {
    let first = documents.keys(&model.machine_units(machine), 1).pop().and_then(|key| last_id(&key));
    let unit = first.and_then(|unit| documents.document(&model.unit(unit)));
    unit.is_some_and(|unit| is_fake(documents, model, &unit))
}
