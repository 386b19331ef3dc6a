//! Handlers of models and their configuration.

use crate::callers::Authorised;
use crate::environment::{self, Environment};
use crate::handlers::changed;
use crate::store::Store;
use api::error::ApiError;
use api::{
    ConfigureModel, ConfigureModelDefaults, CreateModel, DestroyModel, GetModelConfig, GetModelDefaults,
    Handle, ListModels, ModelDefault, ModelInfo, ModelSetting, WriteResponse, WriteWarning,
};
use state::documents::draft::{Draft, read, read_all};
use state::documents::effective_life;
use state::documents::prelude::{GLOBAL, Kind, Model, ModelDoc};
use state::lifecycle::model;
use state::status::model::model_state;
use state::status::model_config::{model_defaults, model_settings};
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::position::Committed;
use state::terms::status::ModelState;
use state::transitions::destruction;
use std::collections::BTreeMap;

/// A model, as if it had no machines and were not for development.
fn info(doc: &ModelDoc, model: Model, life: Life, state: ModelState, controller: Uuid) -> ModelInfo {
    ModelInfo {
        uuid: model.0,
        name: doc.name.clone(),
        life,
        state,
        controller,
        created_ms: doc.created_ms,
        has_machines: false,
        development: false,
    }
}

impl<S: Store, E: Environment> Handle<ListModels> for Authorised<S, E> {
    async fn handle(&self, _: ListModels) -> Result<Vec<ModelInfo>, ApiError> {
        let controller = self.controller.id;
        let all = self.controller.read(move |reader| {
            let names = read_all::<Uuid>(reader, &GLOBAL.prefix(Kind::ModelName));
            let shown = |(_, id): (String, Uuid)| {
                let model = Model(id);
                let doc = read(reader, &model.model())?;
                let life = effective_life::model_life(&mut { reader }, model);
                let has_machines = !reader.scan(&model.prefix(Kind::Machine), "", 1).is_empty();
                let state = model_state(reader, model, &doc).current;
                let development = model::is_for_development(&mut { reader }, model);
                let info = info(&doc, model, life, state, controller);
                Some(ModelInfo { has_machines, development, ..info })
            };
            names.into_iter().filter_map(shown).collect()
        });
        Ok(all.await)
    }
}

impl<S: Store, E: Environment> Handle<CreateModel> for Authorised<S, E> {
    async fn handle(&self, create: CreateModel) -> Result<ModelInfo, ApiError> {
        let (id, now_ms) =
            (environment::random_uuid(&self.controller.environment), self.controller.environment.wall_ms());
        let controller = self.controller.id;
        let transition = move |draft: &mut Draft<'_>| {
            let doc = model::create_configured(draft, id, &create.name, &create.config, now_ms)?;
            let development = model::is_for_development(draft, Model(id));
            let info = info(&doc, Model(id), Life::Alive, ModelState::Available, controller);
            Ok(ModelInfo { development, ..info })
        };
        Ok(self.controller.run(transition).await?.answer)
    }
}

impl<S: Store, E: Environment> Handle<DestroyModel> for Authorised<S, E> {
    async fn handle(&self, destroy: DestroyModel) -> Result<WriteResponse, ApiError> {
        let model = self.model().await?;
        let now_ms = self.controller.environment.wall_ms();
        let force = destroy.force;
        let transition = move |draft: &mut Draft<'_>| destruction::destroy(draft, model, force, now_ms);
        let committed = self.controller.run(transition).await?;
        // the janitor executes the destruction in batches
        self.controller.urgent_models.add(model.0);
        Ok(changed(committed.revision))
    }
}

impl<S: Store, E: Environment> Handle<GetModelConfig> for Authorised<S, E> {
    async fn handle(&self, _: GetModelConfig) -> Result<BTreeMap<String, ModelSetting>, ApiError> {
        self.read(|reader, model| Ok(model_settings(reader, model))).await
    }
}

impl<S: Store, E: Environment> Handle<ConfigureModel> for Authorised<S, E> {
    async fn handle(&self, configure: ConfigureModel) -> Result<WriteResponse, ApiError> {
        let change = configure.change;
        let model = self.model().await?;
        let transition =
            move |draft: &mut Draft<'_>| model::configure(draft, model, &change.set, &change.reset);
        Ok(configured(self.controller.run(transition).await?))
    }
}

/// The answer to a change of settings, with warnings about those that have no effect.
fn configured(committed: Committed<Vec<String>>) -> WriteResponse {
    let warning = |name| WriteWarning::UnknownModelSetting { name };
    WriteResponse {
        revision: committed.revision,
        warnings: committed.answer.into_iter().map(warning).collect(),
    }
}

impl<S: Store, E: Environment> Handle<GetModelDefaults> for Authorised<S, E> {
    async fn handle(&self, _: GetModelDefaults) -> Result<BTreeMap<String, ModelDefault>, ApiError> {
        Ok(self.controller.read(model_defaults).await)
    }
}

impl<S: Store, E: Environment> Handle<ConfigureModelDefaults> for Authorised<S, E> {
    async fn handle(&self, configure: ConfigureModelDefaults) -> Result<WriteResponse, ApiError> {
        let change = configure.change;
        let transition =
            move |draft: &mut Draft<'_>| model::configure_defaults(draft, &change.set, &change.reset);
        Ok(configured(self.controller.run(transition).await?))
    }
}
