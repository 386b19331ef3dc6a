//! Clients that flood the controller without a token do not delay clients of other addresses or listeners.

use crate::fixture::TestServer;
use controller::server;
use state::documents::prelude::UserRole;
use std::collections::VecDeque;
use std::future::pending;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::rustls::ClientConnection;

/// Connections of the flood at the same time: four times as many as one address may have without a token.
const FLOOD: usize = 512;
/// How soon another client must be answered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// Returns a whole first message of a handshake (ClientHello).
fn hello(served: &TestServer) -> Vec<u8> {
    let config = served.connector().config().clone();
    let mut client = ClientConnection::new(config, served.name()).expect("a good configuration");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("a vector accepts everything");
    bytes
}

/// Connects from one of this host's addresses.
async fn connect_from(source: &str, address: &str) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(format!("{source}:0").parse().expect("an address"))?;
    socket.connect(address.parse().expect("an address")).await
}

/// Starts handshakes from 127.0.0.2 and continues none, until the task is aborted. Returns after the first [`FLOOD`].
async fn flood(served: &TestServer, address: &str) -> JoinHandle<()> {
    let (hello, address) = (hello(served), address.to_owned());
    let (reached, flooded) = tokio::sync::oneshot::channel();
    let mut reached = Some(reached);
    let flood = tokio::spawn(async move {
        let mut open = VecDeque::new();
        loop {
            let mut stream = connect_from("127.0.0.2", &address).await.expect("the kernel accepts it");
            stream.write_all(&hello).await.ok(); // it may be closed already
            open.push_back(stream);
            if open.len() > FLOOD {
                open.pop_front();
                reached.take().map(|reached| reached.send(()));
            }
        }
    });
    flooded.await.expect("the flood runs");
    flood
}

/// Sends one request from 127.0.0.3 and expects its answer.
async fn is_answered(served: &TestServer, address: &str, token: &str) {
    let answered = async {
        let stream = connect_from("127.0.0.3", address).await.expect("it listens");
        let mut tls = served.connector().connect(served.name(), stream).await.expect("its CA is known");
        let about = format!("GET /v1/about HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
        tls.write_all(about.as_bytes()).await.expect("it is sent");
        let mut bytes = [0; 15];
        tls.read_exact(&mut bytes).await.expect("it is answered");
        assert_eq!(String::from_utf8_lossy(&bytes), "HTTP/1.1 200 OK");
    };
    tokio::time::timeout(ANSWERED_WITHIN, answered).await.expect("another address is not delayed");
}

#[tokio::test]
async fn an_address_that_floods_the_listener_does_not_delay_another_address() {
    let served = TestServer::new().await;
    let token = served.user_token(1, UserRole::Read).await;
    let flood = flood(&served, &served.address).await;
    for _ in 0..5 {
        is_answered(&served, &served.address, &token).await;
    }
    flood.abort();
}

#[tokio::test]
async fn a_flood_of_one_listener_does_not_delay_another_listener() {
    let served = TestServer::new().await;
    let token = served.user_token(1, UserRole::Read).await;
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        addresses.push(listener.local_addr().expect("it is bound").to_string());
        listeners.push(listener);
    }
    let acceptor =
        server::acceptor(&served.installation.certificate, &served.installation.key).expect("its own");
    tokio::spawn(server::serve(served.fixture.controller.clone(), listeners, acceptor, pending()));
    let flood = flood(&served, &addresses[0]).await;
    for _ in 0..5 {
        is_answered(&served, &addresses[1], &token).await;
    }
    flood.abort();
}
