//! The HTTPS server in front of the handlers: authentication, limits, and the mapping of results to HTTP.
//!
//! The accept loop is our own: it allows TLS 1.3 only, and few unauthenticated connections for a short time (S18). No
//! byte of a request body is read before the caller is authorised for the route. Called by `main`.

use crate::authority;
use crate::dispatch::{HandlerReply, Service, services};
use crate::environment::Environment;
use crate::session::{Controller, Session};
use crate::store::Store;
use api::error::{ApiError, ErrorCode};
use api::request::{Content, Entry, InModel, Method};
use api::{API_VERSION, ARCHIVE_BYTES_MAX};
use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{RawPathParams, Request};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tracing::Instrument;

/// Connections that have not presented a valid token yet; further ones wait in the kernel (S18).
const UNAUTHENTICATED_MAX: usize = 64;
/// The limit for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// From the handshake to the end of the first authenticated request's head.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// The limit for an idle connection; clients close theirs sooner.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A record is at most 1 MiB of writes and 60 log lines (design 5); JSON may double it.
const BODY_BYTES_MAX: usize = 4 << 20;
/// 4 MiB at 70 KiB/s.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// 512 MiB at 1 MiB/s.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(512);
/// Uploads in memory at the same time: two of 512 MiB.
const UPLOADS_MAX: usize = 2;
/// The time that requests in progress have to finish when the process stops. Streams would never finish.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// A connection whose peer acknowledges nothing for this long is closed. An agent abandons its stream after the same
/// time.
const TCP_USER_TIMEOUT_MS: u32 = api::WATCH_SILENCE_MS as u32;

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

/// The permit of an unauthenticated connection; released when the connection presents a valid token.
#[derive(Clone)]
struct Unauthenticated(Arc<(Mutex<Option<OwnedSemaphorePermit>>, tokio::sync::Notify)>);

impl Unauthenticated {
    fn release_permit(&self) {
        if self.0.0.lock().expect("no holder panics").take().is_some() {
            self.0.1.notify_one();
        }
    }
}

