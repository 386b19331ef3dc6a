//! A small client of etcd's gRPC API: reads, transactions and one watch, over several members.
//!
//! It guarantees that every call ends within a bounded time, and that an error states whether a transaction may have been
//! executed ([`CallError`]): a connection is made before the request is sent, so that a member that cannot be reached is
//! no unknown outcome. A connection that fails is given up, and the next call connects to the next member. A read is tried
//! on every member; a transaction is never sent twice.
//!
//! Used by the modules of the engine. `messages` has the messages; no protoc is needed.

use super::messages::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse,
    WatchRequest, WatchResponse,
};
use crate::store::outage::Outage;
use axum::http::uri::PathAndQuery;
use futures::StreamExt as _;
use prost::Message;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// How long one member may take to accept a connection, with TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long one call may take: as long as five elections of a leader with etcd's defaults (1 s each).
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// How often an idle connection is tested. etcd closes connections that do it more often than every 5 s
/// (`--grpc-keepalive-min-time`).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(6);
/// How long a member may take to answer such a test: a frozen member is noticed after 10 s.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(4);
/// The most bytes of one response: a page of documents of the largest size ([`super::feed::PAGE_KEYS`] × 1.25 MiB), and a
/// fragment of a watch has 2 MiB.
const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// The certificates of TLS connections, as PEM.
#[derive(Clone)]
pub struct Tls {
    /// The CA that has signed the certificates of the members.
    pub ca: String,
    /// The certificate and the private key of this client, if etcd requires one.
    pub identity: Option<(String, String)>,
}

/// Why a call has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    /// The request was not sent, or etcd has refused it: nothing was changed.
    NotDone(Outage),
    /// etcd does not accept the size of the request, which [`super::open`] has verified: nothing was changed.
    TooLarge(String),
    /// The requested revision was compacted.
    Compacted,
    /// It is unknown whether the request was executed, or will be.
    Unknown(Outage),
}

impl CallError {
    /// The outage behind the error.
    pub fn outage(self) -> Outage {
        match self {
            CallError::NotDone(outage) | CallError::Unknown(outage) => outage,
            CallError::TooLarge(why) => Outage::TooLarge(why),
            CallError::Compacted => Outage::Refused("the revision was compacted".to_owned()),
        }
    }

    /// Classifies an error of a call. Only an error of etcd itself that precedes the execution proves that nothing was
    /// changed: "request timed out" and "leader changed" do not, nor any error of the connection.
    fn of(status: &Status) -> CallError {
        let why = if status.source().is_some() { reason(status) } else { status.message().to_owned() };
        if let Some(own) = status.message().strip_prefix("etcdserver: ") {
            match status.code() {
                Code::ResourceExhausted if own.contains("database space exceeded") => {
                    return CallError::NotDone(Outage::QuotaExceeded);
                }
                Code::InvalidArgument if own.contains("too large") || own.contains("too many operations") => {
                    return CallError::TooLarge(own.to_owned());
                }
                Code::OutOfRange if own.contains("compacted") => return CallError::Compacted,
                Code::ResourceExhausted
                | Code::InvalidArgument
                | Code::OutOfRange
                | Code::NotFound // a lease that has ended
                | Code::FailedPrecondition => return CallError::NotDone(Outage::Refused(own.to_owned())),
                Code::PermissionDenied | Code::Unauthenticated => {
                    return CallError::NotDone(Outage::PermissionDenied(own.to_owned()));
                }
                _ => {}
            }
        }
        // The server of gRPC itself refuses a message before etcd sees it.
        if status.code() == Code::ResourceExhausted && status.message().contains("message larger than max") {
            return CallError::TooLarge(status.message().to_owned());
        }
        CallError::Unknown(Outage::NoAnswer(why))
    }
}

/// Returns the innermost reason of an error, which is the one that a person can act on.
fn reason(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string().replace('\n', " ")
}

/// One member, and the connection to it.
struct Current {
    /// The member to which the next connection is made.
    member: usize,
    /// The connection with its number.
    channel: Option<(u64, Channel)>,
    connections: u64,
}

/// A client. Clones share one connection.
#[derive(Clone)]
pub struct Client {
    endpoints: Arc<[Endpoint]>,
    current: Arc<tokio::sync::Mutex<Current>>,
}

