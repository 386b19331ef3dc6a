//! The HTTPS server in front of the handlers: authentication, limits, and the mapping of results to HTTP.
//!
//! It has its own accept loop, which allows TLS 1.3 only and bounds the connections (S18). No byte of a request body is
//! read before the caller is authorised for the route. Called by `program`.
//!
//! `admission` decides which connections may be open within `connection_limits` (with the indexes of
//! `connection_table`), `connections` executes these decisions,
//! `waiting` holds the accepted connections that may not be open yet, so that the accept loop waits for no client,
//! `handshake_limiter` shares the one thread between handshakes and requests, and `revocation` ends the connections of
//! revoked tokens. `upload` receives charm archives and files of resources,
//! `request_body` receives the bodies of other requests, and `sending` sends the bodies of responses: `minimum_rate` ends
//! those whose peer is too slow, and `budget` is what the callers share. `descriptors` reads the limit of open files,
//! from which the limits of connections follow.

mod admission;
mod budget;
mod connection_limits;
mod connection_table;
mod connections;
pub mod descriptors;
mod handshake_limiter;
mod minimum_rate;
mod request_body;
mod revocation;
mod sending;
mod upload;
mod waiting;

use crate::archive_file::PIECE_BYTES;
use crate::authorisation;
use crate::callers::{AuthenticatedCaller, Controller};
use crate::environment::Environment;
use crate::request_dispatch::{HandlerReply, Service, services};
use crate::store::{Store, unavailable};
use crate::tokens;
use api::API_VERSION;
use api::error::{ApiError, ErrorCode};
use api::request::{Content, InModel, Method, ResponseBody};
use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use budget::Budget;
use connection_table::HandshakeProgress;
use connections::{Connection, Connections, OpenResponse, Stage};
use handshake_limiter::HandshakeLimiter;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use sending::{Recipient, SendBudgets};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};
use tracing::Instrument;
use waiting::Waiting;

/// The most bytes that a connection buffers in each direction: one piece of a body, or the head of a request.
const BUFFER_BYTES_MAX: usize = PIECE_BYTES;
/// The time limit for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit from the handshake to the end of the first authenticated request's head.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which an idle connection is closed; clients close theirs sooner.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The time that streams and requests in progress have to send their last line or response after their token was
/// revoked. Together with the interval of `revocation` it is well below a second.
const REVOKED_TIMEOUT: Duration = Duration::from_millis(250);
/// The time that requests in progress have to finish when the process stops. Streams would never finish.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection whose peer acknowledges nothing for this long is closed: with the time until the next heartbeat, this is
/// when an agent gives up its stream.
const TCP_USER_TIMEOUT_MS: u32 = (api::WATCH_SILENCE_MS - api::HEARTBEAT_MS) as u32;

