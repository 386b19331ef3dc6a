//! Tests of the tool socket, of a hook session and of the file of its calls: clients that are silent, slow, malformed, or
//! call without end, calls with the context id of another run, the log level, and the bounds that hold for them.
//!
//! The tests wait for events, each with a deadline, and never for a fixed time, except that one counts turns of the
//! scheduler until no client makes progress.

mod support;

use agent::hook_session::{CALLS_BYTES_MAX, CallsFile, HookSession};
use agent::tool_socket::{CONNECTIONS_MAX, ContextState, ToolCall, encode, listen};
use hook_client::{REPLY_BYTES_MAX, REQUEST_BYTES_MAX, ReplyFrame, STDIN_BYTES_MAX, announce_stdin};
use state::unit::hook_context::Level;
use state::unit::logging_config::LoggingConfig;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use support::{context, frame, printed, read_reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

/// The longest wait for what must happen. It takes milliseconds, except for the time limit of a silent connection, 5 s.
const DEADLINE: Duration = Duration::from_secs(60);
/// The frame of a call with these bytes as its stdin.
fn frame_with(stdin: &[u8], number: u32, tool: &str, args: &[&str]) -> Vec<u8> {
    let mut frame = frame(number, tool, args);
    announce_stdin(&mut frame, stdin.len()).unwrap();
    frame.extend(stdin);
    frame
}

struct Socket {
    path: PathBuf,
    calls: mpsc::Receiver<ToolCall>,
    _state: watch::Sender<ContextState>,
    _dir: tempfile::TempDir,
}

fn socket() -> Socket {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let (state, opened) = watch::channel(ContextState::Open);
    Socket { calls: listen(&path, opened).unwrap().tool_calls, path, _state: state, _dir: dir }
}

/// 30 frames of 16 MB must not be in memory at once.
#[tokio::test]
async fn all_frames_in_flight_share_one_budget() {
    let mut socket = socket();
    let big = Arc::new(frame_with(&vec![b'x'; 16_000_000], 0, "state-set", &["--file", "-"]));
    let accepted = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..30)
        .map(|_| {
            let (path, big, accepted) = (socket.path.clone(), Arc::clone(&big), Arc::clone(&accepted));
            tokio::spawn(async move {
                let mut stream = UnixStream::connect(path).await.unwrap();
                for chunk in big.chunks(64 << 10) {
                    stream.write_all(chunk).await.unwrap();
                    accepted.fetch_add(chunk.len(), Ordering::Relaxed);
                }
                read_reply(&mut stream).await.0
            })
        })
        .collect();
    let first = timeout(DEADLINE, socket.calls.recv()).await.expect("one frame fits").unwrap();
    // every client gets its turn until none can send any more
    let (mut before, mut unchanged) = (0, 0);
    while unchanged < 2_000 {
        tokio::task::yield_now().await;
        let now = accepted.load(Ordering::Relaxed);
        unchanged = if now == before { unchanged + 1 } else { 0 };
        before = now;
    }
    // the budget, and what the kernel holds for a connection: less than 1 MiB
    let bytes_max = REQUEST_BYTES_MAX + STDIN_BYTES_MAX + 30 * (1 << 20);
    assert!(before <= bytes_max, "{before} bytes were accepted, at most {bytes_max} are expected");

    // all are served in the end, and a small call does not wait for them
    let mut small = UnixStream::connect(&socket.path).await.unwrap();
    small.write_all(&frame(1, "is-leader", &[])).await.unwrap();
    let done = || encode(ReplyFrame::Done { code: 0, stdout: b"", stderr: b"" });
    first.answer.send(done()).unwrap();
    let second = timeout(DEADLINE, socket.calls.recv()).await.expect("a call").unwrap();
    assert!(second.frame.len() < 1_000, "the small call is next");
    second.answer.send(done()).unwrap();
    for _ in 1..30 {
        let call = timeout(DEADLINE, socket.calls.recv()).await.expect("the next frame fits").unwrap();
        drop(call.frame);
        call.answer.send(done()).unwrap();
    }
    for client in clients {
        assert_eq!(timeout(DEADLINE, client).await.expect("it is answered").unwrap(), 0);
    }
}

