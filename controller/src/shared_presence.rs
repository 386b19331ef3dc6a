//! Tells the other controllers of a shared store what this one knows about agents, and receives what they know.
//!
//! What to state is decided in `presence::statements`; here it is written, all that has changed since the last time at once,
//! several times a second ([`STATE_INTERVAL_MS`]). The boot of an attach is stated before the attach is committed
//! (`state_boots`). With the embedded engine nothing of this runs.

use crate::callers::Controller;
use crate::environment::Environment;
use crate::store::Store;
use crate::store::outage::Outage;
use crate::store::shared_presence::{Stated, StatementChange, StatementReceiver, StoreStatements};
use api::error::{ApiError, ErrorCode};
use state::status::shared_presence::{BootChange, Topic};
use state::terms::names::Uuid;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// How often what has changed is stated: a status of another controller is older by at most this and a write of etcd. A hook
/// that is shorter is not stated as running.
const STATE_INTERVAL_MS: u64 = 250;
/// How often the lease of the statements is renewed: a third of its 30 s.
const RENEWAL_INTERVAL_MS: u64 = 10_000;

impl<S: Store, E: Environment> StatementReceiver for Controller<S, E> {
    fn receive(&self, agent: Uuid, topic: Topic, stated: Option<&Stated>) {
        self.presence.receive(agent, topic, stated, self.environment.monotonic_ms());
    }
}

impl<S: Store, E: Environment> Controller<S, E> {
    /// States what has changed since the last time.
    ///
    /// # Errors
    /// If the store cannot be used: the next call states it.
    pub async fn state_presence(&self) -> Result<(), Outage> {
        let Some(statements) = self.store.statements() else { return Ok(()) };
        let mut removed = self.presence.take_removed().into_iter();
        while let Some(agent) = removed.next() {
            if let Err(outage) = statements.remove(agent).await {
                [agent].into_iter().chain(removed).for_each(|agent| self.presence.remove_later(agent));
                return Err(outage);
            }
        }
        let mut changes = Vec::new();
        for (agent, wanted) in self.presence_snapshot().wanted() {
            let topic = wanted.topic();
            let stated = statements.stated(agent, topic);
            match (wanted.change(stated.as_ref()), stated) {
                (Some(statement), stated) => {
                    let replaces = stated.map_or(0, |stated| stated.revision);
                    changes.push(StatementChange { agent, topic, statement, replaces });
                }
                (None, Some(stated)) if stated.is_own => {
                    self.presence.record_stated(agent, topic, stated.revision);
                }
                (None, _) => {}
            }
        }
        statements.change(changes).await
    }

    /// Records a change of the boots of an agent. This controller has it when this returns; the others have it before they see
    /// the next commit.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub(crate) async fn state_boots(&self, agent: Uuid, change: BootChange) -> Result<(), ApiError> {
        let now_ms = self.environment.monotonic_ms();
        match self.store.statements() {
            Some(statements) => {
                let known = self.presence.boots(agent);
                statements.change_boots(agent, known, change).await.map_err(|outage| {
                    let hint = outage.hint();
                    ApiError::new(ErrorCode::Unavailable, format!("cannot use the store: {outage}"))
                        .hint(hint)
                })
            }
            None => {
                self.presence.change_boots(agent, &change, now_ms);
                Ok(())
            }
        }
    }
}

/// States what this controller knows, as long as it serves at this address.
pub async fn run<S: Store, E: Environment>(controller: Arc<Controller<S, E>>, address: SocketAddr) {
    let Some(statements) = controller.store.statements() else { return };
    // Many statements take longer than the lease, which must not end meanwhile.
    let renewals = tokio::spawn(renew_lease(controller.clone(), statements, address.to_string()));
    let _renewals = AbortOnDrop(renewals);
    loop {
        let now_ms = controller.environment.monotonic_ms();
        controller.state_presence().await.ok();
        controller.environment.sleep_until(now_ms + STATE_INTERVAL_MS).await;
    }
}

/// Ends a task together with the one that has started it.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Renews the lease of this controller. An outage is in the log already, and ends the statements if it is long: they are made
/// again.
async fn renew_lease<S: Store, E: Environment>(
    controller: Arc<Controller<S, E>>,
    statements: StoreStatements,
    address: String,
) {
    loop {
        let now_ms = controller.environment.monotonic_ms();
        let interval_ms = match statements.renew(&address).await {
            Ok(()) => RENEWAL_INTERVAL_MS,
            Err(_) => STATE_INTERVAL_MS,
        };
        controller.environment.sleep_until(now_ms + interval_ms).await;
    }
}
