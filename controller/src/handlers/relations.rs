//! Handlers of the requests about relations: integrate, remove, suspend and resume.
//!
//! The transitions are in `state::lifecycle::relation` and `state::transitions::force`.

use crate::callers::Authorised;
use crate::environment::{self, Environment};
use crate::lookup::find_relation;
use crate::store::Store;
use api::error::ApiError;
use api::{
    Handle, Integrate, RelationChoice, RemoveRelation, ResumeRelation, SuspendRelation, WriteResponse,
};
use state::documents::draft::Draft;
use state::lifecycle::relation;
use state::terms::cause::RelationName;
use state::terms::names::{RelationNumber, Uuid};
use state::terms::position::Committed;
use state::transitions::force;

impl<S: Store, E: Environment> Authorised<S, E> {
    async fn relation(&self, number: RelationNumber) -> Result<Uuid, ApiError> {
        self.read(move |reader, model| find_relation(reader, model, &RelationChoice::Number(number))).await
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
        match relation {
            // names may be given to another relation, so they are looked up in the transaction
            RelationChoice::Ends(ends) => {
                let transition = move |draft: &mut Draft<'_>| {
                    let id = relation::find(draft, model, &ends.a, &ends.b)?;
                    force::destroy_relation(draft, model, id, force, now_ms).map(drop)
                };
                self.remove(model, transition, force).await
            }
            RelationChoice::Number(number) => {
                let id = self.relation(number).await?;
                let transition = move |draft: &mut Draft<'_>| {
                    force::destroy_relation(draft, model, id, force, now_ms).map(drop)
                };
                self.remove(model, transition, force).await
            }
        }
    }
}

impl<S: Store, E: Environment> Handle<SuspendRelation> for Authorised<S, E> {
    async fn handle(&self, suspend: SuspendRelation) -> Result<WriteResponse, ApiError> {
        let SuspendRelation { relation, message } = suspend;
        let id = self.relation(relation).await?;
        let now_ms = self.controller.environment.wall_ms();
        self.change(move |draft, model| relation::suspend(draft, model, id, &message, now_ms)).await
    }
}

impl<S: Store, E: Environment> Handle<ResumeRelation> for Authorised<S, E> {
    async fn handle(&self, resume: ResumeRelation) -> Result<WriteResponse, ApiError> {
        let id = self.relation(resume.relation).await?;
        self.change(move |draft, model| relation::resume(draft, model, id)).await
    }
}
