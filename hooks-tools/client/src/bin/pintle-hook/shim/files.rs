//! The files of a run's folder, as the shim writes them.

use core::ffi::CStr;

use hook_client::shim::{OUTCOME, OUTCOME_BYTES, RESERVED_OUTCOME};

use crate::kernel::files::{self, Open};
use crate::kernel::{self, Errno, Fd, PATH_BYTES_MAX};

const NAME_TOO_LONG: Errno = Errno(36);
const FILE_TOO_LARGE: Errno = Errno(27);
const NO_SPACE: Errno = Errno(28);
const QUOTA_EXCEEDED: Errno = Errno(122);

/// Whether the error means that the disk or the quota of the user is full, or the limit of the size of files is reached,
/// so that a later attempt may succeed.
pub fn is_disk_full(errno: Errno) -> bool {
    [FILE_TOO_LARGE, NO_SPACE, QUOTA_EXCEEDED].contains(&errno)
}

/// A buffer for one path with its zero byte.
pub type PathBuffer = [u8; PATH_BYTES_MAX];

/// Joins the pieces of a path, with the zero byte at its end that the kernel requires.
///
/// # Errors
/// If the path is longer than `PATH_BYTES_MAX`.
pub fn join<'a>(pieces: &[&[u8]], into: &'a mut PathBuffer) -> Result<&'a CStr, Errno> {
    let mut length = 0;
    for piece in pieces.iter().chain([&&b"\0"[..]]) {
        let end = length + piece.len();
        into.get_mut(length..end).ok_or(NAME_TOO_LONG)?.copy_from_slice(piece);
        length = end;
    }
    CStr::from_bytes_until_nul(into).map_err(|_| NAME_TOO_LONG)
}

/// The folder of a run.
#[derive(Clone, Copy)]
pub struct RunFolder(pub &'static [u8]);

impl RunFolder {
    /// Opens a file of the folder.
    ///
    /// # Errors
    /// As [`files::open`]; also if the path is too long.
    pub fn open(self, name: &str, how: Open) -> Result<Fd, Errno> {
        files::open(join(&[self.0, b"/", name.as_bytes()], &mut [0; _])?, how)
    }

    /// Replaces a file as a whole, without a sync, as `host::file::write_atomic_unsynced` does.
    ///
    /// # Errors
    /// If the file cannot be created, written or renamed.
    pub fn write_atomic(self, name: &str, content: &[&[u8]]) -> Result<(), Errno> {
        let mut random = [0; 16];
        kernel::random(&mut random)?;
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(random) {
            pair[0] = hexadecimal(byte >> 4);
            pair[1] = hexadecimal(byte & 0xf);
        }
        let name = name.as_bytes();
        let (mut temporary, mut path): (PathBuffer, PathBuffer) = ([0; _], [0; _]);
        let temporary = join(&[self.0, b"/.", name, b".", &digits], &mut temporary)?;
        let path = join(&[self.0, b"/", name], &mut path)?;
        let file = files::open(temporary, Open::CreateNew)?;
        let written = write(file, content).and_then(|()| files::rename(temporary, path));
        kernel::close(file);
        if written.is_err() {
            files::remove(temporary);
        }
        written
    }

    /// Creates [`RESERVED_OUTCOME`].
    ///
    /// # Errors
    /// As [`RunFolder::write_atomic`].
    pub fn reserve_outcome(self) -> Result<(), Errno> {
        self.write_atomic(RESERVED_OUTCOME, &[&[b' '; OUTCOME_BYTES], b"\n"])
    }

    /// Writes the outcome over the blanks of [`RESERVED_OUTCOME`], then renames the file. On most file systems this needs no
    /// space if the outcome is at most [`OUTCOME_BYTES`] long; the caller repeats it for the others.
    ///
    /// # Errors
    /// If the file cannot be opened, written or renamed.
    pub fn write_outcome(self, content: &[&[u8]]) -> Result<(), Errno> {
        let (mut reserved, mut path): (PathBuffer, PathBuffer) = ([0; _], [0; _]);
        let reserved = join(&[self.0, b"/", RESERVED_OUTCOME.as_bytes()], &mut reserved)?;
        let path = join(&[self.0, b"/", OUTCOME.as_bytes()], &mut path)?;
        let file = files::open(reserved, Open::Overwrite)?;
        let written = write(file, content).and_then(|()| files::rename(reserved, path));
        kernel::close(file);
        written
    }
}

/// Writes all pieces to a file. A part of them is written only if the disk or the size of the file has reached its limit.
fn write(file: Fd, content: &[&[u8]]) -> Result<(), Errno> {
    let bytes: usize = content.iter().map(|piece| piece.len()).sum();
    if kernel::write_pieces(file, content)? == bytes { Ok(()) } else { Err(NO_SPACE) }
}

fn hexadecimal(digit: u8) -> u8 {
    if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
}
