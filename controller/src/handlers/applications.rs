//! Handlers of applications: deploy, refresh, configure and remove.
//!
//! A deployment of many units is more than one transaction: the application and its first units are created together,
//! the other units in batches (`units`). A failure in between leaves the units that were added so far.

use crate::environment::{Environment, Uuids};
use crate::handlers::changed;
use crate::session::Authorised;
use crate::store::Store;
use api::error::ApiError;
use api::{
    ApplicationConfig, Configure, Deploy, Deployed, GetConfig, Handle, Refresh, RemoveApplication, SetTrust,
    Setting, WriteResponse,
};
use state::documents::draft::{Draft, read};
use state::documents::refusal::Refusal;
use state::lifecycle::creation::Creation;
use state::lifecycle::{application, storage};
use state::terms::position::Committed;
use state::terms::refusal::EntityKind;
use state::terms::unit_documents::CharmDoc;
use state::transitions::force;

impl<S: Store, E: Environment> Handle<Deploy> for Authorised<S, E> {
    async fn handle(&self, deploy: Deploy) -> Result<Committed<Deployed>, ApiError> {
        let model = self.model().await?;
        let (now_ms, ids) = (self.controller.environment.wall_ms(), Uuids::new(&self.controller.environment));
        let transition = move |draft: &mut Draft<'_>| {
            let creation = Creation { now_ms, ids: &mut ids.generator() };
            application::deploy(draft, model, &deploy, creation)
        };
        let mut committed = self.controller.run(transition).await?;
        let deployed = &mut committed.answer;
        let remaining = std::mem::take(&mut deployed.units_remaining);
        let more = self.add_units(model, deployed.application, remaining, None).await?;
        deployed.units.extend(more.answer);
        committed.revision = committed.revision.max(more.revision);
        Ok(committed)
    }
}

impl<S: Store, E: Environment> Handle<Refresh> for Authorised<S, E> {
    async fn handle(&self, refresh: Refresh) -> Result<Committed<CharmDoc>, ApiError> {
        let model = self.model().await?;
        let (now_ms, ids) = (self.controller.environment.wall_ms(), Uuids::new(&self.controller.environment));
        let transition = move |draft: &mut Draft<'_>| {
            let creation = Creation { now_ms, ids: &mut ids.generator() };
            application::refresh(draft, model, &refresh, creation)
        };
        self.controller.run(transition).await
    }
}

impl<S: Store, E: Environment> Handle<GetConfig> for Authorised<S, E> {
    async fn handle(&self, get: GetConfig) -> Result<ApplicationConfig, ApiError> {
        let name = get.application;
        let config = self.view(move |reader, model| {
            let mut documents = reader;
            let id = application::find(&mut documents, model, &name)?;
            let (_, charm) = application::charm_of(&mut documents, model, id)
                .ok_or_else(|| Refusal::not_found(EntityKind::ApplicationCharm, &name))?;
            let set = read(reader, &model.application_config(id)).unwrap_or_default();
            let setting = |(option, declared): (&String, &state::charm::ConfigOption)| {
                let user = set.get(option);
                let setting = Setting {
                    kind: declared.kind,
                    description: declared.description.clone(),
                    value: user.or(declared.default.as_ref()).cloned(),
                    default: declared.default.clone(),
                    user: user.is_some(),
                };
                (option.clone(), setting)
            };
            let settings = charm.config.iter().map(setting).collect();
            let trusted = read(reader, &model.application_trust(id)).unwrap_or_default();
            Ok(ApplicationConfig { application: name, charm: charm.name.clone(), trusted, settings })
        });
        config.await
    }
}

impl<S: Store, E: Environment> Handle<Configure> for Authorised<S, E> {
    async fn handle(&self, configure: Configure) -> Result<WriteResponse, ApiError> {
        let model = self.model().await?;
        let Configure { application, change } = configure;
        let transition = move |draft: &mut Draft<'_>| {
            let id = application::find(draft, model, &application)?;
            application::configure(draft, model, id, &change.set, &change.reset)
        };
        Ok(changed(self.controller.run(transition).await?.revision))
    }
}

impl<S: Store, E: Environment> Handle<SetTrust> for Authorised<S, E> {
    async fn handle(&self, set: SetTrust) -> Result<WriteResponse, ApiError> {
        let model = self.model().await?;
        let transition = move |draft: &mut Draft<'_>| {
            let id = application::find(draft, model, &set.application)?;
            application::set_trust(draft, model, id, set.trusted);
            Ok(())
        };
        Ok(changed(self.controller.run(transition).await?.revision))
    }
}

impl<S: Store, E: Environment> Handle<RemoveApplication> for Authorised<S, E> {
    async fn handle(&self, removal: RemoveApplication) -> Result<WriteResponse, ApiError> {
        let RemoveApplication { application: name, force, destroy_storage } = removal;
        let (model, now_ms) = (self.model().await?, self.controller.environment.wall_ms());
        let transition = move |draft: &mut Draft<'_>| {
            let id = application::find(draft, model, &name)?;
            if destroy_storage {
                storage::destroy_with_application(draft, model, id);
            }
            force::destroy_application(draft, model, id, force, now_ms).map(drop)
        };
        self.remove(model, transition, force).await
    }
}
