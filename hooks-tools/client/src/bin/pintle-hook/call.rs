//! One call: connect, ask, be answered; and look for the agent again if it is restarted meanwhile (design 12).

use hook_client::reconnect::Pauses;
use hook_client::{
    HEADER_BYTES, REQUEST_BYTES_MAX, Refused, Reply, STDIN_BYTES_MAX, announce_stdin, frame_length,
};

use crate::kernel::{self, Errno, Fd};

/// Why there is no answer.
pub enum Failure {
    /// No connection to the socket.
    Connect(Errno),
    /// The socket's path is longer than `kernel::SOCKET_PATH_BYTES_MAX`.
    PathTooLong,
    /// Somebody who is neither root nor us listens there (spec/security.md S8).
    Stranger(u32),
    /// The connection ended before the answer was whole.
    Lost,
    /// Stdin could not be read.
    Stdin(Errno),
    /// Stdin is larger than `STDIN_BYTES_MAX`.
    StdinTooLarge,
    /// There is no memory for stdin or the answer.
    Memory(Errno),
    /// What came is no answer.
    BadAnswer(Refused),
}

/// What is asked, and where; the request's bytes are in the room.
pub struct Question<'a> {
    pub socket: &'a [u8],
    /// Who we are.
    pub uid: Option<usize>,
    pub request_bytes: usize,
}

/// The memory of one call. A static, so that it costs nothing before it is touched. In
/// this order the beginnings of both, all that most calls need, take two pages, one of which the kernel has touched
/// anyway.
#[repr(C)]
pub struct Room {
    /// First the working directory, until the request is written; then the reply, if it is small as nearly all are.
    pub small: [u8; kernel::PATH_BYTES_MAX],
    /// The request without stdin.
    pub request: [u8; REQUEST_BYTES_MAX],
}

impl Room {
    pub const fn new() -> Self {
        Room { small: [0; _], request: [0; _] }
    }
}

/// What the agent answered: code, stdout, stderr.
pub type Answer<'a> = (u8, &'a [u8], &'a [u8]);

/// Asks until answered, for a bounded time, always the same call id.
pub fn ask<'a>(question: &Question<'_>, room: &'a mut Room) -> Result<Answer<'a>, Failure> {
    let mut stdin = None;
    let mut pauses = Pauses::new();
    let Room { small, request } = room;
    let request = request.get_mut(..question.request_bytes).unwrap_or_default();
    let frame = loop {
        let failure = match connect(question) {
            Ok(fd) => match exchange(fd, request, small, &mut stdin) {
                Ok(frame) => break frame,
                Err(failure) => {
                    kernel::close(fd);
                    failure
                }
            },
            Err(failure) => failure,
        };
        match pauses.next() {
            Some(pause_ms) if passes(&failure, question.socket) => kernel::sleep(pause_ms),
            _ => return Err(failure),
        }
    };
    let bytes = match frame {
        Frame::Small(bytes) => small.get(..bytes).unwrap_or_default(),
        Frame::Large(bytes) => bytes,
    };
    match Reply::decode(bytes) {
        Ok(Reply::Done { code, stdout, stderr }) => Ok((code, stdout, stderr)),
        Ok(Reply::NeedStdin) => Err(Failure::BadAnswer(Refused::Malformed)),
        Err(refused) => Err(Failure::BadAnswer(refused)),
    }
}

/// Whether waiting may help: an agent is being restarted. Not when the socket's folder is gone, for then the hook is
/// over, and a tool that is called outside of a hook must not hang.
fn passes(failure: &Failure, socket: &[u8]) -> bool {
    match failure {
        Failure::Lost | Failure::Connect(kernel::ECONNREFUSED) => true,
        Failure::Connect(kernel::ENOENT) => match socket.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => kernel::exists(socket.get(..=slash).unwrap_or_default()),
            None => true,
        },
        _ => false,
    }
}

