//! What the machine agent does with the storage of its machine.
//!
//! Every step is idempotent: a crash may interrupt it, and the next agent repeats it. An agent that has started provides
//! everything once more, because mounts and devices end with a boot.

use crate::terms::names::Uuid;
use crate::terms::storage::{MachineStorage, StorageId};
use std::collections::BTreeMap;

/// What this agent has completed for an instance and reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedStorage {
    /// The instance.
    pub instance: Uuid,
    /// The unit for which it is provided; none if it is released.
    pub unit: Option<Uuid>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageStep {
    /// Create what does not exist, mount it, and report its location.
    Provide(StorageId),
    /// Unmount what no unit has.
    Release(StorageId),
    /// Delete the content, and report that.
    Delete(StorageId),
}

/// The steps from what is completed to what the controller shows, in the order of ids. What frees a location comes
/// first.
pub fn storage_steps(
    shown: &BTreeMap<StorageId, MachineStorage>,
    completed: &BTreeMap<StorageId, CompletedStorage>,
) -> Vec<StorageStep> {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for (id, storage) in shown {
        let is_completed =
            |unit| completed.get(id) == Some(&CompletedStorage { instance: storage.instance, unit });
        match &storage.attachment {
            None if storage.removed => first.push(StorageStep::Delete(id.clone())),
            None if is_completed(None) => {}
            None => first.push(StorageStep::Release(id.clone())),
            Some(attachment) if attachment.location.is_some() && is_completed(Some(attachment.unit)) => {}
            Some(_) => rest.push(StorageStep::Provide(id.clone())),
        }
    }
    first.extend(rest);
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charm::StorageType;
    use crate::terms::storage::{MachineAttachment, StoragePool};

    fn id() -> StorageId {
        StorageId { name: "data".into(), number: 0 }
    }

    fn steps(
        removed: bool,
        attachment: Option<(Uuid, Option<&str>)>,
        completed: Option<Option<Uuid>>,
    ) -> Vec<StorageStep> {
        let attachment = attachment.map(|(unit, location)| MachineAttachment {
            unit,
            wanted_location: None,
            read_only: false,
            location: location.map(str::to_owned),
        });
        let (kind, pool) = (StorageType::Filesystem, StoragePool::Rootfs);
        let storage = MachineStorage { instance: Uuid(1), kind, pool, size_mib: 1, removed, attachment };
        let completed = completed.map(|unit| (id(), CompletedStorage { instance: Uuid(1), unit }));
        storage_steps(&BTreeMap::from([(id(), storage)]), &completed.into_iter().collect())
    }

    #[test]
    fn storage_is_provided_until_this_agent_has_completed_and_reported_it() {
        let unit = Uuid(7);
        let provide = vec![StorageStep::Provide(id())];
        assert_eq!(steps(false, Some((unit, None)), None), provide);
        assert_eq!(steps(false, Some((unit, Some("/srv"))), None), provide, "the agent has started");
        assert_eq!(steps(false, Some((unit, None)), Some(Some(unit))), provide, "the report is lost");
        assert_eq!(steps(false, Some((unit, Some("/srv"))), Some(Some(unit))), []);
        assert_eq!(steps(false, Some((Uuid(8), Some("/srv"))), Some(Some(unit))), provide, "another unit");
    }

    #[test]
    fn storage_that_no_unit_has_is_released_and_only_removed_storage_is_deleted() {
        assert_eq!(steps(false, None, Some(Some(Uuid(7)))), [StorageStep::Release(id())]);
        assert_eq!(steps(false, None, Some(None)), []);
        assert_eq!(steps(true, None, Some(None)), [StorageStep::Delete(id())]);
        assert_eq!(steps(false, None, None), [StorageStep::Release(id())]);
    }
}
