//! The hook's shim: a process of its own between the agent and the hook, so that the agent may be restarted or
//! upgraded under a running hook (design 12). The hook is its one child; it is over when that process is over, not
//! when its pipes close. The shim's stdin is the machine's hook lock: the kernel frees it when the shim ends.
//!
//! The environment and working directory it was started with are the hook's; it adds nothing.

use host::file::{is_disk_full, write_atomic_unsynced};
use host::process::Process;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

pub const SHIM_PID: &str = "shim.pid";
pub const HOOK_PID: &str = "hook.pid";
pub const OUTPUT: &str = "output.log";
/// `exit 0`, `signal 9`, or `refused <why>`; there when the hook is over.
pub const OUTCOME: &str = "outcome";

/// Longer lines are cut into pieces (spec/hook-tools.md 5.6).
pub const LINE_BYTES_MAX: usize = 4096;
/// Of one run's output that is kept; the rest is read and counted, so that the hook is never blocked (I39).
pub const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// Set in the environment of an action: what it prints is a result, and kept as it is besides.
const ACTION: &str = "JUJU_ACTION_UUID";
/// Of each of an action's streams that is kept as it is; a result is its end.
pub const STREAM_BYTES_MAX: u64 = OUTPUT_BYTES_MAX as u64;
/// How long output is still read after the hook's process has ended: children may hold the pipe for ever.
const DRAIN: Duration = Duration::from_millis(100);
/// Between two looks whether a full disk has room again.
pub const DISK_FULL_RETRY: Duration = Duration::from_millis(500);

/// Runs `program` and records how it ended in `run`, the folder of the run.
pub fn run(run: &Path, program: &Path) -> io::Result<()> {
    Process::this().write(&run.join(SHIM_PID))?;
    let outcome = match supervise(run, program) {
        Ok(outcome) => outcome,
        Err(error) => format!("refused fork/exec {}: {error}", program.display()),
    };
    // without its outcome a hook that has ended would be taken for interrupted and run again, so on a full disk the
    // shim waits for room, with the hook lock it holds
    loop {
        match write_atomic_unsynced(&run.join(OUTCOME), outcome.as_bytes()) {
            Err(error) if is_disk_full(&error) => std::thread::sleep(DISK_FULL_RETRY),
            put => return put,
        }
    }
}

fn supervise(run: &Path, program: &Path) -> io::Result<String> {
    let mut child = Command::new(program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let pid = child.id().try_into().expect("pids are positive i32s");
    let noted = Process::of(pid).map_or(Ok(()), |process| process.write(&run.join(HOOK_PID)));
    let log = match noted.and_then(|()| Log::open(run)) {
        Ok(log) => Arc::new(Mutex::new(log)),
        Err(error) => {
            // a hook nobody can find again must not go on: it would run beside its own repetition
            Process { pid, start: 0 }.signal_group(nix::sys::signal::Signal::SIGKILL).ok();
            child.wait()?;
            return Err(error);
        }
    };
    let (done, readers) = mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let whole = |stream| std::env::var_os(ACTION).and_then(|_| File::create(run.join(stream)).ok());
    read_lines("stdout", stdout.expect("stdout is piped"), whole("stdout"), &log, done.clone());
    read_lines("stderr", stderr.expect("stderr is piped"), whole("stderr"), &log, done);
    let status = child.wait()?;
    // both readers, or as long as we wait for those that never end
    if readers.recv_timeout(DRAIN).is_ok() {
        readers.recv_timeout(DRAIN).ok();
    }
    // a full disk costs the note, never the hook
    log.lock().expect("readers do not panic").finish().ok();
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "refused the process ended in no known way".to_owned(),
    })
}

fn read_lines(
    stream: &'static str,
    pipe: impl Read + Send + 'static,
    mut whole: Option<File>,
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
            if let Some(file) = &mut whole {
                // a full disk costs the output, never the hook
                let room = file.metadata().is_ok_and(|found| found.len() < STREAM_BYTES_MAX);
                whole.take_if(|file| !room || file.write_all(&line).is_err());
            }
            log.lock().expect("readers do not panic").line(stream, &line);
        }
        // nobody listens any more when the hook's end was not waited for
        done.send(()).ok();
    });
}

/// `output.log`: one line per line, headed by its stream.
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
        let mut whole = format!("{stream}: ").into_bytes();
        // bytes that a terminal or a reader of lines could take for something else are shown, not written
        whole.extend(String::from_utf8_lossy(text).chars().flat_map(visible).collect::<String>().bytes());
        whole.push(b'\n');
        // a full disk costs the output, never the hook
        if self.bytes + whole.len() > OUTPUT_BYTES_MAX || self.file.write_all(&whole).is_err() {
            self.dropped += line.len();
            return;
        }
        self.bytes += whole.len();
    }

    fn finish(&mut self) -> io::Result<()> {
        if self.dropped > 0 {
            writeln!(self.file, "stderr: {} more bytes of output were not kept", self.dropped)?;
        }
        Ok(())
    }
}

/// A character as it is shown; control characters but the tab are escaped (security S42).
fn visible(c: char) -> Vec<char> {
    if c.is_control() && c != '\t' { c.escape_unicode().collect() } else { vec![c] }
}
