//! Prints the errors of this program itself: one line on stderr in the words of Juju's client, and exit code 1.
//!
//! Nothing is allocated; a line is written in one system call. Called by `main`; `shim` writes numbers
//! with its `decimal`.

use hook_client::FrameError;

use crate::call::CallError;
use crate::kernel::{self, Errno};

/// Prints `ERROR`, at most six pieces and a newline in one write. Returns the exit code.
pub fn print_error(pieces: &[&[u8]]) -> u8 {
    let mut line: [&[u8]; 8] = [b""; 8];
    line[0] = b"ERROR ";
    for (to, from) in line[1..7].iter_mut().zip(pieces) {
        *to = from;
    }
    line[7] = b"\n";
    let _ = kernel::write_pieces(kernel::STDERR, &line); // an error here cannot be reported
    1
}

/// Prints why a call has no result. Returns the exit code.
pub fn print_call_error(error: &CallError, socket: &[u8]) -> u8 {
    match error {
        CallError::Connect(errno) => print_error(&[b"dial unix ", socket, b": connect: ", reason(*errno)]),
        CallError::PathTooLong => {
            print_error(&[b"dial unix ", socket, b": connect: the path is longer than 107 bytes"])
        }
        CallError::UntrustedPeer(uid) => print_error(&[
            b"dial unix ",
            socket,
            b": connect: the listener runs as uid ",
            decimal((*uid).into(), &mut [0; _]),
            b", expected root or the user of this hook; nothing was sent",
        ]),
        CallError::Lost => print_error(&[
            b"cannot reach the unit agent: it did not reply, and did not restart within 30 seconds",
        ]),
        CallError::Stdin(errno) => print_error(&[b"read stdin: ", reason(*errno)]),
        CallError::StdinTooLarge => print_error(&[b"stdin too large: more than 16 MiB"]),
        CallError::Memory(errno) => print_error(&[b"mmap: ", reason(*errno)]),
        CallError::InvalidReply(FrameError::Version(version)) => print_error(&[
            b"cannot read the reply of the unit agent: unknown version ",
            decimal((*version).into(), &mut [0; _]),
            b" of the tool protocol",
        ]),
        CallError::InvalidReply(_) => {
            print_error(&[b"dial unix ", socket, b": the listener is not a unit agent"])
        }
    }
}

/// The text of a system error as Go prints it, for the errors that can be expected here.
pub fn reason(errno: Errno) -> &'static [u8] {
    match errno.0 {
        1 => b"operation not permitted",
        2 => b"no such file or directory",
        5 => b"input/output error",
        9 => b"bad file descriptor",
        12 => b"cannot allocate memory",
        13 => b"permission denied",
        20 => b"not a directory",
        21 => b"is a directory",
        23 => b"too many open files in system",
        24 => b"too many open files",
        28 => b"no space left on device",
        32 => b"broken pipe",
        36 => b"file name too long",
        40 => b"too many levels of symbolic links",
        88 => b"socket operation on non-socket",
        91 => b"protocol wrong type for socket",
        111 => b"connection refused",
        _ => b"unexpected system error",
    }
}

/// Memory for the digits of a number.
pub type Digits = [u8; 20];

/// The number as text, right-aligned in `buffer`.
pub fn decimal(mut number: u64, buffer: &mut Digits) -> &[u8] {
    let mut start = buffer.len();
    for (i, digit) in buffer.iter_mut().enumerate().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        start = i;
        if number == 0 {
            break;
        }
    }
    buffer.get(start..).unwrap_or_default()
}
