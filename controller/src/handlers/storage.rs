//! Handlers of the requests of users about storage.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::store::Store;
use api::error::ApiError;
use api::{
    AddStorage, AttachStorage, DetachStorage, GetStorage, Handle, ListStorage, RemoveStorage, StorageInfo,
    WriteResponse,
};
use state::documents::draft::Draft;
use state::lifecycle::creation::Creation;
use state::lifecycle::{storage, unit};
use state::status;
use state::terms::position::Committed;
use state::terms::storage::StorageId;
use std::collections::BTreeMap;

impl<S: Store, E: Environment> Handle<AddStorage> for Authorised<S, E> {
    async fn handle(&self, add: AddStorage) -> Result<Committed<Vec<StorageId>>, ApiError> {
        let model = self.model().await?;
        let transition = move |draft: &mut Draft<'_>, creation: Creation<'_>| {
            let unit = unit::find(draft, model, &add.unit)?;
            storage::add(draft, model, unit, &add.name, &add.directive, creation)
        };
        self.create(transition).await
    }
}

impl<S: Store, E: Environment> Handle<AttachStorage> for Authorised<S, E> {
    async fn handle(&self, attach: AttachStorage) -> Result<WriteResponse, ApiError> {
        self.change(move |draft, model| {
            let unit = unit::find(draft, model, &attach.unit)?;
            storage::attach(draft, model, unit, &attach.storage)
        })
        .await
    }
}

impl<S: Store, E: Environment> Handle<DetachStorage> for Authorised<S, E> {
    async fn handle(&self, detach: DetachStorage) -> Result<WriteResponse, ApiError> {
        let now_ms = self.controller.environment.wall_ms();
        self.change(move |draft, model| storage::detach(draft, model, &detach.storage, now_ms)).await
    }
}

impl<S: Store, E: Environment> Handle<RemoveStorage> for Authorised<S, E> {
    async fn handle(&self, remove: RemoveStorage) -> Result<WriteResponse, ApiError> {
        let now_ms = self.controller.environment.wall_ms();
        self.change(move |draft, model| match remove.keep_content {
            true => storage::release_content(draft, model, &remove.storage),
            false => storage::destroy(draft, model, &remove.storage, remove.force, now_ms),
        })
        .await
    }
}

impl<S: Store, E: Environment> Handle<ListStorage> for Authorised<S, E> {
    async fn handle(&self, _: ListStorage) -> Result<BTreeMap<StorageId, StorageInfo>, ApiError> {
        self.read(|reader, model| Ok(status::storage::all(reader, model))).await
    }
}

impl<S: Store, E: Environment> Handle<GetStorage> for Authorised<S, E> {
    async fn handle(&self, get: GetStorage) -> Result<StorageInfo, ApiError> {
        self.read(move |reader, model| status::storage::find(reader, model, &get.storage)).await
    }
}
