//! The socket hook tools call: accept, check the peer, read one frame at a time, pass it to the running hook, reply.
//! Slow or broken callers cost only themselves; calls reach the hook one at a time, in order of arrival.

use hook_client::{HEADER_BYTES, ReplyFrame, RequestFrame, frame_length};
use host::file::ignore_not_found;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// Connections served at once; more wait to be accepted (security S6).
const CONNECTIONS_MAX: usize = 128;
/// A frame, once begun, arrives within this.
const FRAME_TIME_MAX: Duration = Duration::from_secs(5);

/// One call that waits for its answer: the request frame, whole and decodable.
#[derive(Debug)]
pub struct Call {
    pub frame: Vec<u8>,
    pub answer: oneshot::Sender<Answer>,
}

/// What the tool prints and exits with; or that its stdin is wanted.
#[derive(Debug)]
pub enum Answer {
    Done { code: u8, stdout: Vec<u8>, stderr: Vec<u8> },
    NeedStdin,
}

impl Answer {
    /// What a tool gets that calls when no hook runs.
    pub fn closed() -> Answer {
        Answer::bad_request("this context is closed")
    }

    /// Refused before any tool ran (spec/hook-tools.md 1.2).
    pub fn bad_request(why: &str) -> Answer {
        let stderr = format!("ERROR bad request: {why}\n").into_bytes();
        Answer::Done { code: 1, stdout: Vec::new(), stderr }
    }
}

/// What happens to a call that arrives now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A hook of an earlier agent may still run: wait until that is known.
    Undecided,
    /// A hook runs: its conversation answers.
    Open,
    /// No hook runs: refused.
    Closed,
}

/// Listens at `path`, which is free afterwards whatever was there, and passes calls on as long as the gate is open.
/// Must be called within a runtime; ends with it.
pub fn listen(path: &Path, gate: watch::Receiver<Gate>) -> io::Result<mpsc::Receiver<Call>> {
    ignore_not_found(std::fs::remove_file(path))?;
    let listener = UnixListener::bind(path)?;
    // one call waits while one is answered: callers queue at the socket, not here
    let (calls, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, calls, gate));
    Ok(receiver)
}

async fn accept(listener: UnixListener, calls: mpsc::Sender<Call>, gate: watch::Receiver<Gate>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let (calls, gate) = (calls.clone(), gate.clone());
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, calls, gate).await {
                        tracing::debug!("a tool's connection: {error}");
                    }
                    drop(place);
                });
            }
            // out of descriptors, or the caller is gone: others may still be served
            Err(error) => {
                tracing::warn!("cannot accept a tool's connection: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Only root and the user the hooks run as are answered (invariant I32).
fn is_trusted(stream: &UnixStream) -> io::Result<bool> {
    let uid = stream.peer_cred()?.uid();
    Ok(uid == 0 || uid == nix::unistd::geteuid().as_raw())
}

async fn serve(
    mut stream: UnixStream,
    calls: mpsc::Sender<Call>,
    mut gate: watch::Receiver<Gate>,
) -> io::Result<()> {
    if !is_trusted(&stream)? {
        return Ok(());
    }
    loop {
        let frame = match read_frame(&mut stream).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(()),
            Err(error) => {
                // a connection closed without an answer means "call again": this caller is not to
                let refusal = encode(&Answer::bad_request("malformed request"));
                stream.write_all(&refusal).await?;
                return Err(error);
            }
        };
        let decided = gate.wait_for(|gate| *gate != Gate::Undecided).await.map(|gate| *gate);
        let reply = if RequestFrame::decode(&frame).is_err() {
            Answer::bad_request("malformed request")
        } else if matches!(decided, Ok(Gate::Open)) {
            let (answer, answered) = oneshot::channel();
            // A call that still queues when the hook ends is refused, not kept for the next hook:
            // 1. the conversation closes the gate, then answers what the channel holds;
            // 2. that makes room for a caller that waited for it; the gate, asked first, turns it away.
            let sent = tokio::select! {
                biased;
                _ = gate.wait_for(|gate| *gate == Gate::Closed) => None,
                sent = calls.send(Call { frame, answer }) => Some(sent),
            };
            match sent {
                None => Answer::closed(),
                Some(Err(_)) => return Ok(()),
                // dropped unanswered: the agent is ending, the tool calls the next one
                Some(Ok(())) => match answered.await {
                    Ok(reply) => reply,
                    Err(_) => return Ok(()),
                },
            }
        } else {
            Answer::closed()
        };
        stream.write_all(&encode(&reply)).await?;
    }
}

/// One frame; none when the caller has closed. It may begin at any time (after `NeedStdin` the caller reads its stdin
/// first); once begun it must go on.
async fn read_frame(stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; HEADER_BYTES];
    if stream.read(&mut header[..1]).await? == 0 {
        return Ok(None);
    }
    let rest = async {
        stream.read_exact(&mut header[1..]).await?;
        let length = frame_length(&header).map_err(|refused| io::Error::other(refused.to_string()))?;
        let mut frame = header.to_vec();
        // grows as bytes arrive: a header alone reserves nothing
        let body = length - HEADER_BYTES;
        stream.take(body as u64).read_to_end(&mut frame).await?;
        if frame.len() == length { Ok(frame) } else { Err(io::Error::other("cut short")) }
    };
    let timed = tokio::time::timeout(FRAME_TIME_MAX, rest).await;
    timed.map_err(|_| io::Error::other("too slow"))?.map(Some)
}

fn encode(answer: &Answer) -> Vec<u8> {
    let reply = match answer {
        Answer::Done { code, stdout, stderr } => ReplyFrame::Done { code: *code, stdout, stderr },
        Answer::NeedStdin => ReplyFrame::NeedStdin,
    };
    let too_large = ReplyFrame::Done { code: 1, stdout: b"", stderr: b"ERROR the answer is too large\n" };
    let reply = if reply.encoded_length().is_ok() { reply } else { too_large };
    let mut frame = vec![0; reply.encoded_length().expect("checked above")];
    reply.encode(&mut frame).expect("the frame has the encoded length");
    frame
}
