//! The real program against a real socket.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, ffi::OsStr, process};

use hook_client::{HEADER_BYTES, Reply, Request, frame_length};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pintle-hook");

/// A folder of this test's own with a link to the program for each tool that is run; removed at the end.
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

/// Longer than any tool waits: an agent that hears nothing for so long fails its test instead of hanging.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// The next connection.
fn accept(listener: &UnixListener) -> UnixStream {
    // On Linux a socket's time limit for reading is one for accepting, too.
    let socket = UnixStream::from(OwnedFd::from(listener.try_clone().unwrap()));
    socket.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    let (connection, _) = listener.accept().expect("the tool connects");
    connection.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    connection.set_write_timeout(Some(SILENCE_MAX)).unwrap();
    connection
}

/// One frame.
fn receive(connection: &mut UnixStream) -> Vec<u8> {
    let mut frame = vec![0; HEADER_BYTES];
    connection.read_exact(&mut frame).unwrap();
    frame.resize(frame_length(frame.first_chunk().unwrap()).unwrap(), 0);
    connection.read_exact(&mut frame[HEADER_BYTES..]).unwrap();
    frame
}

fn answer(connection: &mut UnixStream, reply: &Reply<'_>) {
    let mut frame = vec![0; reply.encoded_length().unwrap()];
    reply.encode(&mut frame).unwrap();
    connection.write_all(&frame).unwrap();
}

const NOTHING: Reply<'_> = Reply::Done { code: 0, stdout: b"", stderr: b"" };

/// Runs the tool while `serve` is its agent.
fn run<T: Send>(command: &mut Command, serve: impl FnOnce() -> T + Send) -> (Output, T) {
    thread::scope(|scope| {
        let serving = scope.spawn(serve);
        let output = command.output().unwrap();
        (output, serving.join().unwrap())
    })
}

/// Runs the tool against an agent with one answer; what it was asked comes back, too.
fn run_answered(folder: &Folder, command: &mut Command, reply: &Reply<'_>) -> (Output, Vec<u8>) {
    let listener = folder.listen();
    run(command, || {
        let mut connection = accept(&listener);
        let asked = receive(&mut connection);
        answer(&mut connection, reply);
        asked
    })
}

/// Exit code 1, nothing on stdout, and exactly this line on stderr.
fn assert_error(output: &Output, line: impl AsRef<[u8]>) {
    let line = [b"ERROR ", line.as_ref(), b"\n"].concat();
    assert_eq!(output.stderr.as_bstr(), line.as_bstr());
    assert_eq!(output.stdout.as_bstr(), "");
    assert_eq!(output.status.code(), Some(1));
}

/// Bytes that a failed assertion prints readably.
trait AsBstr {
    fn as_bstr(&self) -> &OsStr;
}

impl<T: AsRef<[u8]> + ?Sized> AsBstr for T {
    fn as_bstr(&self) -> &OsStr {
        OsStr::from_bytes(self.as_ref())
    }
}

