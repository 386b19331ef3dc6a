//! Sends the bodies of responses in pieces, at a minimum rate, and within a budget of memory.
//!
//! A client that reads slowly must not make the controller keep more than its share. A file is read piece by piece as
//! the client receives it, so it needs no more than the buffers of its connection, and slow clients do not use up what
//! others need. A response or a line of a stream that is larger than a piece is in memory as a whole, so it
//! counts against a budget until its last piece was taken. It waits some seconds for the budget, then it is refused. A
//! client that receives less than the minimum rate loses its connection.

use super::budget::{Budget, Permit, Share, Shares};
use super::connection_limits::CONNECTIONS_MAX;
use super::connections::Connection;
use super::minimum_rate::Transfer;
use crate::archive_file::{ArchiveFile, PIECE_BYTES};
use api::error::{ApiError, ErrorCode};
use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use state::documents::prelude::TokenHolder;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Files that are sent to one agent at the same time: it fetches one after the other. Those of all agents have no bound
/// of their own: each is one of the connections, and takes no more of them than any response (`connection_limits`).
const OF_AGENT_MAX: u32 = 1;
/// Bytes of large responses to one user: a status of 10,000 units several times.
const OF_USER_BYTES_MAX: u32 = 48 << 20;
/// Bytes of large responses to one agent: its view with 1 MiB of inlined settings several times. A larger view is sent
/// when it has all of this.
const OF_AGENT_BYTES_MAX: u32 = 16 << 20;
/// Bytes of large responses to all users: those of two.
const OF_USERS_BYTES_MAX: u32 = 96 << 20;
/// Bytes of large responses to all unit agents: those of eight.
const OF_UNITS_BYTES_MAX: u32 = 128 << 20;
/// Bytes of large responses to all machine agents: those of two. All callers together have 256 MiB.
const OF_MACHINES_BYTES_MAX: u32 = 32 << 20;

/// The budgets of responses.
pub struct SendBudgets {
    files: Budget,
    bytes: Budget,
    /// The large responses that wait for their part of `bytes`: they are in memory, too.
    waiting: Budget,
}

impl SendBudgets {
    /// Returns the budgets, all of them unused.
    pub fn new() -> SendBudgets {
        let users = Share { each: OF_USER_BYTES_MAX, all: OF_USERS_BYTES_MAX };
        let machines = Share { each: OF_AGENT_BYTES_MAX, all: OF_MACHINES_BYTES_MAX };
        let units = Share { each: OF_AGENT_BYTES_MAX, all: OF_UNITS_BYTES_MAX };
        let bytes = || Shares { users, machines, units };
        let files = Share { each: OF_AGENT_MAX, all: CONNECTIONS_MAX as u32 };
        SendBudgets {
            files: Budget::new(Shares { users: files, machines: files, units: files }),
            bytes: Budget::new(bytes()),
            waiting: Budget::new(bytes()),
        }
    }

    /// Waits until another file may be sent to this caller.
    ///
    /// # Errors
    /// If no file may be sent in time: the request is refused before the agent would abandon it.
    pub async fn file(&self, caller: &TokenHolder) -> Result<Permit, ApiError> {
        let refusal = "cannot send the file: too many files are being received";
        self.files.acquire_in_time(caller, 1, refusal).await
    }
}

/// The connection and the caller to which a response is sent.
#[derive(Clone)]
pub struct Recipient {
    /// The connection of the request.
    pub connection: Connection,
    /// The caller.
    pub caller: TokenHolder,
    /// The budgets of responses.
    pub budgets: Arc<SendBudgets>,
}

impl Recipient {
    /// Returns the body of a response.
    ///
    /// # Errors
    /// If it is large, and too many large responses are being sent to the caller or to all.
    pub async fn body(self, bytes: Vec<u8>) -> Result<Body, ApiError> {
        if bytes.len() <= PIECE_BYTES {
            return Ok(bytes.into());
        }
        let large = Some(Sending::Started(self.clone().large(bytes.into()).await?));
        Ok(Body::new(SentBody { recipient: self, sending: large, source: Source::End }))
    }

    /// Returns the body of a stream.
    pub fn lines(self, lines: Body) -> Body {
        Body::new(SentBody { recipient: self, sending: None, source: Source::Lines(lines) })
    }

    /// Returns the body of a file, for which the caller has a permit.
    pub fn file(self, file: ArchiveFile, permit: Permit) -> Body {
        let rate = MinimumRate::require(self.connection.clone());
        let source = Source::File { left: file.left(), next: Some(next_piece(file)), rate, _permit: permit };
        Body::new(SentBody { recipient: self, sending: None, source })
    }

