//! A wire between agents and their controller that can go dead without a word: what runs over a connection is no
//! longer carried, and neither end is closed, whatever the other does. Bytes only, no TLS.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tests::host::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What becomes of the connections made from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makes {
    /// All is carried.
    Whole,
    /// Accepted; nothing is carried.
    Silent,
    /// The handshake is carried, and no request.
    Deaf,
}

/// What a connection does not carry any more.
#[derive(Clone, Copy, Debug, Default)]
struct Dead {
    requests: bool,
    answers: bool,
}

#[derive(Clone, Copy)]
enum Way {
    Requests,
    Answers,
}

/// One connection: its two ways end each at its own time.
struct Carried {
    dead: Mutex<Dead>,
    swallowed: Swallowed,
}

/// Bytes that went into dead connections.
#[derive(Clone, Default)]
struct Swallowed {
    requests: Arc<AtomicUsize>,
    answers: Arc<AtomicUsize>,
}

/// A wire under way; it ends with the test's process.
pub struct Wire {
    /// `127.0.0.1:41234`.
    pub address: String,
    shared: Arc<Shared>,
}

struct Shared {
    makes: Mutex<Makes>,
    open: Mutex<Vec<Arc<Carried>>>,
    /// Told when every connection is to be closed.
    cut: tokio::sync::watch::Sender<u32>,
    swallowed: Swallowed,
    caught: AtomicUsize,
}

impl Wire {
    /// To this host's controller.
    pub fn to(host: &Host) -> Wire {
        let controller = super::door::client_file(&host.dir)["controller"].as_str().map(str::parse);
        let controller: SocketAddr = controller.expect("it is text").expect("an address");
        let shared = Arc::new(Shared {
            makes: Mutex::new(Makes::Whole),
            open: Mutex::default(),
            cut: tokio::sync::watch::Sender::new(0),
            swallowed: Swallowed::default(),
            caught: AtomicUsize::new(0),
        });
        let (told, address) = std::sync::mpsc::channel();
        let of_wire = shared.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                told.send(listener.local_addr().expect("it listens").to_string()).expect("the test waits");
                loop {
                    let (agent, _) = listener.accept().await.expect("connections come");
                    tokio::spawn(of_wire.clone().carry(agent, controller));
                }
            });
        });
        Wire { address: address.recv().expect("the wire says where it is"), shared }
    }

    /// From now on no connection that is open carries anything.
    pub fn dies(&self) {
        self.die(Dead { requests: true, answers: true });
    }

    /// The same for what the controller answers: requests arrive.
    pub fn loses_answers(&self) {
        self.die(Dead { requests: false, answers: true });
    }

    fn die(&self, how: Dead) {
        for open in self.shared.open.lock().expect("no holder panics").iter() {
            *open.dead.lock().expect("no holder panics") = how;
        }
    }

    /// Closes every connection; those that follow are made so.
    pub fn begins_anew(&self, makes: Makes) {
        self.makes(makes);
        self.shared.cut.send_modify(|cut| *cut += 1);
    }

    /// Connections made from now on are so; what is open stays as it is.
    pub fn makes(&self, makes: Makes) {
        *self.shared.makes.lock().expect("no holder panics") = makes;
    }

    /// Bytes of requests and of answers that were not carried.
    pub fn swallowed(&self) -> (usize, usize) {
        let Swallowed { requests, answers } = &self.shared.swallowed;
        (requests.load(Ordering::SeqCst), answers.load(Ordering::SeqCst))
    }

    /// Connections that were made other than whole and had something to say.
    pub fn caught(&self) -> usize {
        self.shared.caught.load(Ordering::SeqCst)
    }
}

impl Shared {
    async fn carry(self: Arc<Self>, agent: TcpStream, controller: SocketAddr) {
        let makes = *self.makes.lock().expect("no holder panics");
        let mut cut = self.cut.subscribe();
        let Ok(onward) = TcpStream::connect(controller).await else { return };
        let all = makes == Makes::Silent;
        let dead = Mutex::new(Dead { requests: all, answers: all });
        let carried = Arc::new(Carried { dead, swallowed: self.swallowed.clone() });
        self.open.lock().expect("no holder panics").push(carried.clone());
        let ((mut from_agent, to_agent), (from_controller, mut to_controller)) =
            (agent.into_split(), onward.into_split());
        let requests = async {
            if makes != Makes::Whole {
                // the first flight of a handshake is one packet on this host
                let mut hello = vec![0; 16 << 10];
                let Ok(length) = from_agent.read(&mut hello).await else { return };
                if makes == Makes::Deaf {
                    to_controller.write_all(&hello[..length]).await.ok();
                    // the agent's second flight says that it has the controller's
                    from_agent.readable().await.ok();
                    *carried.dead.lock().expect("no holder panics") = Dead { requests: true, answers: true };
                }
                self.caught.fetch_add(1, Ordering::SeqCst);
            }
            carried.pass(Way::Requests, &mut from_agent, &mut to_controller).await;
        };
        let answers = async {
            let (mut from, mut to) = (from_controller, to_agent);
            carried.pass(Way::Answers, &mut from, &mut to).await;
            (from, to) // closed with the connection, not before
        };
        tokio::select! {
            _ = async { tokio::join!(requests, answers) } => {}
            _ = cut.changed() => {}
        }
    }
}

impl Carried {
    /// Until the sender ends a living connection; an end is not carried on a dead one.
    async fn pass(&self, way: Way, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) {
        let mut bytes = vec![0; 16 << 10];
        loop {
            let read = from.read(&mut bytes).await.unwrap_or(0);
            let dead = *self.dead.lock().expect("no holder panics");
            let (dead, swallowed) = match way {
                Way::Requests => (dead.requests, &self.swallowed.requests),
                Way::Answers => (dead.answers, &self.swallowed.answers),
            };
            match (dead, read) {
                (true, 0) => std::future::pending().await,
                (true, _) => drop(swallowed.fetch_add(read, Ordering::SeqCst)),
                (false, 0) => break,
                (false, _) if to.write_all(&bytes[..read]).await.is_err() => break,
                (false, _) => {}
            }
        }
        to.shutdown().await.ok();
    }
}
