//! The open connections with indexes, so that a decision about one of them does not read all of them.
//!
//! A connection changes only through [`ConnectionTable::change`], which keeps the indexes. Used by `admission`;
//! `connections` reports the progress of a handshake with its types.

use state::documents::prelude::TokenHolder;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// An unauthenticated connection that has sent nothing for this long may be closed for a new one. The first message of
/// a client arrives with the end of the TCP handshake; the time is for the server to notice it.
pub const SILENT_MS: u64 = 50;
/// An unauthenticated connection that has sent only a part of its first message may be closed for a new one after this
/// time: clients send that message at once, in one or two packets.
pub const HALF_HELLO_MS: u64 = 100;
/// An unauthenticated connection whose handshake the server has answered may be closed for a new one after this time:
/// many times the few milliseconds that the rest of the handshake and the first request take.
pub const PROGRESS_MS: u64 = 1_000;
/// An unauthenticated connection whose handshake waits for the server may be closed for a new one after this time: at
/// the limit of such connections it is processed within 32 scheduling rounds (`handshake_limiter`) of some tens of
/// milliseconds. To close it earlier would waste the time that it has waited.
pub const UNANSWERED_MS: u64 = 5_000;

/// The number of a connection; a later connection has a greater one.
pub type ConnectionId = u64;

/// One open connection.
pub struct Connection {
    /// The address under which it is counted.
    pub address: IpAddr,
    /// When it was opened.
    pub opened_ms: u64,
    /// How far its handshake is.
    pub progress: HandshakeProgress,
    /// When the server answered the handshake.
    pub answered_ms: u64,
    /// The hash of the token that was presented last; it may still be looked up.
    pub presented: Option<String>,
    /// The tokens that were found to be valid, by their hash.
    pub tokens: BTreeMap<String, TokenHolder>,
    /// The requests that are being answered; a stream is one until it ends.
    pub requests: usize,
    /// The number of the last request that ended, among those of all connections.
    pub last_used: u64,
    /// Whether the connection is being closed.
    pub is_closing: bool,
}

impl Connection {
    /// Whether a request has presented a valid token.
    pub fn is_authenticated(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Whether the connection may be closed for another one although it has a token.
    pub fn is_idle(&self) -> bool {
        self.is_authenticated() && self.requests == 0 && !self.is_closing
    }

    /// Whether a request has presented a valid token of a unit.
    pub fn is_of_unit(&self) -> bool {
        self.tokens.values().any(is_unit)
    }

    /// When the connection may be closed for a new one, if it is not authenticated by then.
    pub fn protected_until_ms(&self) -> u64 {
        match self.progress {
            HandshakeProgress::Silent => self.opened_ms + SILENT_MS,
            HandshakeProgress::HalfHello => self.opened_ms + HALF_HELLO_MS,
            HandshakeProgress::Hello => self.opened_ms + UNANSWERED_MS,
            HandshakeProgress::Answered => self.answered_ms + PROGRESS_MS,
        }
    }
}

/// Whether the holder of a token is a unit.
pub fn is_unit(holder: &TokenHolder) -> bool {
    matches!(holder, TokenHolder::Unit { .. })
}

/// What the decisions need to know of all connections. It follows from them.
#[derive(Debug, Default, PartialEq)]
struct Index {
    /// Those without a valid token; the limit of such connections bounds it.
    unauthenticated: BTreeSet<ConnectionId>,
    /// The idle ones, the least recently used first.
    idle: BTreeSet<(u64, ConnectionId)>,
    /// Those of each token, by its hash.
    of_tokens: BTreeMap<String, BTreeSet<ConnectionId>>,
    /// The number of those that are being closed.
    closing: usize,
    /// The number of those that have presented a valid token of a unit and are not being closed.
    of_units: usize,
}

impl Index {
    fn insert(&mut self, id: ConnectionId, connection: &Connection) {
        if !connection.is_authenticated() {
            self.unauthenticated.insert(id);
        }
        if connection.is_idle() {
            self.idle.insert((connection.last_used, id));
        }
        for token in connection.tokens.keys() {
            self.of_tokens.entry(token.clone()).or_default().insert(id);
        }
        self.closing += usize::from(connection.is_closing);
        self.of_units += usize::from(connection.is_of_unit() && !connection.is_closing);
    }

