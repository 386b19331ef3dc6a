//! The shim: a process between the unit agent and a hook, so that the agent can be restarted or upgraded while the hook
//! runs (design 12).
//!
//! The hook is the shim's only child. The run is over when the hook's process has ended, not when its pipes are closed.
//! What a process that the hook has left behind prints later is read and discarded by a process of its own, so that
//! nothing kills that process for it (SIGPIPE).
//! The shim's stdin is the gate: the shim is started while the start of the run is being stored, and no instruction of
//! the hook runs before the agent has written one byte there. If the gate is closed instead, because the agent has died
//! or decided otherwise, the shim ends without an outcome. Its stdout is the hook lock: the kernel releases it when the
//! shim ends. The shim passes its own environment and working directory to the hook unchanged, and resets what else the
//! hook inherits, so that a hook sees the same process however Pintle was started (security S44, S45).
//!
//! A hook that a warm parent has forked is a child of its shim, too, and inherits the same from the warm parent
//! (`warm_parent`). It waits until the shim has recorded it. The stderr of such a shim is the socket of the run, by which
//! the agent learns that the shim waits at its gate, and that it has ended.
//!
//! The unit agent, or for a forked hook a child of the warm parent, starts the shim; the unit agent reads the files that it
//! leaves in the folder of the run (`hook_client::shim`).

pub mod files;
mod output;

use core::ffi::CStr;

use hook_client::shim::{
    DISK_FULL_RETRY_MS, EXIT, FAILED, FORKED_SHIM_WAITS, HOOK_PID, SHIM_PID, SIGNAL, start_time,
};

use crate::error_output::{Digits, decimal};
use crate::kernel::child::{self, ChildStack, End, Hook, NotStarted};
use crate::kernel::files::{self as system, Open, RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_STACK};
use crate::kernel::{self, Errno, Fd, Poll};
use crate::process::ProcessStart;
use files::{PathBuffer, RunFolder, is_disk_full, join};
use output::{Output, OutputBuffers};

/// The variable that has a value for a hook only. The output of actions and commands is also a result, and is therefore
/// also stored unmodified.
const HOOK_VARIABLE: &[u8] = b"JUJU_HOOK_NAME";
/// How long the output is read after the hook's process has ended, and again after the end of one of its two streams,
/// because its children may keep the pipes open for ever.
const DRAIN_TIMEOUT_MS: u64 = 100;
/// Bytes that are read and discarded at once.
const DISCARDED_BYTES: usize = 4096;
/// The most bytes that are discarded after the end of a hook: a service that prints a megabyte each day lives three
/// years. A process that prints without end, as `yes`, ends then (SIGPIPE).
const DISCARDED_BYTES_MAX: usize = 1 << 30;
/// Size of the buffer for `/proc/PID/stat`, which has 52 numbers, most of them short.
const STAT_BYTES_MAX: usize = 1024;

/// The soft limits of a hook by the number of the resource, or the hard limits where these are lower. A shell may have
/// lowered any of them; the hard limits belong to the administrator.
const HOOK_LIMITS: [u64; 16] = {
    let mut limits = [u64::MAX; 16];
    // Core files are not written, because a hook may hold secrets.
    limits[RLIMIT_CORE] = 0;
    // The default of the kernel for a stack. A larger one changes the layout of the memory.
    limits[RLIMIT_STACK] = 8 << 20;
    // The limit of open files of jujud's service.
    limits[RLIMIT_NOFILE] = 64_000;
    limits
};

/// The memory of a shim.
pub struct ShimBuffers {
    stack: ChildStack,
    output: OutputBuffers,
}

impl ShimBuffers {
    /// Zeroed buffers.
    pub const fn new() -> Self {
        ShimBuffers { stack: ChildStack::new(), output: OutputBuffers::new() }
    }
}

/// A hook that has ended, and the ends of its pipes that other processes still have open.
struct Ended {
    end: End,
    open_pipes: [Option<Fd>; 2],
}

/// How a run has ended.
enum Outcome {
    Ended(End),
    /// The hook did not start, or could not be recorded and was killed.
    NotStarted(Errno),
}

/// The run of a shim.
pub struct Run {
    /// The folder of the run.
    pub folder: &'static [u8],
    /// The path of the hook's program.
    pub program: &'static [u8],
    /// The pid of the hook if a warm parent has forked it.
    pub forked_pid: Option<i32>,
}

/// The inherited descriptors from which the shim of a forked hook reads the hook's stdout and stderr.
const FORKED_OUTPUT: [Fd; 2] = [3, 4];
/// The inherited write end of the pipe at which a forked hook waits: one byte lets it run.
const FORKED_START: Fd = 5;

