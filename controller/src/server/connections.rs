//! The open connections: executes the decisions of `admission`, and ends the connections of revoked tokens.
//!
//! Every connection has a [`Connection`], which counts it until its socket is closed. The accept loop of `server`
//! creates it with [`Connections::open_next`]; each request records its token in it.

use super::admission::{Admission, Admit, Limit, RequestAdmission};
use super::connection_limits::Limits;
use super::connection_table::{ConnectionId, HandshakeProgress};
use super::waiting::{Opened, Waiting};
use crate::full_connections::FullConnections;
use api::error::{ApiError, ErrorCode};
use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use state::documents::prelude::TokenHolder;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// The least time between two log lines about the limit of connections.
const FULL_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The connections of one server.
pub struct Connections {
    started: Instant,
    table: Mutex<Table>,
    /// Wakes the accept loop when a connection was closed or authenticated, or a request has ended.
    changed: Notify,
}

struct Table {
    admission: Admission,
    stages: BTreeMap<ConnectionId, watch::Sender<Stage>>,
    /// When the limit was logged last.
    logged_full: Option<Instant>,
    /// Records that all connections are open, for `why`.
    full: Arc<FullConnections>,
}

/// The stage of a connection; it only advances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// No request has presented a valid token.
    Unauthenticated,
    /// A request has presented a valid token.
    Authenticated,
    /// A token was revoked: the connection ends after the requests in progress, or after a short time.
    Revoked,
    /// The connection ends at once: to make room for another one, or because its client reads too slowly.
    Closed,
}

impl Connections {
    /// Returns an empty table of connections with these limits. When all of them are open, that is recorded in `full`.
    pub fn new(limits: Limits, full: Arc<FullConnections>) -> Arc<Connections> {
        let (admission, stages) = (Admission::new(limits), BTreeMap::new());
        let table = Table { admission, stages, logged_full: None, full };
        Arc::new(Connections { started: Instant::now(), table: Mutex::new(table), changed: Notify::new() })
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no holder panics")
    }

    /// Opens the next of the connections that wait, and closes others for it. If none may be opened now, returns when
    /// to try again at the latest; no time means after [`Connections::changed`].
    pub fn open_next<T>(
        self: &Arc<Self>,
        waiting: &mut Waiting<T>,
    ) -> Result<(T, Connection), Option<Instant>> {
        let now_ms = self.now_ms();
        let mut next_ms: Option<u64> = None;
        let opened = waiting.open_next(|address| {
            let mut table = self.table();
            loop {
                match table.admission.admit(address, now_ms) {
                    Admit::Open(id) => {
                        table.stages.insert(id, watch::Sender::new(Stage::Unauthenticated));
                        let connections = Arc::clone(self);
                        return Opened::Yes(Connection(Arc::new(Open { id, address, connections })));
                    }
                    Admit::CloseFirst(id) => table.advance(id, Stage::Closed),
                    Admit::Wait { until_ms, limit } => {
                        table.record_full();
                        next_ms = until_ms.into_iter().chain(next_ms).min();
                        return match limit {
                            Limit::OfAddress => Opened::AddressIsFull,
                            Limit::OfAll => Opened::AllIsFull,
                        };
                    }
                }
            }
        });
        opened.ok_or_else(|| next_ms.map(|next_ms| self.started + Duration::from_millis(next_ms)))
    }

    /// Waits until a connection was closed or authenticated, or until this time.
    pub async fn changed(&self, until: Option<Instant>) {
        let changed = self.changed.notified();
        match until {
            Some(until) => drop(tokio::time::timeout_at(until, changed).await),
            None => changed.await,
        }
    }

    /// Returns the limits.
    pub fn limits(&self) -> Limits {
        self.table().admission.limits()
    }

    /// Returns the tokens of the open connections by their hash, with their holder if the lookup has ended.
    pub fn tokens(&self) -> BTreeMap<String, Option<TokenHolder>> {
        self.table().admission.tokens()
    }

    /// Ends the connections of a token.
    pub fn revoke(&self, token: &str) {
        let mut table = self.table();
        for id in table.admission.revoke(token) {
            table.advance(id, Stage::Revoked);
        }
    }
}

impl Table {
    fn advance(&self, id: ConnectionId, stage: Stage) {
        if let Some(current) = self.stages.get(&id) {
            current.send_if_modified(|current| {
                let is_later = stage > *current;
                *current = stage.max(*current);
                is_later
            });
        }
    }

    /// Records that the limit of all connections is reached, and logs it at most once per [`FULL_LOG_INTERVAL`].
    fn record_full(&mut self) {
        if !self.admission.is_full() {
            return;
        }
        let connections = self.admission.limits().connections;
        self.full.record(connections);
        if self.logged_full.is_none_or(|logged| logged.elapsed() >= FULL_LOG_INTERVAL) {
            self.logged_full = Some(Instant::now());
            tracing::warn!(
                connections,
                "the limit of connections is reached; to allow more, raise the limit of open files (ulimit -Hn)"
            );
        }
    }
}

