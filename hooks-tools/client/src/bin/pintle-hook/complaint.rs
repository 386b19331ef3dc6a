//! What this program itself says on stderr: one line, as Juju's client words it, and exit code 1.

use hook_client::Refused;

use crate::call::Failure;
use crate::kernel::{self, Errno};

/// Prints `ERROR`, the pieces (six at most) and a newline, in one write. Returns the exit code.
pub fn complain(pieces: &[&[u8]]) -> u8 {
    let mut line: [&[u8]; 8] = [b""; 8];
    line[0] = b"ERROR ";
    for (to, from) in line[1..7].iter_mut().zip(pieces) {
        *to = from;
    }
    line[7] = b"\n";
    let _ = kernel::write_pieces(kernel::STDERR, &line); // there is nobody left to tell
    1
}

/// Says why there is no answer.
pub fn explain(failure: &Failure, socket: &[u8]) -> u8 {
    match failure {
        Failure::Connect(errno) => complain(&[b"dial unix ", socket, b": connect: ", reason(*errno)]),
        Failure::PathTooLong => {
            complain(&[b"dial unix ", socket, b": connect: the path is longer than 107 bytes"])
        }
        Failure::Stranger(uid) => complain(&[
            b"dial unix ",
            socket,
            b": the listener's user is neither root nor ours, but uid ",
            decimal(*uid, &mut [0; 10]),
            b"; nothing was sent",
        ]),
        Failure::Lost => {
            complain(&[b"the unit agent went away before it answered, and did not come back in time"])
        }
        Failure::Stdin(errno) => complain(&[b"read stdin: ", reason(*errno)]),
        Failure::StdinTooLarge => complain(&[b"stdin too large: more than 16 MiB"]),
        Failure::Memory(errno) => complain(&[b"mmap: ", reason(*errno)]),
        Failure::BadAnswer(Refused::Version(version)) => complain(&[
            b"the unit agent answers in version ",
            decimal((*version).into(), &mut [0; 10]),
            b" of the tool protocol, which this tool does not know",
        ]),
        Failure::BadAnswer(_) => complain(&[b"dial unix ", socket, b": what listens there is no unit agent"]),
    }
}

/// The error's name as Go words it, for the errors that can be expected here.
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
        _ => b"unexpected error of the system",
    }
}

/// The number as text, right-aligned in `room`.
fn decimal(mut number: u32, room: &mut [u8; 10]) -> &[u8] {
    let mut start = room.len();
    for (i, digit) in room.iter_mut().enumerate().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        start = i;
        if number == 0 {
            break;
        }
    }
    room.get(start..).unwrap_or_default()
}
