//! Handlers of relations: integrate, remove, suspend and resume.

use crate::environment::{self, Environment};
use crate::handlers::changed;
use crate::session::Authorised;
use crate::store::Store;
use api::error::ApiError;
use api::{
    Handle, Integrate, RelationChoice, RemoveRelation, ResumeRelation, SuspendRelation, WriteResponse,
};
use state::documents::draft::Draft;
use state::documents::prelude::Model;
use state::documents::refusal::Refusal;
use state::lifecycle::relation;
use state::status::relation::relation_of_number;
use state::terms::cause::RelationName;
use state::terms::names::{RelationNumber, Uuid};
use state::terms::position::Committed;
use state::terms::refusal::EntityKind;
use state::transitions::force;

impl<S: Store, E: Environment> Authorised<S, E> {
    /// Returns the relation with this number. An error if it does not exist.
    async fn relation(&self, model: Model, number: RelationNumber) -> Result<Uuid, ApiError> {
        let found = self.controller.read(move |reader| relation_of_number(reader, model, number));
        match found.await {
            Some(id) => Ok(id),
            None => {
                Err(self.controller.refusal_error(Refusal::not_found(EntityKind::Relation, number)).await)
            }
        }
    }
}

impl<S: Store, E: Environment> Handle<Integrate> for Authorised<S, E> {
    async fn handle(&self, Integrate(ends): Integrate) -> Result<Committed<RelationName>, ApiError> {
        let model = self.model().await?;
        let (id, now_ms) =
            (environment::random_uuid(&self.controller.environment), self.controller.environment.wall_ms());
        let transition =
            move |draft: &mut Draft<'_>| relation::add(draft, model, [&ends.a, &ends.b], id, now_ms);
        self.controller.run(transition).await
    }
}

impl<S: Store, E: Environment> Handle<RemoveRelation> for Authorised<S, E> {
    async fn handle(&self, removal: RemoveRelation) -> Result<WriteResponse, ApiError> {
        let RemoveRelation { relation, force } = removal;
        let model = self.model().await?;
        let now_ms = self.controller.environment.wall_ms();
        let found = match &relation {
            RelationChoice::Ends(_) => None,
            RelationChoice::Number(number) => Some(self.relation(model, *number).await?),
        };
        let transition = move |draft: &mut Draft<'_>| {
            let id = match (&relation, found) {
                (RelationChoice::Ends(ends), _) => relation::find(draft, model, &ends.a, &ends.b)?,
                (RelationChoice::Number(_), id) => id.expect("it was found above"),
            };
            force::destroy_relation(draft, model, id, force, now_ms).map(drop)
        };
        self.remove(model, transition, force).await
    }
}

impl<S: Store, E: Environment> Handle<SuspendRelation> for Authorised<S, E> {
    async fn handle(&self, suspend: SuspendRelation) -> Result<WriteResponse, ApiError> {
        let model = self.model().await?;
        let (id, message) = (self.relation(model, suspend.relation).await?, suspend.message);
        let now_ms = self.controller.environment.wall_ms();
        let transition = move |draft: &mut Draft<'_>| relation::suspend(draft, model, id, &message, now_ms);
        Ok(changed(self.controller.run(transition).await?.revision))
    }
}

impl<S: Store, E: Environment> Handle<ResumeRelation> for Authorised<S, E> {
    async fn handle(&self, resume: ResumeRelation) -> Result<WriteResponse, ApiError> {
        let model = self.model().await?;
        let id = self.relation(model, resume.relation).await?;
        let transition = move |draft: &mut Draft<'_>| relation::resume(draft, model, id);
        Ok(changed(self.controller.run(transition).await?.revision))
    }
}
