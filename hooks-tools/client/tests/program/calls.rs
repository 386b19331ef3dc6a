//! Tests of a call: what it sends (id, context id, tool, arguments, working directory), the output and exit code that it
//! returns, and the errors that it reports before it connects; and of the usage of the program.

use super::{EMPTY_REPLY, Folder, PROGRAM, assert_error, run_answered};
use hook_client::{ReplyFrame, RequestFrame};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Command;

#[test]
fn arguments_and_output_may_contain_any_bytes() {
    let folder = Folder::new();
    let every_byte: Vec<u8> = (1..=255).collect();
    let args: [&[u8]; 7] = [b"-r", b"db:1", b"", b"-", b"--", b"\xff\xfe \n\t\"'", &every_byte];
    let mut command = folder.tool("relation-get");
    command.args(args.map(OsStr::from_bytes));
    let done = ReplyFrame::Done { code: 7, stdout: b"out\0\xff", stderr: b"\xfeerr" };
    let (output, frame) = run_answered(&folder, &mut command, &done);
    let request = RequestFrame::decode(&frame).unwrap();
    assert_eq!(request.call.tool, b"relation-get");
    assert_eq!(request.call.context_id, b"web/0-install-1");
    assert_eq!(request.call.cwd, folder.0.as_os_str().as_bytes());
    assert_eq!(request.args.collect::<Vec<_>>(), args);
    assert_eq!(request.stdin, None);
    assert_eq!(output.stdout, b"out\0\xff");
    assert_eq!(output.stderr, b"\xfeerr");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn the_exit_code_is_that_of_the_reply() {
    for code in [0, 1, 2, 64, 255] {
        let folder = Folder::new();
        let done = ReplyFrame::Done { code, stdout: b"", stderr: b"" };
        let (output, _) = run_answered(&folder, &mut folder.tool("is-leader"), &done);
        assert_eq!(output.status.code(), Some(code.into()));
    }
}

#[test]
fn every_call_has_a_different_id() {
    let folder = Folder::new();
    let mut command = folder.tool("is-leader");
    let (_, first) = run_answered(&folder, &mut command, &EMPTY_REPLY);
    fs::remove_file(folder.socket()).unwrap();
    let (_, second) = run_answered(&folder, &mut command, &EMPTY_REPLY);
    let id = |frame: &[u8]| RequestFrame::decode(frame).unwrap().call.call_id;
    assert_ne!(id(&first), id(&second));
}

#[test]
fn the_tools_name_may_be_the_first_argument() {
    let folder = Folder::new();
    let mut command = folder.tool("pintle-hook");
    let (_, frame) = run_answered(&folder, command.args(["config-get", "--all"]), &EMPTY_REPLY);
    let request = RequestFrame::decode(&frame).unwrap();
    assert_eq!(request.call.tool, b"config-get");
    assert_eq!(request.args.collect::<Vec<_>>(), [b"--all"]);
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
fn missing_or_empty_variables_are_reported_in_order() {
    let folder = Folder::new();
    let names = ["JUJU_CONTEXT_ID", "JUJU_AGENT_SOCKET_ADDRESS", "JUJU_AGENT_SOCKET_NETWORK"];
    let mut command = folder.tool("config-get");
    for name in names.into_iter().rev() {
        assert_error(&command.env(name, "").output().unwrap(), format!("{name} not set"));
        assert_error(&command.env_remove(name).output().unwrap(), format!("{name} not set"));
    }
}

#[test]
fn a_removed_working_directory_is_reported_before_a_missing_address() {
    let folder = Folder::new();
    let link = folder.0.join("config-get");
    symlink(PROGRAM, &link).unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$0\""]).arg(&link);
    let output = command.current_dir(&folder.0).env_clear().env("JUJU_CONTEXT_ID", "x").output().unwrap();
    assert_error(&output, "getwd: no such file or directory");
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
