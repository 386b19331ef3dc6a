//! The shim: a process between the agent and a hook, so that the agent can be restarted or upgraded while the
//! hook runs (design 12).
//!
//! The hook is the shim's only child. The run is over when the hook's process has ended, not when its pipes are
//! closed. The shim's stdin is the hook lock: the kernel releases it when the shim ends. The shim passes its
//! own environment, working directory, limits and file mode mask to the hook unchanged ([`host::inherited`]), and
//! resets its signals.
//!
//! Started by `hook_process` as `pintle-agent shim`.

use host::file::{is_disk_full, write_atomic_unsynced};
use host::process::Process;
use nix::errno::Errno;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::SigSet;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, PipeReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// The pid file of the shim, in the folder of the run.
pub const SHIM_PID: &str = "shim.pid";
/// The pid file of the hook.
pub const HOOK_PID: &str = "hook.pid";
/// The file of the hook's output.
pub const OUTPUT: &str = "output.log";
/// The file of the outcome: `exit 0`, `signal 9`, or `refused <why>`. It exists once the hook has ended.
pub const OUTCOME: &str = "outcome";

/// The length of a line of output; longer lines are split (spec/hook-tools.md 5.6).
pub const LINE_BYTES_MAX: usize = 4096;
/// The amount of one run's output that is kept. The rest is read and counted, so that the hook never blocks
/// (I39).
pub const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Set in the environment of an action, whose output is also a result and is therefore kept unmodified as well.
const ACTION_VARIABLE: &str = "JUJU_ACTION_UUID";
/// The amount of each stream of an action that is kept unmodified; the result is its end.
pub const STREAM_BYTES_MAX: u64 = OUTPUT_BYTES_MAX as u64;
/// How long each reader of output continues after the hook's process has ended, because its children may keep the pipe
/// open for ever.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The interval between two attempts to write to a full disk.
pub const DISK_FULL_RETRY: Duration = Duration::from_millis(500);

/// Runs `program` as a hook and stores its outcome in `run`, the folder of the run.
pub fn run(run: &Path, program: &Path) -> io::Result<()> {
    Process::this().write(&run.join(SHIM_PID))?;
    let outcome = match supervise(run, program) {
        Ok(outcome) => outcome,
        Err(error) => format!("refused fork/exec {}: {error}", program.display()),
    };
    // Without an outcome, a hook that has ended would be repeated. If the disk is full the shim therefore waits
    // for space, and keeps the hook lock.
    loop {
        match write_atomic_unsynced(&run.join(OUTCOME), outcome.as_bytes()) {
            Err(error) if is_disk_full(&error) => std::thread::sleep(DISK_FULL_RETRY),
            written => return written,
        }
    }
}

/// A started hook and its output.
struct Hook {
    pid: Pid,
    stdout: PipeReader,
    stderr: PipeReader,
}

/// Starts the hook as the leader of a process group. All signals have their default effect in it and none is blocked,
/// whatever this process inherited: a hook under `nohup` must still end at a hang-up that its charm sends.
fn start(program: &Path) -> io::Result<Hook> {
    let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::other);
    let path = text(program.as_os_str())?;
    let variable = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        text(&name)
    };
    let variables = std::env::vars_os().map(variable).collect::<io::Result<Vec<CString>>>()?;
    let (stdin, (stdout, stdout_end), (stderr, stderr_end)) =
        (File::open("/dev/null")?, io::pipe()?, io::pipe()?);
    let mut descriptors = PosixSpawnFileActions::init()?;
    for (descriptor, number) in
        [(stdin.as_raw_fd(), 0), (stdout_end.as_raw_fd(), 1), (stderr_end.as_raw_fd(), 2)]
    {
        descriptors.add_dup2(descriptor, number)?;
    }
    let mut attributes = PosixSpawnAttr::init()?;
    attributes.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETPGROUP
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK,
    )?;
    attributes.set_pgroup(Pid::from_raw(0))?;
    attributes.set_sigdefault(&SigSet::all())?;
    attributes.set_sigmask(&SigSet::empty())?;
    let pid = posix_spawnp(&path, &descriptors, &attributes, &[&path], &variables)?;
    Ok(Hook { pid, stdout, stderr })
}

