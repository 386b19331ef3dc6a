//! The Unix socket of the hook tools: it accepts connections, checks the peer, reads frames, and passes each
//! call to the hook session of the running hook.
//!
//! A slow, silent or broken client delays others by a few seconds at most: there are limits for connections, for the time
//! of each step, and one for the memory of all frames of tools in flight. Calls reach the hook session one at a time, in
//! order of arrival. Only root and the agent's own user are served (invariant I32).
//!
//! A tool whose connection is closed before the answer calls again, under the same call id.

mod silent_connections;

use hook_client::{HEADER_BYTES, REQUEST_BYTES_MAX, ReplyFrame, RequestFrame, STDIN_BYTES_MAX, frame_length};
use host::file::ignore_not_found;
use silent_connections::SilentConnections;
use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// The number of connections that are served at the same time (security S6). If there are more, the oldest one
/// without a complete frame is closed; if all have one, more wait to be accepted.
pub const CONNECTIONS_MAX: usize = 128;
/// How long a connection may be without a complete frame before it can be closed for another one. A tool sends
/// its frame as soon as it is connected.
const SILENT_MIN: Duration = Duration::from_millis(100);
/// The time limit for the first byte of a connection.
const FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for receiving a frame after its first byte.
const FRAME_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit between an answer and the next frame. A tool whose stdin is required reads all of it first;
/// if that takes longer, it connects again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// The time limit for sending an answer: the largest takes milliseconds if the client reads it.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of requests of commands (juju-exec) that wait or run at the same time: a quarter of the connections, so
/// that they never keep out the tools of a hook.
const COMMANDS_WAITING_MAX: usize = CONNECTIONS_MAX / 4;
/// The tool name in the frame of a request to run commands (`juju-exec`).
pub const REQUEST_COMMANDS: &str = "run-commands";

/// Frames up to this size are received without a memory permit; almost all frames are smaller. 128 of them take 8 MiB.
const SMALL_FRAME_BYTES: usize = 64 << 10;
/// The memory for all larger requests in flight: one of 17 MiB, or 17 of 1 MiB without stdin; with the small frames at
/// most 25 MiB. At most one larger reply exists at a time (`REPLY_BYTES_MAX`). Requests of commands are counted only while
/// they are received; they and their replies are bounded by [`COMMANDS_WAITING_MAX`].
const LARGE_FRAMES_BYTES_MAX: usize = REQUEST_BYTES_MAX + STDIN_BYTES_MAX;

/// A call that waits for its answer.
#[derive(Debug)]
pub struct ToolCall {
    /// The whole request frame; it can be decoded.
    pub frame: Vec<u8>,
    /// The process that connected, if the kernel reports it. It need not be a descendant of the hook: charms call
    /// tools through `sudo`, `su` and daemons (security S3).
    pub pid: Option<i32>,
    /// Receives the answer: the whole reply frame, as [`encode`] makes it.
    pub answer: oneshot::Sender<Vec<u8>>,
}

/// Encodes a reply. One that is too large for a frame is replaced by an error.
pub fn encode(reply: ReplyFrame<'_>) -> Vec<u8> {
    let too_large = ReplyFrame::Done { code: 1, stdout: b"", stderr: b"ERROR the answer is too large\n" };
    let reply = if reply.encoded_length().is_ok() { reply } else { too_large };
    let mut frame = vec![0; reply.encoded_length().expect("checked above")];
    reply.encode(&mut frame).expect("the frame has the encoded length");
    frame
}

/// The answer to a call while no hook runs.
pub fn closed_reply() -> Vec<u8> {
    bad_request("this context is closed")
}

/// The answer to a request that is refused before a tool runs (spec/hook-tools.md 1.2).
pub fn bad_request(reason: &str) -> Vec<u8> {
    let stderr = format!("ERROR bad request: {reason}\n");
    encode(ReplyFrame::Done { code: 1, stdout: b"", stderr: stderr.as_bytes() })
}

/// The state of the context of a hook, which decides how a call that arrives now is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextState {
    /// A hook of an earlier agent may still run: the call waits until that is decided.
    Undecided,
    /// A hook runs: its hook session answers the call.
    Open,
    /// No hook runs: the call is refused.
    Closed,
}

/// Listens at `path`, replacing an existing socket, and passes calls to the returned channel while the context is
/// open. Must be called within a tokio runtime, and ends with it.
pub fn listen(path: &Path, context_state: watch::Receiver<ContextState>) -> io::Result<Calls> {
    // `SocketState::call_permit` admits one call at a time, so one place suffices
    let (calls, tool_calls) = mpsc::channel(1);
    let (commands, requested_commands) = mpsc::channel(COMMANDS_WAITING_MAX);
    let shared = Arc::new(SocketState {
        calls,
        commands,
        commands_waiting: Semaphore::new(COMMANDS_WAITING_MAX),
        connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        large_frames: Arc::new(Semaphore::new(LARGE_FRAMES_BYTES_MAX)),
        call_permit: Semaphore::new(1),
        silent: SilentConnections::default(),
    });
    let bound = RefCell::new(bind(path, &shared, &context_state)?);
    let socket = ToolSocket { path: path.to_owned(), bound, shared, context_state };
    Ok(Calls { socket, tool_calls, requested_commands })
}

