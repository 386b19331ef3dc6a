//! Decides which new connections may be opened, and which open connections are closed to make room for them.
//!
//! The open connections never use more descriptors than the limit leaves beside the store's. Before its first valid
//! token, a connection counts against a limit for all such connections and one for its address, and it can be closed
//! for a new one. After that it counts against the limit of its token only, because the agents of a host share an
//! address. If it carries requests with several tokens, as from a proxy, it counts for each, and ends with any of them.
//!
//! The agents of units have a limit together, too, so that they leave room for users. The indexes of
//! `connection_table` keep the decision about a new one short, however many are open.
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
    /// The request proceeds; close this idle connection under the same limit, which was used least recently.
    ProceedAndClose(ConnectionId),
    /// The token, or all unit agents together, have too many connections, and all are in use: the request is refused.
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

    /// The idle connection that is to be closed so that `connection` may have this token, if the token or all unit
    /// agents are at their limit. The limit if all are in use.
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
            let mut idle = self.connections.idle().filter(|(_, c)| c.is_of_unit());
            return idle.next().map(|(id, _)| Some(id)).ok_or(self.limits.of_units);
        }
        Ok(None)
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
mod tests {
    use super::*;
    use crate::server::connection_table::{HALF_HELLO_MS, PROGRESS_MS, SILENT_MS, UNANSWERED_MS};
    use state::documents::prelude::{GLOBAL, UserRole};
    use state::terms::names::Uuid;

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const REMOTE: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);
    const LIMITS: Limits = Limits {
        connections: 8,
        unauthenticated: 4,
        of_address: 2,
        of_agent: 2,
        of_user: 3,
        of_units: 8,
        waiting: 2,
    };

    fn unit(n: u128) -> TokenHolder {
        TokenHolder::Unit { model: GLOBAL, unit: Uuid(n) }
    }

    fn open(admission: &mut Admission, address: IpAddr, now_ms: u64) -> ConnectionId {
        match admission.admit(address, now_ms) {
            Admit::Open(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Opens a connection and authenticates it.
    fn with_token(
        admission: &mut Admission,
        token: &str,
        holder: &TokenHolder,
    ) -> (ConnectionId, RequestAdmission) {
        let id = open(admission, LOCAL, 0);
        admission.progress(id, HandshakeProgress::Answered, 0);
        admission.present(id, token);
        (id, admission.authenticate(id, token, holder))
    }

    #[test]
    fn the_oldest_silent_connection_of_an_address_makes_room_for_a_new_one() {
        let mut admission = Admission::new(LIMITS);
        let first = open(&mut admission, LOCAL, 0);
        open(&mut admission, LOCAL, 10);
        assert_eq!(
            admission.admit(LOCAL, 20),
            Admit::Wait { until_ms: Some(SILENT_MS), limit: Limit::OfAddress }
        );
        open(&mut admission, REMOTE, 20);
        assert_eq!(admission.admit(LOCAL, SILENT_MS), Admit::CloseFirst(first));
        assert_eq!(
            admission.admit(LOCAL, SILENT_MS),
            Admit::Wait { until_ms: None, limit: Limit::OfAddress },
            "it is being closed"
        );
        admission.close(first);
        open(&mut admission, LOCAL, SILENT_MS);
    }

    #[test]
    fn a_connection_that_progresses_is_not_closed_for_a_new_one() {
        let mut admission = Admission::new(LIMITS);
        let (first, second) = (open(&mut admission, LOCAL, 0), open(&mut admission, LOCAL, 0));
        admission.progress(first, HandshakeProgress::Answered, 0);
        assert_eq!(admission.admit(LOCAL, SILENT_MS), Admit::CloseFirst(second));
        admission.close(second);
        let third = open(&mut admission, LOCAL, SILENT_MS);
        admission.progress(third, HandshakeProgress::Answered, SILENT_MS);
        assert_eq!(
            admission.admit(LOCAL, 100),
            Admit::Wait { until_ms: Some(PROGRESS_MS), limit: Limit::OfAddress }
        );
        assert_eq!(admission.admit(LOCAL, PROGRESS_MS), Admit::CloseFirst(first));
    }

    /// 1. Many clients of one address connect at the same time, for example after the controller was restarted.
    /// 2. The server answers their handshakes in turns, so that some wait for more than a second.
    /// 3. If these were closed for newer ones, which wait as long, none of them would ever be answered.
    #[test]
    fn a_handshake_that_waits_for_the_server_has_its_second_after_the_answer() {
        let mut admission = Admission::new(LIMITS);
        let (first, second) = (open(&mut admission, LOCAL, 0), open(&mut admission, LOCAL, 0));
        for id in [first, second] {
            admission.progress(id, HandshakeProgress::Hello, 0);
        }
        let wait = |until_ms| Admit::Wait { until_ms: Some(until_ms), limit: Limit::OfAddress };
        assert_eq!(admission.admit(LOCAL, 2 * PROGRESS_MS), wait(UNANSWERED_MS));
        admission.progress(second, HandshakeProgress::Answered, 2 * PROGRESS_MS);
        assert_eq!(admission.admit(LOCAL, 2 * PROGRESS_MS), wait(3 * PROGRESS_MS));
        assert_eq!(admission.admit(LOCAL, 3 * PROGRESS_MS), Admit::CloseFirst(second));
    }

    /// A client that starts handshakes and does not continue them delays new clients of its address by a tenth of a
    /// second, not by a second: with 120 connections, the server tolerates 1,200 such handshakes per second.
    #[test]
    fn a_handshake_that_was_started_and_does_not_go_on_makes_room_soon() {
        let mut admission = Admission::new(LIMITS);
        let (started, continuing) = (open(&mut admission, LOCAL, 0), open(&mut admission, LOCAL, 0));
        admission.progress(started, HandshakeProgress::HalfHello, 0);
        admission.progress(continuing, HandshakeProgress::Answered, 0);
        assert_eq!(
            admission.admit(LOCAL, SILENT_MS),
            Admit::Wait { until_ms: Some(HALF_HELLO_MS), limit: Limit::OfAddress }
        );
        assert_eq!(admission.admit(LOCAL, HALF_HELLO_MS), Admit::CloseFirst(started));
        admission.close(started);
        let next = open(&mut admission, LOCAL, HALF_HELLO_MS);
        admission.progress(next, HandshakeProgress::HalfHello, HALF_HELLO_MS);
        assert_eq!(
            admission.admit(LOCAL, 2 * HALF_HELLO_MS),
            Admit::CloseFirst(next),
            "not the one that goes on"
        );
    }

    #[test]
    fn authenticated_connections_of_an_address_are_not_limited() {
        let mut admission = Admission::new(LIMITS);
        for n in 0..LIMITS.connections {
            let (_, answered) = with_token(&mut admission, &n.to_string(), &unit(n as u128));
            assert_eq!(answered, RequestAdmission::Proceed);
        }
    }

    #[test]
    fn a_token_over_its_limit_loses_the_connection_that_it_used_least_recently() {
        let mut admission = Admission::new(LIMITS);
        let (first, _) = with_token(&mut admission, "a", &unit(1));
        let (second, _) = with_token(&mut admission, "a", &unit(1));
        admission.begin(first);
        admission.end(first);
        let (third, answered) = with_token(&mut admission, "a", &unit(1));
        assert_eq!(answered, RequestAdmission::ProceedAndClose(second));
        admission.close(second);
        for id in [first, third] {
            admission.begin(id);
        }
        let (_, refused) = with_token(&mut admission, "a", &unit(1));
        assert_eq!(refused, RequestAdmission::TooMany { limit: LIMITS.of_agent });
        let (_, other) = with_token(&mut admission, "b", &unit(2));
        assert_eq!(other, RequestAdmission::Proceed, "another token is not concerned");
        assert_eq!(admission.authenticate(first, "a", &unit(1)), RequestAdmission::Proceed, "it counts once");
    }

    #[test]
    fn at_the_limit_unauthenticated_connections_go_first_and_then_idle_ones() {
        let mut admission = Admission::new(LIMITS);
        let ids: Vec<_> =
            (0..7).map(|n| with_token(&mut admission, &n.to_string(), &unit(n as u128)).0).collect();
        let silent = open(&mut admission, LOCAL, 0);
        assert!(admission.is_full());
        assert_eq!(admission.admit(REMOTE, SILENT_MS), Admit::CloseFirst(silent));
        admission.close(silent);
        let (last, _) = with_token(&mut admission, "7", &unit(7));
        admission.begin(ids[0]);
        assert_eq!(admission.admit(REMOTE, 60), Admit::CloseFirst(ids[1]));
        admission.close(ids[1]);
        let (eighth, _) = with_token(&mut admission, "8", &unit(8));
        for id in ids.iter().chain([&last, &eighth]) {
            admission.begin(*id);
        }
        assert_eq!(
            admission.admit(REMOTE, 70),
            Admit::Wait { until_ms: None, limit: Limit::OfAll },
            "all are in use"
        );
    }

    /// A person who controls the units of an application has the tokens of all of them.
    #[test]
    fn the_connections_of_all_units_leave_room_for_users() {
        let mut admission = Admission::new(Limits { of_units: 3, ..LIMITS });
        let ids: Vec<_> =
            (0..3).map(|n| with_token(&mut admission, &n.to_string(), &unit(n as u128)).0).collect();
        admission.begin(ids[0]);
        admission.begin(ids[2]);
        let (fourth, answered) = with_token(&mut admission, "3", &unit(3));
        assert_eq!(answered, RequestAdmission::ProceedAndClose(ids[1]), "the only idle one");
        admission.close(ids[1]);
        admission.begin(fourth);
        let (refused, answered) = with_token(&mut admission, "4", &unit(4));
        assert_eq!(answered, RequestAdmission::TooMany { limit: 3 });
        admission.close(refused);
        let user = TokenHolder::User { name: "u".into(), role: UserRole::Read };
        assert_eq!(with_token(&mut admission, "u", &user).1, RequestAdmission::Proceed);
        assert_eq!(
            admission.authenticate(ids[0], "0", &unit(0)),
            RequestAdmission::Proceed,
            "it counts once"
        );
    }

    /// The decision about a new connection reads the indexes only.
    #[test]
    fn the_indexes_follow_from_the_connections() {
        let (mut admission, mut number) = (Admission::new(LIMITS), 1_u64);
        let mut below = |max: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (number >> 33) % max
        };
        let mut indexed = 0;
        for now_ms in 0..5_000 {
            let address = if below(2) == 0 { LOCAL } else { REMOTE };
            let id = admission.next.saturating_sub(1 + below(8));
            let (token, requests) = (below(4), admission.connections.get(id).map_or(0, |c| c.requests));
            match below(8) {
                0..=2 => {
                    admission.admit(address, now_ms);
                }
                3 => {
                    admission.authenticate(id, &token.to_string(), &unit(u128::from(token)));
                }
                4 => admission.begin(id),
                5 if requests > 0 => admission.end(id),
                6 if below(10) == 0 => drop(admission.revoke(&token.to_string())),
                7 => admission.close(id),
                _ => admission.progress(id, HandshakeProgress::Answered, now_ms),
            }
            indexed += admission.connections.check_index();
        }
        assert!(indexed > 5_000, "{indexed}");
    }

    #[test]
    fn a_connection_ends_with_any_of_its_tokens_also_with_one_that_is_being_looked_up() {
        let mut admission = Admission::new(LIMITS);
        let (id, _) = with_token(&mut admission, "a", &unit(1));
        let user = TokenHolder::User { name: "u".into(), role: UserRole::Read };
        let (other, _) = with_token(&mut admission, "b", &user);
        admission.present(other, "a");
        assert_eq!(admission.tokens(), [("a".into(), Some(unit(1))), ("b".into(), Some(user))].into());
        assert_eq!(admission.revoke("a"), [id, other]);
        assert_eq!(admission.revoke("b"), [other]);
        admission.close(other);
        assert_eq!(admission.revoke("b"), [0_u64; 0]);
    }
}
