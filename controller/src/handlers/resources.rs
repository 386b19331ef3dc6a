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
use state::documents::prelude::{ArchiveDoc, GLOBAL};
use state::documents::refusal::Refusal;
use state::lifecycle::{application, archive};
use state::terms::refusal::EntityKind;
use state::transitions::attach_resources;

impl<S: Store, E: Environment> Handle<FindResource> for Authorised<S, E> {
    async fn handle(&self, find: FindResource) -> Result<Option<StoredResource>, ApiError> {
        let FindResource { sha256 } = find;
        let Some(doc) = find_registered(&self.controller, &sha256).await else { return Ok(None) };
        let is_intact = self.controller.environment.has_stored_file(&sha256).await;
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

/// Finds the document of an archive or of the file of a resource, and starts its grace period again.
///
/// The janitor must not remove an archive after the client has received the answer that it is stored. The lock prevents
/// that until the grace period starts again. It is not held while the file is read, which may be large.
pub(super) async fn find_registered<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    sha256: &str,
) -> Option<ArchiveDoc> {
    let key = GLOBAL.archive(sha256);
    let _shared = controller.archives.lock.read().await;
    let doc = controller.read(move |reader| read(reader, &key)).await?;
    controller.archives.record_needed(sha256, controller.environment.monotonic_ms());
    Some(doc)
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
