//! Tests of printing a reply, whatever its size, and of refusing an invalid reply.

use super::{AsOsStr, Folder, accept, answer, assert_error, not_an_agent_error, receive, run, run_answered};
use hook_client::{ReplyFrame, RequestFrame};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::thread;

#[test]
fn large_outputs_are_printed_completely() {
    let folder = Folder::new();
    let stdout: Vec<u8> = (0..1 << 20).map(|i| (i % 251) as u8).collect();
    let stderr: Vec<u8> = (0..1 << 20).map(|i| (i % 241) as u8).collect();
    let done = ReplyFrame::Done { code: 3, stdout: &stdout, stderr: &stderr };
    let (output, _) = run_answered(&folder, &mut folder.tool("config-get"), &done);
    assert!(output.stdout == stdout && output.stderr == stderr);
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn outputs_about_the_size_of_the_small_buffer_are_printed_completely() {
    for bytes in 4096 - 20..4096 + 4 {
        let folder = Folder::new();
        let stdout: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        let done = ReplyFrame::Done { code: 0, stdout: &stdout, stderr: b"!" };
        let (output, _) = run_answered(&folder, &mut folder.tool("config-get"), &done);
        assert!(output.stdout == stdout && output.stderr == b"!", "{bytes}");
    }
}

#[test]
fn a_reply_in_single_bytes_is_printed_completely() {
    let folder = Folder::new();
    let listener = folder.listen();
    let (output, ()) = run(&mut folder.tool("config-get"), || {
        let mut connection = accept(&listener);
        receive(&mut connection);
        let done = ReplyFrame::Done { code: 0, stdout: b"value\n", stderr: b"note\n" };
        let mut frame = vec![0; done.encoded_length().unwrap()];
        done.encode(&mut frame).unwrap();
        for byte in frame {
            connection.write_all(&[byte]).unwrap();
            thread::yield_now();
        }
    });
    assert_eq!(
        (output.stdout.as_os_str(), output.stderr.as_os_str()),
        ("value\n".as_ref(), "note\n".as_ref())
    );
}

#[test]
fn a_non_blocking_stdout_receives_everything() {
    let folder = Folder::new();
    let text = vec![b'x'; 3 << 20];
    let (mut reading_end, writing_end) = UnixStream::pair().unwrap();
    writing_end.set_nonblocking(true).unwrap();
    let listener = folder.listen();
    let mut command = folder.tool("config-get");
    let mut child = command.stdout(OwnedFd::from(writing_end)).spawn().unwrap();
    drop(command); // closes the writing end of this process
    let mut connection = accept(&listener);
    receive(&mut connection);
    answer(&mut connection, &ReplyFrame::Done { code: 0, stdout: &text, stderr: b"" });
    let mut read = Vec::new();
    reading_end.read_to_end(&mut read).unwrap();
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
    answer(&mut connection, &ReplyFrame::Done { code: 0, stdout: b"value\n", stderr: b"" });
    assert_error(&child.wait_with_output().unwrap(), "write stdout: no space left on device");
}

#[test]
fn an_invalid_reply_is_an_error_and_the_call_is_not_repeated() {
    let wrong: [&[u8]; 5] = [
        b"HTTP/1.1 400 Bad RequestFrame\r\n\r\n",
        b"PH\x01x\0\0\0\0",               // an unknown kind
        b"PH\x01r\xff\xff\xff\xff",       // larger than a reply may be
        b"PH\x01r\x05\0\0\0\0\x01\0\0\0", // stdout longer than the frame
        b"PH\x01n\0\0\0\0more",           // bytes after the frame
    ];
    for bytes in wrong {
        let folder = Folder::new();
        let listener = folder.listen();
        let (output, ()) = run(&mut folder.tool("config-get"), || {
            let mut connection = accept(&listener);
            receive(&mut connection);
            connection.write_all(bytes).unwrap();
        });
        assert_error(&output, not_an_agent_error(&folder.socket()));
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn a_reply_of_another_version_is_reported_as_such() {
    let folder = Folder::new();
    let listener = folder.listen();
    let (output, ()) = run(&mut folder.tool("config-get"), || {
        let mut connection = accept(&listener);
        receive(&mut connection);
        connection.write_all(b"PH\xc8r\0\0\0\0").unwrap();
    });
    let line = "cannot read the reply of the unit agent: unknown version 200 of the tool protocol";
    assert_error(&output, line);
}

/// A daemon has often closed its standard descriptors. The connection to the agent must not get their numbers: the tool
/// would print to the agent, and read its stdin from there.
#[test]
fn a_tool_with_closed_standard_descriptors_prints_nothing_to_the_agent_and_has_an_empty_stdin() {
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let folder = Folder::new();
        let listener = folder.listen();
        let shell = folder.tool("relation-set");
        let link = shell.get_program().to_owned();
        let environment: Vec<_> = shell.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("exec \"$0\" --file - {closed}")).arg(link);
        command.env_clear().envs(environment).stdin(Stdio::null()).current_dir(&folder.0);
        let (output, (stdin, rest)) = run(&mut command, || {
            let mut connection = accept(&listener);
            receive(&mut connection);
            answer(&mut connection, &ReplyFrame::NeedStdin);
            let request = receive(&mut connection);
            let stdin = RequestFrame::decode(&request).unwrap().stdin.map(<[u8]>::to_vec);
            answer(&mut connection, &ReplyFrame::Done { code: 0, stdout: b"printed", stderr: b"warned" });
            let mut rest = Vec::new();
            connection.read_to_end(&mut rest).unwrap();
            (stdin, rest)
        });
        assert_eq!((stdin, rest), (Some(Vec::new()), Vec::new()), "{closed}");
        assert_eq!(output.status.code(), Some(0), "{closed}");
        let is_closed = |redirection: &str| closed.split(' ').any(|word| word == redirection);
        let printed =
            |redirection, text: &[u8]| if is_closed(redirection) { Vec::new() } else { text.to_vec() };
        assert_eq!(output.stdout, printed(">&-", b"printed"), "{closed}");
        assert_eq!(output.stderr, printed("2>&-", b"warned"), "{closed}");
    }
}
