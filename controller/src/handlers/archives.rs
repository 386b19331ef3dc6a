//! Handlers of charm archives: find and upload. An archive is registered in the store only after it is durable on disk.

use crate::authorisation;
use crate::callers::{AuthenticatedCaller, Authorised, Controller};
use crate::environment::{Environment, StoredArchive};
use crate::handlers::resources;
use crate::store::Store;
use api::error::ApiError;
use api::request::{Message as _, Request as _, Route};
use api::{ArchiveInfo, FindArchive, Handle, StoredResource, UploadArchive, UploadResource};
use state::charm::Charm;
use state::documents::draft::Draft;
use state::lifecycle::archive;
use std::path::Path;

impl<S: Store, E: Environment> Handle<FindArchive> for Authorised<S, E> {
    async fn handle(&self, find: FindArchive) -> Result<Option<ArchiveInfo>, ApiError> {
        let sha256 = find.sha256;
        let Some(doc) = resources::find_registered(&self.controller, &sha256).await else { return Ok(None) };
        let Some(charm) = doc.charm else { return Ok(None) };
        let is_intact = self.controller.environment.has_stored_file(&sha256).await;
        Ok(is_intact.then(|| ArchiveInfo { sha256, bytes: doc.bytes, charm: Charm::clone(&charm) }))
    }
}

impl<S: Store, E: Environment> Handle<UploadArchive> for Authorised<S, E> {
    async fn handle(&self, upload: UploadArchive) -> Result<ArchiveInfo, ApiError> {
        let _shared = self.controller.archives.lock.read().await;
        let stored = self.controller.environment.store_archive(upload.0).await?;
        register(&self.controller, stored).await
    }
}

impl<S: Store, E: Environment> AuthenticatedCaller<S, E> {
    /// Handles [`UploadArchive`] and [`UploadResource`] for a file that was received; returns the body of the response.
    pub(crate) async fn store_received(&self, route: Route, file: &Path) -> Result<Vec<u8>, ApiError> {
        let _shared = self.controller.archives.lock.read().await;
        if route == UploadResource::ROUTE {
            authorisation::check(&self.principal, UploadResource::CALLER)?;
            let (sha256, bytes) = self.controller.environment.store_received_resource(file).await?;
            return Ok(resources::register(&self.controller, StoredResource { sha256, bytes })
                .await?
                .into_bytes());
        }
        authorisation::check(&self.principal, UploadArchive::CALLER)?;
        let stored = self.controller.environment.store_received_archive(file).await?;
        Ok(register(&self.controller, stored).await?.into_bytes())
    }
}

/// Registers an archive that was stored. The caller has held the lock since before it was stored.
async fn register<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    stored: StoredArchive,
) -> Result<ArchiveInfo, ApiError> {
    let uploaded = ArchiveInfo { sha256: stored.sha256, bytes: stored.bytes, charm: stored.charm };
    let info = uploaded.clone();
    controller.archives.record_needed(&info.sha256, controller.environment.monotonic_ms());
    let transition = move |draft: &mut Draft<'_>| {
        archive::register(draft, &info.sha256, Some(info.charm.clone()), info.bytes);
        Ok(())
    };
    controller.run(transition).await?;
    Ok(uploaded)
}