/// One open connection. It is counted until the last clone is dropped.
#[derive(Clone)]
pub struct Connection(Arc<Open>);

struct Open {
    id: ConnectionId,
    address: IpAddr,
    connections: Arc<Connections>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        table.admission.close(self.id);
        table.stages.remove(&self.id);
        self.connections.changed.notify_one();
    }
}

impl Connection {
    /// Waits until the connection has reached a stage, or a later one.
    pub async fn reached(&self, stage: Stage) {
        let current = self.0.connections.table().stages.get(&self.0.id).map(watch::Sender::subscribe);
        if let Some(mut current) = current {
            // An error means that the connection is closed.
            current.wait_for(|current| *current >= stage).await.ok();
        }
    }

    /// Records what the peer has sent of its handshake.
    pub fn progress(&self, progress: HandshakeProgress) {
        let now_ms = self.0.connections.now_ms();
        self.0.connections.table().admission.progress(self.0.id, progress, now_ms);
    }

    /// The address of the peer.
    pub fn address(&self) -> IpAddr {
        self.0.address
    }

    /// Whether a request has presented a valid token.
    pub fn is_authenticated(&self) -> bool {
        let stage = self.0.connections.table().stages.get(&self.0.id).map(|stage| *stage.borrow());
        stage.is_some_and(|stage| stage >= Stage::Authenticated)
    }

    /// Records that a request with the token of this hash has arrived, before the token is looked up.
    pub fn present(&self, token: &str) {
        self.0.connections.table().admission.present(self.0.id, token);
    }

    /// Records that the token of this hash is valid. An error if it has too many connections.
    pub fn authenticate(&self, token: &str, holder: &TokenHolder) -> Result<(), ApiError> {
        let mut table = self.0.connections.table();
        match table.admission.authenticate(self.0.id, token, holder) {
            RequestAdmission::Proceed => {}
            RequestAdmission::ProceedAndClose(other) => table.advance(other, Stage::Closed),
            RequestAdmission::TooMany { limit } => {
                let text = format!(
                    "cannot open another connection: this token, or all units together, have {limit}, and none can be closed for it"
                );
                return Err(ApiError::new(ErrorCode::Unavailable, text)
                    .hint("try again when one of its requests or streams has ended"));
            }
        }
        table.advance(self.0.id, Stage::Authenticated);
        self.0.connections.changed.notify_one();
        Ok(())
    }

    /// Ends the connection at once.
    pub fn close(&self) {
        self.0.connections.table().advance(self.0.id, Stage::Closed);
    }

    /// Counts a request as being answered until the result is dropped.
    pub fn request(&self) -> OpenRequest {
        self.0.connections.table().admission.begin(self.0.id);
        OpenRequest(self.clone())
    }
}

/// A request that is being answered.
pub struct OpenRequest(Connection);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let open = &self.0.0;
        open.connections.table().admission.end(open.id);
        open.connections.changed.notify_one();
    }
}

/// The body of a response. Its request counts as being answered until the body was sent.
pub struct OpenResponse {
    /// The body that is sent.
    pub body: Body,
    /// The request that it answers.
    pub _open_request: OpenRequest,
}

impl hyper::body::Body for OpenResponse {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::connection_limits::DESCRIPTORS_MIN;
    use state::documents::prelude::GLOBAL;
    use state::terms::cause::{Duty, Entity};
    use state::terms::names::Uuid;
    use std::net::Ipv4Addr;

    #[tokio::test]
    async fn the_limit_is_noted_when_a_connection_waits_because_all_are_in_use() {
        let (full, limits) = (Arc::<FullConnections>::default(), Limits::for_descriptors(DESCRIPTORS_MIN));
        let connections = Connections::new(limits, full.clone());
        let mut waiting = Waiting::new(limits.waiting);
        let duty = || full.cause(Entity::Model("dev".to_owned())).map(|cause| cause.duty);
        let mut in_use = Vec::new();
        for n in 0..limits.connections {
            waiting.push(IpAddr::V4(Ipv4Addr::LOCALHOST), ());
            let (_, connection) = connections.open_next(&mut waiting).map_err(drop).expect("there is room");
            let (token, machine) = (format!("{n:064x}"), Uuid(n as u128));
            connection.present(&token);
            let holder = TokenHolder::Machine { model: GLOBAL, machine };
            connection.authenticate(&token, &holder).expect("it is the first one of its token");
            in_use.push(connection.request());
            assert_eq!(duty(), None);
        }
        waiting.push(IpAddr::V4(Ipv4Addr::LOCALHOST), ());
        assert!(connections.open_next(&mut waiting).is_err());
        assert_eq!(duty(), Some(Duty::AllowConnections { limit: limits.connections }));
    }
}