#[tokio::test]
async fn silent_and_half_sent_connections_do_not_block_others() {
    let mut socket = socket();
    let mut idle = Vec::new();
    for number in 0..CONNECTIONS_MAX {
        let mut stream = UnixStream::connect(&socket.path).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(&frame(0, "is-leader", &[])[..5]).await.unwrap();
        }
        idle.push(stream);
    }
    let started = std::time::Instant::now();
    let mut stream = UnixStream::connect(&socket.path).await.unwrap();
    stream.write_all(&frame(1, "is-leader", &[])).await.unwrap();

    let call = timeout(DEADLINE, socket.calls.recv()).await.expect("a silent connection is closed").unwrap();

    // before any of their time limits, which are at least 5 s
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(call.pid, Some(std::process::id() as i32));
    let closed = timeout(DEADLINE, idle[0].read(&mut [0])).await.expect("the oldest one was closed");
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
}

#[tokio::test]
async fn a_silent_connection_is_closed_after_its_time_limit() {
    let socket = socket();
    let mut silent = UnixStream::connect(&socket.path).await.unwrap();
    let closed = timeout(DEADLINE, silent.read(&mut [0])).await.expect("there is a time limit");
    assert!(matches!(closed, Ok(0)), "{closed:?}");
}

#[tokio::test]
async fn a_client_that_does_not_read_its_large_answer_does_not_block_others() {
    let mut socket = socket();
    let mut slow_reader = UnixStream::connect(&socket.path).await.unwrap();
    slow_reader.write_all(&frame(0, "relation-get", &[])).await.unwrap();
    let call = timeout(DEADLINE, socket.calls.recv()).await.expect("a call").unwrap();
    let large = ReplyFrame::Done { code: 0, stdout: &vec![b'x'; 16 << 20], stderr: b"" };
    call.answer.send(encode(large)).unwrap();
    let mut other = UnixStream::connect(&socket.path).await.unwrap();
    other.write_all(&frame(1, "is-leader", &[])).await.unwrap();
    timeout(DEADLINE, socket.calls.recv()).await.expect("the other call is served").unwrap();
}

#[test]
fn a_reply_that_is_too_large_for_a_frame_is_an_error() {
    let largest = vec![b'x'; REPLY_BYTES_MAX];
    let frame = encode(ReplyFrame::Done { code: 0, stdout: &largest, stderr: b"" });
    let (code, stdout, stderr) = printed(&frame);
    assert_eq!((code, stdout.as_str(), stderr.lines().count()), (1, "", 1));
    assert!(stderr.starts_with("ERROR "), "{stderr}");
}

/// The header of an answer may announce more than the whole budget of requests.
#[tokio::test]
async fn a_frame_that_is_no_request_is_refused_at_its_header() {
    let socket = socket();
    let mut stream = UnixStream::connect(&socket.path).await.unwrap();
    stream.write_all(b"PH\x01r\x00\x00\xf0\x01").await.unwrap();
    assert_eq!(timeout(DEADLINE, read_reply(&mut stream)).await.expect("an answer").0, 1);
}

fn session(run: &Path) -> HookSession<'static> {
    support::session(context(), run)
}

fn answer(session: &mut HookSession, frame: &[u8]) -> (u8, String, String) {
    printed(&session.answer(frame, Some(4_711)).expect("no bag is omitted"))
}

fn calls_bytes(run: &Path) -> u64 {
    fs::metadata(run.join("calls.yaml")).unwrap().len()
}

#[test]
fn log_lines_below_the_level_of_the_model_are_not_stored() {
    for (log_level, stored) in [(Level::Debug, 1), (Level::Info, 0)] {
        let run = tempfile::tempdir().unwrap();
        let mut context = context();
        context.model.logging = LoggingConfig::parse(log_level.as_str()).unwrap();
        let mut session = support::session(context, run.path());
        assert_eq!(answer(&mut session, &frame(1, "juju-log", &["--debug", "hello"])).0, 0);
        assert_eq!(session.close().1.len(), stored, "{log_level}");
    }
}

