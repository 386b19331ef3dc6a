//! Ends the connections of revoked tokens, with their streams and requests (S27).
//!
//! It follows the change log of the store, so it does not depend on how a token is revoked: the token's document is
//! replaced or deleted, or the machine that holds the token is removed. The connections of a token that is no longer
//! valid are ended within [`CHECK_INTERVAL`] and the time that `server` grants their streams to end by themselves.

use super::connections::Connections;
use crate::callers::Controller;
use crate::environment::Environment;
use crate::store::{CommitChanges, Position, Store};
use crate::tokens;
use state::documents::prelude::{KeyParts, Kind, TokenHolder};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// The pause between two reads of the change log: at most four reads per second, however much is committed.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The most commits per read: two reads cover a second of a busy controller (1,000 commits).
const COMMITS_PER_READ: usize = 512;

/// Returns a future that ends the connections of each token that is revoked from now on. It never completes.
pub fn enforce<S: Store, E: Environment>(
    controller: Arc<Controller<S, E>>,
    connections: Arc<Connections>,
) -> impl Future<Output = ()> + Send {
    let store = &controller.store;
    let position = Position { store_generation: store.store_generation(), revision: store.newest_revision() };
    follow(controller, connections, position)
}

async fn follow<S: Store, E: Environment>(
    controller: Arc<Controller<S, E>>,
    connections: Arc<Connections>,
    mut position: Position,
) {
    let store = &controller.store;
    loop {
        store.wait_past(position.revision).await;
        let newest = store.newest_revision();
        let affected_tokens = match store.changes_after(position, COMMITS_PER_READ).await {
            Ok(changes) => {
                position.revision = changes.last().map_or(newest, |last| last.revision);
                affected_tokens(&connections, &changes)
            }
            // The log does not reach back far enough: any token may have been revoked.
            Err(_) => {
                position.revision = newest;
                connections.tokens()
            }
        };
        if !affected_tokens.is_empty() {
            // The connections of a token whose document is damaged are closed as well.
            let revoked = controller.read_available(move |reader| {
                let is_valid = |token: &str, known: &Option<TokenHolder>| {
                    let holder = tokens::holder(reader, token);
                    holder.is_ok_and(|holder| known.as_ref().is_none_or(|known| *known == holder))
                };
                affected_tokens
                    .into_iter()
                    .filter(|(token, known)| !is_valid(token, known))
                    .collect::<Vec<_>>()
            });
            for (token, holder) in revoked.await {
                tracing::info!(?holder, "a token was revoked: its connections are closed");
                connections.revoke(&token);
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Returns the tokens of open connections that these commits may have revoked, with their holders if they are known.
fn affected_tokens(
    connections: &Connections,
    changes: &[CommitChanges],
) -> BTreeMap<String, Option<TokenHolder>> {
    let (mut changed_tokens, mut changed_machines) = (BTreeSet::new(), BTreeSet::new());
    for key in changes.iter().flat_map(CommitChanges::keys).filter_map(KeyParts::of) {
        match key.kind {
            Kind::Token => drop(changed_tokens.insert(key.rest)),
            Kind::Machine => changed_machines.extend(key.ids()),
            _ => {}
        }
    }
    if changed_tokens.is_empty() && changed_machines.is_empty() {
        return BTreeMap::new(); // true for almost every commit
    }
    let mut tokens = connections.tokens();
    tokens.retain(|token, holder| {
        let of_machine = match holder {
            Some(TokenHolder::Machine { machine, .. }) => changed_machines.contains(machine),
            Some(_) => false,
            // Its lookup has not ended: the holder may be a machine.
            None => !changed_machines.is_empty(),
        };
        changed_tokens.contains(token.as_str()) || of_machine
    });
    tokens
}
