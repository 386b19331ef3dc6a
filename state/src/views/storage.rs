//! The storage in the view of a unit: the instances that are attached to it.

use crate::documents::draft::read;
use crate::terms::storage::StorageId;
use crate::unit::snapshot::Change;
use crate::unit::storage::StorageView;
use crate::views::unit_view_reader::UnitViewReader;
use std::collections::BTreeMap;

impl UnitViewReader<'_> {
    /// All storage of the view.
    pub fn storage(&self) -> BTreeMap<StorageId, StorageView> {
        let of_unit = read(self.reader, &self.model.unit_storage(self.unit)).unwrap_or_default();
        let shown = of_unit.into_iter().filter_map(|id| {
            let doc = read(self.reader, &self.model.storage(&id))?;
            let (instance, kind, detaching) = (doc.uuid, doc.kind, doc.is_detaching());
            let location = doc.attachment?.location;
            Some((id, StorageView { instance, kind, location, detaching }))
        });
        shown.collect()
    }
}

/// The differences between two views of storage.
pub fn changes(
    before: &BTreeMap<StorageId, StorageView>,
    after: &BTreeMap<StorageId, StorageView>,
) -> Vec<Change> {
    let removed = before.keys().filter(|id| !after.contains_key(id));
    let removed = removed.map(|id| Change::Storage { id: id.clone(), storage: None });
    let changed = after.iter().filter(|(id, storage)| before.get(id) != Some(storage));
    let changed =
        changed.map(|(id, storage)| Change::Storage { id: id.clone(), storage: Some(storage.clone()) });
    removed.chain(changed).collect()
}