/// Waits until the hook has ended, and returns the text of its outcome.
fn wait(pid: Pid) -> io::Result<String> {
    loop {
        return match waitpid(pid, None) {
            Ok(WaitStatus::Exited(_, code)) => Ok(format!("exit {code}")),
            Ok(WaitStatus::Signaled(_, signal, _)) => Ok(format!("signal {}", signal as i32)),
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(Errno::EINVAL) => Ok("refused the process was ended by a real-time signal".to_owned()),
            Err(error) => Err(error.into()),
        };
    }
}

fn supervise(run: &Path, program: &Path) -> io::Result<String> {
    let Hook { pid, stdout, stderr } = start(program)?;
    let recorded = Process::find(pid.as_raw()).map_or(Ok(()), |process| process.write(&run.join(HOOK_PID)));
    let log = match recorded.and_then(|()| Log::open(run)) {
        Ok(log) => Arc::new(Mutex::new(log)),
        Err(error) => {
            // a hook without a pid file is killed, because it would run beside its own repetition
            Process { pid: pid.as_raw(), start: 0 }.signal_group(nix::sys::signal::Signal::SIGKILL).ok();
            wait(pid)?;
            return Err(error);
        }
    };
    let (done, readers) = mpsc::channel();
    let unmodified =
        |stream| std::env::var_os(ACTION_VARIABLE).and_then(|_| File::create(run.join(stream)).ok());
    read_lines("stdout", stdout, unmodified("stdout"), &log, done.clone());
    read_lines("stderr", stderr, unmodified("stderr"), &log, done);
    let outcome = wait(pid)?;
    // waits for both readers, for a limited time
    if readers.recv_timeout(DRAIN_TIMEOUT).is_ok() {
        readers.recv_timeout(DRAIN_TIMEOUT).ok();
    }
    // a full disk loses the last line of the log, but does not fail the hook
    log.lock().expect("readers do not panic").finish().ok();
    Ok(outcome)
}

fn read_lines(
    stream: &'static str,
    pipe: impl Read + Send + 'static,
    mut unmodified: Option<File>,
    log: &Arc<Mutex<Log>>,
    done: mpsc::Sender<()>,
) {
    let log = Arc::clone(log);
    std::thread::spawn(move || {
        let mut pipe = BufReader::with_capacity(LINE_BYTES_MAX, pipe);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = pipe.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) {
                break;
            }
            if let Some(file) = &mut unmodified {
                // a full disk loses output, but does not fail the hook
                let room = file.metadata().is_ok_and(|found| found.len() < STREAM_BYTES_MAX);
                unmodified.take_if(|file| !room || file.write_all(&line).is_err());
            }
            log.lock().expect("readers do not panic").line(stream, &line);
        }
        // the receiver is dropped if the readers were not waited for
        done.send(()).ok();
    });
}

/// `output.log`: each line of output with the name of its stream in front.
struct Log {
    file: File,
    bytes: usize,
    dropped: usize,
}

impl Log {
    fn open(run: &Path) -> io::Result<Log> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(run.join(OUTPUT))?;
        Ok(Log { file, bytes: 0, dropped: 0 })
    }

    fn line(&mut self, stream: &str, line: &[u8]) {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let mut entry = format!("{stream}: ").into_bytes();
        // bytes that a terminal or a reader of lines could interpret are escaped
        entry.extend(String::from_utf8_lossy(text).chars().flat_map(escaped).collect::<String>().bytes());
        entry.push(b'\n');
        // a full disk loses output, but does not fail the hook
        if self.bytes + entry.len() > OUTPUT_BYTES_MAX || self.file.write_all(&entry).is_err() {
            self.dropped += line.len();
            return;
        }
        self.bytes += entry.len();
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.dropped > 0 {
            writeln!(self.file, "stderr: {} more bytes of output were discarded", self.dropped)?;
        }
        Ok(())
    }
}

/// Escapes control characters except the tab (security S42).
fn escaped(c: char) -> Vec<char> {
    if c.is_control() && c != '\t' { c.escape_unicode().collect() } else { vec![c] }
}
