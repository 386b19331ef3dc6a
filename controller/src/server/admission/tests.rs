//! Tests which connections are opened and closed at each limit.

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
    assert_eq!(admission.authenticate(ids[0], "0", &unit(0)), RequestAdmission::Proceed, "it counts once");
}

/// 1. Some units open as many connections as they may, with a stream on each, until all units are at their limit.
/// 2. Another unit connects. If it were refused, some units would keep the others from working.
#[test]
fn a_unit_with_many_connections_makes_room_for_one_with_few() {
    let mut admission = Admission::new(Limits { of_units: 4, of_agent: 3, ..LIMITS });
    let ids: Vec<_> = ["a", "b", "b", "b"].map(|token| with_token(&mut admission, token, &unit(1)).0).into();
    ids.iter().for_each(|id| admission.begin(*id));
    let (first, answered) = with_token(&mut admission, "c", &unit(3));
    assert_eq!(answered, RequestAdmission::ProceedAndClose(ids[1]), "in use, but of the unit with the most");
    admission.close(ids[1]);
    let (refused, answered) = with_token(&mut admission, "c", &unit(3));
    assert_eq!(answered, RequestAdmission::ProceedAndClose(first), "its own idle one");
    admission.close(first);
    admission.begin(refused);
    assert_eq!(
        with_token(&mut admission, "c", &unit(3)).1,
        RequestAdmission::TooMany { limit: 4 },
        "no unit would still have as many"
    );
}

/// 1. b has two streams, c an idle connection, and all units are at their limit.
/// 2. A new connection of c is answered, and its idle one begins to be closed.
/// 3. Before that is done, another connection of c presents its token.
#[test]
fn a_connection_that_is_being_closed_does_not_count_as_one_of_a_unit() {
    let mut admission = Admission::new(Limits { of_units: 3, ..LIMITS });
    let [first, second, idle] = ["b", "b", "c"].map(|token| with_token(&mut admission, token, &unit(1)).0);
    admission.begin(first);
    admission.begin(second);
    let (new, answered) = with_token(&mut admission, "c", &unit(2));
    assert_eq!(answered, RequestAdmission::ProceedAndClose(idle));
    admission.close(new);
    assert_eq!(with_token(&mut admission, "c", &unit(2)).1, RequestAdmission::Proceed);
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
