//! One hook's conversation with its tools: each call is answered once, from the hook's context, and written down
//! before it is answered, so that a successor of this agent goes on where it was (design 12).

use crate::tool_socket::Answer;
use commands::{CallOutcome, Inputs, Need, ToolReply};
use hook_client::RequestFrame;
use serde::{Deserialize, Serialize};
use state::terms::settings::Bag;
use state::unit::hook::{HookContext, Level, Reboot, ReportContent, Writes};
use state::unit::record::Said;
use state::unit::snapshot::BagRequest;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file a tool names is read up to this; as much as its stdin may hold.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// What one hook says and is remembered until it ends; more is in `calls.yaml` only.
const SAID_MAX: usize = 2_000;
/// The model's default level: lines below it are not stored (spec/clients.md 3.6).
const LEVEL_STORED: Level = Level::Info;

/// What a tool exits with that could not do its work.
const FAILED: u8 = 1;

const CALLS: &str = "calls.yaml";

/// Bytes as people read them where they are text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Bytes {
    Text(String),
    Raw { bytes: Vec<u8> },
}

impl Bytes {
    fn of(bytes: &[u8]) -> Bytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => Bytes::Text(text.to_owned()),
            Err(_) => Bytes::Raw { bytes: bytes.to_vec() },
        }
    }
    fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Text(text) => text.as_bytes(),
            Bytes::Raw { bytes } => bytes,
        }
    }
}

/// One answered call, as `calls.yaml` keeps it: what went in, so that the buffer can be rebuilt, and what came out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    call: u32,
    id: String,
    at_ms: i64,
    tool: String,
    args: Vec<Bytes>,
    cwd: Bytes,
    /// The unit led when it was asked.
    leads: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdin: Option<Bytes>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, Result<Bytes, String>>,
    code: u8,
    stdout: Bytes,
    stderr: Bytes,
}

/// A bag that a tool wanted and that did not come along, as `calls.yaml` keeps it: every later read in this hook finds
/// the same, whichever agent answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fetched {
    at_ms: i64,
    fetched: BagRequest,
    /// None: it was gone.
    values: Option<Bag>,
}

/// One line of `calls.yaml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Line {
    Call(Kept),
    Bag(Fetched),
}

/// `calls.yaml` of one run, appended to and never synced: it outlives the agent, not the machine.
#[derive(Debug)]
pub struct CallsFile(Option<File>);

impl CallsFile {
    pub fn open(run: &Path) -> CallsFile {
        let open = || {
            let path = run.join(CALLS);
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
            // half a line of an agent that died was never answered, and would swallow the next one
            let bytes = fs::read(path)?;
            file.set_len(whole_lines(&bytes) as u64)?;
            Ok(file)
        };
        CallsFile(open().inspect_err(|error: &io::Error| tracing::error!("{CALLS}: {error}")).ok())
    }

    /// The whole calls of an earlier agent; a torn last line was never answered. None: a line before the last cannot be
    /// read, so what the hook was told is not known.
    pub fn read(run: &Path) -> Option<Vec<Line>> {
        let bytes = fs::read(run.join(CALLS)).unwrap_or_default();
        let lines = bytes[..whole_lines(&bytes)].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line.strip_prefix(b"- ")?).ok()).collect()
    }

    fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let line = serde_json::to_string(line).expect("calls are plain data");
        let file = self.0.as_mut().ok_or_else(|| io::Error::other("the file cannot be opened"))?;
        let length = file.metadata()?.len();
        let written = file.write_all(format!("- {line}\n").as_bytes());
        // half a line would swallow the next one; if it cannot be cut off, no later call is taken either
        if written.is_err() && file.set_len(length).is_err() {
            self.0 = None;
        }
        written
    }
}

/// The length of the lines that have their end.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

/// The running hook, from its tools' side.
pub struct HookSession<'a> {
    context: HookContext,
    context_digest: String,
    calls: CallsFile,
    answered: BTreeMap<String, (u8, Bytes, Bytes)>,
    said: Vec<Said>,
    last_call: u32,
    /// What is said is numbered by itself: one call may say two things.
    last_said: u32,
    tell: &'a dyn Fn(&Said),
    leads: &'a dyn Fn() -> bool,
    /// Why the bag that the next call wants cannot be had.
    fetch_error: Option<String>,
}

