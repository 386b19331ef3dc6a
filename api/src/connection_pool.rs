//! The connections of a client to its controller, which are used again for later requests.
//!
//! A pool is given up as a whole when a response did not come in time on one of its connections:
//!
//! 1. The network between an agent and the controller loses packets without closing a connection, for example after a
//!    firewall was restarted. All connections of the agent are silent from then on.
//! 2. The agent gives its watch up at its time limit.
//! 3. The next request uses an idle connection of the same pool, and waits for the same time limit.
//!
//! Requests that are being sent keep the connection that they have. Called by `client`.

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
    /// Its number: 0 for the first one of a client.
    number: u64,
}

/// The current pool of a client.
pub struct ConnectionPools {
    ca: Vec<reqwest::Certificate>,
    server_name: String,
    address: SocketAddr,
    /// The address of this host from which connections are made.
    local_address: Option<IpAddr>,
    current: Mutex<ConnectionPool>,
}

impl ConnectionPools {
    /// An empty pool for one controller.
    ///
    /// # Errors
    /// If the CA cannot be used.
    pub fn new(
        ca: Vec<reqwest::Certificate>,
        server_name: &str,
        address: SocketAddr,
        local_address: Option<IpAddr>,
    ) -> reqwest::Result<ConnectionPools> {
        let http = build(ca.clone(), server_name, address, local_address)?;
        let current = Mutex::new(ConnectionPool { http, number: 0 });
        Ok(ConnectionPools { ca, server_name: server_name.to_owned(), address, local_address, current })
    }

    /// The pool for the next request.
    pub fn current(&self) -> ConnectionPool {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces this pool by an empty one, unless it was replaced before. If no other one can be made, it is used on.
    pub fn replace(&self, silent: &ConnectionPool) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.number == silent.number
            && let Ok(http) = build(self.ca.clone(), &self.server_name, self.address, self.local_address)
        {
            *current = ConnectionPool { http, number: silent.number + 1 };
        }
    }
}

fn build(
    ca: Vec<reqwest::Certificate>,
    server_name: &str,
    address: SocketAddr,
    local_address: Option<IpAddr>,
) -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
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
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_replaced_once_however_many_of_its_connections_are_silent() {
        // the provider of cryptography of this process; another test may have installed it
        let _ = rustls::crypto::ring::default_provider().install_default();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let pools = ConnectionPools::new(Vec::new(), "controller", address, None).expect("a client");
        let (first, also_first) = (pools.current(), pools.current());
        pools.replace(&first);
        let second = pools.current();
        assert_ne!(second.number, first.number);
        pools.replace(&also_first);
        assert_eq!(pools.current().number, second.number, "its connections are new");
    }
}
