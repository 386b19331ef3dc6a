//! Handlers of models in which charms are developed: what fake applications publish, and the clock of the model.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::handlers::changed;
use crate::store::Store;
use api::error::ApiError;
use api::{AdvanceClock, AdvancedClock, Handle, SetFakeSettings, WriteResponse};
use state::documents::draft::Draft;
use state::lifecycle::creation::Creation;
use state::lifecycle::{fake_application, model};
use state::terms::position::Committed;

impl<S: Store, E: Environment> Handle<SetFakeSettings> for Authorised<S, E> {
    async fn handle(&self, set: SetFakeSettings) -> Result<WriteResponse, ApiError> {
        let model = self.model().await?;
        let transition = move |draft: &mut Draft<'_>, creation: Creation<'_>| {
            fake_application::set_settings(draft, model, &set, creation)
        };
        Ok(changed(self.create(transition).await?.revision))
    }
}

impl<S: Store, E: Environment> Handle<AdvanceClock> for Authorised<S, E> {
    async fn handle(&self, advance: AdvanceClock) -> Result<Committed<AdvancedClock>, ApiError> {
        let model = self.model().await?;
        let transition = move |draft: &mut Draft<'_>| model::advance(draft, model, advance.by_ms);
        let Committed { answer: advanced_ms, revision } = self.controller.run(transition).await?;
        // the janitor marks the secrets that are due now
        self.controller.urgent_models.add(model.0);
        Ok(Committed { answer: AdvancedClock { advanced_ms }, revision })
    }
}
