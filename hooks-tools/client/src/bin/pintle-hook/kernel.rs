//! The system calls of this program, each as a safe function, for Linux on x86_64 and aarch64: here those of a tool, in
//! `socket` how it connects, in `files` and `child` those of the shim.
//!
//! A call that a signal interrupts is repeated. Unsafe code is only in this module and its submodules, in `memory`, in
//! `process`, and at the entry point in `main`.

pub mod child;
pub mod files;
pub mod socket;

use core::arch::asm;

/// The error number of a failed system call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub u16);

pub const ENOENT: Errno = Errno(2);
pub const EINTR: Errno = Errno(4);
pub const EAGAIN: Errno = Errno(11);
pub const ECONNREFUSED: Errno = Errno(111);

/// A file descriptor.
pub type Fd = usize;
pub const STDIN: Fd = 0;
pub const STDOUT: Fd = 1;
pub const STDERR: Fd = 2;

/// Longest path of a unix socket in bytes, without the terminating zero.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Longest path of the kernel in bytes, with the terminating zero.
pub const PATH_BYTES_MAX: usize = 4096;

#[cfg(target_arch = "x86_64")]
mod number {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const WRITEV: usize = 20;
    pub const NANOSLEEP: usize = 35;
    pub const GETPID: usize = 39;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const SENDTO: usize = 44;
    pub const GETSOCKOPT: usize = 55;
    pub const CLONE: usize = 56;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const GETCWD: usize = 79;
    pub const CHDIR: usize = 80;
    pub const UMASK: usize = 95;
    pub const SETPGID: usize = 109;
    pub const PRCTL: usize = 157;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const UNLINKAT: usize = 263;
    pub const RENAMEAT: usize = 264;
    pub const FACCESSAT: usize = 269;
    pub const PPOLL: usize = 271;
    pub const SIGNALFD: usize = 289;
    pub const DUP3: usize = 292;
    pub const PIPE2: usize = 293;
    pub const PRLIMIT: usize = 302;
    pub const GETRANDOM: usize = 318;
    pub const CLOSE_RANGE: usize = 436;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub const GETCWD: usize = 17;
    pub const DUP3: usize = 24;
    pub const UNLINKAT: usize = 35;
    pub const RENAMEAT: usize = 38;
    pub const FACCESSAT: usize = 48;
    pub const CHDIR: usize = 49;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const PIPE2: usize = 59;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const WRITEV: usize = 66;
    pub const PPOLL: usize = 73;
    pub const SIGNALFD: usize = 74;
    pub const EXIT_GROUP: usize = 94;
    pub const NANOSLEEP: usize = 101;
    pub const CLOCK_GETTIME: usize = 113;
    pub const KILL: usize = 129;
    pub const RT_SIGACTION: usize = 134;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const SETPGID: usize = 154;
    pub const UMASK: usize = 166;
    pub const PRCTL: usize = 167;
    pub const GETPID: usize = 172;
    pub const SOCKET: usize = 198;
    pub const CONNECT: usize = 203;
    pub const SENDTO: usize = 206;
    pub const GETSOCKOPT: usize = 209;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const MMAP: usize = 222;
    pub const WAIT4: usize = 260;
    pub const PRLIMIT: usize = 261;
    pub const GETRANDOM: usize = 278;
    pub const CLOSE_RANGE: usize = 436;
}

/// Makes one system call.
///
/// # Safety
/// The kernel reads and writes the memory to which the arguments of this call point.
#[inline(always)]
unsafe fn system(call: usize, args: [usize; 6]) -> Result<usize, Errno> {
    let [a, b, c, d, e, f] = args;
    let result: isize;
    // SAFETY: guaranteed by the caller. The named registers are those that the kernel reads and overwrites.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("syscall", inlateout("rax") call => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, out("rcx") _, out("r11") _, options(nostack));
        #[cfg(target_arch = "aarch64")]
        asm!("svc 0", in("x8") call, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, in("x5") f, options(nostack));
    }
    // Errors are -4095 to -1.
    if (-4095..0).contains(&result) { Err(Errno(result.unsigned_abs() as u16)) } else { Ok(result as usize) }
}

