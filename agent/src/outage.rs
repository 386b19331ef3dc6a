//! Which errors of the connection to the controller are logged: each once in an outage, and at the end how long the outage
//! lasted; and the delays between attempts to reach it, with jitter.
//!
//! Used by the loops of the unit agent and of the machine agent. The number of lines in one outage is bounded,
//! because a controller that is unreachable for days must not fill the disk.

use crate::ports::Clock;
use api::error::ApiError;
use host::backoff::Backoff;

/// The delay before the next attempt to reach the controller: from 0.2 s, doubled up to 5 s. A controller that
/// restarts is reached within that time. While it is down, 2,000 agents make 400 to 800 attempts a second in
/// each of their loops ([`jittered_delay_ms`]).
pub const LINK_RETRY_FIRST_MS: u64 = 200;
/// See [`LINK_RETRY_FIRST_MS`].
pub const LINK_RETRY_MAX_MS: u64 = 5_000;
/// The delays of one series of attempts.
pub const LINK_BACKOFF: Backoff = Backoff::new(LINK_RETRY_FIRST_MS, LINK_RETRY_MAX_MS);

/// How long to wait before the next attempt: between half of the delay and all of it. The agents of a controller that
/// was killed lose their connections in one moment, and must not all return in one.
pub fn jittered_delay_ms(backoff: &Backoff, clock: &impl Clock) -> u64 {
    let (delay_ms, random) = (u128::from(backoff.delay_ms()), clock.random_uuid().0);
    let earlier_ms = random % (delay_ms / 2 + 1);
    backoff.delay_ms() - u64::try_from(earlier_ms).unwrap_or_default()
}

/// The number of errors that are logged in one outage. A connection fails in few ways, but the texts may
/// contain numbers and differ.
const ERRORS_MAX: usize = 8;

/// An outage whose request has not failed for this long has ended without a success: the request is no longer made, for
/// example because the bag that it fetched is not needed any more. Longer than the longest pause between attempts (60 s,
/// after a refused record) and the longest attempt (512 s, for an archive).
const ABANDONED_AFTER_MS: u64 = 60_000 + 512_000;

/// The kind of request that failed. An outage ends when a request of the same kind succeeds: the watch works
/// while a full store accepts no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Channel {
    /// The watch of the view.
    #[default]
    Watch,
    /// Sending records and reports.
    Send,
    /// Fetching bags and charm archives.
    Fetch,
}

/// The current outage, if there is one.
#[derive(Debug, Default)]
pub struct Outage {
    channel: Channel,
    since_ms: u64,
    /// The last failure of this channel.
    last_failure_ms: u64,
    errors: Vec<String>,
    /// The last error and its channel, also if it was logged before, until a request of that channel succeeds.
    last_error: Option<(Channel, String)>,
}

impl Outage {
    /// The last error, unless a request of its channel has succeeded since.
    pub fn last_error(&self) -> Option<&str> {
        self.last_error.as_ref().map(|(_, error)| error.as_str())
    }

