//! The interface between `pintle-hook` and the unit agent: the protocol of the hook tools over the agent's socket, and
//! the files that the shim of a hook leaves for the agent.
//!
//! The library encodes and decodes. It does no I/O and allocates no memory, so that `pintle-hook` can use it without a
//! standard library. Decoding never panics, whatever the bytes, because any process of the hook's user can send them.

#![no_std]
#![forbid(unsafe_code)]

pub mod frame;
pub mod reconnect;
pub mod shim;

pub use frame::{
    Args, CallHeader, CallId, FrameError, HEADER_BYTES, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, ReplyFrame,
    RequestFrame, STDIN_BYTES_MAX, VERSION, announce_stdin, encode_request, frame_length,
};
