//! The minimum rate of transfers: a peer that sends or receives a body more slowly is not waited for any longer.
//!
//! Only the time counts in which the server waits for the peer: neither a wait for a budget nor the server's own disk
//! makes a peer slow. Used by `upload`, `request_body` and `sending`.

use api::TRANSFER_RATE_MIN;
use api::error::{ApiError, ErrorCode};
use axum::body::{BodyDataStream, Bytes};
use futures::StreamExt;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How far a transfer may fall behind the minimum rate: a stall of ten seconds is tolerated.
pub const LATE_MAX: Duration = Duration::from_secs(10);
/// The time limit for a whole transfer: 512 MiB at 1 MiB/s. Clients wait as long.
pub const TRANSFER_TIMEOUT: Duration = Duration::from_secs(512);

/// What a peer has transferred of a body, and how long the server has waited for it.
#[derive(Default)]
pub struct Transfer {
    bytes: u64,
    waited: Duration,
}

impl Transfer {
    /// The bytes that were transferred.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records that the peer has transferred bytes.
    pub fn transferred(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Records that the server has waited for the peer.
    pub fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    /// Returns how much longer the server waits for the peer before its next bytes.
    pub fn left(&self) -> Duration {
        let allowed = LATE_MAX + Duration::from_secs(self.bytes / TRANSFER_RATE_MIN);
        allowed.min(TRANSFER_TIMEOUT).saturating_sub(self.waited)
    }

    /// Waits for the next data of a body; none at its end.
    ///
    /// # Errors
    /// If the body ends early, or arrives more slowly than the minimum rate.
    pub async fn receive(&mut self, body: &mut BodyDataStream) -> Result<Option<Bytes>, ApiError> {
        let since = Instant::now();
        let next = timeout(self.left(), body.next()).await.map_err(|_| too_slow())?;
        self.waited(since.elapsed());
        let data = next.transpose().map_err(|_| incomplete())?;
        self.transferred(data.as_ref().map_or(0, Bytes::len));
        Ok(data)
    }
}

fn incomplete() -> ApiError {
    ApiError::new(ErrorCode::Invalid, "cannot receive the body of the request: it is incomplete")
}

fn too_slow() -> ApiError {
    let rate = TRANSFER_RATE_MIN >> 10;
    let text = format!("cannot receive the body of the request: it arrives more slowly than {rate} KiB/s");
    ApiError::new(ErrorCode::Unavailable, text).hint("check the network between this host and the controller")
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::ARCHIVE_BYTES_MAX;

    #[test]
    fn a_stalled_transfer_has_ten_seconds_and_none_has_more_than_the_client() {
        let left = |bytes| Transfer { bytes, waited: Duration::ZERO }.left();
        assert_eq!(left(0), LATE_MAX);
        assert_eq!(left(TRANSFER_RATE_MIN * 5), LATE_MAX + Duration::from_secs(5));
        assert_eq!(left(ARCHIVE_BYTES_MAX as u64), TRANSFER_TIMEOUT);
        assert_eq!(Transfer { bytes: 0, waited: 2 * LATE_MAX }.left(), Duration::ZERO);
    }
}