    fn is_abandoned(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.last_failure_ms) > ABANDONED_AFTER_MS
    }

    /// Records a failed request. Returns a line for the log if the error is new.
    pub fn record_failure(&mut self, channel: Channel, error: &ApiError, now_ms: u64) -> Option<String> {
        if self.errors.is_empty() || self.is_abandoned(now_ms) {
            self.errors.clear();
            self.channel = channel;
            self.since_ms = now_ms;
        }
        if channel == self.channel {
            self.last_failure_ms = now_ms;
        }
        let text = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        self.last_error = Some((channel, text.clone()));
        if self.errors.len() >= ERRORS_MAX || self.errors.contains(&text) {
            return None;
        }
        self.errors.push(text.clone());
        Some(format!("{text}; retrying"))
    }

    /// Records a successful request. Returns a line for the log if it ends the outage.
    pub fn record_success(&mut self, channel: Channel, now_ms: u64) -> Option<String> {
        self.last_error.take_if(|(failed, _)| *failed == channel);
        if self.errors.is_empty() || channel != self.channel && !self.is_abandoned(now_ms) {
            return None;
        }
        (self.errors, self.last_error) = (Vec::new(), None);
        let tenths = now_ms.saturating_sub(self.since_ms) / 100;
        Some(format!("the controller answers again after {}.{} s", tenths / 10, tenths % 10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::error::ErrorCode;
    use state::terms::names::Uuid;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    /// A clock that stands still. Each random number is the next one.
    #[derive(Default)]
    struct Stopped(Cell<u128>);

    impl Clock for Stopped {
        fn boot(&self) -> String {
            String::new()
        }
        fn since_boot_ms(&self) -> u64 {
            0
        }
        fn wall_ms(&self) -> i64 {
            0
        }
        async fn sleep_until(&self, _: u64) {}
        fn random_uuid(&self) -> Uuid {
            Uuid(self.0.replace(self.0.get() + 1))
        }
    }

    /// 1. A controller with thousands of agents is killed, and all of their connections end in one moment.
    /// 2. Each agent waits, and connects again.
    #[test]
    fn agents_do_not_return_in_one_moment() {
        let (clock, mut backoff) = (Stopped::default(), LINK_BACKOFF);
        let first: BTreeSet<u64> = (0..1_000).map(|_| jittered_delay_ms(&backoff, &clock)).collect();
        assert_eq!(first, (LINK_RETRY_FIRST_MS / 2..=LINK_RETRY_FIRST_MS).collect());
        (0..10).for_each(|_| backoff.increase());
        let last: BTreeSet<u64> = (0..10_000).map(|_| jittered_delay_ms(&backoff, &clock)).collect();
        assert_eq!(last, (LINK_RETRY_MAX_MS / 2..=LINK_RETRY_MAX_MS).collect());
    }

    #[test]
    fn each_error_is_logged_once_and_the_end_with_the_duration() {
        let mut outage = Outage::default();
        assert_eq!(outage.record_success(Channel::Watch, 5), None);
        let refused = ApiError::new(ErrorCode::Unreachable, "refused");
        let other = ApiError::new(ErrorCode::Unreachable, "other").hint("look");
        assert_eq!(
            outage.record_failure(Channel::Send, &refused, 1000).as_deref(),
            Some("refused; retrying")
        );
        assert_eq!(outage.record_failure(Channel::Watch, &refused, 2000), None);
        let line = outage.record_failure(Channel::Send, &other, 3000);
        assert!(line.is_some_and(|line| line.starts_with("other; look;")), "the error with its hint");
        assert_eq!(outage.last_error(), Some("other; look"));
        assert_eq!(outage.record_failure(Channel::Send, &refused, 4000), None);
        assert_eq!(outage.last_error(), Some("refused"), "it was logged before");
        assert_eq!(outage.record_success(Channel::Watch, 4100), None, "sending still fails");
        assert!(outage.last_error().is_some());
        let end = outage.record_success(Channel::Send, 4250);
        assert_eq!(outage.last_error(), None);
        assert!(end.is_some_and(|end| end.contains("3.2 s")), "since the first failure");
        assert!(outage.record_failure(Channel::Send, &refused, 5000).is_some());
    }

    /// 1. The fetch of a bag fails, and the bag is not needed any more.
    /// 2. The controller is down again a few minutes later, and the watch fails.
    #[test]
    fn an_outage_whose_request_is_no_longer_made_hides_no_other() {
        let mut outage = Outage::default();
        let refused = ApiError::new(ErrorCode::Unreachable, "refused");
        assert!(outage.record_failure(Channel::Fetch, &refused, 1_000).is_some());
        assert_eq!(outage.record_success(Channel::Watch, 2_000), None);
        for ms in [100_000, 300_000, 500_000] {
            assert_eq!(outage.record_failure(Channel::Watch, &refused, ms), None);
        }
        assert!(outage.record_failure(Channel::Watch, &refused, 600_000).is_some());
        assert!(outage.record_success(Channel::Watch, 601_000).is_some());
    }

    /// `pintle-agent why` names the last error.
    #[test]
    fn the_last_error_ends_with_a_success_of_its_channel_or_when_its_request_is_no_longer_made() {
        let mut outage = Outage::default();
        let refused = ApiError::new(ErrorCode::Unreachable, "refused");
        outage.record_failure(Channel::Watch, &refused, 1_000);
        outage.record_failure(Channel::Send, &refused, 2_000);
        outage.record_success(Channel::Send, 3_000);
        assert_eq!(outage.last_error(), None, "sending works again");
        outage.record_success(Channel::Watch, 4_000);
        outage.record_failure(Channel::Fetch, &refused, 5_000);
        outage.record_success(Channel::Watch, 5_000 + ABANDONED_AFTER_MS);
        assert!(outage.last_error().is_some());
        assert!(outage.record_success(Channel::Watch, 5_001 + ABANDONED_AFTER_MS).is_some());
        assert_eq!(outage.last_error(), None);
    }

    #[test]
    fn an_outage_with_ever_changing_texts_does_not_fill_the_log() {
        let mut outage = Outage::default();
        let lines = (0..100u64)
            .filter_map(|n| {
                outage.record_failure(
                    Channel::Watch,
                    &ApiError::new(ErrorCode::Unreachable, n.to_string()),
                    n,
                )
            })
            .count();
        assert_eq!(lines, ERRORS_MAX);
    }
}
