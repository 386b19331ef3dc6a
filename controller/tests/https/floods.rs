//! Clients that flood the controller, or read slowly, do not delay others.

use crate::fixture::{TestServer, write_executable};
use api::{Deploy, FetchArchive, Handle, InModel, UploadArchive};
use controller::server;
use state::documents::prelude::UserRole;
use state::terms::names::Uuid;
use std::collections::VecDeque;
use std::future::pending;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
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
    socket.set_recv_buffer_size(64 << 10)?; // so that a slow reader is noticed soon
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

/// Sends the request of a unit for its charm archive.
async fn fetch(served: &TestServer, unit: Uuid, token: &str, sha256: &str) -> TlsStream<TcpStream> {
    let stream = connect_from("127.0.0.3", &served.address).await.expect("it listens");
    let mut tls = served.connector().connect(served.name(), stream).await.expect("its CA is known");
    let path = format!("/v1/models/{}/unit-agents/{unit}/archive", served.fixture.model.0);
    let body = format!("{{\"sha256\":\"{sha256}\"}}");
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    tls.write_all(request.as_bytes()).await.expect("it is sent");
    tls
}

/// The tests of `ArchiveFile` show that no more of a file is read than its reader has received.
#[tokio::test]
async fn slow_readers_of_one_unit_do_not_delay_the_files_of_another() {
    let served = TestServer::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("metadata.yaml"), "name: big\nsummary: s\ndescription: d\n")
        .expect("written");
    std::fs::create_dir(folder.path().join("hooks")).expect("made");
    write_executable(&folder.path().join("hooks/install"));
    // Random bytes, which no archive compresses: more than the buffers of a connection hold.
    let random: Vec<u8> = (0..3 << 17).flat_map(|_| host::random::random_u128().to_le_bytes()).collect();
    std::fs::write(folder.path().join("data"), random).expect("written");
    let options = charms::ReadOptions { cache: folder.path().join("cache"), force: false };
    let archive = charms::read(folder.path(), &options).expect("a good charm").archive;
    let ann = served.user(1, UserRole::Write).await.in_model("dev");
    let uploaded = ann.handle(UploadArchive(archive.clone())).await.expect("it is stored");
    let sha256 = uploaded.sha256;
    let deploy = Deploy { sha256: sha256.clone(), units: 2, ..Deploy::default() };
    ann.handle(deploy).await.expect("it is deployed");

    let slow = served.fixture.unit("big/0").await;
    let token = served.unit_token(slow).await;
    let mut reader = fetch(&served, slow, &token, &sha256).await;
    let mut head = [0; 15];
    reader.read_exact(&mut head).await.expect("it is answered");
    assert_eq!(String::from_utf8_lossy(&head), "HTTP/1.1 200 OK");
    let mut second = fetch(&served, slow, &token, &sha256).await;
    let other = served.unit("big/1").await;
    let fetched = other.handle(FetchArchive { sha256: sha256.clone() }).await.expect("it is not delayed");
    assert!(fetched.0 == archive, "the whole archive");
    let mut byte = [0; 1];
    let waiting = tokio::time::timeout(Duration::from_millis(50), second.read(&mut byte)).await;
    assert!(waiting.is_err(), "a second file of one unit waits: {waiting:?}");
    drop(reader);
    let answered = tokio::time::timeout(ANSWERED_WITHIN, second.read_exact(&mut byte)).await;
    answered.expect("it is next").expect("it is answered");
}
