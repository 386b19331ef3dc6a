//! Decides which new connections may be opened, and which open connections are closed to make room for them.
//!
//! The open connections never use more descriptors than the limit leaves beside the store's. Before its first valid
//! token, a connection counts against a limit for all such connections and one for its address, and it can be closed
//! for a new one. After that it counts against the limit of its token only, because the agents of a host share an
//! address. If it carries requests with several tokens, as from a proxy, it counts for each, and ends with any of them.
//!
//! The agents of units have a limit together, too, so that they leave room for users. At this limit the unit with the
//! most connections loses one, so that some units cannot keep the others out. The indexes of `connection_table` keep
//! the decision about a new one short, however many are open.
//!
//! The limits are those of `connection_limits`. This module has no sockets and no clock: times are arguments.
//! `connections` executes the decisions.

use super::connection_limits::Limits;
use super::connection_table::{Connection, ConnectionId, ConnectionTable, HandshakeProgress, is_unit};
use state::documents::prelude::TokenHolder;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What to do about a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admit {
    /// The connection is open, with this number.
    Open(ConnectionId),
    /// Close this connection first, then call again.
    CloseFirst(ConnectionId),
    /// Call again once a connection was closed or authenticated, at this time at the latest.
    Wait {
        /// The time, if one is known.
        until_ms: Option<u64>,
        /// Whose limit is reached.
        limit: Limit,
    },
}

/// Whose limit of connections is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// That of one address: connections from others may be opened.
    OfAddress,
    /// That of all addresses.
    OfAll,
}

/// What to do about a request with a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestAdmission {
    /// The request proceeds.
    Proceed,
    /// The request proceeds; close this connection under the same limit.
    ProceedAndClose(ConnectionId),
    /// The token has too many connections, and all are in use; or all unit agents together have, and none of them more
    /// than this one: the request is refused.
    TooMany {
        /// The limit.
        limit: usize,
    },
}

/// All open connections.
pub struct Admission {
    limits: Limits,
    connections: ConnectionTable,
    next: ConnectionId,
    /// The number of requests that have ended.
    used: u64,
}

impl Admission {
    /// Returns the state in which no connection is open.
    pub fn new(limits: Limits) -> Admission {
        Admission { limits, connections: ConnectionTable::default(), next: 0, used: 0 }
    }

    /// Returns the limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether all connections that the limit allows are open.
    pub fn is_full(&self) -> bool {
        self.connections.len() >= self.limits.connections
    }

    /// Decides about a new connection from an address.
    pub fn admit(&mut self, address: IpAddr, now_ms: u64) -> Admit {
        let of_address = self.connections.unauthenticated().filter(|(_, c)| c.address == address);
        if of_address.count() >= self.limits.of_address {
            return self.close_oldest_unauthenticated(now_ms, Limit::OfAddress, |c| c.address == address);
        }
        if self.connections.count_unauthenticated() >= self.limits.unauthenticated {
            return self.close_oldest_unauthenticated(now_ms, Limit::OfAll, |_| true);
        }
        if self.is_full() {
            let oldest = self.close_oldest_unauthenticated(now_ms, Limit::OfAll, |_| true);
            let idle = self.connections.idle().next().map(|(id, _)| id);
            return match (oldest, idle) {
                (Admit::Wait { .. }, Some(idle)) if !self.connections.is_closing_any() => {
                    self.close_first(idle)
                }
                (oldest, _) => oldest,
            };
        }
        let id = self.next;
        self.next += 1;
        let connection = Connection {
            address,
            opened_ms: now_ms,
            progress: HandshakeProgress::Silent,
            answered_ms: now_ms,
            presented: None,
            tokens: BTreeMap::new(),
            requests: 0,
            last_used: self.used,
            is_closing: false,
        };
        self.connections.insert(id, connection);
        Admit::Open(id)
    }

    /// Closes the oldest unprotected one of the unauthenticated connections for which `of` is true. If one of them is
    /// being closed already, or all of them are protected, the new connection waits.
    fn close_oldest_unauthenticated(
        &mut self,
        now_ms: u64,
        limit: Limit,
        of: impl Fn(&Connection) -> bool,
    ) -> Admit {
        let of = self.connections.unauthenticated().filter(|(_, c)| of(c));
        let all: Vec<_> = of.map(|(id, c)| (id, c.is_closing, c.protected_until_ms())).collect();
        if all.iter().any(|(_, is_closing, _)| *is_closing) {
            return Admit::Wait { until_ms: None, limit };
        }
        match all.iter().find(|(_, _, until_ms)| *until_ms <= now_ms) {
            Some((id, ..)) => self.close_first(*id),
            None => Admit::Wait { until_ms: all.iter().map(|(_, _, until_ms)| *until_ms).min(), limit },
        }
    }

    fn close_first(&mut self, id: ConnectionId) -> Admit {
        self.connections.change(id, |connection| connection.is_closing = true);
        Admit::CloseFirst(id)
    }