    /// Begins to send something that is larger than a piece. It waits for the budget.
    async fn large(self, rest: Bytes) -> Result<LargeResponse, ApiError> {
        let refusal = "cannot send the response: too many large responses are being received";
        let Some(_waiting) = self.budgets.waiting.try_acquire(&self.caller, rest.len()) else {
            return Err(ApiError::new(ErrorCode::Unavailable, refusal).hint("try again later"));
        };
        let permit = self.budgets.bytes.acquire_in_time(&self.caller, rest.len(), refusal).await?;
        Ok(LargeResponse { rest, rate: MinimumRate::require(self.connection), _permit: permit })
    }
}

/// A response, or a line of a stream, that is larger than a piece.
enum Sending {
    Waiting(Pin<Box<dyn Future<Output = Result<LargeResponse, ApiError>> + Send>>),
    Started(LargeResponse),
}

/// A large response that is being sent, and its permit.
struct LargeResponse {
    rest: Bytes,
    rate: MinimumRate,
    _permit: Permit,
}

type NextPiece = Pin<Box<dyn Future<Output = (ArchiveFile, io::Result<Option<Vec<u8>>>)> + Send>>;

fn next_piece(mut file: ArchiveFile) -> NextPiece {
    Box::pin(async move {
        let piece = file.next_piece().await;
        (file, piece)
    })
}

/// What follows after what is being sent.
enum Source {
    End,
    Lines(Body),
    File { left: u64, next: Option<NextPiece>, rate: MinimumRate, _permit: Permit },
}

/// A body that gives its connection one piece after the other.
struct SentBody {
    recipient: Recipient,
    sending: Option<Sending>,
    source: Source,
}

impl hyper::body::Body for SentBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        loop {
            match &mut this.sending {
                Some(Sending::Waiting(started)) => {
                    let started = ready!(started.as_mut().poll(context));
                    this.sending = None;
                    this.sending = Some(Sending::Started(started.map_err(axum::Error::new)?));
                    continue;
                }
                Some(Sending::Started(large)) => {
                    // A copy, because a part of the whole would keep all of it in memory until that part was sent.
                    let piece = Bytes::copy_from_slice(&large.rest[..PIECE_BYTES.min(large.rest.len())]);
                    large.rest = large.rest.slice(piece.len()..);
                    large.rate.sent(piece.len());
                    if large.rest.is_empty() {
                        this.sending = None;
                    }
                    return Poll::Ready(Some(Ok(Frame::data(piece))));
                }
                None => {}
            }
            let frame = match &mut this.source {
                Source::End => return Poll::Ready(None),
                Source::Lines(lines) => ready!(Pin::new(lines).poll_frame(context)),
                Source::File { left, next, rate, .. } => {
                    let Some(piece) = next else { return Poll::Ready(None) };
                    rate.pause();
                    let (file, piece) = ready!(piece.as_mut().poll(context));
                    *next = None;
                    let Some(piece) = piece.map_err(axum::Error::new)? else { return Poll::Ready(None) };
                    *left -= piece.len() as u64;
                    *next = Some(next_piece(file));
                    rate.sent(piece.len());
                    return Poll::Ready(Some(Ok(Frame::data(piece.into()))));
                }
            };
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(line))) if line.len() > PIECE_BYTES => {
                    this.sending = Some(Sending::Waiting(Box::pin(this.recipient.clone().large(line))));
                }
                Some(Ok(Ok(line))) => return Poll::Ready(Some(Ok(Frame::data(line)))),
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.sending.is_none() && matches!(self.source, Source::End)
    }

    fn size_hint(&self) -> SizeHint {
        let sending = match &self.sending {
            Some(Sending::Started(large)) => large.rest.len() as u64,
            Some(Sending::Waiting(_)) | None => 0,
        };
        match &self.source {
            Source::End => SizeHint::with_exact(sending),
            Source::File { left, .. } => SizeHint::with_exact(*left),
            Source::Lines(_) => SizeHint::default(),
        }
    }
}

/// Closes a connection whose client receives a body too slowly, until it is dropped.
struct MinimumRate {
    connection: Connection,
    transfer: Transfer,
    /// Since when the client is waited for; none while the server reads the next piece.
    waiting: Option<(Instant, AbortHandle)>,
}

impl MinimumRate {
    fn require(connection: Connection) -> MinimumRate {
        let mut rate = MinimumRate { connection, transfer: Transfer::default(), waiting: None };
        rate.sent(0);
        rate
    }

    /// Counts bytes that the connection has taken, and waits until it takes the next ones. The connection keeps a few pieces,
    /// which is far less than the rate tolerates.
    fn sent(&mut self, bytes: usize) {
        self.pause();
        self.transfer.transferred(bytes);
        let (since, connection) = (Instant::now(), self.connection.clone());
        let until = since + self.transfer.left();
        let watching = tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            connection.close();
        });
        self.waiting = Some((since, watching.abort_handle()));
    }

    /// The connection takes the next piece: the client is not waited for.
    fn pause(&mut self) {
        if let Some((since, watching)) = self.waiting.take() {
            watching.abort();
            self.transfer.waited(since.elapsed());
        }
    }
}

