//! What this agent tells its service manager (sd_notify(3)): one datagram each, to the socket that the environment
//! names. Without one nothing is told.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The agent has entered its folder and goes to work.
pub const READY: &str = "READY=1";
/// It was told to end.
pub const STOPPING: &str = "STOPPING=1";
const ALIVE: &str = "WATCHDOG=1";

/// Says one thing. One that is not heard is no harm: the next is.
pub fn tell(what: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(hidden) => SocketAddr::from_abstract_name(hidden),
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name)),
    };
    let told = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address));
    if let Err(error) = told {
        tracing::warn!("the service manager is not told {what:?}: {error}");
    }
}

/// Says that it goes on, twice in each time that the service manager waits for that. It is said by the thread that
/// does the work: one that hangs says nothing, and is ended and started again.
pub async fn keep_alive() -> std::convert::Infallible {
    let waits_us = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
    let Some(waits_us) = waits_us else { return std::future::pending().await };
    let mut every = tokio::time::interval(Duration::from_micros(waits_us) / 2);
    loop {
        every.tick().await;
        tell(ALIVE);
    }
}
