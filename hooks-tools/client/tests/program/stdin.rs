//! Tests of stdin, which is read only if the agent requires it.

use super::{
    EMPTY_REPLY, Folder, accept, answer, assert_error, file, not_an_agent_error, receive, run, run_answered,
};
use hook_client::{HEADER_BYTES, ReplyFrame, RequestFrame};
use std::fs::File;
use std::io::{Read, Seek};

#[test]
fn stdin_is_not_read_unless_the_agent_requires_it() {
    let folder = Folder::new();
    let mut stdin = file(&folder, b"the loop's next line\n");
    let mut command = folder.tool("juju-log");
    run_answered(&folder, command.stdin(stdin.try_clone().unwrap()), &EMPTY_REPLY);
    // The tool's stdin shares the position of this file.
    assert_eq!(stdin.stream_position().unwrap(), 0);
}

#[test]
fn a_call_that_needs_stdin_is_sent_again_with_all_of_it() {
    let text: Vec<u8> = (0..3 << 20).map(|i| (i % 251) as u8).collect(); // larger than any socket buffer
    for text in [&text[..], b"", b"key: value\n"] {
        let folder = Folder::new();
        let listener = folder.listen();
        let mut command = folder.tool("relation-set");
        command.args(["--file", "-"]).stdin(file(&folder, text));
        let (output, (first, second)) = run(&mut command, || {
            let mut connection = accept(&listener);
            let first = receive(&mut connection);
            answer(&mut connection, &ReplyFrame::NeedStdin);
            let second = receive(&mut connection);
            answer(&mut connection, &EMPTY_REPLY);
            (first, second)
        });
        assert_eq!(output.status.code(), Some(0));
        let (first, second) = (RequestFrame::decode(&first).unwrap(), RequestFrame::decode(&second).unwrap());
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
    let (output, _) = run_answered(&folder, &mut command, &ReplyFrame::NeedStdin);
    assert_error(&output, "stdin too large: more than 16 MiB");
}

#[test]
fn a_second_request_for_stdin_is_an_invalid_reply() {
    let folder = Folder::new();
    let listener = folder.listen();
    let (output, ()) = run(&mut folder.tool("state-set"), || {
        let mut connection = accept(&listener);
        for _ in 0..2 {
            receive(&mut connection);
            answer(&mut connection, &ReplyFrame::NeedStdin);
        }
    });
    assert_error(&output, not_an_agent_error(&folder.socket()));
}

#[test]
fn a_refusal_is_printed_although_the_agent_has_not_read_everything() {
    let folder = Folder::new();
    let listener = folder.listen();
    let mut command = folder.tool("relation-set");
    command.stdin(file(&folder, &vec![b'x'; 8 << 20]));
    let (output, ()) = run(&mut command, || {
        let mut connection = accept(&listener);
        receive(&mut connection);
        answer(&mut connection, &ReplyFrame::NeedStdin);
        connection.read_exact(&mut [0; HEADER_BYTES]).unwrap();
        answer(&mut connection, &ReplyFrame::Done { code: 1, stdout: b"", stderr: b"ERROR too much\n" });
    });
    assert_error(&output, "too much");
}
