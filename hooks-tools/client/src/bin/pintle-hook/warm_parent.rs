//! Starts the warm parent of a Python charm: a process that inherits exactly what a hook inherits, so that what it forks is
//! a hook that was started as usual.
//!
//! The unit agent starts it with a socket as its standard input and a pipe as its standard output and error. The program
//! gets an empty standard input, and the socket as file 3. It is killed when the agent ends.

use core::ffi::CStr;

use crate::kernel::child;
use crate::kernel::files::{self, Open};
use crate::kernel::{self, Errno, Fd};
use crate::process::{ProcessStart, Texts};
use crate::shim::files::{PathBuffer, join};
use crate::shim::reset_inherited;

/// The file that is the socket to the agent.
const CONTROL: Fd = 3;
/// A file number that is free in a process that has only the files 0 to 3.
const FREE: Fd = 4;

/// Replaces this process by a program of a charm. `args` are the file that Python must import first, the path of the
/// program, and its arguments. Returns the exit code if that fails.
pub fn start(process: &ProcessStart, mut args: Texts) -> u8 {
    let (Some(imported), Some(path)) = (args.next(), args.next()) else { return 2 };
    match replace(process, imported, path, &args) {
        Ok(()) | Err(kernel::ENOENT) => 127,
        Err(_) => 126,
    }
}

fn replace(process: &ProcessStart, imported: &[u8], path: &[u8], args: &Texts) -> Result<(), Errno> {
    child::end_with_parent();
    reset_inherited(kernel::STDERR + 1);
    // without this file Python would run the program of the charm, outside of a run
    kernel::close(files::open(join(&[imported], &mut [0; _])?, Open::Read)?);
    child::inherit(kernel::STDIN, CONTROL)?;
    kernel::close(kernel::STDIN);
    // the lowest free number is that of the standard input
    let null = files::open(c"/dev/null", Open::Read)?;
    child::inherit(null, FREE)?;
    kernel::close(null);
    child::inherit(FREE, kernel::STDIN)?;
    kernel::close(FREE);
    child::reset_signals();
    child::unblock_signals();
    let mut buffer: PathBuffer = [0; _];
    let path: &CStr = join(&[path], &mut buffer)?;
    // SAFETY: both lists are on the stack of this process, where the kernel has ended them with a null.
    Err(unsafe { child::replace(path, args.as_ptr(), process.environment()) })
}