/// Makes one system call and repeats it if a signal interrupts it.
///
/// # Safety
/// As `system`.
unsafe fn uninterrupted(call: usize, args: [usize; 6]) -> Result<usize, Errno> {
    loop {
        // SAFETY: guaranteed by the caller.
        match unsafe { system(call, args) } {
            Err(EINTR) => {}
            result => return result,
        }
    }
}

/// Ends the process.
pub fn exit(code: u8) -> ! {
    loop {
        // SAFETY: no pointers. It does not return.
        let _ = unsafe { system(number::EXIT_GROUP, [code.into(), 0, 0, 0, 0, 0]) };
    }
}

/// Reads up to `into.len()` bytes and returns their number. 0 is the end of the file.
///
/// # Errors
/// If the file is not open for reading, or its device fails.
pub fn read(fd: Fd, into: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes into that slice only.
    unsafe { uninterrupted(number::READ, [fd, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) }
}

/// Writes some of `bytes` and returns their number.
///
/// # Errors
/// If the file is not open for writing, its disk is full, or the pipe has no reader.
pub fn write(fd: Fd, bytes: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel reads that slice only.
    unsafe { uninterrupted(number::WRITE, [fd, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) }
}

/// Writes all pieces in one call, so that no other process writes between them.
///
/// # Errors
/// As [`write()`].
pub fn write_pieces(fd: Fd, pieces: &[&[u8]]) -> Result<usize, Errno> {
    // The layout of a slice reference is not guaranteed. The kernel requires a pointer followed by a length.
    let mut vector = [[0usize; 2]; 8];
    let count = pieces.len().min(vector.len());
    for (entry, piece) in vector.iter_mut().zip(pieces) {
        *entry = [piece.as_ptr() as usize, piece.len()];
    }
    // SAFETY: the kernel reads the vector and the slices in it only.
    unsafe { uninterrupted(number::WRITEV, [fd, vector.as_ptr() as usize, count, 0, 0, 0]) }
}

/// Sends some of `bytes` to a socket and returns their number. If the peer has closed the connection, this is an error,
/// not a signal.
///
/// # Errors
/// If the socket is not connected, or the peer has closed the connection.
pub fn send(fd: Fd, bytes: &[u8]) -> Result<usize, Errno> {
    const NO_SIGNAL: usize = 0x4000;
    // SAFETY: the kernel reads that slice only.
    unsafe { uninterrupted(number::SENDTO, [fd, bytes.as_ptr() as usize, bytes.len(), NO_SIGNAL, 0, 0]) }
}

/// Closes a file.
pub fn close(fd: Fd) {
    // SAFETY: no pointers.
    let _ = unsafe { system(number::CLOSE, [fd, 0, 0, 0, 0, 0]) };
}

/// A file that [`poll`] waits for.
#[repr(C)]
pub struct Poll {
    fd: i32,
    events: i16,
    returned: i16,
}

impl Poll {
    /// Waits until the file can be read or has ended. `None` is ignored.
    pub fn read(fd: Option<Fd>) -> Poll {
        Poll { fd: fd.map_or(-1, |fd| fd as i32), events: 1, returned: 0 }
    }

    /// Waits until the file can be written.
    pub fn write(fd: Fd) -> Poll {
        Poll { fd: fd as i32, events: 4, returned: 0 }
    }

    /// Whether the last [`poll`] found the file ready or in error.
    pub fn is_ready(&self) -> bool {
        self.returned != 0
    }
}

/// Waits until one of these files is ready, or until the time limit.
///
/// # Errors
/// If the kernel has no memory, or there are more files than the limit of open files.
pub fn poll(files: &mut [Poll], milliseconds_max: Option<u64>) -> Result<(), Errno> {
    let mut time = milliseconds_max.map(|limit| [limit / 1000, limit % 1000 * 1_000_000]);
    let time = time.as_mut().map_or(0, |time| time.as_mut_ptr() as usize);
    let poll = [files.as_mut_ptr() as usize, files.len(), time, 0, 0, 0];
    // SAFETY: the kernel reads and writes these entries and that time, into which it writes the remaining time; no
    // signal mask.
    unsafe { uninterrupted(number::PPOLL, poll) }.map(drop)
}

/// Returns the uid of the process at the other end of a connection.
///
/// # Errors
/// If the file is not a socket.
pub fn peer_uid(fd: Fd) -> Result<u32, Errno> {
    const SOCKET_LEVEL: usize = 1;
    const PEER_CREDENTIALS: usize = 17;
    let mut credentials = [u32::MAX; 3]; // pid, uid, gid
    let mut bytes = size_of_val(&credentials) as u32;
    let (to, length) = (&raw mut credentials as usize, &raw mut bytes as usize);
    // SAFETY: the kernel writes at most `bytes` bytes there, and their number.
    unsafe { system(number::GETSOCKOPT, [fd, SOCKET_LEVEL, PEER_CREDENTIALS, to, length, 0]) }?;
    Ok(credentials[1])
}

/// Returns the absolute working directory.
///
/// # Errors
/// If the directory was removed, is outside this root, or has a longer path.
pub fn current_directory(into: &mut [u8; PATH_BYTES_MAX]) -> Result<&[u8], Errno> {
    // SAFETY: the kernel writes into that array only.
    let bytes = unsafe { system(number::GETCWD, [into.as_mut_ptr() as usize, into.len(), 0, 0, 0, 0]) }?;
    // The length includes the terminating zero. The path of a directory outside this root begins with a bracket.
    match into.get(..bytes.saturating_sub(1)) {
        Some(path) if path.first() == Some(&b'/') => Ok(path),
        _ => Err(ENOENT),
    }
}

/// Whether `path` exists. It has at most `SOCKET_PATH_BYTES_MAX` bytes, as in `connect`.
pub fn exists(path: &[u8]) -> bool {
    const AT_FDCWD: usize = -100isize as usize;
    let mut terminated = [0u8; SOCKET_PATH_BYTES_MAX + 1];
    for (to, from) in terminated[..SOCKET_PATH_BYTES_MAX].iter_mut().zip(path) {
        *to = *from;
    }
    let access = [AT_FDCWD, terminated.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the kernel reads up to the zero at the end of the array.
    unsafe { system(number::FACCESSAT, access) }.is_ok()
}

/// Sleeps, or returns early if a signal arrives.
pub fn sleep(milliseconds: u32) {
    let time = [u64::from(milliseconds) / 1000, u64::from(milliseconds) % 1000 * 1_000_000];
    // SAFETY: the kernel reads that time only.
    let _ = unsafe { system(number::NANOSLEEP, [time.as_ptr() as usize, 0, 0, 0, 0, 0]) };
}

/// Allocates zeroed memory that is never freed. Pages that are not touched cost nothing.
///
/// # Errors
/// If there is not enough memory.
pub fn memory(bytes: usize) -> Result<&'static mut [u8], Errno> {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x2 | 0x20 | 0x4000;
    let map = [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE, usize::MAX, 0];
    // SAFETY: a new mapping touches nothing that exists.
    let start = unsafe { system(number::MMAP, map) }?;
    // SAFETY: this mapping is `bytes` long, readable, writable, private to this process, and never unmapped.
    Ok(unsafe { core::slice::from_raw_parts_mut(start as *mut u8, bytes) })
}

/// Fills `into` from the kernel's source of randomness.
///
/// # Errors
/// If the kernel has no such call.
pub fn random(into: &mut [u8; 16]) -> Result<(), Errno> {
    // SAFETY: the kernel writes into that array only. The kernel always fills so few bytes.
    unsafe { uninterrupted(number::GETRANDOM, [into.as_mut_ptr() as usize, into.len(), 0, 0, 0, 0]) }
        .map(|_| ())
}