impl<'a> HookSession<'a> {
    pub fn new(
        context: HookContext,
        context_digest: String,
        calls: CallsFile,
        tell: &'a dyn Fn(&Said),
        leads: &'a dyn Fn() -> bool,
    ) -> HookSession<'a> {
        let (answered, said) = (BTreeMap::new(), Vec::new());
        HookSession {
            context,
            context_digest,
            calls,
            answered,
            said,
            last_call: 0,
            last_said: 0,
            tell,
            leads,
            fetch_error: None,
        }
    }

    /// The hook asked for a reboot at once: it is ended, wherever it is.
    pub fn ends_boot(&self) -> bool {
        self.context.writes.reboot == Some(Reboot::Now)
    }

    /// Everything the hook wrote and said. Nothing can be added any more (invariant I33).
    pub fn close(self) -> (Writes, Vec<Said>) {
        (self.context.writes, self.said)
    }

    /// Rebuilds the buffer from the calls of an earlier agent. False: a call answers otherwise now, so what the
    /// hook was told is not what would be kept.
    pub fn replay(&mut self, lines: &[Line]) -> bool {
        lines.iter().all(|line| {
            let kept = match line {
                Line::Call(kept) => kept,
                Line::Bag(Fetched { fetched, values, .. }) => {
                    self.context.take_bag(fetched, values.clone());
                    return true;
                }
            };
            self.context.restrict_leadership(kept.leads);
            let args: Vec<Vec<u8>> = kept.args.iter().map(|arg| arg.as_slice().to_vec()).collect();
            let bytes = |kept: &Bytes| kept.as_slice().to_vec();
            let files = kept.files.iter();
            let inputs = Inputs {
                stdin: kept.stdin.as_ref().map(bytes),
                files: files
                    .map(|(path, found)| (path.clone(), found.as_ref().map(bytes).map_err(Clone::clone)))
                    .collect(),
            };
            let reply = match commands::call(&mut self.context, &kept.tool, &args, &inputs) {
                CallOutcome::Reply(reply) => reply,
                // no line has the bag: it could not be had, and the call failed
                CallOutcome::Need(Need::Bag(_)) => ToolReply { code: FAILED, ..ToolReply::default() },
                CallOutcome::Need(Need::Stdin | Need::File(_)) => return false,
            };
            self.last_call = kept.call;
            self.answered.insert(kept.id.clone(), (kept.code, kept.stdout.clone(), kept.stderr.clone()));
            self.remember(kept.at_ms, reply.reports);
            // a file the tool could not write made its answer a failure; that is not the context's doing
            let same_code = reply.code == kept.code || reply.output_file.is_some();
            same_code && reply.stdout == kept.stdout.as_slice()
        })
    }

    /// Takes the bag that a call wanted, or why it cannot be had; written down before anything is read from it.
    pub fn take_bag(&mut self, asked: &BagRequest, answered: Result<Option<Bag>, String>) {
        let kept = answered.and_then(|values| {
            let kept = Fetched { at_ms: crate::clock::wall_ms(), fetched: asked.clone(), values };
            match self.calls.append(&kept) {
                Ok(()) => Ok(kept.values),
                Err(error) => Err(format!("{} cannot be written down: {error}", asked.owner)),
            }
        });
        match kept {
            Ok(values) => self.context.take_bag(asked, values),
            Err(why) => self.fetch_error = Some(why),
        }
    }

    /// Answers one call: the same id, the same answer; written down before it is given. Err: the bag it wants is to be
    /// taken first, then it is to be asked again.
    pub fn answer(&mut self, frame: &[u8]) -> Result<Answer, BagRequest> {
        let Ok(request) = RequestFrame::decode(frame) else {
            return Ok(Answer::bad_request("malformed request"));
        };
        // never says which context is open (CVE-2024-6984)
        if host::digest::sha256(request.call.context_id) != self.context_digest {
            return Ok(Answer::closed());
        }
        let id = format!("{:032x}", u128::from_be_bytes(request.call.call_id));
        if let Some((code, stdout, stderr)) = self.answered.get(&id) {
            let (stdout, stderr) = (stdout.as_slice().to_vec(), stderr.as_slice().to_vec());
            return Ok(Answer::Done { code: *code, stdout, stderr });
        }
        let cwd = PathBuf::from(std::ffi::OsStr::from_bytes(request.call.cwd));
        if !cwd.is_absolute() {
            return Ok(Answer::bad_request("Dir is not absolute"));
        }
        let tool = String::from_utf8_lossy(request.call.tool).into_owned();
        let args: Vec<Vec<u8>> = request.args.clone().map(<[u8]>::to_vec).collect();
        let leads = (self.leads)();
        self.context.restrict_leadership(leads);
        let before = self.context.writes.clone();
        let mut inputs = Inputs { stdin: request.stdin.map(<[u8]>::to_vec), ..Inputs::default() };
        let reply = loop {
            match commands::call(&mut self.context, &tool, &args, &inputs) {
                CallOutcome::Reply(reply) => break reply,
                CallOutcome::Need(Need::Stdin) if inputs.stdin.is_none() => return Ok(Answer::NeedStdin),
                CallOutcome::Need(Need::Stdin) => {
                    return Ok(Answer::bad_request("stdin is asked for twice"));
                }
                CallOutcome::Need(Need::Bag(asked)) => match self.fetch_error.take() {
                    Some(why) => break ToolReply::error(FAILED, &why),
                    None => return Err(asked),
                },
                CallOutcome::Need(Need::File(path)) => {
                    let found = read_file(&cwd.join(expand(&path)), &path);
                    inputs.files.insert(path, found);
                }
            }
        };
        let (mut code, mut stderr) = (reply.code, reply.stderr);
        if let Some((path, bytes)) = &reply.output_file
            && let Err(error) = write_file(&cwd.join(expand(path)), bytes)
        {
            (code, stderr) = (1, format!("ERROR open {path}: {}\n", words(&error)).into_bytes());
        }
        let kept = Kept {
            call: self.last_call + 1,
            id: id.clone(),
            at_ms: crate::clock::wall_ms(),
            tool,
            args: args.iter().map(|arg| Bytes::of(arg)).collect(),
            cwd: Bytes::of(request.call.cwd),
            leads,
            stdin: inputs.stdin.as_deref().map(Bytes::of),
            files: inputs.files.iter().map(|(p, f)| (p.clone(), f.clone().map(|b| Bytes::of(&b)))).collect(),
            code,
            stdout: Bytes::of(&reply.stdout),
            stderr: Bytes::of(&stderr),
        };
        if let Err(error) = self.calls.append(&kept) {
            // what was not written down is not done: a successor could not know of it
            self.context.writes = before;
            tracing::error!("{CALLS}: {error}");
            let stderr = format!("ERROR the call cannot be written down: {error}\n").into_bytes();
            return Ok(Answer::Done { code: FAILED, stdout: Vec::new(), stderr });
        }
        self.last_call = kept.call;
        self.answered.insert(id, (code, kept.stdout, kept.stderr));
        self.remember(kept.at_ms, reply.reports);
        Ok(Answer::Done { code, stdout: reply.stdout, stderr })
    }

    fn remember(&mut self, at_ms: i64, immediate: Vec<ReportContent>) {
        let stored = immediate
            .into_iter()
            .filter(|what| !matches!(what, ReportContent::Log { level, .. } if *level < LEVEL_STORED));
        for what in stored {
            self.last_said += 1;
            let said = Said { call: self.last_said, at_ms, what: what.truncated() };
            (self.tell)(&said);
            if self.said.len() == SAID_MAX {
                // the oldest line makes way, never a status
                let oldest = self.said.iter().position(|said| said.what.is_log_line()).unwrap_or(0);
                self.said.remove(oldest);
            }
            self.said.push(said);
        }
    }
}

/// `~/` is the agent's user's home, as the charm's would be.
fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        (Some(_), None) | (None, _) => PathBuf::from(path),
    }
}

/// The words Go's os package has for an error, which charms know.
fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Opens a file and nothing else: a pipe would hold up the agent, and with it the unit.
fn plain_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("is not a file")),
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = plain_file(OpenOptions::new().write(true).create(true).truncate(true).mode(0o644), path)?;
    file.write_all(bytes)
}

fn read_file(path: &Path, named: &str) -> Result<Vec<u8>, String> {
    let read = || {
        let mut bytes = Vec::new();
        plain_file(OpenOptions::new().read(true), path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > FILE_BYTES_MAX {
            true => Err(io::Error::other("file too large")),
            false => Ok(bytes),
        }
    };
    read().map_err(|error: io::Error| format!("open {named}: {}", words(&error)))
}
