//! A TCP proxy between agents and their controller that can stop forwarding without closing a connection.
//!
//! A stalled connection drops the bytes that it receives, and neither of its ends is closed, whatever the other end
//! does. The proxy forwards bytes; it does not terminate TLS.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tests::host::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// How new connections are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionMode {
    /// Everything is forwarded.
    Forward,
    /// The connection is accepted; nothing is forwarded.
    Stall,
    /// The TLS handshake is forwarded; requests are not.
    StallAfterHandshake,
}

/// The directions of a connection that are no longer forwarded.
#[derive(Clone, Copy, Debug, Default)]
struct Stalled {
    requests: bool,
    responses: bool,
}

#[derive(Clone, Copy)]
enum Direction {
    Requests,
    Responses,
}

/// One connection: each of its directions ends at its own time.
struct Connection {
    stalled: Mutex<Stalled>,
    dropped: DroppedBytes,
}

/// The number of bytes that stalled connections received and did not forward.
#[derive(Clone, Default)]
struct DroppedBytes {
    requests: Arc<AtomicUsize>,
    responses: Arc<AtomicUsize>,
}

/// A running proxy; it ends with the test's process.
pub struct StallingProxy {
    /// `127.0.0.1:41234`.
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    mode: Mutex<ConnectionMode>,
    open: Mutex<Vec<Arc<Connection>>>,
    /// Increased when all connections are to be closed.
    close_all: tokio::sync::watch::Sender<u32>,
    dropped: DroppedBytes,
    stalled_connections: AtomicUsize,
}

impl StallingProxy {
    /// Starts a proxy to the controller of `host`.
    pub fn start(host: &Host) -> StallingProxy {
        let controller = super::raw_client::client_file(&host.dir)["controller"].as_str().map(str::parse);
        let controller: SocketAddr = controller.expect("it is text").expect("an address");
        let shared = Arc::new(Shared {
            mode: Mutex::new(ConnectionMode::Forward),
            open: Mutex::default(),
            close_all: tokio::sync::watch::Sender::new(0),
            dropped: DroppedBytes::default(),
            stalled_connections: AtomicUsize::new(0),
        });
        let (address_sender, address) = std::sync::mpsc::channel();
        let of_proxy = shared.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                let address = listener.local_addr().expect("it listens").to_string();
                address_sender.send(address).expect("the test waits");
                loop {
                    let (agent, _) = listener.accept().await.expect("agents connect");
                    tokio::spawn(of_proxy.clone().forward(agent, controller));
                }
            });
        });
        StallingProxy { address: address.recv().expect("the proxy sends its address"), shared }
    }

    /// Stops forwarding on all open connections, in both directions.
    pub fn stall(&self) {
        self.stall_open(Stalled { requests: true, responses: true });
    }

    /// Stops forwarding the controller's responses on all open connections; requests still arrive.
    pub fn stall_responses(&self) {
        self.stall_open(Stalled { requests: false, responses: true });
    }

    fn stall_open(&self, stalled: Stalled) {
        for open in self.shared.open.lock().expect("no holder panics").iter() {
            *open.stalled.lock().expect("no holder panics") = stalled;
        }
    }

    /// Closes all connections and sets the mode of new ones.
    pub fn reset_connections(&self, mode: ConnectionMode) {
        self.set_mode(mode);
        self.shared.close_all.send_modify(|count| *count += 1);
    }

    /// Sets the mode of new connections; open ones keep theirs.
    pub fn set_mode(&self, mode: ConnectionMode) {
        *self.shared.mode.lock().expect("no holder panics") = mode;
    }

    /// The bytes of requests and of responses that were not forwarded.
    pub fn dropped_bytes(&self) -> (usize, usize) {
        let DroppedBytes { requests, responses } = &self.shared.dropped;
        (requests.load(Ordering::SeqCst), responses.load(Ordering::SeqCst))
    }

    /// The number of connections that were accepted in a stalling mode and on which an agent sent something.
    pub fn stalled_connections(&self) -> usize {
        self.shared.stalled_connections.load(Ordering::SeqCst)
    }
}

impl Shared {
    async fn forward(self: Arc<Self>, agent: TcpStream, controller: SocketAddr) {
        let mode = *self.mode.lock().expect("no holder panics");
        let mut close_all = self.close_all.subscribe();
        let Ok(to_controller) = TcpStream::connect(controller).await else { return };
        let all = mode == ConnectionMode::Stall;
        let stalled = Mutex::new(Stalled { requests: all, responses: all });
        let connection = Arc::new(Connection { stalled, dropped: self.dropped.clone() });
        self.open.lock().expect("no holder panics").push(connection.clone());
        let ((mut from_agent, to_agent), (from_controller, mut to_controller)) =
            (agent.into_split(), to_controller.into_split());
        let requests = async {
            if mode != ConnectionMode::Forward {
                // the first flight of a handshake is one packet on this host
                let mut hello = vec![0; 16 << 10];
                let Ok(length) = from_agent.read(&mut hello).await else { return };
                if mode == ConnectionMode::StallAfterHandshake {
                    to_controller.write_all(&hello[..length]).await.ok();
                    // the agent's second flight proves that it has received the controller's
                    from_agent.readable().await.ok();
                    *connection.stalled.lock().expect("no holder panics") =
                        Stalled { requests: true, responses: true };
                }
                self.stalled_connections.fetch_add(1, Ordering::SeqCst);
            }
            connection.forward(Direction::Requests, &mut from_agent, &mut to_controller).await;
        };
        let responses = async {
            let (mut from, mut to) = (from_controller, to_agent);
            connection.forward(Direction::Responses, &mut from, &mut to).await;
            (from, to) // closed with the connection, not before
        };
        tokio::select! {
            _ = async { tokio::join!(requests, responses) } => {}
            _ = close_all.changed() => {}
        }
    }
}

impl Connection {
    /// Forwards one direction until its sender closes it; a stalled direction does not forward the close.
    async fn forward(&self, direction: Direction, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) {
        let mut bytes = vec![0; 16 << 10];
        loop {
            let read = from.read(&mut bytes).await.unwrap_or(0);
            let stalled = *self.stalled.lock().expect("no holder panics");
            let (stalled, dropped) = match direction {
                Direction::Requests => (stalled.requests, &self.dropped.requests),
                Direction::Responses => (stalled.responses, &self.dropped.responses),
            };
            match (stalled, read) {
                (true, 0) => std::future::pending().await,
                (true, _) => drop(dropped.fetch_add(read, Ordering::SeqCst)),
                (false, 0) => break,
                (false, _) if to.write_all(&bytes[..read]).await.is_err() => break,
                (false, _) => {}
            }
        }
        to.shutdown().await.ok();
    }
}
