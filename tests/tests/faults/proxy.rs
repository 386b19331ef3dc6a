//! A faulty network between the agents and their controller: a proxy that terminates TLS with the controller's own
//! certificate. It forwards every request that changes something twice, and closes the connection instead of replying
//! when it first receives such a request.

use crate::raw_client::{caller, reconfigure};
use api::AgentConfig;
use axum::body::{Body, to_bytes};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tests::host::Host;
use tokio::net::TcpListener;

/// The largest request that the controller accepts.
const BODY_BYTES_MAX: usize = 4 << 20;

type Request = hyper::Request<hyper::body::Incoming>;
type Response = hyper::Response<Body>;

/// Counters of one kind of request, which is the last segment of its path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub duplicated: usize,
    pub lost: usize,
}

#[derive(Default)]
struct Ledger {
    /// Path and body of every request whose reply was dropped.
    lost: BTreeSet<(String, Vec<u8>)>,
    kinds: BTreeMap<String, Seen>,
}

/// A running proxy; it ends with the process of the test.
pub struct Proxy {
    /// `127.0.0.1:41234`.
    pub address: String,
    ledger: Arc<Mutex<Ledger>>,
}

struct Onward {
    http: reqwest::Client,
    base: String,
    ledger: Arc<Mutex<Ledger>>,
}

impl Proxy {
    /// Starts a proxy for the controller of this host.
    pub fn before(host: &Host) -> Proxy {
        let own = |name: &str| fs::read_to_string(host.dir.join("controller").join(name)).expect("it is up");
        let acceptor =
            controller::server::acceptor(&own("server.pem"), &own("server-key.pem")).expect("its own pair");
        let (http, base) = caller(host);
        let ledger = Arc::<Mutex<Ledger>>::default();
        let onward = Arc::new(Onward { http, base, ledger: ledger.clone() });
        let (address_sender, address) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
                address_sender
                    .send(listener.local_addr().expect("it listens").to_string())
                    .expect("the test waits");
                loop {
                    let (stream, _) = listener.accept().await.expect("connections come");
                    let (acceptor, onward) = (acceptor.clone(), onward.clone());
                    tokio::spawn(async move {
                        if let Ok(tls) = acceptor.accept(stream).await {
                            serve(tls, onward).await;
                        }
                    });
                }
            });
        });
        Proxy { address: address.recv().expect("the proxy says where it is"), ledger }
    }

    /// Returns the counters of requests of this kind: `commit`, `attach`, ...
    pub fn seen(&self, kind: &str) -> Seen {
        self.ledger.lock().expect("no holder panics").kinds.get(kind).copied().unwrap_or_default()
    }
}

async fn serve(
    tls: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
    onward: Arc<Onward>,
) {
    let service = hyper::service::service_fn(move |request: Request| {
        let onward = onward.clone();
        async move { onward.answer(request).await.ok_or(Lost) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new());
    // the error ends the connection, which loses the answer
    http.serve_connection(TokioIo::new(tls), service).await.ok();
}

/// No answer: the connection is closed.
#[derive(Debug)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("the answer is lost")
    }
}

impl std::error::Error for Lost {}

impl Onward {
    /// The controller's answer, or none.
    async fn answer(&self, request: Request) -> Option<Response> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let body = to_bytes(Body::new(body), BODY_BYTES_MAX).await.ok()?;
        let send = || {
            let mut onward = self.http.request(head.method.clone(), format!("{}{path}", self.base));
            for name in ["authorization", "content-type"] {
                if let Some(value) = head.headers.get(name) {
                    onward = onward.header(name, value);
                }
            }
            onward.body(body.clone()).send()
        };
        let kind = path.rsplit('/').next().unwrap_or_default().to_owned();
        let answer = send().await.ok()?;
        // reads and streams are forwarded unchanged
        if head.method == hyper::Method::GET || kind == "watch" {
            return Some(passed_on(answer));
        }
        let again = send().await.ok()?;
        let mut ledger = self.ledger.lock().expect("no holder panics");
        let seen = ledger.kinds.entry(kind.clone()).or_default();
        seen.duplicated += 1;
        if ledger.lost.insert((path, body.to_vec())) {
            ledger.kinds.entry(kind).or_default().lost += 1;
            return None;
        }
        Some(passed_on(again))
    }
}

fn passed_on(answer: reqwest::Response) -> Response {
    let status = answer.status();
    let kind = answer.headers().get("content-type").cloned();
    let mut response = Response::new(Body::from_stream(answer.bytes_stream()));
    *response.status_mut() = status;
    if let Some(kind) = kind {
        response.headers_mut().insert("content-type", kind);
    }
    response
}

/// Makes the machine agents, and the units that they deploy from now on, connect to the controller at `address`.
pub fn connect_agents_to(host: &Host, address: &str) {
    for machine in fs::read_dir(host.dir.join("machines")).expect("there are machines").flatten() {
        reconfigure_and_restart(host, &machine.path(), |config| {
            config.controllers = vec![address.to_owned()]
        });
    }
}

/// Changes the configuration of a machine agent and restarts the agent. Returns the previous configuration.
pub fn reconfigure_and_restart(
    host: &Host,
    machine: &Path,
    change: impl FnOnce(&mut AgentConfig),
) -> AgentConfig {
    let known = reconfigure(machine, change);
    // the agent reads its configuration when it starts
    let pid = machine.join("machine.pid");
    let before = host.pid(&pid).expect("its agent runs");
    host.kill(before);
    host.until("the machine's agent is back", |host| host.pid(&pid).filter(|now| *now != before));
    known
}