impl Client {
    /// A client of the members at these addresses (`HOST:PORT`). An error if an address is invalid, or a certificate.
    pub fn new(addresses: &[String], tls: Option<&Tls>) -> Result<Client, String> {
        let endpoint = |address: &String| {
            let scheme = if tls.is_some() { "https" } else { "http" };
            let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
                .map_err(|error| format!("{address}: {}", reason(&error)))?
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                // etcd counts tests without an open call as an attack; such a connection fails with the next call.
                .keep_alive_while_idle(false);
            let Some(tls) = tls else { return Ok(endpoint) };
            let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.ca));
            if let Some((certificate, key)) = &tls.identity {
                config = config.identity(Identity::from_pem(certificate, key));
            }
            endpoint.tls_config(config).map_err(|error| reason(&error))
        };
        let endpoints: Vec<Endpoint> = addresses.iter().map(endpoint).collect::<Result<_, _>>()?;
        let current = Current { member: 0, channel: None, connections: 0 };
        Ok(Client { endpoints: endpoints.into(), current: Arc::new(tokio::sync::Mutex::new(current)) })
    }

    /// A client of the same members with a connection of its own.
    pub fn separate(&self) -> Client {
        let current = Current { member: 0, channel: None, connections: 0 };
        Client { endpoints: self.endpoints.clone(), current: Arc::new(tokio::sync::Mutex::new(current)) }
    }

    /// Returns the connection, with its number. Connects to the members in turn if there is none.
    async fn channel(&self) -> Result<(u64, Channel), CallError> {
        let mut current = self.current.lock().await;
        if let Some(channel) = &current.channel {
            return Ok(channel.clone());
        }
        let mut failures: Vec<String> = Vec::new();
        for _ in 0..self.endpoints.len() {
            let endpoint = &self.endpoints[current.member % self.endpoints.len()];
            let why = match timeout(CONNECT_TIMEOUT, endpoint.connect()).await {
                Ok(Ok(channel)) => {
                    current.connections += 1;
                    let connected = (current.connections, channel);
                    current.channel = Some(connected.clone());
                    return Ok(connected);
                }
                Ok(Err(error)) => reason(&error),
                Err(_) => format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()),
            };
            failures.push(format!("{}: {why}", endpoint.uri().authority().map_or("", |a| a.as_str())));
            current.member += 1;
        }
        Err(CallError::NotDone(Outage::Unreachable(failures.join("; "))))
    }

    /// Gives up a connection that has failed, unless a newer one was made. The next call connects to the next member.
    async fn give_up(&self, number: u64) {
        let mut current = self.current.lock().await;
        if current.channel.as_ref().is_some_and(|(of, _)| *of == number) {
            current.channel = None;
            current.member += 1;
        }
    }

    /// Sends one request and returns its response.
    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, CallError>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (number, channel) = self.channel().await?;
        let mut grpc = Grpc::new(channel).max_decoding_message_size(RESPONSE_BYTES_MAX);
        let called = async {
            grpc.ready().await.map_err(|error| Status::unavailable(reason(&error)))?;
            let codec = ProstCodec::<Q, A>::default();
            grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await
        };
        let error = match timeout(CALL_TIMEOUT, called).await {
            Ok(Ok(response)) => return Ok(response.into_inner()),
            Ok(Err(status)) => CallError::of(&status),
            Err(_) => {
                let why = format!("no answer within {} s", CALL_TIMEOUT.as_secs());
                CallError::Unknown(Outage::NoAnswer(why))
            }
        };
        if matches!(error, CallError::Unknown(_)) {
            self.give_up(number).await;
        }
        Err(error)
    }

    /// Sends a request that changes nothing, to another member if one does not answer.
    async fn read<Q, A>(&self, path: &'static str, request: Q) -> Result<A, CallError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut tries = self.endpoints.len();
        loop {
            match self.call(path, request.clone()).await {
                Err(CallError::Unknown(_)) if tries > 0 => tries -= 1,
                result => return result,
            }
        }
    }

    /// Reads keys, at the newest revision of the majority unless the request names one.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, CallError> {
        self.read("/etcdserverpb.KV/Range", request).await
    }

    /// Executes a transaction. It is sent once.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, CallError> {
        self.call("/etcdserverpb.KV/Txn", request).await
    }

    /// Executes a transaction that has the same effect if it is executed twice, on another member if one does not answer.
    pub async fn idempotent_txn(&self, request: TxnRequest) -> Result<TxnResponse, CallError> {
        self.read("/etcdserverpb.KV/Txn", request).await
    }

    /// Reads the status of a member.
    pub async fn status(&self) -> Result<StatusResponse, CallError> {
        self.read("/etcdserverpb.Maintenance/Status", StatusRequest {}).await
    }

    /// Creates a lease, and returns its id. A lease whose response is lost ends by itself.
    pub async fn grant_lease(&self, seconds: i64) -> Result<i64, CallError> {
        let granted: LeaseGrantResponse =
            self.read("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { seconds }).await?;
        Ok(granted.id)
    }

    /// Ends a lease, and deletes its keys. An error if it has ended already.
    pub async fn revoke_lease(&self, id: i64) -> Result<(), CallError> {
        let revoked: Result<LeaseRevokeResponse, _> =
            self.read("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id }).await;
        revoked.map(drop)
    }

    /// Renews a lease, which is no write of etcd. Returns whether it has not ended.
    pub async fn renew_lease(&self, id: i64) -> Result<bool, CallError> {
        let mut tries = self.endpoints.len();
        loop {
            match self.renew_lease_once(id).await {
                Err(CallError::Unknown(_)) if tries > 0 => tries -= 1,
                result => return result,
            }
        }
    }

    async fn renew_lease_once(&self, id: i64) -> Result<bool, CallError> {
        let (number, channel) = self.channel().await?;
        let mut grpc = Grpc::new(channel);
        let requests =
            futures::stream::iter([LeaseKeepAliveRequest { id }]).chain(futures::stream::pending());
        let renewed = async {
            grpc.ready().await.map_err(|error| Status::unavailable(reason(&error)))?;
            let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
            let codec = ProstCodec::<LeaseKeepAliveRequest, LeaseKeepAliveResponse>::default();
            let mut responses = grpc.streaming(Request::new(requests), path, codec).await?.into_inner();
            responses.message().await?.ok_or_else(|| Status::unavailable("the stream has ended"))
        };
        let error = match timeout(CALL_TIMEOUT, renewed).await {
            Ok(Ok(response)) => return Ok(response.seconds > 0),
            Ok(Err(status)) => CallError::of(&status),
            Err(_) => CallError::Unknown(Outage::NoAnswer("a lease was not renewed in time".to_owned())),
        };
        self.give_up(number).await;
        Err(error)
    }

    /// Opens a watch. The stream fails if the member fails, freezes, or loses the leader of the cluster.
    pub async fn watch(&self, request: WatchRequest) -> Result<WatchStream, CallError> {
        let (number, channel) = self.channel().await?;
        let mut grpc = Grpc::new(channel).max_decoding_message_size(RESPONSE_BYTES_MAX);
        // The stream of requests must stay open: its end would end the watch.
        let requests = futures::stream::iter([request]).chain(futures::stream::pending());
        let mut requests = Request::new(requests);
        // A member that is cut off from the majority ends the watch, instead of being silent.
        requests.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        let opened = async {
            grpc.ready().await.map_err(|error| Status::unavailable(reason(&error)))?;
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            grpc.streaming(requests, path, ProstCodec::<WatchRequest, WatchResponse>::default()).await
        };
        let error = match timeout(CALL_TIMEOUT, opened).await {
            Ok(Ok(stream)) => {
                return Ok(WatchStream { client: self.clone(), number, stream: stream.into_inner() });
            }
            Ok(Err(status)) => CallError::of(&status),
            Err(_) => CallError::Unknown(Outage::NoAnswer("the watch was not opened in time".to_owned())),
        };
        self.give_up(number).await;
        Err(error)
    }
}

/// An open watch.
pub struct WatchStream {
    client: Client,
    number: u64,
    stream: Streaming<WatchResponse>,
}

impl WatchStream {
    /// Returns the next message. An error if the connection ends; the client then uses another member.
    pub async fn next(&mut self) -> Result<WatchResponse, CallError> {
        let error = match self.stream.message().await {
            Ok(Some(message)) => return Ok(message),
            Ok(None) => CallError::Unknown(Outage::NoAnswer("the watch has ended".to_owned())),
            Err(status) => CallError::of(&status),
        };
        self.client.give_up(self.number).await;
        Err(error)
    }

    /// Gives up the connection of the watch.
    pub async fn give_up(self) {
        self.client.give_up(self.number).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_of_etcd_that_precedes_the_execution_proves_that_nothing_was_changed() {
        let of = |code, message: &str| CallError::of(&Status::new(code, message));
        let quota = of(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
        assert_eq!(quota, CallError::NotDone(Outage::QuotaExceeded));
        assert!(matches!(
            of(Code::InvalidArgument, "etcdserver: too many operations in txn request"),
            CallError::TooLarge(_)
        ));
        let received = "grpc: received message larger than max (1452097 vs. 624288)";
        assert!(matches!(of(Code::ResourceExhausted, received), CallError::TooLarge(_)));
        let compacted = "etcdserver: mvcc: required revision has been compacted";
        assert_eq!(of(Code::OutOfRange, compacted), CallError::Compacted);
        for (code, message) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::ResourceExhausted, "too_many_pings"),
            (Code::Unknown, "transport error"),
        ] {
            assert!(matches!(of(code, message), CallError::Unknown(_)), "{message}");
        }
    }
}
