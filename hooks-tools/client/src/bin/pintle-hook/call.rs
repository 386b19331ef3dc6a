//! One call: connects to the unit agent, sends the request and receives the reply (design 12).
//!
//! If the agent is restarted meanwhile, the call is repeated with the same call id for a bounded time. Nothing is sent
//! before the user of the listener is verified (spec/security.md S8). Called by `main`.

use hook_client::reconnect::ReconnectDelays;
use hook_client::{
    FrameError, HEADER_BYTES, REQUEST_BYTES_MAX, ReplyFrame, STDIN_BYTES_MAX, announce_stdin, frame_length,
};

use crate::kernel::{self, Errno, Fd};

/// Why a call has no result.
pub enum CallError {
    /// The socket cannot be connected.
    Connect(Errno),
    /// The path of the socket is longer than `kernel::SOCKET_PATH_BYTES_MAX`.
    PathTooLong,
    /// The user of the listener, with this uid, is neither root nor the user of the hook (spec/security.md S8).
    UntrustedPeer(u32),
    /// The connection ended before the reply was complete.
    Lost,
    /// Stdin could not be read.
    Stdin(Errno),
    /// Stdin is larger than `STDIN_BYTES_MAX`.
    StdinTooLarge,
    /// There is no memory for stdin or for the reply.
    Memory(Errno),
    /// The reply is not valid.
    InvalidReply(FrameError),
}

/// The request of one call. Its bytes are in the buffers.
pub struct CallRequest<'a> {
    /// The path of the agent's socket.
    pub socket: &'a [u8],
    /// The user of this process.
    pub uid: Option<usize>,
    /// The length of the encoded request.
    pub request_bytes: usize,
}

/// The buffers of one call. They are static, so that they cost nothing before they are touched. Most calls need only
/// the beginning of each. In this order these beginnings are in two pages, one of which the kernel has already touched.
#[repr(C)]
pub struct Buffers {
    /// The working directory until the request is encoded, then the reply, if it fits. Almost every reply does.
    pub small: [u8; kernel::PATH_BYTES_MAX],
    /// The request without stdin.
    pub request: [u8; REQUEST_BYTES_MAX],
}

impl Buffers {
    /// Empty buffers.
    pub const fn new() -> Self {
        Buffers { small: [0; _], request: [0; _] }
    }
}

/// The reply: exit code, stdout and stderr.
pub type CallOutput<'a> = (u8, &'a [u8], &'a [u8]);

/// Sends the request until it is answered, for a bounded time and always with the same call id.
///
/// # Errors
/// If the agent cannot be reached in that time, its reply is not valid, or stdin cannot be sent.
pub fn call<'a>(request: &CallRequest<'_>, buffers: &'a mut Buffers) -> Result<CallOutput<'a>, CallError> {
    let mut stdin = None;
    let mut delays = ReconnectDelays::new();
    let Buffers { small, request: encoded } = buffers;
    let encoded = encoded.get_mut(..request.request_bytes).unwrap_or_default();
    let frame = loop {
        let error = match connect(request) {
            Ok(fd) => match exchange(fd, encoded, small, &mut stdin) {
                Ok(frame) => break frame,
                Err(error) => {
                    kernel::close(fd);
                    error
                }
            },
            Err(error) => error,
        };
        match delays.next() {
            Some(pause_ms) if is_transient(&error, request.socket) => kernel::sleep(pause_ms),
            _ => return Err(error),
        }
    };
    let bytes = match frame {
        Frame::Small(bytes) => small.get(..bytes).unwrap_or_default(),
        Frame::Large(bytes) => bytes,
    };
    match ReplyFrame::decode(bytes) {
        Ok(ReplyFrame::Done { code, stdout, stderr }) => Ok((code, stdout, stderr)),
        Ok(ReplyFrame::NeedStdin) => Err(CallError::InvalidReply(FrameError::Malformed)),
        Err(error) => Err(CallError::InvalidReply(error)),
    }
}

/// Whether the agent may be restarting, so that another attempt can succeed. If the folder of the socket does not
/// exist, the hook has ended, and a tool that is called outside of a hook must not hang.
fn is_transient(error: &CallError, socket: &[u8]) -> bool {
    match error {
        CallError::Lost | CallError::Connect(kernel::ECONNREFUSED) => true,
        CallError::Connect(kernel::ENOENT) => match socket.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => kernel::exists(socket.get(..=slash).unwrap_or_default()),
            None => true,
        },
        _ => false,
    }
}

