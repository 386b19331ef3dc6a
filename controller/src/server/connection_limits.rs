//! The limits of connections, which follow from the limit of open descriptors.
//!
//! The connections never use more descriptors than the limit leaves beside those that the store, archives and uploads
//! need. Used by `admission`, which decides within these limits, by `descriptors`, and by `sending` for the number of
//! files that are sent.

use state::documents::prelude::TokenHolder;

/// Descriptors that connections never use: the store (5 connections with database and WAL, shared memory, lock,
/// `generation.yaml`: 13), standard streams (3), the runtime (8), 1 + 8 listeners, 4 files of which the disk threads read
/// a piece, 2 archives that are verified, 16 uploads, and 73 for files that are read or replaced now and then.
pub const DESCRIPTORS_RESERVED: u64 = 128;
/// The smallest limit of descriptors with which the controller starts: the reserve, and as many connections.
pub const DESCRIPTORS_MIN: u64 = 2 * DESCRIPTORS_RESERVED;
/// Accepted connections that wait until they may be opened: the 2,000 agents of one host whose controller restarts (half
/// of the limit is for one address). Each one takes a descriptor and what its peer sends before it is read.
const WAITING_MAX: usize = 4_096;
/// Connections at the same time: a stream and two idle connections for each of 2,000 unit agents and 500 machine
/// agents, and 692 of users. An idle one needs about 32 KiB: 256 MiB. One whose peer does not read what it is sent has
/// two pieces of a response and one that is encrypted in addition, 192 KiB: 470 MiB if all 2,500 agents receive a file over
/// links that are so slow.
pub(super) const CONNECTIONS_MAX: usize = 8_192;
/// Connections without a valid token (S18). A handshake takes 1 to 3 ms of the processor, so 256 of them that progress
/// all end within the time for which one is protected.
const UNAUTHENTICATED_MAX: usize = 256;
/// Connections of an agent: a stream, and at most six requests at the same time. Twice as many allow for the
/// connections of an agent that was killed, until the kernel closes them.
const OF_AGENT_MAX: usize = 16;
/// Connections of a user, who may run a hundred commands at the same time; a command uses two at most.
const OF_USER_MAX: usize = 256;

/// The limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All connections.
    pub connections: usize,
    /// Connections without a valid token.
    pub unauthenticated: usize,
    /// Connections of one address without a valid token.
    pub of_address: usize,
    /// Connections of the token of an agent.
    pub of_agent: usize,
    /// Connections of the token of a user.
    pub of_user: usize,
    /// Connections of all unit agents.
    pub of_units: usize,
    /// Accepted connections that wait until they may be opened; of one address at most half.
    pub waiting: usize,
}

impl Limits {
    /// Returns the limits of a process that may open this many descriptors. One address has at most half of the
    /// unauthenticated connections, so that clients of other addresses always find room. One user has at most a quarter
    /// of all connections, and all unauthenticated clients together have at most a quarter. All unit agents leave a
    /// thirty-second, which is 256 of 8,192: as many as one user may have. An eighth of the descriptors is for connections
    /// that wait.
    pub fn for_descriptors(descriptors: u64) -> Limits {
        let free = usize::try_from(descriptors.saturating_sub(DESCRIPTORS_RESERVED)).unwrap_or(usize::MAX);
        let waiting = (free / 8).clamp(2, WAITING_MAX);
        let connections = free.saturating_sub(waiting).clamp(4, CONNECTIONS_MAX);
        let unauthenticated = UNAUTHENTICATED_MAX.min(connections / 4).max(2);
        Limits {
            waiting,
            connections,
            unauthenticated,
            of_address: unauthenticated / 2,
            of_agent: OF_AGENT_MAX.min(connections / 4),
            of_user: OF_USER_MAX.min(connections / 4),
            of_units: connections - (connections / 32).max(1),
        }
    }

    /// Returns the limit of the connections of one token.
    pub fn of(&self, holder: &TokenHolder) -> usize {
        match holder {
            TokenHolder::User { .. } => self.of_user,
            TokenHolder::Unit { .. }
            | TokenHolder::Machine { .. }
            | TokenHolder::RemovedMachine { .. }
            | TokenHolder::EnrollingMachine { .. } => self.of_agent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_leave_the_reserve_and_no_one_gets_everything() {
        let limits = Limits::for_descriptors(1024);
        assert_eq!((limits.connections, limits.unauthenticated, limits.of_address), (784, 196, 98));
        assert_eq!((limits.of_agent, limits.of_user, limits.waiting), (16, 196, 112));
        let unlimited = Limits::for_descriptors(u64::MAX);
        assert_eq!((unlimited.connections, unlimited.unauthenticated, unlimited.of_user), (8_192, 256, 256));
        assert!(unlimited.waiting / 2 >= 2_000, "the agents of one host wait");
        let smallest = Limits::for_descriptors(DESCRIPTORS_MIN);
        assert_eq!((limits.of_units, unlimited.of_units), (760, 7_936));
        assert!(smallest.of_address > 0 && smallest.of_agent > 0, "{smallest:?}");
    }
}