/// Connects, and makes sure of who listens before anything is sent.
fn connect(question: &Question<'_>) -> Result<Fd, Failure> {
    if question.socket.len() > kernel::SOCKET_PATH_BYTES_MAX {
        return Err(Failure::PathTooLong);
    }
    let fd = kernel::connect(question.socket).map_err(Failure::Connect)?;
    match kernel::peer_uid(fd) {
        Ok(uid) if uid == 0 || question.uid == Some(uid as usize) => Ok(fd),
        Ok(uid) => Err(Failure::Stranger(uid)),
        Err(errno) => Err(Failure::Connect(errno)),
    }
}

/// Where a frame lies that was read.
enum Frame<'a> {
    /// At the beginning of the small room, this many bytes.
    Small(usize),
    Large(&'a [u8]),
}

/// One request and its reply; a second with stdin if the agent wants it, on the same connection.
fn exchange(
    fd: Fd,
    request: &mut [u8],
    reply: &mut [u8],
    stdin: &mut Option<&'static [u8]>,
) -> Result<Frame<'static>, Failure> {
    loop {
        // An agent that refuses in the middle closes, but what it said may still be read: so a failed write is not
        // the end, the read tells.
        if send_all(fd, request).is_ok()
            && let Some(stdin) = stdin
        {
            let _ = send_all(fd, stdin);
        }
        let frame = receive(fd, reply)?;
        let wants_stdin = match &frame {
            Frame::Small(bytes) => {
                Reply::decode(reply.get(..*bytes).unwrap_or_default()) == Ok(Reply::NeedStdin)
            }
            Frame::Large(_) => false,
        };
        if !wants_stdin || stdin.is_some() {
            return Ok(frame);
        }
        let text = read_stdin()?;
        announce_stdin(request, text.len()).map_err(Failure::BadAnswer)?;
        *stdin = Some(text);
    }
}

fn send_all(fd: Fd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let sent = kernel::send(fd, bytes)?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// One whole frame.
fn receive(fd: Fd, reply: &mut [u8]) -> Result<Frame<'static>, Failure> {
    // A small reply comes with one read; no second frame is under way that this could take a part of.
    let mut filled = 0;
    let header = loop {
        filled += receive_some(fd, reply.get_mut(filled..).unwrap_or_default())?;
        if let Some(header) = reply.get(..filled).and_then(<[u8]>::first_chunk::<HEADER_BYTES>) {
            break header;
        }
    };
    let length = frame_length(header).map_err(Failure::BadAnswer)?;
    if filled > length {
        return Err(Failure::BadAnswer(Refused::Malformed));
    }
    if length <= reply.len() {
        fill(fd, reply.get_mut(filled..length).unwrap_or_default())?;
        return Ok(Frame::Small(length));
    }
    let large = kernel::memory(length).map_err(Failure::Memory)?;
    let (start, rest) = large.split_at_mut_checked(filled).ok_or(Failure::Lost)?;
    start.copy_from_slice(reply.get(..filled).unwrap_or_default());
    fill(fd, rest)?;
    Ok(Frame::Large(large))
}

fn fill(fd: Fd, mut into: &mut [u8]) -> Result<(), Failure> {
    while !into.is_empty() {
        let read = receive_some(fd, into)?;
        into = into.get_mut(read..).unwrap_or_default();
    }
    Ok(())
}

fn receive_some(fd: Fd, into: &mut [u8]) -> Result<usize, Failure> {
    match kernel::read(fd, into) {
        Ok(0) | Err(_) => Err(Failure::Lost),
        Ok(bytes) => Ok(bytes),
    }
}

/// All of stdin, once.
fn read_stdin() -> Result<&'static [u8], Failure> {
    let room = kernel::memory(STDIN_BYTES_MAX + 1).map_err(Failure::Memory)?;
    let mut filled = 0;
    loop {
        match kernel::read(kernel::STDIN, room.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(bytes) => filled += bytes,
            Err(kernel::EAGAIN) => kernel::wait_until_ready(kernel::STDIN, false).map_err(Failure::Stdin)?,
            Err(errno) => return Err(Failure::Stdin(errno)),
        }
    }
    // The room is one byte larger than the bound: filled, it is passed.
    if filled > STDIN_BYTES_MAX {
        Err(Failure::StdinTooLarge)
    } else {
        Ok(room.get(..filled).unwrap_or_default())
    }
}
