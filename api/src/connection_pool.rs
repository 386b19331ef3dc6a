//! The connections of a client to its controller, which are used again for later requests.
//!
//! A pool is given up as a whole when a response did not come in time on one of its connections:
//!
//! 1. The network between an agent and the controller loses packets without closing a connection, for example after a
//!    firewall was restarted. All connections of the agent are silent from then on.
//! 2. The agent gives its watch up at its time limit.
//! 3. The next request uses an idle connection of the same pool, and waits for the same time limit.
//!
//! The next pool is one of the next address, if the controller has several. Requests that are being sent keep the connection
//! that they have. Called by `client`.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The time to connect: 5 s allow for many retransmissions, because the controller is on this machine or a few network
/// hops away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept. It is shorter than the idle timeout of the server (30 s), so that the server
/// does not close a connection on which a request is being sent; and longer than the 15 s between two claims of an idle
/// unit agent, because a handshake costs the controller as much as ten claims.
const IDLE_TIMEOUT: Duration = Duration::from_secs(25);

/// One pool of connections.
#[derive(Clone)]
pub struct ConnectionPool {
    /// The client of HTTP that has the pool.
    pub http: reqwest::Client,
    /// The beginning of its URLs, with the port of its address.
    pub base: String,
    /// Its number: 0 for the first one of a client.
    number: u64,
}

/// The current pool of a client.
pub struct ConnectionPools {
    ca: Vec<reqwest::Certificate>,
    server_name: String,
    /// At least one.
    addresses: Vec<SocketAddr>,
    /// The address of this host from which connections are made.
    local_address: Option<IpAddr>,
    current: Mutex<ConnectionPool>,
}

impl ConnectionPools {
    /// An empty pool for a controller with these addresses.
    ///
    /// # Errors
    /// If the CA cannot be used.
    ///
    /// # Panics
    /// If there is no address.
    pub fn new(
        ca: Vec<reqwest::Certificate>,
        server_name: &str,
        addresses: Vec<SocketAddr>,
        local_address: Option<IpAddr>,
    ) -> reqwest::Result<ConnectionPools> {
        let current = Mutex::new(build(ca.clone(), server_name, addresses[0], local_address, 0)?);
        Ok(ConnectionPools { ca, server_name: server_name.to_owned(), addresses, local_address, current })
    }

    /// The number of addresses.
    pub fn addresses(&self) -> usize {
        self.addresses.len()
    }

    /// The pool for the next request.
    pub fn current(&self) -> ConnectionPool {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces this pool by an empty one of the next address, unless it was replaced before. If no other one can be made, it
    /// is used on.
    pub fn replace(&self, failed: &ConnectionPool) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let number = failed.number + 1;
        let next = usize::try_from(number).unwrap_or_default() % self.addresses.len();
        let address = self.addresses[next];
        if current.number == failed.number
            && let Ok(pool) = build(self.ca.clone(), &self.server_name, address, self.local_address, number)
        {
            *current = pool;
        }
    }
}

fn build(
    ca: Vec<reqwest::Certificate>,
    server_name: &str,
    address: SocketAddr,
    local_address: Option<IpAddr>,
    number: u64,
) -> reqwest::Result<ConnectionPool> {
    let http = reqwest::Client::builder()
        .tls_certs_only(ca)
        .tls_version_min(reqwest::tls::Version::TLS_1_3)
        .https_only(true)
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .resolve(server_name, address)
        .local_address(local_address)
        .build()?;
    Ok(ConnectionPool { http, base: format!("https://{server_name}:{}", address.port()), number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_replaced_once_however_many_of_its_connections_are_silent() {
        // the provider of cryptography of this process; another test may have installed it
        let _ = rustls::crypto::ring::default_provider().install_default();
        let addresses = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port))).to_vec();
        let pools = ConnectionPools::new(Vec::new(), "controller", addresses, None).expect("a client");
        let (first, also_first) = (pools.current(), pools.current());
        pools.replace(&first);
        let second = pools.current();
        assert_ne!(second.number, first.number);
        pools.replace(&also_first);
        assert_eq!(pools.current().number, second.number, "its connections are new");
        pools.replace(&second);
        let bases = [&first, &second, &pools.current()].map(|pool| pool.base.clone());
        assert_eq!(bases, [1, 2, 1].map(|port| format!("https://controller:{port}")));
    }
}