/// Runs a hook and stores its outcome in the folder of the run. Returns the exit code of the shim, which is irrelevant:
/// only the outcome counts.
pub fn run(process: &ProcessStart, run: &Run, buffers: &mut ShimBuffers) -> u8 {
    let (run_folder, program) = (RunFolder(run.folder), run.program);
    reset_inherited(if run.forked_pid.is_some() { FORKED_START } else { kernel::STDERR } + 1);
    if run.forked_pid.is_some() {
        // If the agent has ended, its end of the gate is closed as well.
        let _ = kernel::send(kernel::STDERR, &[FORKED_SHIM_WAITS]);
    }
    if write_pid(run_folder, SHIM_PID, child::own_pid()).is_err() {
        return 1;
    }
    // Without an outcome, a hook that has ended would be repeated. The space of the outcome is therefore reserved before
    // the hook starts.
    if retry_while_disk_is_full(|| run_folder.reserve_outcome()).is_err() {
        return 1;
    }
    let supervised = match run.forked_pid {
        None => supervise(process, run_folder, program, buffers),
        Some(pid) => supervise_forked(process, run_folder, pid, buffers),
    };
    let (outcome, open_pipes) = match supervised {
        Ok(Ended { end, open_pipes }) => (Outcome::Ended(end), open_pipes),
        Err(NotStarted::SystemCall(errno)) => (Outcome::NotStarted(errno), [None; 2]),
        Err(NotStarted::GateClosed) => return 1,
    };
    // A long path, and a file system that copies on write, need space even here. The shim keeps the hook lock while it
    // waits.
    if retry_while_disk_is_full(|| write_outcome(run_folder, &outcome, program)).is_err() {
        return 1;
    }
    discard_later_output(open_pipes);
    0
}

/// Discards what is written to these pipes from now on, in a new process that ends when they are closed. The hook lock is
/// released before.
fn discard_later_output(pipes: [Option<Fd>; 2]) {
    if pipes == [None; 2] {
        return;
    }
    // They become the files 0 and 1, and everything else is closed, the lock (1) included.
    let mut pipes = pipes;
    for (number, pipe) in (0..).zip(&mut pipes) {
        kernel::close(number);
        *pipe = pipe.and_then(|open| child::inherit(open, number).ok().map(|()| number));
    }
    system::close_from(kernel::STDERR);
    if !matches!(child::fork(), Ok(child::Side::Child)) {
        return;
    }
    system::enter_root();
    let (mut discarded, mut left) = ([0; DISCARDED_BYTES], DISCARDED_BYTES_MAX);
    while pipes != [None; 2] && left > 0 {
        let mut files = pipes.map(Poll::read);
        if kernel::poll(&mut files, None).is_err() {
            return;
        }
        for (pipe, file) in pipes.iter_mut().zip(&files) {
            let Some(open) = pipe.filter(|_| file.is_ready()) else { continue };
            match kernel::read(open, &mut discarded) {
                Ok(0) | Err(_) => *pipe = None,
                Ok(bytes) => left = left.saturating_sub(bytes),
            }
        }
    }
}

fn retry_while_disk_is_full(mut write: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match write() {
            Err(errno) if is_disk_full(errno) => kernel::sleep(DISK_FULL_RETRY_MS),
            written => return written,
        }
    }
}

/// Resets what the hook inherits through this process: descriptors, limits, and the mask of the modes of new files.
/// Signals can be reset only in the hook's own process; this is done when the hook is started. The descriptors from
/// `first_closed` on are closed.
pub fn reset_inherited(first_closed: Fd) {
    system::close_from(first_closed);
    system::umask(0o022);
    for (resource, soft_max) in HOOK_LIMITS.into_iter().enumerate() {
        system::limit(resource, soft_max);
    }
}

/// The program and the descriptors of a hook that is about to be started, and the descriptors that its shim reads.
struct Prepared<'a> {
    program: &'a CStr,
    descriptors: [Fd; 3],
    output: [Fd; 2],
    end_signals: Fd,
}

fn prepare<'a>(program: &[u8], path: &'a mut PathBuffer) -> Result<Prepared<'a>, Errno> {
    let program = join(&[program], path)?;
    let stdin = system::open(c"/dev/null", Open::Read)?;
    let ((stdout, stdout_end), (stderr, stderr_end)) = (system::pipe()?, system::pipe()?);
    let end_signals = child::child_end_signals()?;
    Ok(Prepared {
        program,
        descriptors: [stdin, stdout_end, stderr_end],
        output: [stdout, stderr],
        end_signals,
    })
}

/// Starts the hook once its gate is open, stores its output, and returns how it has ended.
fn supervise(
    process: &ProcessStart,
    run_folder: RunFolder,
    program: &'static [u8],
    buffers: &mut ShimBuffers,
) -> Result<Ended, NotStarted> {
    let mut path: PathBuffer = [0; _];
    let Prepared { program, descriptors, output: [stdout, stderr], end_signals } =
        match prepare(program, &mut path) {
            Ok(prepared) => prepared,
            Err(errno) => {
                // An outcome without a stored start would be taken for that of another run of the same number.
                child::pass_gate(kernel::STDIN)?;
                return Err(errno.into());
            }
        };
    let hook = Hook { gate: kernel::STDIN, program, environment: process.environment(), descriptors };
    let pid = child::start(&hook, &mut buffers.stack)?;
    descriptors.into_iter().for_each(kernel::close);

    record_hook(run_folder, pid)?;
    store_until_end(process, run_folder, Started { pid, output: [stdout, stderr], end_signals }, buffers)
}