/// The socket of the tools, and its file as it was bound.
pub struct ToolSocket {
    path: PathBuf,
    bound: RefCell<BoundSocket>,
    shared: Arc<SocketState>,
    context_state: watch::Receiver<ContextState>,
}

/// A socket that was bound to a file.
struct BoundSocket {
    /// The device and inode of the file.
    identity: (u64, u64),
    /// Accepts its connections.
    accepting: AbortHandle,
}

impl ToolSocket {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is certain that the path does not lead to this socket any more: no tool can connect, although the
    /// socket is still open.
    pub fn was_removed(&self) -> bool {
        match identity(&self.path) {
            Ok(found) => found != self.bound.borrow().identity,
            Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
        }
    }

    /// Listens at the same path again, after the file was removed. Connections that are open are served further.
    ///
    /// # Errors
    /// If the file cannot be created: its folder must exist.
    pub fn listen_again(&self) -> io::Result<()> {
        let bound = bind(&self.path, &self.shared, &self.context_state)?;
        self.bound.replace(bound).accepting.abort();
        Ok(())
    }
}

/// Binds a socket to a file, which is replaced, and accepts its connections.
fn bind(
    path: &Path,
    shared: &Arc<SocketState>,
    context_state: &watch::Receiver<ContextState>,
) -> io::Result<BoundSocket> {
    ignore_not_found(fs::remove_file(path))?;
    let listener = UnixListener::bind(path)?;
    let identity = identity(path)?;
    let accepting = tokio::spawn(accept(listener, Arc::clone(shared), context_state.clone())).abort_handle();
    Ok(BoundSocket { identity, accepting })
}

/// The device and inode of a file.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// The calls that arrive at the socket, by kind, and the socket.
pub struct Calls {
    /// The socket to which tools connect.
    pub socket: ToolSocket,
    /// The tool calls of the running hook.
    pub tool_calls: mpsc::Receiver<ToolCall>,
    /// The requests of `juju-exec`, which need no running hook.
    pub requested_commands: mpsc::Receiver<ToolCall>,
}

/// The state that the connections of one socket share.
struct SocketState {
    calls: mpsc::Sender<ToolCall>,
    commands: mpsc::Sender<ToolCall>,
    /// One permit per request of commands that waits or runs.
    commands_waiting: Semaphore,
    /// One permit per connection that is served.
    connections: Arc<Semaphore>,
    /// One permit per byte of the larger requests in flight.
    large_frames: Arc<Semaphore>,
    /// The one call that the hook session answers, or whose large answer is being sent.
    call_permit: Semaphore,
    silent: SilentConnections,
}

