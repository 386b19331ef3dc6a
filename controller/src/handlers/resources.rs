//! Handlers of resources: uploading, attaching and listing their files. Files are stored like charm archives, by their
//! digest, and removed by the same sweep of the janitor.

use crate::callers::{Authorised, Controller};
use crate::environment::Environment;
use crate::handlers::changed;
use crate::store::Store;
use api::error::ApiError;
use api::{
    ApplicationResources, AttachResources, FindResource, Handle, ListResources, ResourceInfo, StoredResource,
    UploadResource, WriteResponse,
};
use state::documents::draft::{Draft, read};
use state::documents::prelude::GLOBAL;
use state::documents::refusal::Refusal;
use state::lifecycle::{application, archive};
use state::terms::refusal::EntityKind;
use state::transitions::attach_resources;

impl<S: Store, E: Environment> Handle<FindResource> for Authorised<S, E> {
    async fn handle(&self, find: FindResource) -> Result<Option<StoredResource>, ApiError> {
        let FindResource { sha256 } = find;
        let controller = &self.controller;
        let key = GLOBAL.archive(&sha256);
        // see `FindArchive`
        let shared = controller.archives.lock.read().await;
        let Some(doc) = controller.read(move |reader| read(reader, &key)).await else { return Ok(None) };
        controller.archives.record_needed(&sha256, controller.environment.monotonic_ms());
        drop(shared);
        let is_intact = controller.environment.has_stored_file(&sha256).await;
        Ok(is_intact.then_some(StoredResource { sha256, bytes: doc.bytes }))
    }
}

impl<S: Store, E: Environment> Handle<UploadResource> for Authorised<S, E> {
    async fn handle(&self, upload: UploadResource) -> Result<StoredResource, ApiError> {
        let _shared = self.controller.archives.lock.read().await;
        let bytes = upload.0.len() as u64;
        let sha256 = self.controller.environment.store_resource(upload.0).await?;
        register(&self.controller, StoredResource { sha256, bytes }).await
    }
}

/// Registers a file that was stored. The caller has held the lock since before it was stored.
pub(super) async fn register<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    stored: StoredResource,
) -> Result<StoredResource, ApiError> {
    controller.archives.record_needed(&stored.sha256, controller.environment.monotonic_ms());
    let file = stored.clone();
    let transition = move |draft: &mut Draft<'_>| {
        archive::register(draft, &file.sha256, None, file.bytes);
        Ok(())
    };
    controller.run(transition).await?;
    Ok(stored)
}

impl<S: Store, E: Environment> Handle<AttachResources> for Authorised<S, E> {
    async fn handle(&self, attach: AttachResources) -> Result<WriteResponse, ApiError> {
        let (model, now_ms) = (self.model().await?, self.controller.environment.wall_ms());
        let AttachResources { application, resources } = attach;
        let transition = move |draft: &mut Draft<'_>| {
            let id = application::find(draft, model, &application)?;
            attach_resources::attach(draft, model, id, &resources, now_ms)
        };
        Ok(changed(self.controller.run(transition).await?.revision))
    }
}

impl<S: Store, E: Environment> Handle<ListResources> for Authorised<S, E> {
    async fn handle(&self, list: ListResources) -> Result<ApplicationResources, ApiError> {
        let name = list.application;
        let resources = self.read(move |reader, model| {
            let mut documents = reader;
            let id = application::find(&mut documents, model, &name)?;
            let (charm, declared) = application::charm_of(&mut documents, model, id)
                .ok_or_else(|| Refusal::not_found(EntityKind::ApplicationCharm, &name))?;
            let resource = |(name, declared): (&String, &state::charm::Resource)| {
                let file = charm.resources.files.get(name).cloned();
                (name.clone(), ResourceInfo { declared: declared.clone(), file })
            };
            let resources = declared.resources.iter().map(resource).collect();
            Ok(ApplicationResources { application: name, resources })
        });
        resources.await
    }
}
