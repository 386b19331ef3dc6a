//! Notifies the service manager that runs an agent (sd_notify(3)): the agent is ready, it stops, it is alive (watchdog).
//!
//! Nothing is sent if the agent was not started by a service manager, and an agent never fails because a notification
//! cannot be sent: that is logged. *Ready* and *stopping* are sent once; the keep-alives of the watchdog are repeated, so
//! that the loss of one does no harm. `unit_program` and `machine_program` send the first two and run the keep-alives
//! beside their loop.

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
