//! The Unix socket of the hook tools: it accepts connections, checks the peer, reads frames, and passes each
//! call to the running hook's session.
//!
//! A slow or broken client delays only itself. Calls reach the session one at a time, in order of arrival. Only
//! root and the agent's own user are served (invariant I32).

use hook_client::{HEADER_BYTES, ReplyFrame, RequestFrame, frame_length};
use host::file::ignore_not_found;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// The number of connections that are served at the same time; more wait to be accepted (security S6).
const CONNECTIONS_MAX: usize = 128;
/// The time limit for receiving a frame after its first byte.
const FRAME_TIMEOUT: Duration = Duration::from_secs(5);

/// A call that waits for its answer.
#[derive(Debug)]
pub struct ToolCall {
    /// The whole request frame; it can be decoded.
    pub frame: Vec<u8>,
    /// Receives the answer.
    pub answer: oneshot::Sender<ToolAnswer>,
}

/// The answer to a tool.
#[derive(Debug)]
pub enum ToolAnswer {
    /// What the tool prints and its exit code.
    Done { code: u8, stdout: Vec<u8>, stderr: Vec<u8> },
    /// The tool must send its stdin.
    NeedStdin,
}

impl ToolAnswer {
    /// The answer to a call while no hook runs.
    pub fn closed() -> ToolAnswer {
        ToolAnswer::bad_request("this context is closed")
    }

    /// The answer to a request that is refused before a tool runs (spec/hook-tools.md 1.2).
    pub fn bad_request(reason: &str) -> ToolAnswer {
        let stderr = format!("ERROR bad request: {reason}\n").into_bytes();
        ToolAnswer::Done { code: 1, stdout: Vec::new(), stderr }
    }
}

/// How a call is handled that arrives now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A hook of an earlier agent may still run: the call waits until that is decided.
    Undecided,
    /// A hook runs: its session answers the call.
    Open,
    /// No hook runs: the call is refused.
    Closed,
}

/// Listens at `path`, replacing an existing socket, and passes calls to the returned channel while the gate is
/// open. Must be called within a tokio runtime, and ends with it.
pub fn listen(path: &Path, gate: watch::Receiver<Gate>) -> io::Result<mpsc::Receiver<ToolCall>> {
    ignore_not_found(std::fs::remove_file(path))?;
    let listener = UnixListener::bind(path)?;
    // one call waits while another one is answered; further calls wait at the socket
    let (calls, receiver) = mpsc::channel(1);
    tokio::spawn(accept(listener, calls, gate));
    Ok(receiver)
}

async fn accept(listener: UnixListener, calls: mpsc::Sender<ToolCall>, gate: watch::Receiver<Gate>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let (calls, gate) = (calls.clone(), gate.clone());
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, calls, gate).await {
                        tracing::debug!("the connection of a hook tool failed: {error}");
                    }
                    drop(permit);
                });
            }
            // out of file descriptors, or the client has disconnected: other clients can still be served
            Err(error) => {
                tracing::warn!("cannot accept the connection of a hook tool: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Whether the peer is root or the user that runs the hooks (invariant I32).
fn is_trusted(stream: &UnixStream) -> io::Result<bool> {
    let uid = stream.peer_cred()?.uid();
    Ok(uid == 0 || uid == nix::unistd::geteuid().as_raw())
}

async fn serve(
    mut stream: UnixStream,
    calls: mpsc::Sender<ToolCall>,
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
                // a client whose connection is closed without an answer would call again, so it is refused
                let refusal = encode(&ToolAnswer::bad_request("malformed request"));
                stream.write_all(&refusal).await?;
                return Err(error);
            }
        };
        let decided = gate.wait_for(|gate| *gate != Gate::Undecided).await.map(|gate| *gate);
        let reply = if RequestFrame::decode(&frame).is_err() {
            ToolAnswer::bad_request("malformed request")
        } else if matches!(decided, Ok(Gate::Open)) {
            let (answer, answered) = oneshot::channel();
            // A call that is still queued when the hook ends is refused, and does not reach the next hook:
            // 1. The session closes the gate, then answers the calls in the channel.
            // 2. This makes room in the channel for a waiting client. The gate is checked first and refuses
            //    that call.
            let sent = tokio::select! {
                biased;
                _ = gate.wait_for(|gate| *gate == Gate::Closed) => None,
                sent = calls.send(ToolCall { frame, answer }) => Some(sent),
            };
            match sent {
                None => ToolAnswer::closed(),
                Some(Err(_)) => return Ok(()),
                // dropped without an answer: the agent is ending, and the tool calls the next agent
                Some(Ok(())) => match answered.await {
                    Ok(reply) => reply,
                    Err(_) => return Ok(()),
                },
            }
        } else {
            ToolAnswer::closed()
        };
        stream.write_all(&encode(&reply)).await?;
    }
}

/// Reads one frame. None if the client has closed the connection. The first byte may arrive at any time,
/// because after `NeedStdin` the client reads its stdin first; the rest must follow within the time limit.
async fn read_frame(stream: &mut UnixStream) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; HEADER_BYTES];
    if stream.read(&mut header[..1]).await? == 0 {
        return Ok(None);
    }
    let rest = async {
        stream.read_exact(&mut header[1..]).await?;
        let length = frame_length(&header).map_err(|refused| io::Error::other(refused.to_string()))?;
        let mut frame = header.to_vec();
        // the buffer grows as bytes arrive: a header alone reserves nothing
        let body = length - HEADER_BYTES;
        stream.take(body as u64).read_to_end(&mut frame).await?;
        if frame.len() == length { Ok(frame) } else { Err(io::Error::other("the frame is incomplete")) }
    };
    let timed = tokio::time::timeout(FRAME_TIMEOUT, rest).await;
    timed.map_err(|_| io::Error::other("the frame did not arrive in time"))?.map(Some)
}

fn encode(answer: &ToolAnswer) -> Vec<u8> {
    let reply = match answer {
        ToolAnswer::Done { code, stdout, stderr } => ReplyFrame::Done { code: *code, stdout, stderr },
        ToolAnswer::NeedStdin => ReplyFrame::NeedStdin,
    };
    let too_large = ReplyFrame::Done { code: 1, stdout: b"", stderr: b"ERROR the answer is too large\n" };
    let reply = if reply.encoded_length().is_ok() { reply } else { too_large };
    let mut frame = vec![0; reply.encoded_length().expect("checked above")];
    reply.encode(&mut frame).expect("the frame has the encoded length");
    frame
}
