//! Notifications to the service manager (sd_notify(3)), for an agent that runs as a systemd service.
//!
//! Without a service manager nothing is sent. A lost notification does no harm, because the next one follows.
//!
//! Used by `unit_program` and `machine_program`.

pub use ::sd_notify::NotifyState;
use std::convert::Infallible;
use std::future;

/// Sends one notification.
pub fn send(state: NotifyState<'_>) {
    if let Err(error) = ::sd_notify::notify(&[state]) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}

/// Sends keep-alives, two in each watchdog interval. The thread that does the work sends them, so that an agent
/// that hangs sends none and is restarted. Never returns.
pub async fn send_watchdog() -> Infallible {
    let Some(timeout) = ::sd_notify::watchdog_enabled() else { return future::pending().await };
    let mut every = tokio::time::interval(timeout / 2);
    loop {
        every.tick().await;
        send(NotifyState::Watchdog);
    }
}