/// Returns the TLS acceptor for a certificate and key (PEM), for TLS 1.3 only. An error if a PEM text is invalid.
pub fn acceptor(certificate: &str, key: &str) -> anyhow::Result<TlsAcceptor> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts the next connection of any listener. No listener starves: the search begins at `first`, which becomes the one
/// after the listener that had a connection.
async fn accept(
    listeners: &[TcpListener],
    first: &mut usize,
) -> std::io::Result<(TcpStream, std::net::SocketAddr)> {
    std::future::poll_fn(|context| {
        for index in 0..listeners.len() {
            let index = (*first + index) % listeners.len();
            if let Poll::Ready(accepted) = listeners[index].poll_accept(context) {
                *first = index + 1;
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    })
    .await
}

/// Serves until `stop` resolves, then waits at most `STOP_TIMEOUT` for the requests in progress.
pub async fn serve<S: Store, E: Environment>(
    controller: Arc<Controller<S, E>>,
    listeners: Vec<TcpListener>,
    acceptor: TlsAcceptor,
    stop: impl Future<Output = ()>,
) {
    let full = controller.full_connections.clone();
    let connections = Connections::new(descriptors::connection_limits(), full);
    let mut revocations = pin!(revocation::enforce(controller.clone(), connections.clone()));
    let (router, handshakes) = (router(controller), HandshakeLimiter::new());
    let mut tasks = JoinSet::new();
    let stopping = tokio::sync::watch::Sender::new(false);
    let mut stop = pin!(stop);
    let mut waiting = Waiting::new(connections.limits().waiting);
    let mut first_listener = 0;
    loop {
        // First, the tasks of the connections that were just accepted record what their peers have sent.
        tokio::task::yield_now().await;
        let try_again = loop {
            let (stream, connection) = match connections.open_next(&mut waiting) {
                Ok(opened) => opened,
                Err(try_again) => break try_again,
            };
            let tls = Tls { acceptor: acceptor.clone(), handshakes: handshakes.clone() };
            let router = router.clone();
            let mut stopping = stopping.subscribe();
            tasks.spawn(async move {
                let stopped = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
                tokio::select! {
                    () = connection.reached(Stage::Closed) => {}
                    () = serve_connection(stream, tls, router, connection.clone(), stopped) => {}
                }
                drop(connection); // after its socket
            });
        };
        tokio::select! {
            () = &mut stop => break,
            () = &mut revocations => {}
            accepted = accept(&listeners, &mut first_listener) => match accepted {
                Ok((stream, address)) => waiting.push(address.ip(), stream),
                // The process or the host is out of file descriptors: the pause avoids a busy loop.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            () = connections.changed(try_again), if !waiting.is_empty() => {}
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
    stopping.send_replace(true);
    let _ = tokio::time::timeout(STOP_TIMEOUT, async { while tasks.join_next().await.is_some() {} }).await;
}

/// What a TLS handshake needs.
struct Tls {
    acceptor: TlsAcceptor,
    handshakes: Arc<HandshakeLimiter>,
}

/// Serves one connection until it ends, its token is revoked, or the server stops.
async fn serve_connection(
    stream: TcpStream,
    tls: Tls,
    router: Router,
    connection: Connection,
    stopped: impl Future<Output = ()>,
) {
    // Both calls fail only on a connection that is closed already.
    let _ = stream.set_nodelay(true);
    let _ = nix::sys::socket::setsockopt(
        &stream,
        nix::sys::socket::sockopt::TcpUserTimeout,
        &TCP_USER_TIMEOUT_MS,
    );
    // On the heap: it takes 9 KiB, and thousands of connections are idle.
    let handshake = Box::pin(async {
        stream.readable().await?;
        connection.progress(HandshakeProgress::HalfHello);
        let started = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
        connection.progress(HandshakeProgress::Hello);
        let server_part = async {
            connection.progress(HandshakeProgress::Answered);
            started.into_stream(tls.acceptor.config().clone()).await
        };
        tls.handshakes.run(connection.address(), server_part).await
    });
    let Ok(Ok(tls)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await else { return };
    let inner = TowerToHyperService::new(router);
    let of_requests = connection.clone();
    let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        let (open_request, connection) = (of_requests.request(), of_requests.clone());
        request.extensions_mut().insert(of_requests.clone());
        let response = hyper::service::Service::call(&inner, request);
        async move {
            let mut response = response.await?;
            // A peer that has no valid token must do another handshake before it sends anything else.
            if response.status().is_client_error() && !connection.is_authenticated() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(
                response.map(|body| OpenResponse { body, _open_request: open_request }),
            )
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT).max_buf_size(BUFFER_BYTES_MAX);
    let mut serving = pin!(http.serve_connection(TokioIo::new(tls), service));
    tokio::select! {
        _ = &mut serving => return,
        () = connection.reached(Stage::Authenticated) => {}
        () = tokio::time::sleep(AUTHENTICATION_TIMEOUT) => return,
    }
    tokio::select! {
        _ = &mut serving => return,
        () = connection.reached(Stage::Revoked) => {
            serving.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(REVOKED_TIMEOUT, serving).await;
            return;
        }
        () = stopped => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await; // bounded by STOP_TIMEOUT in `serve`
}

/// Returns the router: one route for each request type.
fn router<S: Store, E: Environment>(controller: Arc<Controller<S, E>>) -> Router {
    let budgets = Arc::new(Budgets {
        bodies: request_body::budget(),
        uploads: upload::slots(),
        responses: Arc::new(SendBudgets::new()),
    });
    let mut router = Router::new();
    for service in services::<S, E>() {
        let method = match service.entry.route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
        };
        let (controller, budgets) = (controller.clone(), budgets.clone());
        let handler = move |params: RawPathParams, request: Request| {
            let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let (controller, budgets) = (controller.clone(), budgets.clone());
            async move {
                let response = handle_request(controller, service, params, request, budgets);
                respond(unavailable::catch(response).await.unwrap_or_else(|error| Err(error.into())))
            }
        };
        router = router.route(service.entry.route.path, on(method, handler));
    }
    let unknown = move |request: Request| {
        let controller = controller.clone();
        async move {
            let caller = authenticate(&controller, request.headers(), request.extensions());
            let caller = unavailable::catch(caller).await.unwrap_or_else(|error| Err(error.into()));
            respond(caller.and_then(|_| Err(no_route(request.uri().path()))))
        }
    };
    router.method_not_allowed_fallback(unknown.clone()).fallback(unknown)
}

/// Returns the error for an unknown path: another protocol version, or no such route.
fn no_route(path: &str) -> ApiError {
    let version = path.split('/').nth(1).filter(|part| {
        part.strip_prefix('v').is_some_and(|number| number.parse::<u32>().is_ok()) && *part != API_VERSION
    });
    let Some(version) = version else {
        return ApiError::new(ErrorCode::NotFound, format!("no such route: {path}"));
    };
    let text = format!("cannot serve protocol version {version}: this controller uses {API_VERSION}");
    ApiError::new(ErrorCode::NotFound, text).hint("use a client and a controller of the same version")
}

/// Authenticates a request and, with it, its connection.
async fn authenticate<S: Store, E: Environment>(
    controller: &Arc<Controller<S, E>>,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<AuthenticatedCaller<S, E>, ApiError> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token =
        header.and_then(|value| value.strip_prefix("Bearer ")).filter(|token| tokens::is_token(token));
    let token = token.ok_or_else(authorisation::unauthorised)?;
    let connection = extensions.get::<Connection>().ok_or_else(authorisation::unauthorised)?;
    let sha256 = host::digest::sha256(token.as_bytes());
    connection.present(&sha256);
    let caller = controller.authenticate(token).await?;
    connection.authenticate(&sha256, &caller.principal)?;
    Ok(caller)
}

/// What the requests share.
struct Budgets {
    bodies: Budget,
    uploads: Budget,
    responses: Arc<SendBudgets>,
}

/// The content type and the body of a response.
type TypedBody = (&'static str, Body);

/// Authorises the caller, then reads the body and calls the handler.
async fn handle_request<S: Store, E: Environment>(
    controller: Arc<Controller<S, E>>,
    service: Service<S, E>,
    params: BTreeMap<String, String>,
    request: Request,
    budgets: Arc<Budgets>,
) -> Result<TypedBody, ApiError> {
    let entry = service.entry;
    let connection = request.extensions().get::<Connection>().cloned();
    let caller = authenticate(&controller, request.headers(), request.extensions()).await?;
    let principal = caller.principal.clone();
    authorisation::check(&principal, entry.caller)?;
    if let Some(agent) = params.get("agent") {
        let id = |text: Option<&String>| {
            text.and_then(|text| text.parse().ok()).ok_or_else(authorisation::unauthorised)
        };
        authorisation::check_agent(&principal, id(params.get("model"))?, id(Some(agent))?)?;
    }
    let model = params.get("model").map_or("", String::as_str);
    let span = tracing::debug_span!("request", name = entry.name, caller = ?principal);
    let connection = connection.ok_or_else(authorisation::unauthorised)?;
    let recipient = Recipient { connection, caller: principal.clone(), budgets: budgets.responses.clone() };
    match entry.request_content {
        Content::Json => {
            let body = request.into_body();
            let (body, _permit) = request_body::receive(&entry, &principal, &budgets.bodies, body).await?;
            if entry.response_body == ResponseBody::Single(Content::Bytes) {
                let permit = budgets.responses.file(&principal).await?;
                let caller = caller.in_model(model);
                let file = caller.open_requested(entry.route, body.into()).instrument(span).await?;
                return Ok((BYTES, recipient.file(file, permit)));
            }
            match (service.handle)(caller.in_model(model), body.into()).instrument(span).await? {
                HandlerReply::Single(content, bytes) => {
                    Ok((content_type(content), recipient.body(bytes).await?))
                }
                HandlerReply::Lines(lines) => Ok(("application/x-ndjson", recipient.lines(lines))),
            }
        }
        Content::Bytes => {
            let _slot = upload::slot(&budgets.uploads, &principal).await?;
            let archive = upload::receive(&controller.environment, request).await?;
            let file = archive.file();
            let stored = caller.store_received(entry.route, file).instrument(span).await?;
            Ok((JSON, stored.into()))
        }
    }
}

const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

fn content_type(content: Content) -> &'static str {
    match content {
        Content::Json => JSON,
        Content::Bytes => BYTES,
    }
}

/// Maps the result of a handler to an HTTP response.
fn respond(result: Result<TypedBody, ApiError>) -> Response {
    let (status, kind, body) = match result {
        Ok((kind, body)) => (StatusCode::OK, kind, body),
        Err(error) => {
            let status = StatusCode::from_u16(error.code.status()).expect("the mapping has valid codes");
            (status, JSON, Body::from(serde_json::to_vec(&error).expect("plain data")))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn listeners_take_turns() {
        let (mut listeners, mut clients) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            for _ in 0..2 {
                let address = listener.local_addr().expect("it is bound");
                clients.push(TcpStream::connect(address).await.expect("it listens"));
            }
            listeners.push(listener);
        }
        for listener in &listeners {
            // The runtime notices the waiting connections of both listeners before the test begins.
            std::future::poll_fn(|context| listener.poll_accept(context)).await.expect("a connection");
        }
        for listener in &listeners {
            let address = listener.local_addr().expect("it is bound");
            clients.push(TcpStream::connect(address).await.expect("it listens"));
        }
        let mut first_listener = 0;
        let mut order = Vec::new();
        for _ in 0..4 {
            let (stream, _) = accept(&listeners, &mut first_listener).await.expect("a connection waits");
            let address = stream.local_addr().expect("it is connected");
            order.push(listeners.iter().position(|one| one.local_addr().is_ok_and(|a| a == address)));
        }
        assert_eq!(order, [Some(0), Some(1), Some(0), Some(1)]);
    }
}
