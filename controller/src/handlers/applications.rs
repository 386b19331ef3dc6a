//! Handlers of applications: deploy, refresh, configure, trust, expose and remove.
//!
//! A deployment of many units is more than one transaction: the application and its first units are created together,
//! the other units in batches (`units`). A failure in between leaves the units that were added so far.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::store::Store;
use api::error::ApiError;
use api::{
    ApplicationConfig, Configure, Deploy, Deployed, GetConfig, Handle, Refresh, Refreshed, RemoveApplication,
    SetExposed, SetTrust, WriteResponse,
};
use state::documents::draft::Draft;
use state::lifecycle::creation::Creation;
use state::lifecycle::{application, application_settings};
use state::status::application_config::application_config;
use state::status::charm_revision::kept_revisions;
use state::terms::position::Committed;
use state::transitions::requested_removal::{self, RemovalOptions};

impl<S: Store, E: Environment> Handle<Deploy> for Authorised<S, E> {
    async fn handle(&self, deploy: Deploy) -> Result<Committed<Deployed>, ApiError> {
        let model = self.model().await?;
        let transition = move |draft: &mut Draft<'_>, creation: Creation<'_>| {
            application::deploy(draft, model, &deploy, creation)
        };
        let mut committed = self.create(transition).await?;
        let deployed = &mut committed.answer;
        let remaining = std::mem::take(&mut deployed.units_remaining);
        let more = self.add_units(model, deployed.application, remaining, None).await?;
        deployed.units.extend(more.answer);
        committed.revision = committed.revision.max(more.revision);
        Ok(committed)
    }
}

impl<S: Store, E: Environment> Handle<Refresh> for Authorised<S, E> {
    async fn handle(&self, refresh: Refresh) -> Result<Committed<Refreshed>, ApiError> {
        let model = self.model().await?;
        let name = refresh.application.clone();
        let transition = move |draft: &mut Draft<'_>, creation: Creation<'_>| {
            application::refresh(draft, model, &refresh, creation)
        };
        let Committed { answer: charm, revision } = self.create(transition).await?;
        let kept = self.controller.read(move |reader| {
            let id = application::find(&mut { reader }, model, &name);
            id.map_or_else(|_| Vec::new(), |id| kept_revisions(reader, model, id))
        });
        Ok(Committed { answer: Refreshed { charm, kept: kept.await }, revision })
    }
}

impl<S: Store, E: Environment> Handle<GetConfig> for Authorised<S, E> {
    async fn handle(&self, get: GetConfig) -> Result<ApplicationConfig, ApiError> {
        self.read(move |reader, model| application_config(reader, model, &get.application)).await
    }
}

impl<S: Store, E: Environment> Handle<Configure> for Authorised<S, E> {
    async fn handle(&self, configure: Configure) -> Result<WriteResponse, ApiError> {
        let Configure { application, change } = configure;
        self.change(move |draft, model| {
            let id = application::find(draft, model, &application)?;
            application_settings::configure(draft, model, id, &change.set, &change.reset)
        })
        .await
    }
}

impl<S: Store, E: Environment> Handle<SetTrust> for Authorised<S, E> {
    async fn handle(&self, set: SetTrust) -> Result<WriteResponse, ApiError> {
        self.change(move |draft, model| {
            let id = application::find(draft, model, &set.application)?;
            application_settings::set_trust(draft, model, id, set.trusted);
            Ok(())
        })
        .await
    }
}

impl<S: Store, E: Environment> Handle<SetExposed> for Authorised<S, E> {
    async fn handle(&self, set: SetExposed) -> Result<WriteResponse, ApiError> {
        self.change(move |draft, model| {
            let id = application::find(draft, model, &set.application)?;
            application_settings::set_exposed(draft, model, id, set.exposed);
            Ok(())
        })
        .await
    }
}

impl<S: Store, E: Environment> Handle<RemoveApplication> for Authorised<S, E> {
    async fn handle(&self, removal: RemoveApplication) -> Result<WriteResponse, ApiError> {
        let RemoveApplication { application: name, force, destroy_storage } = removal;
        let (model, now_ms) = (self.model().await?, self.controller.environment.wall_ms());
        let options = RemovalOptions { force, destroy_storage };
        let transition = move |draft: &mut Draft<'_>| {
            let id = application::find(draft, model, &name)?;
            requested_removal::remove_application(draft, model, id, options, now_ms)
        };
        self.remove(model, transition, force).await
    }
}