/// Connects and verifies the user of the listener.
fn connect(request: &CallRequest<'_>) -> Result<Fd, CallError> {
    if request.socket.len() > kernel::SOCKET_PATH_BYTES_MAX {
        return Err(CallError::PathTooLong);
    }
    let fd = kernel::socket::connect(request.socket).map_err(CallError::Connect)?;
    match kernel::peer_uid(fd) {
        Ok(uid) if uid == 0 || request.uid == Some(uid as usize) => Ok(fd),
        Ok(uid) => Err(CallError::UntrustedPeer(uid)),
        Err(errno) => Err(CallError::Connect(errno)),
    }
}

/// The location of a received frame.
enum Frame<'a> {
    /// This many bytes at the beginning of the small buffer.
    Small(usize),
    /// Memory of its own.
    Large(&'a [u8]),
}

/// Sends the request and receives the reply. If the agent requires stdin, sends the request again on the same
/// connection.
fn exchange(
    fd: Fd,
    request: &mut [u8],
    reply: &mut [u8],
    stdin: &mut Option<&'static [u8]>,
) -> Result<Frame<'static>, CallError> {
    loop {
        // An agent that refuses a request closes the connection before it has read everything, but its reply can still
        // be read. Therefore a failed write is not an error; the read decides.
        if send_all(fd, request).is_ok()
            && let Some(stdin) = stdin
        {
            let _ = send_all(fd, stdin);
        }
        let frame = receive(fd, reply)?;
        let needs_stdin = match &frame {
            Frame::Small(bytes) => {
                ReplyFrame::decode(reply.get(..*bytes).unwrap_or_default()) == Ok(ReplyFrame::NeedStdin)
            }
            Frame::Large(_) => false,
        };
        if !needs_stdin || stdin.is_some() {
            return Ok(frame);
        }
        let text = read_stdin()?;
        announce_stdin(request, text.len()).map_err(CallError::InvalidReply)?;
        *stdin = Some(text);
    }
}

/// Sends all bytes.
fn send_all(fd: Fd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let sent = kernel::send(fd, bytes)?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Receives one complete frame.
fn receive(fd: Fd, reply: &mut [u8]) -> Result<Frame<'static>, CallError> {
    // One read usually returns a whole small reply. It cannot return part of a second frame, because the agent sends
    // one.
    let mut filled = 0;
    let header = loop {
        filled += receive_some(fd, reply.get_mut(filled..).unwrap_or_default())?;
        if let Some(header) = reply.get(..filled).and_then(<[u8]>::first_chunk::<HEADER_BYTES>) {
            break header;
        }
    };
    let length = frame_length(header).map_err(CallError::InvalidReply)?;
    if filled > length {
        return Err(CallError::InvalidReply(FrameError::Malformed));
    }
    if length <= reply.len() {
        receive_exact(fd, reply.get_mut(filled..length).unwrap_or_default())?;
        return Ok(Frame::Small(length));
    }
    let large = kernel::memory(length).map_err(CallError::Memory)?;
    let (start, rest) = large.split_at_mut_checked(filled).ok_or(CallError::Lost)?;
    start.copy_from_slice(reply.get(..filled).unwrap_or_default());
    receive_exact(fd, rest)?;
    Ok(Frame::Large(large))
}

/// Fills `into`.
fn receive_exact(fd: Fd, mut into: &mut [u8]) -> Result<(), CallError> {
    while !into.is_empty() {
        let read = receive_some(fd, into)?;
        into = into.get_mut(read..).unwrap_or_default();
    }
    Ok(())
}

/// Receives at least one byte.
fn receive_some(fd: Fd, into: &mut [u8]) -> Result<usize, CallError> {
    match kernel::read(fd, into) {
        Ok(0) | Err(_) => Err(CallError::Lost),
        Ok(bytes) => Ok(bytes),
    }
}

/// Reads all of stdin.
fn read_stdin() -> Result<&'static [u8], CallError> {
    // One byte more than the bound, so that a full buffer means that the bound is exceeded.
    let buffer = kernel::memory(STDIN_BYTES_MAX + 1).map_err(CallError::Memory)?;
    let mut filled = 0;
    loop {
        match kernel::read(kernel::STDIN, buffer.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(kernel::EAGAIN) => kernel::poll(&mut [kernel::Poll::read(Some(kernel::STDIN))], None)
                .map_err(CallError::Stdin)?,
            Err(errno) => return Err(CallError::Stdin(errno)),
        }
    }
    if filled > STDIN_BYTES_MAX {
        Err(CallError::StdinTooLarge)
    } else {
        Ok(buffer.get(..filled).unwrap_or_default())
    }
}
