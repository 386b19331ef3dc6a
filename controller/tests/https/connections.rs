//! Connections: TLS, an unreachable controller, and connections that never send a request.

use crate::fixture::TestServer;
use api::client::{self, Client};
use api::error::{ApiError, ErrorCode};
use api::{GetAbout, Handle, ListModels};
use controller::installation::Installation;
use state::documents::prelude::UserRole;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn only_the_pinned_ca_and_tls_1_3_and_the_controllers_name_are_accepted() {
    let served = TestServer::new().await;
    let token = served.user_token(1, UserRole::Admin).await;
    let elsewhere = tempfile::tempdir().expect("a folder");
    let elsewhere = Installation::open(elsewhere.path(), false).expect("another installation");
    let wrong_ca = client::ControllerConnection { ca: elsewhere.ca.clone(), ..served.controller(&token) };
    let error = Client::user(&wrong_ca).expect("a CA").handle(GetAbout).await.expect_err("another CA");
    assert_eq!(
        (error.code, &error.unreachable),
        (ErrorCode::Unreachable, &None),
        "a server answers: {error}"
    );
    let wrong_name = client::ControllerConnection {
        server_name: elsewhere.controller().to_string(),
        ..served.controller(&token)
    };
    let error = Client::user(&wrong_name).expect("a name").handle(GetAbout).await.expect_err("another name");
    assert_eq!(
        (error.code, &error.unreachable),
        (ErrorCode::Unreachable, &None),
        "a server answers: {error}"
    );

    let mut plain = TcpStream::connect(&served.address).await.expect("it listens");
    plain.write_all(b"GET /v1/about HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it is sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await; // the server may also reset the connection
    assert!(
        answer.len() < 32 && !String::from_utf8_lossy(&answer).contains("HTTP"),
        "an alert at most: {answer:?}"
    );
}

#[tokio::test]
async fn the_error_for_an_unreachable_controller_has_its_address() {
    let served = TestServer::new().await;
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound");
    let unreachable =
        client::ControllerConnection { address: free.to_string(), ..served.controller(&"0".repeat(64)) };
    let error = Client::user(&unreachable)
        .expect("a good file")
        .handle(GetAbout)
        .await
        .expect_err("no server listens");
    assert_eq!(error, ApiError::unreachable(free, "connection refused"));
}

/// A request goes to the next address if no connection to the first can be made, and so do the next ones; streams, too.
#[tokio::test]
async fn a_client_goes_on_with_the_next_address_when_one_cannot_be_reached() {
    let served = TestServer::new().await;
    let token = served.user_token(1, UserRole::Read).await;
    let bind = || std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let [first, second] = [bind(), bind()].map(|listener| listener.local_addr().expect("bound"));
    let others = vec![second.to_string(), served.address.clone()];
    let connection = client::ControllerConnection {
        address: first.to_string(),
        other_addresses: others,
        ..served.controller(&token)
    };
    let user = Client::user(&connection).expect("a good file");
    user.handle(GetAbout).await.expect("the third address is that of the controller");
    // The first one is not tried again while the third one can be reached.
    let again = std::net::TcpListener::bind(first).expect("it is free");
    again.set_nonblocking(true).expect("set");
    user.clone().handle(ListModels).await.expect("the request succeeds");
    assert_eq!(again.accept().expect_err("no connection").kind(), std::io::ErrorKind::WouldBlock);
    drop(again);

    let connection = client::ControllerConnection { other_addresses: vec![second.to_string()], ..connection };
    let user = Client::user(&connection).expect("a good file");
    let error = user.handle(GetAbout).await.expect_err("neither can be reached");
    assert_eq!(error, ApiError::unreachable(format!("{first}, {second}"), "connection refused"));
}

/// A server with another certificate is not the controller: it may have its address by now.
#[tokio::test]
async fn a_client_goes_on_with_the_next_address_after_a_foreign_server() {
    let (served, foreign) = (TestServer::new().await, TestServer::new().await);
    let token = served.user_token(1, UserRole::Read).await;
    let connection = client::ControllerConnection {
        address: foreign.address.clone(),
        other_addresses: vec![served.address.clone()],
        ..served.controller(&token)
    };
    Client::user(&connection).expect("a good file").handle(GetAbout).await.expect("the second address");
}

#[tokio::test]
async fn idle_unauthenticated_connections_do_not_block_authenticated_ones() {
    let served = TestServer::new().await;
    let user = served.user(1, UserRole::Read).await;
    user.handle(GetAbout).await.expect("it is known now");
    let mut unauthenticated = Vec::new();
    for _ in 0..200 {
        unauthenticated.push(TcpStream::connect(&served.address).await.expect("the kernel accepts it"));
    }
    tokio::time::timeout(Duration::from_secs(2), user.handle(ListModels))
        .await
        .expect("at once")
        .expect("the request succeeds");
    drop(unauthenticated);
}

/// A client without a valid token pays for each of its requests with a handshake.
#[tokio::test]
async fn a_connection_ends_with_the_first_request_that_is_not_authenticated() {
    let served = TestServer::new().await;
    let unknown = format!("authorization: Bearer {}\r\n", "0".repeat(64));
    for (path, token) in
        [("/v1/about", ""), ("/v1/about", &*unknown), ("/v1/models/%ff/actions", ""), ("/", "")]
    {
        let stream = TcpStream::connect(&served.address).await.expect("it listens");
        let mut tls = served.connector().connect(served.name(), stream).await.expect("its CA is known");
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{token}\r\n");
        tls.write_all(request.repeat(2).as_bytes()).await.expect("it is sent");
        let mut answers = Vec::new();
        let _ = tls.read_to_end(&mut answers).await; // the server may also reset the connection
        let answers = String::from_utf8_lossy(&answers);
        assert_eq!(answers.matches("HTTP/1.1 4").count(), 1, "{path}: {answers}");
    }
}
