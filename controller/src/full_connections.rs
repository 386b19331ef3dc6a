//! Remembers that every connection which the limit allows was open, so that `pintle why` of a model can name it: clients
//! whose connections wait learn nothing from the controller.
//!
//! In memory only. The server notes each time at which a new connection had to wait for that reason; a minute later it
//! counts as over. Written by `server::connections`, read by the handler of `why`.

use state::terms::cause::{Actor, Cause, Duty, Entity};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long it is shown after the last connection had to wait: agents that were not connected try again every 5 s.
const SHOWN_FOR: Duration = Duration::from_secs(60);

/// When the limit of connections was reached last.
#[derive(Default)]
pub struct FullConnections(Mutex<Option<Reached>>);

#[derive(Clone, Copy)]
struct Reached {
    at: Instant,
    limit: usize,
}

impl FullConnections {
    /// Records that a connection waits because as many as `limit` are open.
    pub(crate) fn record(&self, limit: usize) {
        let reached = Reached { at: Instant::now(), limit };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reached);
    }

    /// The cause for this entity; none if no connection had to wait in the last minute.
    pub(crate) fn cause(&self, entity: Entity) -> Option<Cause> {
        let reached = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Reached { limit, .. } = reached.filter(|reached| reached.at.elapsed() <= SHOWN_FOR)?;
        Some(Cause::new(entity, Duty::AllowConnections { limit }, Actor::Operator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_was_reached_is_named_for_a_minute() {
        let full = FullConnections::default();
        let duty = || full.cause(Entity::Model("dev".to_owned())).map(|cause| cause.duty);
        assert_eq!(duty(), None);
        full.record(4);
        tokio::time::advance(SHOWN_FOR).await;
        assert_eq!(duty(), Some(Duty::AllowConnections { limit: 4 }));
        full.record(5);
        tokio::time::advance(SHOWN_FOR).await;
        assert_eq!(duty(), Some(Duty::AllowConnections { limit: 5 }), "it was reached again");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(duty(), None);
    }
}