    fn remove(&mut self, id: ConnectionId, connection: &Connection) {
        self.unauthenticated.remove(&id);
        self.idle.remove(&(connection.last_used, id));
        for token in connection.tokens.keys() {
            if let Some(ids) = self.of_tokens.get_mut(token) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.of_tokens.remove(token);
                }
            }
        }
        self.closing -= usize::from(connection.is_closing);
        self.of_units -= usize::from(connection.is_of_unit() && !connection.is_closing);
    }
}

/// How far a TLS handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HandshakeProgress {
    /// The peer has sent nothing.
    Silent,
    /// The peer has sent a part of the first message (ClientHello).
    HalfHello,
    /// The peer has sent the whole first message, and waits for the server.
    Hello,
    /// The server has answered.
    Answered,
}

/// The open connections.
#[derive(Default)]
pub struct ConnectionTable {
    connections: BTreeMap<ConnectionId, Connection>,
    index: Index,
}

impl ConnectionTable {
    /// The number of connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// The number of connections without a valid token.
    pub fn count_unauthenticated(&self) -> usize {
        self.index.unauthenticated.len()
    }

    /// The number of connections that have presented a valid token of a unit.
    pub fn count_of_units(&self) -> usize {
        self.index.of_units
    }

    /// Whether any connection is being closed.
    pub fn is_closing_any(&self) -> bool {
        self.index.closing > 0
    }

    /// A connection.
    pub fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.connections.get(&id)
    }

    /// All connections.
    pub fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.connections.iter().map(|(id, connection)| (*id, connection))
    }

    /// The connections without a valid token, the oldest first.
    pub fn unauthenticated(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> + Clone {
        self.index.unauthenticated.iter().filter_map(|id| self.entry(*id))
    }

    /// The idle connections, the least recently used first.
    pub fn idle(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.index.idle.iter().filter_map(|(_, id)| self.entry(*id))
    }

    /// The connections of the token of this hash.
    pub fn of_token(&self, token: &str) -> impl Iterator<Item = (ConnectionId, &Connection)> + Clone {
        self.index.of_tokens.get(token).into_iter().flatten().filter_map(|id| self.entry(*id))
    }

    /// The tokens of units that have a connection, by their hash.
    pub fn tokens_of_units(&self) -> impl Iterator<Item = &str> {
        let is_of_unit = |(token, ids): &(&String, &BTreeSet<ConnectionId>)| {
            let holder = ids.first().and_then(|id| self.get(*id)?.tokens.get(*token));
            holder.is_some_and(is_unit)
        };
        self.index.of_tokens.iter().filter(is_of_unit).map(|(token, _)| token.as_str())
    }

    fn entry(&self, id: ConnectionId) -> Option<(ConnectionId, &Connection)> {
        Some((id, self.connections.get(&id)?))
    }

    /// Adds a connection.
    pub fn insert(&mut self, id: ConnectionId, connection: Connection) {
        self.index.insert(id, &connection);
        self.connections.insert(id, connection);
    }

    /// Changes a connection, if it is open.
    pub fn change(&mut self, id: ConnectionId, change: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.connections.get_mut(&id) {
            self.index.remove(id, connection);
            change(connection);
            self.index.insert(id, connection);
        }
    }

    /// Removes a connection.
    pub fn remove(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            self.index.remove(id, &connection);
        }
    }

    /// Asserts that the indexes are those of the connections. Returns how many entries they have.
    #[cfg(test)]
    pub fn check_index(&self) -> usize {
        let mut index = Index::default();
        self.connections.iter().for_each(|(id, connection)| index.insert(*id, connection));
        assert_eq!(self.index, index);
        index.idle.len() + index.closing + index.of_units
    }
}