async fn accept(
    listener: UnixListener,
    shared: Arc<SocketState>,
    context_state: watch::Receiver<ContextState>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let permit = connection_permit(&shared.connections, &shared.silent).await;
                let (shared, context_state) = (Arc::clone(&shared), context_state.clone());
                tokio::spawn(async move {
                    if let Err(error) = serve(stream, &shared, context_state).await {
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

/// Waits for one of the connections to end, and ends a silent one.
async fn connection_permit(permits: &Arc<Semaphore>, silent: &SilentConnections) -> OwnedSemaphorePermit {
    loop {
        let next = Arc::clone(permits).acquire_owned();
        if permits.available_permits() == 0 {
            silent.close_oldest(SILENT_MIN);
        }
        if let Ok(permit) = timeout(SILENT_MIN, next).await {
            return permit.expect("the semaphore is never closed");
        }
    }
}

/// Whether a user is root or the user that runs the hooks (invariant I32).
fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == nix::unistd::geteuid().as_raw()
}

async fn serve(
    mut stream: UnixStream,
    shared: &SocketState,
    mut context_state: watch::Receiver<ContextState>,
) -> io::Result<()> {
    let peer = stream.peer_cred()?;
    if !is_trusted(peer.uid()) {
        return Ok(());
    }
    let mut first_byte_timeout = FIRST_BYTE_TIMEOUT;
    loop {
        let mut silence = shared.silent.begin();
        let read = tokio::select! {
            biased;
            read = read_frame(&mut stream, first_byte_timeout, &shared.large_frames) => read,
            () = silence.closed() => return Ok(()),
        };
        if !silence.end() {
            // it was closed for another connection at this moment
            return Ok(());
        }
        first_byte_timeout = IDLE_TIMEOUT;
        let (frame, memory) = match read {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(()),
            Err(error) => {
                // a client whose connection is closed without an answer would call again, so it is refused
                send(&mut stream, &bad_request("malformed request")).await?;
                return Err(error);
            }
        };
        let kind = RequestFrame::decode(&frame)
            .map(|frame| (frame.call.tool == REQUEST_COMMANDS.as_bytes(), frame.stdin.is_some()));
        match kind {
            Ok((false, _)) => {}
            Ok((true, false)) => {
                drop(memory);
                return run_commands(stream, shared, frame, peer.pid()).await;
            }
            Ok((true, true)) | Err(_) => {
                send(&mut stream, &bad_request("malformed request")).await?;
                return Ok(());
            }
        }
        let decided =
            context_state.wait_for(|state| *state != ContextState::Undecided).await.map(|state| *state);
        let (reply, permit) = if matches!(decided, Ok(ContextState::Open)) {
            let (answer, answered) = oneshot::channel();
            // A call that is still queued when the hook ends is refused, and does not reach the next hook:
            // 1. The hook session closes the context, then answers the call in the channel.
            // 2. This gives the permit to a waiting client. The state of the context is checked first and refuses that
            //    call.
            let sent = tokio::select! {
                biased;
                _ = context_state.wait_for(|state| *state == ContextState::Closed) => None,
                sent = async {
                    let permit = shared.call_permit.acquire().await.expect("the semaphore is never closed");
                    let sent = shared.calls.send(ToolCall { frame, pid: peer.pid(), answer }).await;
                    sent.map(|()| permit)
                } => Some(sent),
            };
            match sent {
                None => (closed_reply(), None),
                Some(Err(_)) => return Ok(()),
                // dropped without an answer: the hook has ended while its call waited for the controller, or the agent is ending; the
                // tool calls again, and is refused or reaches the next agent
                Some(Ok(permit)) => match answered.await {
                    Ok(reply) => (reply, Some(permit)),
                    Err(_) => return Ok(()),
                },
            }
        } else {
            (closed_reply(), None)
        };
        // the hook session has dropped the frame
        drop(memory);
        let _permit = permit.filter(|_| reply.len() > SMALL_FRAME_BYTES);
        send(&mut stream, &reply).await?;
    }
}

/// Passes on a request of commands, and answers when they have ended. If the client disconnects before, the answer is
/// dropped.
async fn run_commands(
    mut stream: UnixStream,
    shared: &SocketState,
    frame: Vec<u8>,
    pid: Option<i32>,
) -> io::Result<()> {
    let Ok(_waiting) = shared.commands_waiting.try_acquire() else {
        return send(&mut stream, &bad_request("too many commands wait for this unit")).await;
    };
    let (answer, mut answered) = oneshot::channel();
    if shared.commands.send(ToolCall { frame, pid, answer }).await.is_err() {
        return Ok(());
    }
    let mut more = [0; 1];
    tokio::select! {
        biased;
        reply = &mut answered => match reply {
            Ok(reply) => send(&mut stream, &reply).await,
            Err(_) => Ok(()),
        },
        // the client sends nothing while it waits
        _ = stream.read(&mut more) => Ok(()),
    }
}

async fn send(stream: &mut UnixStream, reply: &[u8]) -> io::Result<()> {
    let sent = timeout(REPLY_TIMEOUT, stream.write_all(reply)).await;
    sent.map_err(|_| io::Error::other("the client does not read its answer"))?
}

/// Reads one frame, with the memory that a large one has taken from the budget. None if the client has closed the
/// connection, or has sent nothing within the time limit.
async fn read_frame(
    stream: &mut UnixStream,
    first_byte_timeout: Duration,
    large_frames: &Arc<Semaphore>,
) -> io::Result<Option<(Vec<u8>, Option<OwnedSemaphorePermit>)>> {
    let mut header = [0; HEADER_BYTES];
    match timeout(first_byte_timeout, stream.read(&mut header[..1])).await {
        Err(_) | Ok(Ok(0)) => return Ok(None),
        Ok(Err(error)) => return Err(error),
        Ok(Ok(_)) => {}
    }
    let late = |_| io::Error::other("the frame did not arrive in time");
    timeout(FRAME_TIMEOUT, stream.read_exact(&mut header[1..])).await.map_err(late)??;
    let length = frame_length(&header).map_err(|refused| io::Error::other(refused.to_string()))?;
    if length > LARGE_FRAMES_BYTES_MAX {
        return Err(io::Error::other("the frame is no request"));
    }
    let memory = if length > SMALL_FRAME_BYTES {
        // the time limit begins again, because the wait is not the client's
        let bytes = u32::try_from(length).expect("a frame has at most 17 MiB");
        let memory = Arc::clone(large_frames).acquire_many_owned(bytes).await;
        Some(memory.expect("the semaphore is never closed"))
    } else {
        None
    };
    let rest = async {
        let mut frame = Vec::with_capacity(length);
        frame.extend(header);
        let body = length - HEADER_BYTES;
        stream.take(body as u64).read_to_end(&mut frame).await?;
        if frame.len() == length { Ok(frame) } else { Err(io::Error::other("the frame is incomplete")) }
    };
    let frame = timeout(FRAME_TIMEOUT, rest).await.map_err(late)??;
    Ok(Some((frame, memory)))
}
