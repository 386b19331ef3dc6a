//! Sends the bodies of responses in pieces, at a minimum rate, and within a budget of memory.
//!
//! A client that reads slowly must not make the controller keep more than its share. A file is read piece by piece as
//! the client receives it. A response or a line of a stream that is larger than a piece is in memory as a whole, so it
//! counts against a budget until its last piece was taken, and it is refused if the budget is used up. A client that
//! receives less than the minimum rate (as for uploads) loses its connection.

use super::budget::{Budget, Permit};
use super::connections::Connection;
use super::upload::deadline;
use crate::archive_file::{ArchiveFile, PIECE_BYTES};
use api::error::{ApiError, ErrorCode};
use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use state::documents::prelude::TokenHolder;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Files that are sent to one agent at the same time; the next one waits. An agent fetches one after the other, and its
/// previous connection may not have ended.
const OF_AGENT_MAX: u32 = 2;
/// Files that are sent at the same time: each has one descriptor of the reserve in `admission`, and two pieces in memory.
const FILES_MAX: u32 = 16;
/// Bytes of large responses to one caller: a status of 10,000 units several times, or one view of the largest size.
const OF_CALLER_BYTES_MAX: u32 = 64 << 20;
/// Bytes of large responses to all callers.
const RESPONSES_BYTES_MAX: u32 = 256 << 20;

/// The budgets of responses.
pub struct SendBudgets {
    files: Budget,
    bytes: Budget,
}

impl SendBudgets {
    /// Returns the budgets, all of them unused.
    pub fn new() -> SendBudgets {
        SendBudgets {
            files: Budget::new(OF_AGENT_MAX, FILES_MAX),
            bytes: Budget::new(OF_CALLER_BYTES_MAX, RESPONSES_BYTES_MAX),
        }
    }

    /// Waits until another file may be sent to this caller.
    pub async fn file(&self, caller: &TokenHolder) -> Permit {
        self.files.acquire(caller, 1).await
    }
}

/// To whom a response is sent.
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
    pub fn answer(self, bytes: Vec<u8>) -> Result<Body, ApiError> {
        if bytes.len() <= PIECE_BYTES {
            return Ok(bytes.into());
        }
        let Some(answer) = self.large(bytes.into()) else {
            let text = "cannot send the response: too many large responses are being received";
            return Err(ApiError::new(ErrorCode::Unavailable, text).hint("try again when they were received"));
        };
        Ok(Body::new(SentBody { recipient: self, sending: Some(answer), source: Source::End }))
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

    /// Begins to send something that is larger than a piece; none if the budget is used up.
    fn large(&self, rest: Bytes) -> Option<LargeAnswer> {
        let permit = self.budgets.bytes.try_acquire(&self.caller, rest.len())?;
        Some(LargeAnswer { rest, rate: MinimumRate::require(self.connection.clone()), _permit: permit })
    }
}

/// A response, or a line of a stream, that is being sent.
struct LargeAnswer {
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
    sending: Option<LargeAnswer>,
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
            if let Some(large) = &mut this.sending {
                // A copy, because a part of the whole would keep all of it in memory until that part was sent.
                let piece = Bytes::copy_from_slice(&large.rest[..PIECE_BYTES.min(large.rest.len())]);
                large.rest = large.rest.slice(piece.len()..);
                large.rate.sent(piece.len());
                if large.rest.is_empty() {
                    this.sending = None;
                }
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let frame = match &mut this.source {
                Source::End => return Poll::Ready(None),
                Source::Lines(lines) => ready!(Pin::new(lines).poll_frame(context)),
                Source::File { left, next, rate, .. } => {
                    let Some(piece) = next else { return Poll::Ready(None) };
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
                    let Some(large) = this.recipient.large(line) else {
                        let why = io::Error::other("too many large responses are being received");
                        return Poll::Ready(Some(Err(axum::Error::new(why))));
                    };
                    this.sending = Some(large);
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
        let sending = self.sending.as_ref().map_or(0, |large| large.rest.len() as u64);
        match &self.source {
            Source::End => SizeHint::with_exact(sending),
            Source::File { left, .. } => SizeHint::with_exact(*left),
            Source::Lines(_) => SizeHint::default(),
        }
    }
}

/// Closes a connection whose client receives a body too slowly, until it is dropped.
struct MinimumRate {
    sent: Arc<AtomicU64>,
    watching: AbortHandle,
}

impl MinimumRate {
    fn require(connection: Connection) -> MinimumRate {
        let sent = Arc::<AtomicU64>::default();
        let so_far = sent.clone();
        let watching = tokio::spawn(async move {
            too_slow(Instant::now(), &so_far).await;
            connection.close();
        });
        MinimumRate { sent, watching: watching.abort_handle() }
    }

    /// Counts bytes that the connection has taken. It keeps a few pieces, which is far less than the rate tolerates.
    fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for MinimumRate {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// Returns when less was sent since `started` than the minimum rate requires.
async fn too_slow(started: Instant, sent: &AtomicU64) {
    loop {
        let until = started + deadline(sent.load(Ordering::Relaxed));
        if until <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(until).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::upload::{LATE_MAX, RATE_MIN};
    use std::pin::pin;
    use std::time::Duration;

    #[tokio::test]
    async fn a_body_that_is_received_more_slowly_than_the_minimum_rate_ends() {
        let started = Instant::now() - LATE_MAX;
        too_slow(started, &AtomicU64::new(0)).await;
        let sent = AtomicU64::new(5 * RATE_MIN);
        let mut fast = pin!(too_slow(started, &sent));
        tokio::select! {
            biased;
            () = &mut fast => panic!("it is five seconds ahead"),
            () = std::future::ready(()) => {}
        }
        too_slow(started - Duration::from_secs(5), &sent).await;
    }
}
