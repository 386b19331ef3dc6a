//! What removals have in common: force, the janitor, and the simulation of a removal.

use crate::handlers::changed;
use crate::named;
use crate::outside::Outside;
use crate::owed::Owed;
use crate::session::Authorised;
use crate::store::Store;
use crate::why;
use api::error::{ApiError, ErrorCode};
use api::{Changed, DryRunRemoval, FORETOLD_MAX, Force, Forecast, Foretold, Handle};
use state::model::draft::{Draft, read};
use state::model::keys::Model;
use state::model::refusal::Refusal;
use state::model::{force, model, removal};

/// When force is to begin; none = never.
pub(super) fn forced(force: Force, now_ms: i64) -> Option<force::Force> {
    match force {
        Force::No => None,
        Force::AfterWait => Some(force::Force { no_wait: false, now_ms }),
        Force::AtOnce => Some(force::Force { no_wait: true, now_ms }),
    }
}

impl<S: Store, O: Outside> Authorised<S, O> {
    /// Removes something. What goes by force and without waiting is begun at once; a teardown budget, from now on.
    pub(super) async fn removed<F>(
        &self,
        model: Model,
        transition: F,
        force: Option<force::Force>,
    ) -> Result<Changed, ApiError>
    where
        F: Fn(&mut Draft<'_>) -> Result<(), Refusal> + Send + Sync + 'static,
    {
        let committed = self.controller.run(transition).await?;
        let config = self.controller.read(move |reader| read(reader, &model.model_config())).await;
        let has_budget = config.is_some_and(|config| model::teardown_budget_ms(&config).is_some());
        if has_budget || force.is_some_and(|force| force.no_wait) {
            self.controller.sweep.notify_one();
        }
        Ok(changed(committed.revision))
    }
}

impl<S: Store, O: Outside> Handle<DryRunRemoval> for Authorised<S, O> {
    async fn handle(&self, removal: DryRunRemoval) -> Result<Forecast, ApiError> {
        let DryRunRemoval { removed, force } = removal;
        if removed.len() > FORETOLD_MAX {
            let message = format!("{} removals: at most {FORETOLD_MAX} are foretold at once", removed.len());
            return Err(ApiError::new(ErrorCode::Invalid, message).hint("ask for fewer of them"));
        }
        let now_ms = self.controller.outside.wall_ms();
        let (force, written) = (forced(force, now_ms), self.controller.written.clone());
        let (roll, waits) = (self.controller.roll(), self.controller.waits.clone());
        let forecast = self.view(move |reader, model| {
            let entities = removed.iter().map(|one| named::entity(reader, model, one));
            let entities = entities.collect::<Result<Vec<_>, _>>()?;
            let asked = why::Asked { reader, model, roll: &roll, written: &written, waits: &waits, now_ms };
            let heard = removal::Heard {
                silent: &|one| asked.silent(one).is_some(),
                running: &|id| roll.executing(id).map(|running| running.activity.clone()),
            };
            let forecast = removal::forecast(reader, model, (&entities, force), &heard)?;
            let foretold = |(unit, hook)| Foretold { unit, hook };
            let owed = Owed { reader, model, written: &written, now_ms };
            let silent = forecast.silent.into_iter().filter_map(|one| asked.silent(one));
            let blocked = forecast.blocked.into_iter().map(|one| why::cause(owed.dated(one)));
            Ok(Forecast {
                at_once: forecast.at_once,
                dying: forecast.dying,
                hooks: forecast.hooks.into_iter().map(foretold).collect(),
                left_out: forecast.left_out.into_iter().map(foretold).collect(),
                gone: forecast.gone,
                blocked: silent.chain(blocked).collect(),
                more: forecast.more,
            })
        });
        forecast.await
    }
}
