//! The HTTPS server on loopback with the SQLite store: authentication, the protocol, and restarts.

mod authority;
mod connections;
mod fixture;
mod floods;
mod program;
mod requests;
#[path = "../support/mod.rs"]
mod support;
