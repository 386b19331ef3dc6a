//! Requests about storage: instances are added, detached, attached again and removed, at legal and at illegal moments.

use super::archive::DISK;
use super::requests::SimOperator;
use crate::sim::network::SimCaller;
use api::{AddStorage, AttachStorage, DetachStorage, Handle, RemoveStorage};
use state::terms::storage::{StorageDirective, StorageId};

/// The numbers from which an operator chooses an instance: most schedules have fewer.
const NUMBERS: u64 = 6;

impl SimOperator {
    pub(super) async fn change_storage(&self) {
        let Some(unit) = self.random_unit().await else { return };
        let number = u32::try_from(self.world.below(NUMBERS)).expect("a small number");
        let storage = StorageId { name: DISK.to_owned(), number };
        let (what, force) = (self.world.below(100), self.world.chance_of(500));
        self.trace(format!("storage {storage} of {unit}, {what}, force {force}"));
        let call = |caller: SimCaller| {
            let (unit, storage) = (unit.parse().expect("a unit"), storage.clone());
            async move {
                let (name, directive) =
                    (DISK.to_owned(), StorageDirective { pool: None, count: None, size_mib: None });
                match what {
                    0..35 => caller.handle(AddStorage { unit, name, directive }).await.map(drop),
                    35..60 => caller.handle(DetachStorage { storage }).await.map(drop),
                    60..85 => caller.handle(AttachStorage { unit, storage }).await.map(drop),
                    _ => caller.handle(RemoveStorage { storage, force, keep_content: false }).await.map(drop),
                }
            }
        };
        self.request(call).await;
    }
}