#[test]
fn arguments_of_any_bytes_go_out_and_output_of_any_bytes_comes_back() {
    let folder = Folder::new();
    let every_byte: Vec<u8> = (1..=255).collect();
    let args: [&[u8]; 7] = [b"-r", b"db:1", b"", b"-", b"--", b"\xff\xfe \n\t\"'", &every_byte];
    let mut command = folder.tool("relation-get");
    command.args(args.map(OsStr::from_bytes));
    let done = Reply::Done { code: 7, stdout: b"out\0\xff", stderr: b"\xfeerr" };
    let (output, asked) = run_answered(&folder, &mut command, &done);
    let asked = Request::decode(&asked).unwrap();
    assert_eq!(asked.call.tool, b"relation-get");
    assert_eq!(asked.call.context_id, b"web/0-install-1");
    assert_eq!(asked.call.cwd, folder.0.as_os_str().as_bytes());
    assert_eq!(asked.args.collect::<Vec<_>>(), args);
    assert_eq!(asked.stdin, None);
    assert_eq!(output.stdout, b"out\0\xff");
    assert_eq!(output.stderr, b"\xfeerr");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn exit_codes_are_the_agents() {
    for code in [0, 1, 2, 64, 255] {
        let folder = Folder::new();
        let done = Reply::Done { code, stdout: b"", stderr: b"" };
        let (output, _) = run_answered(&folder, &mut folder.tool("is-leader"), &done);
        assert_eq!(output.status.code(), Some(code.into()));
    }
}

#[test]
fn every_call_has_an_id_of_its_own() {
    let folder = Folder::new();
    let mut command = folder.tool("is-leader");
    let (_, first) = run_answered(&folder, &mut command, &NOTHING);
    fs::remove_file(folder.socket()).unwrap();
    let (_, second) = run_answered(&folder, &mut command, &NOTHING);
    let id = |frame: &[u8]| Request::decode(frame).unwrap().call.call_id;
    assert_ne!(id(&first), id(&second));
}

#[test]
fn the_tools_name_may_be_the_first_argument() {
    let folder = Folder::new();
    let mut command = folder.tool("pintle-hook");
    let (_, asked) = run_answered(&folder, command.args(["config-get", "--all"]), &NOTHING);
    let asked = Request::decode(&asked).unwrap();
    assert_eq!(asked.call.tool, b"config-get");
    assert_eq!(asked.args.collect::<Vec<_>>(), [b"--all"]);
}

#[test]
fn without_a_tools_name_it_prints_its_usage() {
    for args in [&[][..], &["--help"], &[""]] {
        let output = Command::new(PROGRAM).args(args).env_clear().output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stderr.starts_with(b"usage: pintle-hook "));
        assert_eq!(output.stderr.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn missing_or_empty_variables_are_named_in_order() {
    let folder = Folder::new();
    let names = ["JUJU_CONTEXT_ID", "JUJU_AGENT_SOCKET_ADDRESS", "JUJU_AGENT_SOCKET_NETWORK"];
    let mut command = folder.tool("config-get");
    for name in names.into_iter().rev() {
        assert_error(&command.env(name, "").output().unwrap(), format!("{name} not set"));
        assert_error(&command.env_remove(name).output().unwrap(), format!("{name} not set"));
    }
}

#[test]
fn only_unix_sockets_are_dialled() {
    let folder = Folder::new();
    let mut command = folder.tool("config-get");
    let output = command.env("JUJU_AGENT_SOCKET_NETWORK", "tcp").output().unwrap();
    assert_error(&output, "JUJU_AGENT_SOCKET_NETWORK is tcp: only unix is supported");
}

/// Half of the time that a tool waits for its agent: who took less has not waited it out.
const AT_ONCE: Duration = Duration::from_secs(15);

#[test]
fn a_socket_whose_folder_is_gone_fails_at_once() {
    let folder = Folder::new();
    let path = folder.0.join("gone/agent.socket");
    let began = Instant::now();
    let mut command = folder.tool("config-get");
    let output = command.env("JUJU_AGENT_SOCKET_ADDRESS", &path).output().unwrap();
    assert!(began.elapsed() < AT_ONCE);
    assert_error(&output, format!("dial unix {}: connect: no such file or directory", path.display()));
}

#[test]
fn what_is_no_socket_fails_at_once() {
    let folder = Folder::new();
    let began = Instant::now();
    let mut command = folder.tool("config-get");
    let output = command.env("JUJU_AGENT_SOCKET_ADDRESS", PROGRAM_FILE).output().unwrap();
    assert!(began.elapsed() < AT_ONCE);
    assert_error(&output, format!("dial unix {PROGRAM_FILE}: connect: not a directory"));
}

const PROGRAM_FILE: &str = "/proc/self/exe/agent.socket";

#[test]
fn a_socket_path_of_107_bytes_is_dialled_and_a_longer_one_refused() {
    let folder = Folder::new();
    let name_bytes = 107 - folder.0.as_os_str().len() - 1;
    let longest = folder.0.join("s".repeat(name_bytes));
    let too_long = folder.0.join("s".repeat(name_bytes + 1));
    let listener = UnixListener::bind(&longest).unwrap();
    let mut command = folder.tool("config-get");
    let (output, ()) = run(command.env("JUJU_AGENT_SOCKET_ADDRESS", &longest), || {
        let mut connection = accept(&listener);
        receive(&mut connection);
        answer(&mut connection, &NOTHING);
    });
    assert_eq!(output.status.code(), Some(0));
    drop(listener); // a path cut to 107 bytes would find nobody
    let output = command.env("JUJU_AGENT_SOCKET_ADDRESS", &too_long).output().unwrap();
    let line = format!("dial unix {}: connect: the path is longer than 107 bytes", too_long.display());
    assert_error(&output, line);
}

#[test]
fn a_removed_working_directory_is_an_error_before_the_address_is_looked_at() {
    let folder = Folder::new();
    let link = folder.0.join("config-get");
    symlink(PROGRAM, &link).unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$0\""]).arg(&link);
    let output = command.current_dir(&folder.0).env_clear().env("JUJU_CONTEXT_ID", "x").output().unwrap();
    assert_error(&output, "getwd: no such file or directory");
}

/// A file with this text, opened at its beginning.
fn file(folder: &Folder, text: &[u8]) -> File {
    let path = folder.0.join("stdin");
    fs::write(&path, text).unwrap();
    File::open(path).unwrap()
}

#[test]
fn stdin_is_left_alone_unless_the_agent_asks_for_it() {
    let folder = Folder::new();
    let mut stdin = file(&folder, b"the loop's next line\n");
    let mut command = folder.tool("juju-log");
    run_answered(&folder, command.stdin(stdin.try_clone().unwrap()), &NOTHING);
    // The position is shared with the tool's own stdin.
    assert_eq!(stdin.stream_position().unwrap(), 0);
}

#[test]
fn asked_for_stdin_the_same_call_is_sent_again_with_all_of_it() {
    let text: Vec<u8> = (0..3 << 20).map(|i| (i % 251) as u8).collect(); // no socket buffer holds it
    for text in [&text[..], b"", b"key: value\n"] {
        let folder = Folder::new();
        let listener = folder.listen();
        let mut command = folder.tool("relation-set");
        command.args(["--file", "-"]).stdin(file(&folder, text));
        let (output, (first, second)) = run(&mut command, || {
            let mut connection = accept(&listener);
            let first = receive(&mut connection);
            answer(&mut connection, &Reply::NeedStdin);
            let second = receive(&mut connection);
            answer(&mut connection, &NOTHING);
            (first, second)
        });
        assert_eq!(output.status.code(), Some(0));
        let (first, second) = (Request::decode(&first).unwrap(), Request::decode(&second).unwrap());
        assert_eq!(first.stdin, None);
        assert_eq!(second.stdin, Some(text));
        assert_eq!(second.call, first.call);
        assert!(second.args.eq(first.args));
    }
}

#[test]
fn stdin_over_sixteen_mebibytes_is_refused() {
    let folder = Folder::new();
    let mut command = folder.tool("state-set");
    command.stdin(File::open("/dev/zero").unwrap());
    let (output, _) = run_answered(&folder, &mut command, &Reply::NeedStdin);
    assert_error(&output, "stdin too large: more than 16 MiB");
}

#[test]
fn an_agent_that_asks_for_stdin_twice_is_none() {
    let folder = Folder::new();
    let listener = folder.listen();
    let (output, ()) = run(&mut folder.tool("state-set"), || {
        let mut connection = accept(&listener);
        for _ in 0..2 {
            receive(&mut connection);
            answer(&mut connection, &Reply::NeedStdin);
        }
    });
    assert_error(&output, no_agent(&folder.socket()));
}

fn no_agent(socket: &Path) -> String {
    format!("dial unix {}: what listens there is no unit agent", socket.display())
}

#[test]
fn a_call_whose_connection_is_lost_is_made_again_under_the_same_id() {
    let folder = Folder::new();
    let listener = folder.listen();
    let mut command = folder.tool("relation-set");
    let (output, frames) = run(command.arg("a=b"), || {
        let mut frames = Vec::new();
        // Gone before the answer, gone in the middle of its header, gone in the middle of its text, there.
        let half = b"PH\x01r\x20\0\0\0\0\x10\0\0\0half";
        for part in [&b""[..], &half[..5], half] {
            let mut connection = accept(&listener);
            frames.push(receive(&mut connection));
            connection.write_all(part).unwrap();
        }
        let mut connection = accept(&listener);
        frames.push(receive(&mut connection));
        answer(&mut connection, &Reply::Done { code: 0, stdout: b"whole", stderr: b"" });
        frames
    });
    assert_eq!(output.stdout.as_bstr(), "whole");
    assert_eq!(output.stderr.as_bstr(), "");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(frames.len(), 4);
    assert!(frames.iter().all(|frame| *frame == frames[0]));
}

#[test]
fn a_call_survives_its_agents_restart_and_keeps_the_stdin_it_has_read() {
    let folder = Folder::new();
    let listener = folder.listen();
    let mut command = folder.tool("relation-set");
    command.stdin(file(&folder, b"key: value\n"));
    let (output, (first, last)) = run(&mut command, || {
        let mut connection = accept(&listener);
        let first = receive(&mut connection);
        answer(&mut connection, &Reply::NeedStdin);
        receive(&mut connection);
        // The agent is killed: nobody listens (refused), then its successor makes the socket anew (not found).
        drop((connection, listener));
        fs::remove_file(folder.socket()).unwrap();
        let mut connection = accept(&folder.listen());
        let last = receive(&mut connection);
        answer(&mut connection, &NOTHING);
        (first, last)
    });
    assert_eq!(output.status.code(), Some(0));
    let (first, last) = (Request::decode(&first).unwrap(), Request::decode(&last).unwrap());
    assert_eq!(last.call, first.call);
    assert_eq!(last.stdin, Some(&b"key: value\n"[..]));
}

#[test]
fn a_tool_waits_for_an_agent_that_is_not_up_yet() {
    for left_over in [true, false] {
        let folder = Folder::new();
        if left_over {
            drop(folder.listen()); // the file stays, refusing
        }
        let mut command = folder.tool("is-leader");
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        await_sleep(child.id());
        if left_over {
            fs::remove_file(folder.socket()).unwrap();
        }
        let mut connection = accept(&folder.listen());
        receive(&mut connection);
        answer(&mut connection, &Reply::Done { code: 0, stdout: b"True\n", stderr: b"" });
        assert_eq!(child.wait_with_output().unwrap().stdout, b"True\n");
    }
}

/// Until this process has given up the processor of its own will: the program does that only when it waits.
fn await_sleep(pid: u32) {
    let own = format!("/proc/{pid}/status");
    loop {
        let status = fs::read_to_string(&own).unwrap();
        assert!(!status.contains("State:\tZ"), "it has ended instead of waiting");
        let is_tool = status.starts_with("Name:\tis-leader\n");
        if is_tool && !status.contains("\nvoluntary_ctxt_switches:\t0\n") && status.contains("State:\tS") {
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn large_outputs_come_whole() {
    let folder = Folder::new();
    let stdout: Vec<u8> = (0..1 << 20).map(|i| (i % 251) as u8).collect();
    let stderr: Vec<u8> = (0..1 << 20).map(|i| (i % 241) as u8).collect();
    let done = Reply::Done { code: 3, stdout: &stdout, stderr: &stderr };
    let (output, _) = run_answered(&folder, &mut folder.tool("config-get"), &done);
    assert!(output.stdout == stdout && output.stderr == stderr);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn outputs_about_the_size_of_the_small_room_come_whole() {
    for bytes in 4096 - 20..4096 + 4 {
        let folder = Folder::new();
        let stdout: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        let done = Reply::Done { code: 0, stdout: &stdout, stderr: b"!" };
        let (output, _) = run_answered(&folder, &mut folder.tool("config-get"), &done);
        assert!(output.stdout == stdout && output.stderr == b"!", "{bytes}");
    }
}

#[test]
fn an_answer_in_single_bytes_comes_whole() {
    let folder = Folder::new();
    let listener = folder.listen();
    let (output, ()) = run(&mut folder.tool("config-get"), || {
        let mut connection = accept(&listener);
        receive(&mut connection);
        let done = Reply::Done { code: 0, stdout: b"value\n", stderr: b"note\n" };
        let mut frame = vec![0; done.encoded_length().unwrap()];
        done.encode(&mut frame).unwrap();
        for byte in frame {
            connection.write_all(&[byte]).unwrap();
            thread::yield_now();
        }
    });
    assert_eq!((output.stdout.as_bstr(), output.stderr.as_bstr()), ("value\n".as_ref(), "note\n".as_ref()));
}

#[test]
fn a_stdout_that_does_not_block_gets_everything() {
    let folder = Folder::new();
    let text = vec![b'x'; 3 << 20];
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let listener = folder.listen();
    let mut command = folder.tool("config-get");
    let mut child = command.stdout(OwnedFd::from(theirs)).spawn().unwrap();
    drop(command); // and with it our copy of their end
    let mut connection = accept(&listener);
    receive(&mut connection);
    answer(&mut connection, &Reply::Done { code: 0, stdout: &text, stderr: b"" });
    let mut read = Vec::new();
    ours.read_to_end(&mut read).unwrap();
    assert!(read == text);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    let mut command = folder.tool("config-get");
    let listener = folder.listen();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let mut connection = accept(&listener);
    receive(&mut connection);
    answer(&mut connection, &Reply::Done { code: 0, stdout: b"value\n", stderr: b"" });
    assert_error(&child.wait_with_output().unwrap(), "write stdout: no space left on device");
}

#[test]
fn arguments_over_one_mebibyte_are_refused_before_anything_is_sent() {
    let folder = Folder::new();
    let listener = folder.listen();
    let mut command = folder.tool("relation-set");
    command.args(vec!["x".repeat(120 << 10); 9]);
    assert_error(&command.output().unwrap(), "arguments too large: more than 1 MiB");
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_refusal_is_heard_though_the_agent_did_not_read_everything() {
    let folder = Folder::new();
    let listener = folder.listen();
    let mut command = folder.tool("relation-set");
    command.stdin(file(&folder, &vec![b'x'; 8 << 20]));
    let (output, ()) = run(&mut command, || {
        let mut connection = accept(&listener);
        receive(&mut connection);
        answer(&mut connection, &Reply::NeedStdin);
        connection.read_exact(&mut [0; HEADER_BYTES]).unwrap();
        answer(&mut connection, &Reply::Done { code: 1, stdout: b"", stderr: b"ERROR too much\n" });
    });
    assert_error(&output, "too much");
}

#[test]
fn what_is_no_answer_is_an_error_and_not_asked_again() {
    let wrong: [&[u8]; 5] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"PH\x01x\0\0\0\0",               // an unknown kind
        b"PH\x01r\xff\xff\xff\xff",       // larger than a reply may be
        b"PH\x01r\x05\0\0\0\0\x01\0\0\0", // stdout longer than the frame
        b"PH\x01n\0\0\0\0more",           // two things at once
    ];
    for bytes in wrong {
        let folder = Folder::new();
        let listener = folder.listen();
        let (output, ()) = run(&mut folder.tool("config-get"), || {
            let mut connection = accept(&listener);
            receive(&mut connection);
            connection.write_all(bytes).unwrap();
        });
        assert_error(&output, no_agent(&folder.socket()));
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn an_agent_of_another_version_is_named_as_such() {
    let folder = Folder::new();
    let listener = folder.listen();
    let (output, ()) = run(&mut folder.tool("config-get"), || {
        let mut connection = accept(&listener);
        receive(&mut connection);
        connection.write_all(b"PH\xc8r\0\0\0\0").unwrap();
    });
    let line = "the unit agent answers in version 200 of the tool protocol, which this tool does not know";
    assert_error(&output, line);
}

#[test]
fn the_program_needs_no_other_file_to_start() {
    let program = fs::read(PROGRAM).unwrap();
    assert!(program.starts_with(b"\x7fELF"));
    let number = |at: usize, bytes: usize| {
        program[at..at + bytes].iter().rev().fold(0, |n, b| n << 8 | usize::from(*b))
    };
    // The ELF header: program headers begin at [32], each of [54] bytes, [56] of them; each begins with its type.
    let (start, bytes, count) = (number(32, 8), number(54, 2), number(56, 2));
    let kinds: Vec<usize> = (0..count).map(|i| number(start + i * bytes, 4)).collect();
    let (load, dynamic, interpreter) = (1, 2, 3);
    assert!(kinds.contains(&load));
    assert!(!kinds.contains(&dynamic) && !kinds.contains(&interpreter));
}
