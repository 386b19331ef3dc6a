//! What a hook tool and the unit agent say to each other over the agent's socket.
//!
//! Pure: bytes in, values out, and back. No allocation, so that `pintle-hook` can use it without a standard library.
//! Nothing here may panic, whatever the bytes: they come from any process of the hook's user.

#![no_std]
#![forbid(unsafe_code)]

pub mod frame;
pub mod reconnect;

pub use frame::{
    Args, Call, CallId, HEADER_BYTES, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, Refused, Reply, Request,
    STDIN_BYTES_MAX, VERSION, announce_stdin, encode_request, frame_length,
};
