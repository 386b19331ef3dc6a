//! Tests of connecting to the agent, and of repeating a call while the agent restarts.

use super::{AsOsStr, EMPTY_REPLY, Folder, accept, answer, assert_error, file, receive, run};
use hook_client::{ReplyFrame, RequestFrame};
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn only_unix_sockets_are_dialled() {
    let folder = Folder::new();
    let mut command = folder.tool("config-get");
    let output = command.env("JUJU_AGENT_SOCKET_NETWORK", "tcp").output().unwrap();
    assert_error(&output, "JUJU_AGENT_SOCKET_NETWORK is tcp: only unix is supported");
}

/// Half of the time that a tool waits for its agent. A tool that took less did not wait.
const AT_ONCE: Duration = Duration::from_secs(15);

#[test]
fn a_socket_whose_folder_does_not_exist_fails_at_once() {
    let folder = Folder::new();
    let path = folder.0.join("gone/agent.socket");
    let started = Instant::now();
    let mut command = folder.tool("config-get");
    let output = command.env("JUJU_AGENT_SOCKET_ADDRESS", &path).output().unwrap();
    assert!(started.elapsed() < AT_ONCE);
    assert_error(&output, format!("dial unix {}: connect: no such file or directory", path.display()));
}

#[test]
fn a_path_that_is_not_a_socket_fails_at_once() {
    let folder = Folder::new();
    let started = Instant::now();
    let mut command = folder.tool("config-get");
    let output = command.env("JUJU_AGENT_SOCKET_ADDRESS", PROGRAM_FILE).output().unwrap();
    assert!(started.elapsed() < AT_ONCE);
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
        answer(&mut connection, &EMPTY_REPLY);
    });
    assert_eq!(output.status.code(), Some(0));
    drop(listener); // nothing listens on the path cut to 107 bytes
    let output = command.env("JUJU_AGENT_SOCKET_ADDRESS", &too_long).output().unwrap();
    let line = format!("dial unix {}: connect: the path is longer than 107 bytes", too_long.display());
    assert_error(&output, line);
}

#[test]
fn a_call_whose_connection_is_lost_is_repeated_with_the_same_id() {
    let folder = Folder::new();
    let listener = folder.listen();
    let mut command = folder.tool("relation-set");
    let (output, frames) = run(command.arg("a=b"), || {
        let mut frames = Vec::new();
        // The connection ends before the reply, in its header, in its text; the fourth reply is complete.
        let half = b"PH\x01r\x20\0\0\0\0\x10\0\0\0half";
        for part in [&b""[..], &half[..5], half] {
            let mut connection = accept(&listener);
            frames.push(receive(&mut connection));
            connection.write_all(part).unwrap();
        }
        let mut connection = accept(&listener);
        frames.push(receive(&mut connection));
        answer(&mut connection, &ReplyFrame::Done { code: 0, stdout: b"whole", stderr: b"" });
        frames
    });
    assert_eq!(output.stdout.as_os_str(), "whole");
    assert_eq!(output.stderr.as_os_str(), "");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(frames.len(), 4);
    assert!(frames.iter().all(|frame| *frame == frames[0]));
}

#[test]
fn a_call_survives_a_restart_of_the_agent_and_keeps_its_stdin() {
    let folder = Folder::new();
    let listener = folder.listen();
    let mut command = folder.tool("relation-set");
    command.stdin(file(&folder, b"key: value\n"));
    let (output, (first, last)) = run(&mut command, || {
        let mut connection = accept(&listener);
        let first = receive(&mut connection);
        answer(&mut connection, &ReplyFrame::NeedStdin);
        receive(&mut connection);
        // The agent is killed: at first the connection is refused, then the new agent replaces the socket.
        drop((connection, listener));
        fs::remove_file(folder.socket()).unwrap();
        let mut connection = accept(&folder.listen());
        let last = receive(&mut connection);
        answer(&mut connection, &EMPTY_REPLY);
        (first, last)
    });
    assert_eq!(output.status.code(), Some(0));
    let (first, last) = (RequestFrame::decode(&first).unwrap(), RequestFrame::decode(&last).unwrap());
    assert_eq!(last.call, first.call);
    assert_eq!(last.stdin, Some(&b"key: value\n"[..]));
}

#[test]
fn a_tool_waits_for_an_agent_that_is_starting() {
    for socket_exists in [true, false] {
        let folder = Folder::new();
        if socket_exists {
            drop(folder.listen()); // the file remains and refuses connections
        }
        let mut command = folder.tool("is-leader");
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        await_sleep(child.id());
        if socket_exists {
            fs::remove_file(folder.socket()).unwrap();
        }
        let mut connection = accept(&folder.listen());
        receive(&mut connection);
        answer(&mut connection, &ReplyFrame::Done { code: 0, stdout: b"True\n", stderr: b"" });
        assert_eq!(child.wait_with_output().unwrap().stdout, b"True\n");
    }
}

/// Waits until the process has yielded the processor voluntarily. The program does that only when it sleeps.
fn await_sleep(pid: u32) {
    let status_file = format!("/proc/{pid}/status");
    loop {
        let status = fs::read_to_string(&status_file).unwrap();
        assert!(!status.contains("State:\tZ"), "the tool exited instead of waiting");
        let is_tool = status.starts_with("Name:\tis-leader\n");
        if is_tool && !status.contains("\nvoluntary_ctxt_switches:\t0\n") && status.contains("State:\tS") {
            return;
        }
        thread::yield_now();
    }
}