    /// Records how far a handshake is.
    pub fn progress(&mut self, id: ConnectionId, progress: HandshakeProgress, now_ms: u64) {
        self.connections.change(id, |connection| {
            connection.progress = progress;
            if progress == HandshakeProgress::Answered {
                connection.answered_ms = now_ms;
            }
        });
    }

    /// Records that a request with the token of this hash has arrived, before the token is looked up.
    ///
    /// The order matters. 1. A request is authenticated. 2. Its token is revoked, and the connections of the token are
    /// closed. 3. The connection is recorded under the token: it would never be closed.
    pub fn present(&mut self, id: ConnectionId, token: &str) {
        self.connections.change(id, |connection| connection.presented = Some(token.to_owned()));
    }

    /// Records that a token of a connection is valid.
    pub fn authenticate(&mut self, id: ConnectionId, token: &str, holder: &TokenHolder) -> RequestAdmission {
        let Some(connection) = self.connections.get(id) else { return RequestAdmission::Proceed };
        if connection.tokens.contains_key(token) && !connection.is_closing {
            return RequestAdmission::Proceed;
        }
        let idle = match self.make_room(token, holder, connection) {
            Ok(idle) => idle,
            Err(limit) => return RequestAdmission::TooMany { limit },
        };
        let holder = holder.clone();
        self.connections.change(id, |connection| drop(connection.tokens.insert(token.to_owned(), holder)));
        match idle {
            Some(idle) => {
                self.close_first(idle);
                RequestAdmission::ProceedAndClose(idle)
            }
            None => RequestAdmission::Proceed,
        }
    }

    /// The connection that is to be closed so that `connection` may have this token, if the token or all unit agents are
    /// at their limit. The limit if none may be closed.
    fn make_room(
        &self,
        token: &str,
        holder: &TokenHolder,
        connection: &Connection,
    ) -> Result<Option<ConnectionId>, usize> {
        let (of_token, limit) = (self.connections.of_token(token), self.limits.of(holder));
        if of_token.clone().filter(|(_, c)| !c.is_closing).count() >= limit {
            let idle = of_token.filter(|(_, c)| c.is_idle()).min_by_key(|(_, c)| c.last_used);
            return idle.map(|(id, _)| Some(id)).ok_or(limit);
        }
        let adds_unit = is_unit(holder) && !connection.is_of_unit();
        if adds_unit && self.connections.count_of_units() >= self.limits.of_units {
            let count = of_token.filter(|(_, c)| !c.is_closing).count();
            return self.of_largest_unit(count).map(Some).ok_or(self.limits.of_units);
        }
        Ok(None)
    }

    /// The connection that is closed for one more connection of a unit that has `own_count` of them. A unit that would
    /// still have as many loses one, in use or not. Otherwise it is an idle one of a unit that does not have fewer.
    fn of_largest_unit(&self, own_count: usize) -> Option<ConnectionId> {
        let count = |token: &str| self.connections.of_token(token).filter(|(_, c)| !c.is_closing).count();
        let largest = self.connections.tokens_of_units().max_by_key(|token| count(token))?;
        if count(largest) > own_count + 1 {
            let open = self.connections.of_token(largest).filter(|(_, c)| !c.is_closing);
            return open.min_by_key(|(_, c)| (!c.is_idle(), c.last_used)).map(|(id, _)| id);
        }
        let has_as_many = |c: &Connection| c.tokens.keys().any(|token| count(token) >= own_count);
        self.connections.idle().find(|(_, c)| c.is_of_unit() && has_as_many(c)).map(|(id, _)| id)
    }

    /// Records that a request is being answered.
    pub fn begin(&mut self, id: ConnectionId) {
        self.connections.change(id, |connection| connection.requests += 1);
    }

    /// Records that a request was answered.
    pub fn end(&mut self, id: ConnectionId) {
        self.used += 1;
        let used = self.used;
        self.connections.change(id, |connection| {
            connection.requests -= 1;
            connection.last_used = used;
        });
    }

    /// Records that a connection was closed.
    pub fn close(&mut self, id: ConnectionId) {
        self.connections.remove(id);
    }

    /// Returns the tokens of the open connections by their hash, with their holder if the lookup has ended.
    pub fn tokens(&self) -> BTreeMap<String, Option<TokenHolder>> {
        let mut tokens = BTreeMap::new();
        for (_, connection) in self.connections.iter() {
            if let Some(presented) = &connection.presented {
                tokens.entry(presented.clone()).or_default();
            }
            let valid = connection.tokens.iter().map(|(token, holder)| (token.clone(), Some(holder.clone())));
            tokens.extend(valid);
        }
        tokens
    }

    /// Marks the connections of a token that was revoked as being closed, and returns them.
    pub fn revoke(&mut self, token: &str) -> Vec<ConnectionId> {
        let of_token = self
            .connections
            .iter()
            .filter(|(_, c)| c.presented.as_deref() == Some(token) || c.tokens.contains_key(token));
        let ids: Vec<ConnectionId> = of_token.map(|(id, _)| id).collect();
        for id in &ids {
            self.connections.change(*id, |connection| connection.is_closing = true);
        }
        ids
    }
}

#[cfg(test)]
mod tests;
