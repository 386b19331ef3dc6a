//! The HTTPS client that sends every request, with a pinned CA.
//!
//! It has one connection pool per client and uses HTTP/1.1 only. After a silence on one connection the pool is replaced,
//! because its other connections most likely are as silent (`connection_pool`). A controller may have several addresses: if no
//! connection to one can be made, the request is sent to the next one, and so are later requests. A request that may have
//! been sent is not sent again; its caller decides. Every failure to get a response is
//! `Unreachable`, with one line that names the controller's addresses. It implements the port of `request`, so
//! the commands and the agents use it without depending on it.

use crate::TRANSFER_RATE_MIN;
use crate::changes::LONG_POLL_MS;
use crate::client_file::ClientFile;
use crate::connection_pool::{ConnectionPool, ConnectionPools};
use crate::error::{ApiError, ErrorCode};
use crate::request::{
    Content, Handle, InModel, Message, Method, Request, Route, Stream, StreamLine, Watch, WatchRequest,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use state::documents::draft;
use state::lifecycle::action;
use state::terms::names::Uuid;
use state::views::inline_settings;
use std::error::Error;
use std::future::Future;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The time to wait for a response, or for its next part, after the request was sent. A long poll is answered within 25 s
/// and any other request within milliseconds; a request without a response 15 s after that is lost.
const CALL_TIMEOUT: Duration = Duration::from_millis(LONG_POLL_MS + 15_000);
/// The time after which an agent's connection that is silent while a response is due counts as dead.
const AGENT_READ_TIMEOUT: Duration = Duration::from_millis(crate::RESPONSE_SILENCE_MS);
/// The time to transfer a charm archive: 512 MiB at 1 MiB/s. No request takes longer.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(512);
/// The maximum length of a line of a stream. The longest line is a full view. It contains the inlined settings
/// (design 9); one document each for the charm's declarations, the configuration, the leader settings and every
/// enqueued action; and 8 MiB of relation heads, members, versions and statuses, which is 400 bytes for each of 20,000
/// related units.
const LINE_BYTES_MAX: usize =
    inline_settings::INLINE_BYTES_MAX + (3 + action::ENQUEUED_MAX) * draft::BYTES_MAX + (8 << 20);

/// The address of a controller, how to authenticate it, and the token of the caller.
#[derive(Clone, Debug)]
pub struct ControllerConnection {
    /// Host and port: `127.0.0.1:17070`.
    pub address: String,
    /// Further addresses, which are used in this order while no connection to the ones before can be made.
    pub other_addresses: Vec<String>,
    /// The name in its certificate, which is its uuid.
    pub server_name: String,
    /// The only trusted CA, as PEM.
    pub ca: String,
    /// The token of the caller.
    pub token: String,
    /// The address of this host from which connections are made; none for the one that the kernel chooses.
    pub local_address: Option<IpAddr>,
}

impl From<&ClientFile> for ControllerConnection {
    fn from(file: &ClientFile) -> ControllerConnection {
        ControllerConnection {
            address: file.controller.clone(),
            other_addresses: file.other_controllers.clone(),
            server_name: file.server_name.clone(),
            ca: file.ca.clone(),
            token: file.token.clone(),
            local_address: None,
        }
    }
}

/// A client of one controller. Clones share the connection pool.
#[derive(Clone)]
pub struct Client {
    pools: Arc<ConnectionPools>,
    /// How long a connection may be silent while a response is due.
    silence: Duration,
    /// The addresses, for messages.
    address: String,
    authorization: String,
    /// The name or uuid of the model that requests concern; empty for requests that concern none.
    model: String,
    /// The agent that sends the requests; none for a user.
    agent: Option<Uuid>,
}

impl Client {
    /// A client for a user or the supervisor, without a model. Fails with `Invalid` if a field of `controller`
    /// cannot be parsed.
    pub fn user(controller: &ControllerConnection) -> Result<Client, ApiError> {
        Client::new(controller, String::new(), None)
    }

    /// A client for the agent of a machine or a unit. Fails with `Invalid` if a field of `controller` cannot be
    /// parsed.
    pub fn agent(controller: &ControllerConnection, model: Uuid, agent: Uuid) -> Result<Client, ApiError> {
        Client::new(controller, model.to_string(), Some(agent))
    }

    fn new(
        controller: &ControllerConnection,
        model: String,
        agent: Option<Uuid>,
    ) -> Result<Client, ApiError> {
        let invalid = |text: String| ApiError::new(ErrorCode::Invalid, text);
        // Returns Err if a provider is installed already; it was installed by an earlier call.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let all = || [&controller.address].into_iter().chain(&controller.other_addresses);
        let resolved = |address: &String| address.to_socket_addrs().ok().and_then(|mut all| all.next());
        // One of several hosts may have no address at the moment.
        let addresses: Vec<SocketAddr> = all().filter_map(resolved).collect();
        if addresses.is_empty() {
            let text = format!("invalid controller address {:?}: expected HOST:PORT", controller.address);
            return Err(invalid(text));
        }
        let ca = reqwest::Certificate::from_pem_bundle(controller.ca.as_bytes())
            .map_err(|e| invalid(format!("cannot read the controller's CA certificate: {e}")))?;
        let unusable = |e| invalid(format!("the controller's CA is not usable: {}", root_cause(&e)));
        let pools = ConnectionPools::new(ca, &controller.server_name, addresses, controller.local_address)
            .map_err(unusable)?;
        Ok(Client {
            pools: Arc::new(pools),
            silence: if agent.is_some() { AGENT_READ_TIMEOUT } else { CALL_TIMEOUT },
            address: all().cloned().collect::<Vec<_>>().join(", "),
            authorization: format!("Bearer {}", controller.token),
            model,
            agent,
        })
    }

    /// Sends one request; a response other than 2xx is returned as the error that it contains. Not generic over the request:
    /// programs would contain a copy for each of them.
    async fn send(
        &self,
        route: Route,
        mut body: Option<Body>,
        silence: Duration,
        timeout: Option<Duration>,
    ) -> Result<PooledResponse, ApiError> {
        for _ in 1..self.pools.addresses() {
            match self.send_once(self.pools.current(), route, body.clone(), silence, timeout).await {
                Err(NotSent::NoConnection(pool, _)) => self.pools.replace(&pool),
                Err(NotSent::Failed(error)) => return Err(error),
                Ok(response) => return Ok(response),
            }
        }
        let last = self.send_once(self.pools.current(), route, body.take(), silence, timeout).await;
        last.map_err(|failed| match failed {
            NotSent::NoConnection(pool, error) => {
                if self.pools.addresses() > 1 {
                    self.pools.replace(&pool);
                }
                error
            }
            NotSent::Failed(error) => error,
        })
    }

    /// Sends one request to the address of this pool.
    async fn send_once(
        &self,
        pool: ConnectionPool,
        route: Route,
        body: Option<Body>,
        silence: Duration,
        timeout: Option<Duration>,
    ) -> Result<PooledResponse, NotSent> {
        let url = format!("{}{}", pool.base, self.path(route));
        let (mut request, bytes) = match body {
            None => (pool.http.get(url), 0),
            Some(Body { content, bytes }) => {
                let content_type = match content {
                    Content::Json => "application/json",
                    Content::Bytes => "application/octet-stream",
                };
                let length = bytes.len();
                (pool.http.post(url).header("content-type", content_type).body(bytes), length)
            }
        };
        request = request.header("authorization", &self.authorization);
        if let Some(timeout) = timeout {
            request = request.timeout(timeout);
        }
        let end = Instant::now() + response_wait(silence, bytes);
        let mut no_connection = false;
        let sent = async {
            let sent = request.send().await;
            no_connection = sent.as_ref().is_err_and(reqwest::Error::is_connect);
            sent
        };
        let response = match self.until(&pool, end, sent).await {
            Err(error) if no_connection => return Err(NotSent::NoConnection(pool, error)),
            response => response?,
        };
        let status = response.status();
        let response = PooledResponse { response, pool };
        if status.is_success() {
            return Ok(response);
        }
        let body = self.receive(response, silence).await?;
        Err(serde_json::from_slice(&body)
            .unwrap_or_else(|_| {
                let text =
                    format!("controller {} responded with {status} and no error message", self.address);
                ApiError::new(ErrorCode::Unavailable, text)
            })
            .into())
    }

    /// Waits for a part of a response until this time. If it does not come, the connections of its pool are given up.
    async fn until<T>(
        &self,
        pool: &ConnectionPool,
        end: Instant,
        part: impl Future<Output = reqwest::Result<T>>,
    ) -> Result<T, ApiError> {
        match timeout_at(end, part).await {
            Ok(part) => part.map_err(|error| self.unreachable(&error)),
            Err(_) => {
                self.pools.replace(pool);
                Err(ApiError::unreachable(&self.address, TIMED_OUT))
            }
        }
    }

    /// Sends one request and receives the body of its response.
    async fn exchange(
        &self,
        route: Route,
        body: Option<Body>,
        silence: Duration,
    ) -> Result<Vec<u8>, ApiError> {
        let response = self.send(route, body, silence, Some(TRANSFER_TIMEOUT)).await?;
        self.receive(response, silence).await
    }

    /// Receives the body of a response. What is bounded is the time without progress.
    async fn receive(&self, response: PooledResponse, silence: Duration) -> Result<Vec<u8>, ApiError> {
        let PooledResponse { mut response, pool } = response;
        let mut bytes = Vec::new();
        while let Some(chunk) = self.until(&pool, Instant::now() + silence, response.chunk()).await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// The path with the model and the agent of this client.
    fn path(&self, route: Route) -> String {
        let agent = self.agent.map(|agent| agent.to_string()).unwrap_or_default();
        route.path.replace("{model}", &encoded(&self.model)).replace("{agent}", &agent)
    }

    fn unreachable(&self, error: &reqwest::Error) -> ApiError {
        let why = if error.is_timeout() { TIMED_OUT.to_owned() } else { root_cause(error) };
        if is_certificate_refused(error) {
            let text = format!("the server at {} is not the expected controller: {why}", self.address);
            return ApiError::new(ErrorCode::Unreachable, text)
                .hint("check that the client file belongs to this controller; another installation may have written it");
        }
        ApiError::unreachable(&self.address, why)
    }

    fn invalid_response(&self, why: &str) -> ApiError {
        let text = format!("cannot parse the response of controller {}: {why}", self.address);
        ApiError::new(ErrorCode::Broken, text).hint("use a client and a controller of the same version")
    }
}

/// Why there is no response to a request, or only an error.
enum NotSent {
    /// No connection to the address of the pool could be made: the request was not sent.
    NoConnection(ConnectionPool, ApiError),
    /// The request may have been sent.
    Failed(ApiError),
}

impl From<ApiError> for NotSent {
    fn from(error: ApiError) -> NotSent {
        NotSent::Failed(error)
    }
}

/// The body of a request.
#[derive(Clone)]
struct Body {
    content: Content,
    bytes: Vec<u8>,
}

impl Body {
    /// None if the method has no body.
    fn of<M: Message>(route: Route, message: M) -> Option<Body> {
        match route.method {
            Method::Get => None,
            Method::Post => Some(Body { content: M::CONTENT, bytes: message.into_bytes() }),
        }
    }
}

/// A response, and the pool of its connection.
struct PooledResponse {
    response: reqwest::Response,
    pool: ConnectionPool,
}

/// Why a response counts as lost.
const TIMED_OUT: &str = "timed out";

/// Returns how long the response to a request with a body of this size is waited for: a body may arrive at the minimum
/// rate, and no response is due before the controller has all of it.
fn response_wait(silence: Duration, body_bytes: usize) -> Duration {
    silence + Duration::from_secs(body_bytes as u64 / TRANSFER_RATE_MIN)
}

/// Whether this side refused the certificate of the server: the server is not the expected controller.
fn is_certificate_refused(error: &(dyn Error + 'static)) -> bool {
    use rustls::Error::{InvalidCertificate, NoCertificatesPresented};
    // the source of an I/O error is the source of the error that it wraps, not the wrapped error itself
    let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let next = inside.map(|inside| inside as &(dyn Error + 'static)).or_else(|| error.source());
    matches!(error.downcast_ref(), Some(InvalidCertificate(_) | NoCertificatesPresented))
        || next.is_some_and(is_certificate_refused)
}

/// The innermost cause as plain text: `connection refused`.
fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let mut of_system = root.downcast_ref::<std::io::Error>();
    // an error of the system that contains another one does not name it as its source
    while let Some(inner) = of_system.and_then(|error| error.get_ref()?.downcast_ref::<std::io::Error>()) {
        of_system = Some(inner);
    }
    match of_system.map(std::io::Error::kind) {
        Some(std::io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(std::io::ErrorKind::ConnectionReset) => "connection reset".to_owned(),
        // rustls: the other end was killed; its text explains an attack that a response with a length excludes
        Some(std::io::ErrorKind::UnexpectedEof) => "connection closed".to_owned(),
        Some(_) | None => root.to_string(),
    }
}

/// The characters of one part of a path that are not sent as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Percent-encodes one part of a path, so that the input of a user remains one part.
fn encoded(part: &str) -> String {
    utf8_percent_encode(part, ENCODED).to_string()
}

/// An open stream of JSON lines.
pub struct LineStream<T> {
    response: PooledResponse,
    client: Client,
    /// Bytes that were received and not returned yet.
    buffer: Vec<u8>,
    /// The number of bytes at the start of the buffer that contain no line end.
    searched: usize,
    item: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + Send + Sync> Stream for LineStream<T> {
    type Item = T;

    async fn next(&mut self) -> Result<T, ApiError> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=self.searched + end).collect();
                self.searched = 0;
                let line = serde_json::from_slice(&line)
                    .map_err(|e| self.client.invalid_response(&e.to_string()))?;
                return match line {
                    StreamLine::Item(item) => Ok(item),
                    StreamLine::Error(error) => Err(error),
                };
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_BYTES_MAX {
                return Err(self.client.invalid_response("a line is too long"));
            }
            // A stream may be silent: its reader decides for how long (`Stream::give_up`).
            match self.response.response.chunk().await.map_err(|error| self.client.unreachable(&error))? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None => return Err(ApiError::unreachable(&self.client.address, "the stream ended")),
            }
        }
    }

    fn give_up(self) -> ApiError {
        self.client.pools.replace(&self.response.pool);
        ApiError::unreachable(&self.client.address, TIMED_OUT)
    }
}

impl<R: Request> Handle<R> for Client {
    async fn handle(&self, request: R) -> Result<R::Response, ApiError> {
        let transfers = [R::CONTENT, R::Response::CONTENT].contains(&Content::Bytes);
        let silence = match self.agent {
            None if transfers => TRANSFER_TIMEOUT, // the controller verifies an upload before it answers
            Some(_) | None => self.silence,
        };
        let bytes = self.exchange(R::ROUTE, Body::of(R::ROUTE, request), silence).await?;
        R::Response::from_bytes(bytes).map_err(|e| self.invalid_response(&e.to_string()))
    }
}

impl<R: WatchRequest> Watch<R> for Client {
    type Stream = LineStream<R::Item>;

    async fn watch(&self, request: R) -> Result<LineStream<R::Item>, ApiError> {
        // A watch has no total timeout: its reader gives it up when it is silent.
        let response = self.send(R::ROUTE, Body::of(R::ROUTE, request), self.silence, None).await?;
        Ok(LineStream { response, client: self.clone(), buffer: Vec::new(), searched: 0, item: PhantomData })
    }
}

impl InModel for Client {
    fn in_model(&self, model: &str) -> Client {
        Client { model: model.to_owned(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn the_reason_of_a_killed_controller_has_no_text_of_a_library() {
        let of_rustls = "peer closed connection without sending TLS close_notify: https://docs.rs/rustls";
        let error = io::Error::other(io::Error::new(io::ErrorKind::UnexpectedEof, of_rustls));
        assert!(!root_cause(&error).contains("https:"), "{}", root_cause(&error));
    }

    #[test]
    fn the_time_of_a_body_at_the_minimum_rate_is_no_silence_of_the_controller() {
        assert_eq!(response_wait(AGENT_READ_TIMEOUT, 1_000), AGENT_READ_TIMEOUT);
        let largest_record = 4 << 20;
        assert_eq!(
            response_wait(AGENT_READ_TIMEOUT, largest_record),
            AGENT_READ_TIMEOUT + Duration::from_secs(64)
        );
    }
}
