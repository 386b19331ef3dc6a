//! The requests of one agent: the HTTPS client, with counts of what was refused and what has to be sent again.

use api::client::Client;
use api::error::{ApiError, ErrorCode};
use api::{Handle, Request, Stream, UnitWatchEvent, Watch, WatchUnit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The requests of all agents since the last [`RequestCounts::take`].
#[derive(Debug, Default)]
pub struct RequestCounts {
    answered: AtomicU64,
    unreachable: AtomicU64,
    unavailable: AtomicU64,
    refused: AtomicU64,
}

/// How requests have ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Requests with a response, and opened watches.
    pub answered: u64,
    /// Requests that got no response, because the controller was not there: the agent sends them again.
    pub unreachable: u64,
    /// Requests that the controller had no room for: the agent sends them again.
    pub unavailable: u64,
    /// Requests that were answered by another error.
    pub refused: u64,
}

impl RequestCounts {
    fn note<T>(&self, result: &Result<T, ApiError>) {
        let count = match result {
            Ok(_) => &self.answered,
            Err(error) if error.code == ErrorCode::Unreachable => &self.unreachable,
            Err(error) if error.code == ErrorCode::Unavailable => &self.unavailable,
            Err(_) => &self.refused,
        };
        count.fetch_add(1, Relaxed);
    }

    /// Returns the counts, and starts again from 0.
    pub fn take(&self) -> Counts {
        Counts {
            answered: self.answered.swap(0, Relaxed),
            unreachable: self.unreachable.swap(0, Relaxed),
            unavailable: self.unavailable.swap(0, Relaxed),
            refused: self.refused.swap(0, Relaxed),
        }
    }
}

/// What one agent has received on its watch.
#[derive(Debug)]
pub struct Received {
    start: Instant,
    /// When the last event came, in microseconds after `start`.
    last_us: AtomicU64,
    /// The events, and the bytes of the largest one, if they are measured.
    events: AtomicU64,
    largest_bytes: AtomicU64,
    is_measured: bool,
}

impl Received {
    /// Nothing was received. `is_measured`: the size of each event is measured, which costs time.
    pub fn new(is_measured: bool) -> Received {
        let zero = AtomicU64::default;
        Received {
            start: Instant::now(),
            last_us: zero(),
            events: zero(),
            largest_bytes: zero(),
            is_measured,
        }
    }

    /// Whether an event was received after this time.
    pub fn is_after(&self, time: Instant) -> bool {
        let after_us = u64::try_from(time.duration_since(self.start).as_micros()).unwrap_or(u64::MAX);
        self.last_us.load(Relaxed) > after_us
    }

    /// The number of events, and the bytes of the largest one, since the last call.
    pub fn take_sizes(&self) -> (u64, u64) {
        (self.events.swap(0, Relaxed), self.largest_bytes.swap(0, Relaxed))
    }

    fn note(&self, event: &UnitWatchEvent) {
        let now_us = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.last_us.store(now_us, Relaxed);
        self.events.fetch_add(1, Relaxed);
        if self.is_measured {
            let bytes = serde_json::to_vec(event).map_or(0, |bytes| bytes.len());
            self.largest_bytes.fetch_max(bytes as u64, Relaxed);
        }
    }
}

/// The port of one agent to the controller.
pub struct CountedLink {
    /// The client of this agent alone.
    pub client: Client,
    /// Those of all agents.
    pub counts: Arc<RequestCounts>,
    /// What this agent has received.
    pub received: Arc<Received>,
}

/// The watch of one agent.
pub struct CountedStream {
    stream: <Client as Watch<WatchUnit>>::Stream,
    received: Arc<Received>,
}

impl<R: Request> Handle<R> for CountedLink {
    async fn handle(&self, request: R) -> Result<R::Response, ApiError> {
        let result = self.client.handle(request).await;
        self.counts.note(&result);
        result
    }
}

impl Watch<WatchUnit> for CountedLink {
    type Stream = CountedStream;

    async fn watch(&self, request: WatchUnit) -> Result<CountedStream, ApiError> {
        let result = self.client.watch(request).await;
        self.counts.note(&result);
        Ok(CountedStream { stream: result?, received: self.received.clone() })
    }
}

impl Stream for CountedStream {
    type Item = UnitWatchEvent;

    async fn next(&mut self) -> Result<UnitWatchEvent, ApiError> {
        let event = self.stream.next().await?;
        self.received.note(&event);
        Ok(event)
    }

    fn give_up(self) -> ApiError {
        self.stream.give_up()
    }
}
