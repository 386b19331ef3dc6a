//! Tests of the real `pintle-hook` program against a real socket. Each test acts as the agent.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use std::{env, ffi::OsStr, process};

use hook_client::{HEADER_BYTES, ReplyFrame, frame_length};

mod calls;
mod connect;
mod executable;
mod forked;
mod replies;
mod shim;
mod stdin;

const PROGRAM: &str = env!("CARGO_BIN_EXE_pintle-hook");

/// A temporary folder of one test, with the socket and a link to the program for each tool.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("pintle-hook-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    fn socket(&self) -> PathBuf {
        self.0.join("agent.socket")
    }

    fn listen(&self) -> UnixListener {
        UnixListener::bind(self.socket()).unwrap()
    }

    /// A command for the tool `name`, with all variables set and stdin empty.
    fn tool(&self, name: &str) -> Command {
        let link = self.0.join(name);
        symlink(PROGRAM, &link).unwrap();
        let mut command = Command::new(link);
        command
            .env_clear()
            .env("JUJU_CONTEXT_ID", "web/0-install-1")
            .env("JUJU_AGENT_SOCKET_NETWORK", "unix");
        command.env("JUJU_AGENT_SOCKET_ADDRESS", self.socket()).stdin(Stdio::null()).current_dir(&self.0);
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Time limit of the agent of a test, so that a test fails instead of hanging. It is longer than any tool waits.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// Accepts the next connection.
fn accept(listener: &UnixListener) -> UnixStream {
    // On Linux the time limit of a socket for reading also applies to accepting.
    let socket = UnixStream::from(OwnedFd::from(listener.try_clone().unwrap()));
    socket.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    let (connection, _) = listener.accept().expect("the tool connects");
    connection.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    connection.set_write_timeout(Some(SILENCE_MAX)).unwrap();
    connection
}

/// Receives one frame.
fn receive(connection: &mut UnixStream) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    connection.read_exact(&mut frame).unwrap();
    frame.resize(frame_length(frame.first_chunk().unwrap()).unwrap(), 0);
    connection.read_exact(&mut frame[HEADER_BYTES..]).unwrap();
    frame
}

/// Sends a reply.
fn answer(connection: &mut UnixStream, reply: &ReplyFrame<'_>) {
    let mut frame = vec![0; reply.encoded_length().unwrap()];
    reply.encode(&mut frame).unwrap();
    connection.write_all(&frame).unwrap();
}

/// A reply of success without output.
const EMPTY_REPLY: ReplyFrame<'_> = ReplyFrame::Done { code: 0, stdout: b"", stderr: b"" };

/// Runs the tool while `serve` is its agent.
fn run<T: Send>(command: &mut Command, serve: impl FnOnce() -> T + Send) -> (Output, T) {
    thread::scope(|scope| {
        let serving = scope.spawn(serve);
        let output = command.output().unwrap();
        (output, serving.join().unwrap())
    })
}

/// Runs the tool against an agent that sends one reply. Returns the output and the frame of the request.
fn run_answered(folder: &Folder, command: &mut Command, reply: &ReplyFrame<'_>) -> (Output, Vec<u8>) {
    let listener = folder.listen();
    run(command, || {
        let mut connection = accept(&listener);
        let request = receive(&mut connection);
        answer(&mut connection, reply);
        request
    })
}

/// Requires exit code 1, no stdout, and exactly `ERROR line` on stderr.
fn assert_error(output: &Output, line: impl AsRef<[u8]>) {
    let line = [b"ERROR ", line.as_ref(), b"\n"].concat();
    assert_eq!(output.stderr.as_os_str(), line.as_os_str());
    assert_eq!(output.stdout.as_os_str(), "");
    assert_eq!(output.status.code(), Some(1));
}

/// Bytes that a failed assertion prints readably.
trait AsOsStr {
    fn as_os_str(&self) -> &OsStr;
}

impl<T: AsRef<[u8]> + ?Sized> AsOsStr for T {
    fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(self.as_ref())
    }
}

/// Opens a file with this text.
fn file(folder: &Folder, text: &[u8]) -> File {
    let path = folder.0.join("stdin");
    fs::write(&path, text).unwrap();
    File::open(path).unwrap()
}

/// The error for a listener whose reply is invalid.
fn not_an_agent_error(socket: &Path) -> String {
    format!("dial unix {}: the listener is not a unit agent", socket.display())
}
