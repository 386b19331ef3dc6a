//! How a tool connects to the unit agent.

use super::files::{self, Open};
use super::{Errno, Fd, SOCKET_PATH_BYTES_MAX, STDERR, close, number, system, uninterrupted};

/// Connects to a unix socket. The caller checks that `path` has at most `SOCKET_PATH_BYTES_MAX` bytes; a longer path
/// would be truncated.
///
/// # Errors
/// If nothing listens there, or this process has too many open files.
pub fn connect(path: &[u8]) -> Result<Fd, Errno> {
    const UNIX: u16 = 1;
    const STREAM_CLOSED_ON_EXEC: usize = 1 | 0o2_000_000;
    #[repr(C)]
    struct Address {
        family: u16,
        path: [u8; SOCKET_PATH_BYTES_MAX + 1],
    }
    let mut address = Address { family: UNIX, path: [0; SOCKET_PATH_BYTES_MAX + 1] };
    for (to, from) in address.path[..SOCKET_PATH_BYTES_MAX].iter_mut().zip(path) {
        *to = *from;
    }
    let fd = loop {
        // SAFETY: no pointers.
        let fd = unsafe { system(number::SOCKET, [UNIX.into(), STREAM_CLOSED_ON_EXEC, 0, 0, 0, 0]) }?;
        if fd > STDERR {
            break fd;
        }
        // The caller has closed one of its standard descriptors. The tool would print to the agent, or read its stdin
        // from it. As in a program of Go, which Juju's tools are, a closed descriptor is an empty file.
        close(fd);
        files::open(c"/dev/null", Open::ReadWrite)?;
    };
    let connect = [fd, &raw const address as usize, size_of::<Address>(), 0, 0, 0];
    // SAFETY: the kernel reads that address only.
    match unsafe { uninterrupted(number::CONNECT, connect) } {
        Ok(_) => Ok(fd),
        Err(errno) => {
            close(fd);
            Err(errno)
        }
    }
}