/// Accepts the next connection of any listener.
async fn accept(listeners: &[TcpListener]) -> std::io::Result<(TcpStream, std::net::SocketAddr)> {
    std::future::poll_fn(|context| {
        let ready = |listener: &TcpListener| match listener.poll_accept(context) {
            Poll::Ready(accepted) => Some(accepted),
            Poll::Pending => None,
        };
        listeners.iter().find_map(ready).map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Serves until `stop` resolves, then waits at most [`STOP_TIMEOUT`] for the requests in progress.
pub async fn serve<S: Store, O: Environment>(
    controller: Arc<Controller<S, O>>,
    listeners: Vec<TcpListener>,
    acceptor: TlsAcceptor,
    stop: impl Future<Output = ()>,
) {
    let router = router(controller);
    let unauthenticated = Arc::new(Semaphore::new(UNAUTHENTICATED_MAX));
    let mut connections = JoinSet::new();
    let stopping = tokio::sync::watch::Sender::new(false);
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            let permit = unauthenticated.clone().acquire_owned().await.expect("it is never closed");
            (permit, accept(&listeners).await)
        };
        tokio::select! {
            () = &mut stop => break,
            (permit, accepted) = accepted => match accepted {
                Ok((stream, _)) => {
                    let unauthenticated = Unauthenticated(Arc::new((Mutex::new(Some(permit)), tokio::sync::Notify::new())));
                    let (acceptor, router) = (acceptor.clone(), router.clone());
                    let mut stopping = stopping.subscribe();
                    connections.spawn(async move {
                        let stopped = async move { drop(stopping.wait_for(|stopping| *stopping).await) };
                        connection(stream, acceptor, router, unauthenticated, stopped).await;
                    });
                }
                // The process is out of file descriptors: the pause avoids a busy loop until one is closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    stopping.send_replace(true);
    let _ =
        tokio::time::timeout(STOP_TIMEOUT, async { while connections.join_next().await.is_some() {} }).await;
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    unauthenticated: Unauthenticated,
    stopped: impl Future<Output = ()>,
) {
    // Both calls fail only on a connection that is closed already.
    let _ = stream.set_nodelay(true);
    let _ = nix::sys::socket::setsockopt(
        &stream,
        nix::sys::socket::sockopt::TcpUserTimeout,
        &TCP_USER_TIMEOUT_MS,
    );
    let Ok(Ok(tls)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else { return };
    let inner = TowerToHyperService::new(router);
    let permit = unauthenticated.clone();
    let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(permit.clone());
        hyper::service::Service::call(&inner, request)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT);
    let mut serving = pin!(http.serve_connection(TokioIo::new(tls), service));
    tokio::select! {
        _ = &mut serving => return,
        () = unauthenticated.0.1.notified() => {}
        () = tokio::time::sleep(AUTHENTICATION_TIMEOUT) => return,
    }
    tokio::select! {
        _ = &mut serving => return,
        () = stopped => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await; // bounded by STOP_TIMEOUT in `serve`
}

/// One route for each request type.
fn router<S: Store, O: Environment>(controller: Arc<Controller<S, O>>) -> Router {
    let uploads = Arc::new(Semaphore::new(UPLOADS_MAX));
    let mut router = Router::new();
    for service in services::<S, O>() {
        let method = match service.entry.route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
        };
        let (controller, uploads) = (controller.clone(), uploads.clone());
        let handler = move |params: RawPathParams, request: Request| {
            let params = params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let (controller, uploads) = (controller.clone(), uploads.clone());
            async move { respond(handle_request(controller, service, params, request, uploads).await) }
        };
        router = router.route(service.entry.route.path, on(method, handler));
    }
    let unknown = move |request: Request| {
        let controller = controller.clone();
        async move {
            let session = session(&controller, request.headers(), request.extensions()).await;
            respond(session.and_then(|_| Err(no_route(request.uri().path()))))
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

/// Authenticates a request and releases the permit of its connection.
async fn session<S: Store, O: Environment>(
    controller: &Arc<Controller<S, O>>,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<Session<S, O>, ApiError> {
    let header = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| value.strip_prefix("Bearer "));
    let session = controller.session(token.ok_or_else(authority::unauthorised)?).await?;
    if let Some(unauthenticated) = extensions.get::<Unauthenticated>() {
        unauthenticated.release_permit();
    }
    Ok(session)
}

/// Authorises the caller, then reads the body and calls the handler.
async fn handle_request<S: Store, O: Environment>(
    controller: Arc<Controller<S, O>>,
    service: Service<S, O>,
    params: BTreeMap<String, String>,
    request: Request,
    uploads: Arc<Semaphore>,
) -> Result<HandlerReply, ApiError> {
    let entry = service.entry;
    let session = session(&controller, request.headers(), request.extensions()).await?;
    authority::check(&session.principal, entry.caller)?;
    if let Some(agent) = params.get("agent") {
        let id = |text: Option<&String>| {
            text.and_then(|text| text.parse().ok()).ok_or_else(authority::unauthorised)
        };
        authority::check_agent(&session.principal, id(params.get("model"))?, id(Some(agent))?)?;
    }
    let _upload = match entry.request_content {
        Content::Bytes => Some(uploads.acquire().await.expect("it is never closed")),
        Content::Json => None,
    };
    let body = body(&entry, request.into_body()).await?;
    let model = params.get("model").map_or("", String::as_str);
    let span = tracing::debug_span!("request", name = entry.name, caller = ?session.principal);
    (service.answer)(session.in_model(model), body.into()).instrument(span).await
}

async fn body(entry: &Entry, body: Body) -> Result<Bytes, ApiError> {
    let (bytes_max, timeout) = match (entry.route.method, entry.request_content) {
        (Method::Get, _) => (0, BODY_TIMEOUT),
        (Method::Post, Content::Json) => (BODY_BYTES_MAX, BODY_TIMEOUT),
        (Method::Post, Content::Bytes) => (ARCHIVE_BYTES_MAX, UPLOAD_TIMEOUT),
    };
    match tokio::time::timeout(timeout, to_bytes(body, bytes_max)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => {
            let text =
                format!("cannot read the request body: it is incomplete or larger than {bytes_max} bytes");
            Err(ApiError::new(ErrorCode::Invalid, text))
        }
        Err(_) => Err(ApiError::new(ErrorCode::Invalid, "cannot read the request body: timed out")),
    }
}

/// Maps the result of a handler to an HTTP response.
fn respond(result: Result<HandlerReply, ApiError>) -> Response {
    let (status, kind, body) = match result {
        Ok(HandlerReply::Single(Content::Json, json)) => {
            (StatusCode::OK, "application/json", Body::from(json))
        }
        Ok(HandlerReply::Single(Content::Bytes, bytes)) => {
            (StatusCode::OK, "application/octet-stream", Body::from(bytes))
        }
        Ok(HandlerReply::Lines(lines)) => (StatusCode::OK, "application/x-ndjson", lines),
        Err(error) => {
            let status = StatusCode::from_u16(error.code.status()).expect("the mapping has valid codes");
            (status, "application/json", Body::from(serde_json::to_vec(&error).expect("plain data")))
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