/// Lets a forked hook run once its gate is open, stores its output, and returns how it has ended.
fn supervise_forked(
    process: &ProcessStart,
    run_folder: RunFolder,
    pid: i32,
    buffers: &mut ShimBuffers,
) -> Result<Ended, NotStarted> {
    let end_signals = child::child_end_signals();
    child::pass_gate(kernel::STDIN)?;
    let end_signals = end_signals?;
    record_hook(run_folder, pid)?;
    // If the hook ended before `child_end_signals`, its SIGCHLD was discarded, and `end_signals` never becomes readable.
    if let Some(end) = child::find_end(pid)? {
        return Ok(Ended { end, open_pipes: FORKED_OUTPUT.map(Some) });
    }
    // The write fails only if the hook has ended.
    let _ = kernel::write_pieces(FORKED_START, &[b"\n"]);
    kernel::close(FORKED_START);
    store_until_end(process, run_folder, Started { pid, output: FORKED_OUTPUT, end_signals }, buffers)
}

/// A hook that runs, and the descriptors that its shim reads.
struct Started {
    pid: i32,
    output: [Fd; 2],
    end_signals: Fd,
}

/// Writes the pid file of the hook. A hook without one is killed, because it would run beside its own repetition.
fn record_hook(run_folder: RunFolder, pid: i32) -> Result<(), Errno> {
    write_pid(run_folder, HOOK_PID, pid as u32).inspect_err(|_| {
        child::kill_group(pid);
        let _ = child::wait(pid);
    })
}

/// Stores the output of a hook until it ends. Returns how it has ended.
fn store_until_end(
    process: &ProcessStart,
    run_folder: RunFolder,
    started: Started,
    buffers: &mut ShimBuffers,
) -> Result<Ended, NotStarted> {
    let is_hook = process.variable(HOOK_VARIABLE).is_some();
    let mut output = Output::new(run_folder, started.output, &mut buffers.output);
    if !is_hook {
        output.keep_unmodified();
    }
    let end = read_until_end(started.pid, started.end_signals, &mut output);
    output.finish();
    let open_pipes = output.pipes();
    let end = match end {
        Some(end) => end,
        None => child::wait(started.pid)?,
    };
    Ok(Ended { end, open_pipes })
}

/// Reads the output until the hook and its output have ended, the latter for a limited time. Returns None if the end of
/// the hook must be waited for without reading.
fn read_until_end(pid: i32, end_signals: Fd, output: &mut Output<'_>) -> Option<End> {
    let mut end = None;
    let mut deadline_ms = None;
    loop {
        let left_ms = deadline_ms.map(|deadline: u64| deadline.saturating_sub(system::now_ms()));
        let before = output.pipes();
        let mut files =
            [Poll::read(before[0]), Poll::read(before[1]), Poll::read(end.is_none().then_some(end_signals))];
        kernel::poll(&mut files, left_ms).ok()?;
        for (stream, file) in files[..2].iter().enumerate() {
            if file.is_ready() {
                output.read(stream);
            }
        }
        if files[2].is_ready() {
            // What is read is irrelevant: the kernel merges signals that arrive close together.
            let _ = kernel::read(end_signals, &mut [0; 128]);
            end = child::find_end(pid).ok()?;
        }
        if end.is_some() && (output.pipes() == [None; 2] || left_ms == Some(0)) {
            return end;
        }
        if end.is_some() && (deadline_ms.is_none() || output.pipes() != before) {
            deadline_ms = Some(system::now_ms() + DRAIN_TIMEOUT_MS);
        }
    }
}

/// Writes the pid file of a process of this run: its pid and start time, which together are never used again.
fn write_pid(run_folder: RunFolder, name: &str, pid: u32) -> Result<(), Errno> {
    let digits = &mut Digits::default();
    let pid = decimal(pid.into(), digits);
    let file = system::open(join(&[b"/proc/", pid, b"/stat"], &mut [0; _])?, Open::Read)?;
    let mut stat = [0; STAT_BYTES_MAX];
    let bytes = kernel::read(file, &mut stat);
    kernel::close(file);
    let start = stat.get(..bytes?).and_then(start_time).ok_or(kernel::ENOENT)?;
    run_folder.write_atomic(name, &[pid, b" ", start, b"\n"])
}

fn write_outcome(run_folder: RunFolder, outcome: &Outcome, program: &[u8]) -> Result<(), Errno> {
    let digits = &mut Digits::default();
    match *outcome {
        Outcome::Ended(End::Exit(code)) => {
            run_folder.write_outcome(&[EXIT.as_bytes(), b" ", decimal(code.into(), digits)])
        }
        Outcome::Ended(End::Signal(signal)) => {
            run_folder.write_outcome(&[SIGNAL.as_bytes(), b" ", decimal(signal.into(), digits)])
        }
        Outcome::NotStarted(errno) => {
            let errno = decimal(errno.0.into(), digits);
            run_folder.write_outcome(&[FAILED.as_bytes(), b" ", errno, b" fork/exec ", program])
        }
    }
}
