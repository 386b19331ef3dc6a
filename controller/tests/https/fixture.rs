//! A controller that serves in this process, with clients for every principal.

use crate::support::Fixture;
use api::client::{self, Client};
use controller::host_environment::HostEnvironment;
use controller::installation::Installation;
use controller::store::sqlite::{Options, Sqlite};
use controller::{Controller, server};
use state::documents::prelude::{TokenHolder, UserRole};
use state::terms::names::Uuid;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::{TlsConnector, rustls};

/// A controller that serves in this process.
pub struct TestServer {
    pub fixture: Fixture<Sqlite, HostEnvironment>,
    pub address: String,
    pub installation: Installation,
    _folder: TempDir,
}

impl TestServer {
    pub async fn new() -> TestServer {
        let folder = tempfile::tempdir().expect("a folder");
        let installation = Installation::open(folder.path(), false).expect("a new installation");
        let store = Sqlite::open(&installation.store(), Options::new(Uuid(9))).expect("a new store");
        let host = HostEnvironment::new(installation.archives()).expect("a folder for archives");
        let fixture = Fixture::new(Controller::new(store, host, installation.controller())).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let acceptor =
            server::acceptor(&installation.certificate, &installation.key).expect("its own certificate");
        let serving =
            server::serve(fixture.controller.clone(), vec![listener], acceptor, std::future::pending());
        tokio::spawn(serving);
        TestServer { fixture, address, installation, _folder: folder }
    }

    pub fn controller(&self, token: &str) -> client::ControllerConnection {
        client::ControllerConnection {
            address: self.address.clone(),
            other_addresses: Vec::new(),
            server_name: self.installation.controller().to_string(),
            ca: self.installation.ca.clone(),
            token: token.to_owned(),
            local_address: None,
        }
    }

    pub async fn user(&self, name: u128, role: UserRole) -> Client {
        let token = self.user_token(name, role).await;
        Client::user(&self.controller(&token)).expect("the CA certificate is valid")
    }

    pub async fn user_token(&self, name: u128, role: UserRole) -> String {
        self.fixture.token(Uuid(name), TokenHolder::User { name: format!("{name}"), role }).await
    }

    pub async fn unit_token(&self, unit: Uuid) -> String {
        self.fixture.token(unit, TokenHolder::Unit { model: self.fixture.model, unit }).await
    }

    /// Returns the client of a unit's agent.
    pub async fn unit(&self, name: &str) -> Client {
        let unit = self.fixture.unit(name).await;
        let token = self.unit_token(unit).await;
        Client::agent(&self.controller(&token), self.fixture.model.0, unit)
            .expect("the CA certificate is valid")
    }

    pub fn connector(&self) -> TlsConnector {
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.installation.ca.as_bytes()).expect("PEM"))
            .expect("a CA");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the defaults")
            .with_root_certificates(roots)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    }

    pub fn name(&self) -> ServerName<'static> {
        ServerName::try_from(self.installation.controller().to_string()).expect("a uuid is a name")
    }

    /// Sends one HTTP request with this body. Returns the status and the response: a body of known length completely, of a
    /// stream only the head.
    pub async fn send_request(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> (u16, String) {
        let stream = TcpStream::connect(&self.address).await.expect("it listens");
        let mut tls = self.connector().connect(self.name(), stream).await.expect("its CA is known");
        let token = token.map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{token}content-length: {length}\r\n\r\n"
        );
        tls.write_all(format!("{head}{body}").as_bytes()).await.expect("it is sent");
        let mut answer = Vec::new();
        while !is_complete(&answer) {
            let mut bytes = [0; 4096];
            match tls.read(&mut bytes).await {
                Ok(read) if read > 0 => answer.extend_from_slice(&bytes[..read]),
                _ => break,
            }
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        (status.expect("an HTTP answer"), answer)
    }
}

/// Whether these bytes are a response head with its body. A stream has no length and never ends: its head is sufficient.
fn is_complete(response: &[u8]) -> bool {
    let Some(end) = response.windows(4).position(|end| end == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&response[..end]).to_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_none_or(|length| response.len() >= end + 4 + length)
}

pub fn write_executable(hook: &std::path::Path) {
    std::fs::write(hook, "#!/bin/sh\n").expect("written");
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).expect("made executable");
}