impl Drop for MinimumRate {
    fn drop(&mut self) {
        self.pause();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive_file::DamagedFiles;
    use crate::disk_threads::DiskThreads;
    use crate::server::budget::WAIT_MAX;
    use crate::server::connection_limits::{DESCRIPTORS_MIN, Limits};
    use crate::server::connections::{Connections, Stage};
    use crate::server::minimum_rate::LATE_MAX;
    use crate::server::waiting::Waiting;
    use futures::StreamExt;
    use state::documents::prelude::GLOBAL;
    use state::terms::names::Uuid;
    use std::net::{IpAddr, Ipv4Addr};
    use std::task::Waker;

    fn unit(n: u128) -> TokenHolder {
        TokenHolder::Unit { model: GLOBAL, unit: Uuid(n) }
    }

    fn recipient(budgets: &Arc<SendBudgets>, n: u128) -> Recipient {
        let mut waiting = Waiting::new(2);
        waiting.push(IpAddr::V4(Ipv4Addr::LOCALHOST), ());
        let connections = Connections::new(Limits::for_descriptors(DESCRIPTORS_MIN), Arc::default());
        let opened = connections.open_next(&mut waiting);
        let connection = opened.map_err(drop).expect("it is the first one").1;
        Recipient { connection, caller: unit(n), budgets: budgets.clone() }
    }

    fn is_closed(connection: &Connection) -> bool {
        let closed = std::pin::pin!(connection.reached(Stage::Closed));
        closed.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn a_unit_receives_one_file_at_a_time_and_waits_for_no_other_unit() {
        let budgets = SendBudgets::new();
        let (mut permits, started) = (Vec::new(), Instant::now());
        for n in 0..2_000 {
            permits.push(budgets.file(&unit(n)).await.expect("it is the first one of the unit"));
        }
        assert_eq!(started.elapsed().as_millis(), 0);
        let second = budgets.file(&unit(0)).await;
        assert!(second.is_err_and(|error| error.is_transient()));
        assert_eq!(started.elapsed(), WAIT_MAX);
        assert!(2 * WAIT_MAX.as_millis() < u128::from(api::RESPONSE_SILENCE_MS), "an agent waits longer");
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_client_is_too_slow_and_not_the_disk() {
        let disk = DiskThreads::start().expect("threads");
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(8 * PIECE_BYTES as u64).expect("it is sparse");
        let sparse = ArchiveFile::new(file.path(), String::new(), DamagedFiles::default(), disk.clone());
        let (budgets, sparse) = (Arc::new(SendBudgets::new()), sparse.expect("it has a size"));
        let recipient = recipient(&budgets, 1);
        let connection = recipient.connection.clone();
        let permit = budgets.file(&recipient.caller).await.expect("it is the first one");
        let mut body = recipient.file(sparse, permit).into_data_stream();
        let threads = disk.occupy_all();
        assert!(body.poll_next_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
        tokio::time::advance(10 * LATE_MAX).await;
        tokio::task::yield_now().await;
        assert!(!is_closed(&connection), "the server reads its disk");
        drop(threads);
        body.next().await.expect("not the end").expect("it is readable");
        tokio::time::advance(LATE_MAX).await;
        tokio::task::yield_now().await;
        assert!(!is_closed(&connection), "a piece allows for a second");
        tokio::time::advance(LATE_MAX).await;
        tokio::task::yield_now().await;
        assert!(is_closed(&connection));
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_response_waits_for_the_budget_for_some_seconds() {
        let budgets = Arc::new(SendBudgets::new());
        let large = || vec![7; PIECE_BYTES + 1];
        let used = budgets.bytes.try_acquire(&unit(1), OF_AGENT_BYTES_MAX as usize);
        let started = Instant::now();
        let refused = recipient(&budgets, 1).body(large()).await;
        assert!(refused.is_err_and(|error| error.is_transient()));
        assert_eq!(started.elapsed(), WAIT_MAX);

        let release = async {
            tokio::time::sleep(WAIT_MAX / 2).await;
            drop(used);
        };
        let line = futures::stream::iter([Ok::<_, axum::Error>(large())]);
        let mut lines = recipient(&budgets, 1).lines(Body::from_stream(line)).into_data_stream();
        let (piece, ()) = tokio::join!(lines.next(), release);
        assert_eq!(piece.expect("not the end").expect("the budget is free").len(), PIECE_BYTES);
        assert_eq!(lines.next().await.expect("not the end").expect("the rest").len(), 1);
        assert!(lines.next().await.is_none());
    }

    #[tokio::test]
    async fn large_responses_that_wait_are_bounded_too() {
        let budgets = Arc::new(SendBudgets::new());
        let _waiting = budgets.waiting.try_acquire(&unit(1), OF_AGENT_BYTES_MAX as usize);
        let refused = recipient(&budgets, 1).body(vec![7; PIECE_BYTES + 1]).await;
        assert!(refused.is_err_and(|error| error.is_transient()));
    }
}
