//! The connections that were accepted and are not open yet: a bounded queue for each address.
//!
//! The accept loop of `server` never stops accepting, so that an address whose connections may not be opened now does
//! not delay the others. The queues are served in rotation, and the oldest connection of an address is closed for a newer
//! one, since its client may have given up. What counts as one address is decided here, for all limits of addresses
//! ([`counted_address`]). This module has no sockets and no clock.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::ops::Bound::{Excluded, Unbounded};

/// The connections that wait. Every queue that is stored has a connection.
pub struct Waiting<T> {
    of_addresses: BTreeMap<IpAddr, VecDeque<T>>,
    count: usize,
    count_max: usize,
    /// The address whose queue was tried last.
    last_tried: Option<IpAddr>,
}

/// Whether the connection of an address was opened.
pub enum Opened<C> {
    /// It is open.
    Yes(C),
    /// The address is at its own limit: others may have room.
    AddressIsFull,
    /// No address has room.
    AllIsFull,
}

/// The address under which the connections of a client are counted. A host with IPv6 has a network of 64 bits and may
/// use any address in it, so that the network is counted. An IPv4 address that is written as an IPv6 address is itself.
fn counted_address(address: IpAddr) -> IpAddr {
    const NETWORK: u128 = u128::MAX << 64;
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
        address @ IpAddr::V4(_) => address,
    }
}

impl<T> Waiting<T> {
    /// Returns empty queues that hold at most `count_max` connections, of which one address has at most half.
    pub fn new(count_max: usize) -> Waiting<T> {
        Waiting { of_addresses: BTreeMap::new(), count: 0, count_max, last_tried: None }
    }

    /// Whether no connection waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a connection from an address. If the address or the total is at its limit, the oldest connection of that
    /// address, or of the address with the most connections, is dropped.
    pub fn push(&mut self, address: IpAddr, connection: T) {
        let address = counted_address(address);
        self.of_addresses.entry(address).or_default().push_back(connection);
        self.count += 1;
        if self.of_addresses[&address].len() > self.count_max / 2 {
            self.pop(address);
        } else if self.count > self.count_max {
            let longest = self.of_addresses.iter().max_by_key(|(_, queue)| queue.len());
            if let Some(address) = longest.map(|(address, _)| *address) {
                self.pop(address);
            }
        }
    }

    /// Opens the oldest connection of the next address that has room. The addresses take turns.
    pub fn open_next<C>(&mut self, mut open: impl FnMut(IpAddr) -> Opened<C>) -> Option<(T, C)> {
        for _ in 0..self.of_addresses.len() {
            let after = self.last_tried.map_or(Unbounded, Excluded);
            let next = self.of_addresses.range((after, Unbounded)).next();
            let address = *next.or_else(|| self.of_addresses.first_key_value())?.0;
            match open(address) {
                Opened::Yes(opened) => {
                    self.last_tried = Some(address);
                    return Some((self.pop(address)?, opened));
                }
                Opened::AddressIsFull => self.last_tried = Some(address),
                Opened::AllIsFull => return None,
            }
        }
        None
    }

    fn pop(&mut self, address: IpAddr) -> Option<T> {
        let queue = self.of_addresses.get_mut(&address)?;
        let oldest = queue.pop_front()?;
        self.count -= 1;
        if queue.is_empty() {
            self.of_addresses.remove(&address);
        }
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
    const C: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 4));

    fn drain(waiting: &mut Waiting<u8>) -> Vec<u8> {
        std::iter::from_fn(|| waiting.open_next(|_| Opened::Yes(())))
            .map(|(connection, ())| connection)
            .collect()
    }

    #[test]
    fn an_address_that_is_full_does_not_delay_another_one() {
        let mut waiting = Waiting::new(8);
        for n in 0..3 {
            waiting.push(A, n);
        }
        waiting.push(B, 9);
        let of_b = |address| if address == A { Opened::AddressIsFull } else { Opened::Yes(()) };
        assert_eq!(waiting.open_next(of_b), Some((9, ())));
        assert_eq!(waiting.open_next(of_b), None);
        assert_eq!(drain(&mut waiting), [0, 1, 2], "in the order of their arrival");
        assert!(waiting.is_empty());
    }

    /// A client with a network of its own has 2^64 addresses: each would have the limits of one.
    #[test]
    fn the_addresses_of_an_ipv6_network_count_as_one() {
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        let mut waiting = Waiting::new(8);
        for (n, text) in
            (0..).zip(["2001:db8::1", "2001:db8::ffff:0:0:2", "2001:db8:0:1::1", "::ffff:127.0.0.2"])
        {
            waiting.push(address(text), n);
        }
        waiting.push(A, 9);
        let of_addresses = waiting.of_addresses.into_iter().collect::<Vec<_>>();
        let expected =
            [(A, vec![3, 9]), (address("2001:db8::"), vec![0, 1]), (address("2001:db8:0:1::"), vec![2])];
        assert_eq!(of_addresses, expected.map(|(address, numbers)| (address, VecDeque::from(numbers))));
    }

    #[test]
    fn addresses_take_turns() {
        let mut waiting = Waiting::new(16);
        for n in 0..3 {
            waiting.push(A, n);
            waiting.push(B, 10 + n);
        }
        waiting.push(C, 20);
        assert_eq!(drain(&mut waiting), [0, 10, 20, 1, 11, 2, 12]);
    }

    /// The address that could not be served because no one had room keeps its turn.
    #[test]
    fn a_turn_is_kept_while_no_address_has_room() {
        let mut waiting = Waiting::new(16);
        for (address, n) in [(A, 0), (A, 1), (B, 10)] {
            waiting.push(address, n);
        }
        assert_eq!(waiting.open_next(|_| Opened::Yes(())), Some((0, ())));
        assert_eq!(waiting.open_next(|_| Opened::<()>::AllIsFull), None);
        assert_eq!(waiting.open_next(|_| Opened::Yes(())), Some((10, ())));
    }

    #[test]
    fn the_oldest_of_the_address_is_dropped_for_a_new_one_and_in_total_the_oldest_of_the_longest_queue() {
        let mut waiting = Waiting::new(4);
        for n in 0..4 {
            waiting.push(A, n);
        }
        for (address, n) in [(B, 10), (C, 20), (C, 21)] {
            waiting.push(address, n);
        }
        let mut left = drain(&mut waiting);
        left.sort_unstable();
        assert_eq!(left.len(), 4);
        assert!(left.contains(&10), "{left:?}");
        assert!(!left.contains(&0) && !left.contains(&1), "{left:?}");
    }
}