#[test]
fn a_refused_input_is_stored_by_its_digest() {
    let run = tempfile::tempdir().unwrap();
    let mut first = session(run.path());
    let input = vec![b'['; 1_000_000];
    for number in 0..20 {
        let (code, ..) = answer(&mut first, &frame_with(&input, number, "state-set", &["--file", "-"]));
        assert_ne!(code, 0, "the input is no YAML");
    }
    assert!(calls_bytes(run.path()) < 20 * 2_000, "{} bytes", calls_bytes(run.path()));
    assert_eq!(answer(&mut first, &frame(20, "state-set", &["a=b"])).0, 0);
    let text = fs::read_to_string(run.path().join("calls.yaml")).unwrap();
    assert!(text.lines().all(|line| line.contains(r#""pid":4711"#)), "the caller is recorded\n{text}");

    let lines = CallsFile::read(run.path()).expect("complete lines");
    let mut second = session(run.path());
    assert!(second.recover(&lines), "a later agent continues");
    let get = frame(21, "state-get", &["a"]);
    assert_eq!(answer(&mut second, &get), (0, "b\n".into(), String::new()));
}

#[test]
fn a_long_answer_is_stored_by_its_digest_and_the_context_can_be_rebuilt() {
    let run = tempfile::tempdir().unwrap();
    let mut first = session(run.path());
    let value = "x".repeat(60_000);
    assert_eq!(answer(&mut first, &frame(0, "state-set", &[&format!("a={value}")])).0, 0);
    let started = calls_bytes(run.path());
    let get = |number| frame(number, "state-get", &["a"]);
    for number in 1..50 {
        assert_eq!(answer(&mut first, &get(number)).1.trim_end(), value);
    }
    assert!(calls_bytes(run.path()) - started < 50 * 1_000, "{} bytes", calls_bytes(run.path()) - started);

    let lines = CallsFile::read(run.path()).expect("complete lines");
    let mut second = session(run.path());
    assert!(second.recover(&lines), "a later agent gives the same answers");
    assert_eq!(answer(&mut second, &get(49)).1.trim_end(), value, "also to a repeated call");
}

#[test]
fn once_the_file_is_full_only_calls_that_change_something_succeed() {
    let run = tempfile::tempdir().unwrap();
    let nearly_full = fs::File::create(run.path().join("calls.yaml")).unwrap();
    std::io::Write::write_all(&mut &nearly_full, &[b'\n'; 1]).unwrap();
    nearly_full.set_len(CALLS_BYTES_MAX - 1_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&nearly_full, b"\n", CALLS_BYTES_MAX - 1_000).unwrap();
    let mut session = session(run.path());
    let mut number = 0;
    let refused = loop {
        let (code, _, stderr) = answer(&mut session, &frame(number, "is-leader", &[]));
        if code != 0 {
            break stderr;
        }
        number += 1;
        assert!(number < 100, "the file grows without a bound");
    };
    assert!(!refused.is_empty());
    assert!(calls_bytes(run.path()) <= CALLS_BYTES_MAX);
    assert_eq!(
        answer(&mut session, &frame(1_000, "juju-log", &["x"])).2,
        refused,
        "a log line changes nothing"
    );
    assert_eq!(answer(&mut session, &frame(1_001, "state-set", &["a=b"])).0, 0);
    assert_eq!(answer(&mut session, &frame(1_002, "status-set", &["active"])).0, 0);
}

#[test]
fn a_call_with_the_context_id_of_another_run_is_refused() {
    let run = tempfile::tempdir().unwrap();
    let digest = host::digest::sha256(b"web/0-start-00000000000000000000000000000001");
    let mut next = HookSession::new(context(), digest, CallsFile::open(run.path()), &|_| {}, &|| false);
    let (code, _, stderr) = answer(&mut next, &frame(0, "state-set", &["a=b"]));
    assert_eq!((code, stderr.as_str()), (1, "ERROR bad request: this context is closed\n"));
    assert!(next.close().0 == Default::default(), "nothing was changed");
}
