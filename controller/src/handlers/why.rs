//! The handler of `pintle why`.
//!
//! [`crate::why`] explains the entity. The handler puts before it the causes that concern the whole controller: a store
//! that cannot write, damaged documents, full connections, missing keys of secrets.

use crate::callers::Authorised;
use crate::environment::Environment;
use crate::store::Store;
use crate::store::unavailable::{restore_cause, write_failure_cause};
use crate::why::{self, WhySources};
use api::error::ApiError;
use api::{GetWhy, Handle, Why};
use state::terms::cause::Entity;

impl<S: Store, E: Environment> Handle<GetWhy> for Authorised<S, E> {
    async fn handle(&self, get: GetWhy) -> Result<Why, ApiError> {
        let presence = self.controller.presence_when_read();
        let (entity, now_ms) = (get.entity, self.controller.environment.wall_ms());
        let (times, timers) = (self.controller.commit_times.clone(), self.controller.force_timers.clone());
        let why = self.read_available(move |reader, model| {
            let (presence, commit_times, force_timers) = (&presence(), &*times, &*timers);
            let sources = WhySources { reader, model, presence, commit_times, force_timers, now_ms };
            why::explain(&sources, &entity)
        });
        let (mut why, damaged) = why.await?;
        let entity = why.entity.clone();
        let failure = write_failure_cause(&self.controller.store, entity.clone());
        let damaged = damaged.iter().map(|document| restore_cause(entity.clone(), document));
        let full = self.controller.full_connections.cause(entity.clone());
        let keys =
            self.controller.environment.secret_keys().and_then(|keys| keys.missing_cause(entity.clone()));
        let of_model = full.into_iter().chain(keys).filter(|_| matches!(entity, Entity::Model(_)));
        why.causes.splice(0..0, damaged.chain(of_model));
        failure.into_iter().for_each(|failure| why.name_unwritable_store(failure));
        Ok(why)
    }
}
