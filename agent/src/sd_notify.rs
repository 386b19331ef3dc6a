//! Notifications to the service manager (sd_notify(3)), for the agent that runs as a service of systemd.
//!
//! Without a service manager nothing is sent. A notification that is lost does no harm: the next one is sent anyway.

pub use ::sd_notify::NotifyState;
use std::convert::Infallible;
use std::future;

/// Sends one notification.
pub fn send(state: NotifyState<'_>) {
    if let Err(error) = ::sd_notify::notify(&[state]) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

/// Sends keep-alives, two in each watchdog interval. They are sent by the thread that does the work, so that an agent
/// that hangs sends none, and is restarted.
pub async fn send_watchdog() -> Infallible {
    let Some(timeout) = ::sd_notify::watchdog_enabled() else { return future::pending().await };
    let mut every = tokio::time::interval(timeout / 2);
    loop {
        every.tick().await;
        send(NotifyState::Watchdog);
    }
}
