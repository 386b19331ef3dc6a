//! The tool calls of one hook: each call is answered from the hook's context, exactly once.
//!
//! A call is appended to `calls.yaml` before it is answered, so that an agent that re-attaches to the hook
//! continues from the same context (design 12). A repeated call with the same id receives the same answer.
//!
//! Called by `hook_process` with the calls that `tool_socket` accepts.

use crate::tool_socket::ToolAnswer;
use commands::{CallOutcome, Inputs, Need, ToolReply};
use hook_client::RequestFrame;
use serde::{Deserialize, Serialize};
use state::terms::settings::Bag;
use state::unit::hook::{HookContext, Level, Reboot, ReportContent, Writes};
use state::unit::record::RunReport;
use state::unit::snapshot::BagRequest;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The size limit of a file that a tool reads: the same as that of its stdin.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The number of reports of one hook that are kept until it ends; more are in `calls.yaml` only.
const REPORTS_REMEMBERED_MAX: usize = 2_000;
/// The default level of a model: lines below it are not stored (spec/clients.md 3.6).
const LEVEL_STORED: Level = Level::Info;

/// The exit code of a tool that failed.
const EXIT_FAILED: u8 = 1;

/// The file of the calls, in the folder of the run.
const CALLS: &str = "calls.yaml";

/// Bytes that are stored as text if they are valid UTF-8, so that they are readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum TextOrBytes {
    Text(String),
    Raw { bytes: Vec<u8> },
}

impl TextOrBytes {
    fn new(bytes: &[u8]) -> TextOrBytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => TextOrBytes::Text(text.to_owned()),
            Err(_) => TextOrBytes::Raw { bytes: bytes.to_vec() },
        }
    }
    fn as_slice(&self) -> &[u8] {
        match self {
            TextOrBytes::Text(text) => text.as_bytes(),
            TextOrBytes::Raw { bytes } => bytes,
        }
    }
}

/// One answered call in `calls.yaml`: the inputs, so that the context can be rebuilt, and the answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnsweredCall {
    call: u32,
    id: String,
    at_ms: i64,
    tool: String,
    args: Vec<TextOrBytes>,
    cwd: TextOrBytes,
    /// Whether the unit led when the call was answered.
    leads: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdin: Option<TextOrBytes>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, Result<TextOrBytes, String>>,
    code: u8,
    stdout: TextOrBytes,
    stderr: TextOrBytes,
}

/// A bag that was omitted from the view and that a tool has read, as `calls.yaml` stores it: every later read
/// in this hook returns the same values, whichever agent answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FetchedBagLine {
    at_ms: i64,
    fetched: BagRequest,
    /// None if the bag no longer existed.
    values: Option<Bag>,
}

/// One line of `calls.yaml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CallsLine {
    /// An answered call.
    Call(AnsweredCall),
    /// A fetched bag.
    Bag(FetchedBagLine),
}

/// `calls.yaml` of one run. It is appended to and never synced, because it must outlive the agent but not the
/// boot.
#[derive(Debug)]
pub struct CallsFile(Option<File>);

impl CallsFile {
    /// Opens the file in the folder of a run. If that fails, every call is refused.
    pub fn open(run: &Path) -> CallsFile {
        let open = || {
            let path = run.join(CALLS);
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
            // an incomplete last line was never answered, and would corrupt the next line
            let bytes = fs::read(path)?;
            file.set_len(whole_lines(&bytes) as u64)?;
            Ok(file)
        };
        CallsFile(
            open().inspect_err(|error: &io::Error| tracing::error!("cannot open {CALLS}: {error}")).ok(),
        )
    }

    /// The calls that an earlier agent answered, without an incomplete last line. None if a line cannot be
    /// read, so that the answers which the hook has received are unknown.
    pub fn read(run: &Path) -> Option<Vec<CallsLine>> {
        let bytes = fs::read(run.join(CALLS)).unwrap_or_default();
        let lines = bytes[..whole_lines(&bytes)].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line.strip_prefix(b"- ")?).ok()).collect()
    }

    fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let line = serde_json::to_string(line).expect("calls are plain data");
        let file = self.0.as_mut().ok_or_else(|| io::Error::other("the file is not open"))?;
        let length = file.metadata()?.len();
        let written = file.write_all(format!("- {line}\n").as_bytes());
        // an incomplete line would corrupt the next one; if it cannot be removed, all later calls are refused
        if written.is_err() && file.set_len(length).is_err() {
            self.0 = None;
        }
        written
    }
}

/// The length of the complete lines.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}

/// The session of one running hook with its tools.
pub struct HookSession<'a> {
    context: HookContext,
    context_digest: String,
    calls: CallsFile,
    answered: BTreeMap<String, (u8, TextOrBytes, TextOrBytes)>,
    reports: Vec<RunReport>,
    last_call: u32,
    /// The number of the last report. Reports have their own numbers, because one call may make two reports.
    last_report: u32,
    on_report: &'a dyn Fn(&RunReport),
    is_leader: &'a dyn Fn() -> bool,
    /// Why the bag that the next call needs cannot be fetched.
    fetch_error: Option<String>,
}

impl<'a> HookSession<'a> {
    /// A session without calls. `on_report` receives each report at once; `is_leader` returns whether the unit leads.
    pub fn new(
        context: HookContext,
        context_digest: String,
        calls: CallsFile,
        on_report: &'a dyn Fn(&RunReport),
        is_leader: &'a dyn Fn() -> bool,
    ) -> HookSession<'a> {
        let (answered, reports) = (BTreeMap::new(), Vec::new());
        HookSession {
            context,
            context_digest,
            calls,
            answered,
            reports,
            last_call: 0,
            last_report: 0,
            on_report,
            is_leader,
            fetch_error: None,
        }
    }

    /// Whether the hook requested an immediate reboot: the hook is killed then.
    pub fn requests_reboot(&self) -> bool {
        self.context.writes.reboot == Some(Reboot::Now)
    }

    /// Ends the session, and returns what the hook wrote and reported. No later call can change it (invariant
    /// I33).
    pub fn close(self) -> (Writes, Vec<RunReport>) {
        (self.context.writes, self.reports)
    }

    /// Repeats the calls of an earlier agent to rebuild the context. Returns false if a call is answered
    /// differently now, so that the context would not match the answers which the hook has received.
    pub fn replay(&mut self, lines: &[CallsLine]) -> bool {
        lines.iter().all(|line| {
            let answered = match line {
                CallsLine::Call(answered) => answered,
                CallsLine::Bag(FetchedBagLine { fetched, values, .. }) => {
                    self.context.insert_bag(fetched, values.clone());
                    return true;
                }
            };
            self.context.restrict_leadership(answered.leads);
            let args: Vec<Vec<u8>> = answered.args.iter().map(|arg| arg.as_slice().to_vec()).collect();
            let bytes = |stored: &TextOrBytes| stored.as_slice().to_vec();
            let files = answered.files.iter();
            let inputs = Inputs {
                stdin: answered.stdin.as_ref().map(bytes),
                files: files
                    .map(|(path, found)| (path.clone(), found.as_ref().map(bytes).map_err(Clone::clone)))
                    .collect(),
            };
            let reply = match commands::call(&mut self.context, &answered.tool, &args, &inputs) {
                CallOutcome::Reply(reply) => reply,
                // the file has no such bag: it could not be fetched, and the call failed
                CallOutcome::Need(Need::Bag(_)) => ToolReply { code: EXIT_FAILED, ..ToolReply::default() },
                CallOutcome::Need(Need::Stdin | Need::File(_)) => return false,
            };
            self.last_call = answered.call;
            self.answered.insert(
                answered.id.clone(),
                (answered.code, answered.stdout.clone(), answered.stderr.clone()),
            );
            self.add_reports(answered.at_ms, reply.reports);
            // An output file that could not be written made the answer a failure, which is independent of the
            // context.
            let is_same_code = reply.code == answered.code || reply.output_file.is_some();
            is_same_code && reply.stdout == answered.stdout.as_slice()
        })
    }

    /// Adds the bag that a call needs, or the reason why it cannot be fetched. The bag is stored before
    /// anything is read from it.
    pub fn insert_bag(&mut self, request: &BagRequest, fetched: Result<Option<Bag>, String>) {
        let stored = fetched.and_then(|values| {
            let line = FetchedBagLine { at_ms: crate::clock::wall_ms(), fetched: request.clone(), values };
            match self.calls.append(&line) {
                Ok(()) => Ok(line.values),
                Err(error) => Err(format!("cannot store the settings of {}: {error}", request.owner)),
            }
        });
        match stored {
            Ok(values) => self.context.insert_bag(request, values),
            Err(reason) => self.fetch_error = Some(reason),
        }
    }

    /// Answers one call. A repeated id receives the same answer. The call is stored before it is answered.
    ///
    /// # Errors
    /// The bag that the call needs: the caller fetches it, passes it to [`HookSession::insert_bag`], and calls
    /// again.
    pub fn answer(&mut self, frame: &[u8]) -> Result<ToolAnswer, BagRequest> {
        let Ok(request) = RequestFrame::decode(frame) else {
            return Ok(ToolAnswer::bad_request("malformed request"));
        };
        // the answer does not reveal which context is open (CVE-2024-6984)
        if host::digest::sha256(request.call.context_id) != self.context_digest {
            return Ok(ToolAnswer::closed());
        }
        let id = format!("{:032x}", u128::from_be_bytes(request.call.call_id));
        if let Some((code, stdout, stderr)) = self.answered.get(&id) {
            let (stdout, stderr) = (stdout.as_slice().to_vec(), stderr.as_slice().to_vec());
            return Ok(ToolAnswer::Done { code: *code, stdout, stderr });
        }
        let cwd = PathBuf::from(std::ffi::OsStr::from_bytes(request.call.cwd));
        if !cwd.is_absolute() {
            return Ok(ToolAnswer::bad_request("Dir is not absolute"));
        }
        let tool = String::from_utf8_lossy(request.call.tool).into_owned();
        let args: Vec<Vec<u8>> = request.args.clone().map(<[u8]>::to_vec).collect();
        let leads = (self.is_leader)();
        self.context.restrict_leadership(leads);
        let before = self.context.writes.clone();
        let mut inputs = Inputs { stdin: request.stdin.map(<[u8]>::to_vec), ..Inputs::default() };
        let reply = loop {
            match commands::call(&mut self.context, &tool, &args, &inputs) {
                CallOutcome::Reply(reply) => break reply,
                CallOutcome::Need(Need::Stdin) if inputs.stdin.is_none() => return Ok(ToolAnswer::NeedStdin),
                CallOutcome::Need(Need::Stdin) => {
                    return Ok(ToolAnswer::bad_request("stdin is requested twice"));
                }
                CallOutcome::Need(Need::Bag(bag_request)) => match self.fetch_error.take() {
                    Some(reason) => break ToolReply::error(EXIT_FAILED, &reason),
                    None => return Err(bag_request),
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
            (code, stderr) = (1, format!("ERROR open {path}: {}\n", go_error_text(&error)).into_bytes());
        }
        let call = AnsweredCall {
            call: self.last_call + 1,
            id: id.clone(),
            at_ms: crate::clock::wall_ms(),
            tool,
            args: args.iter().map(|arg| TextOrBytes::new(arg)).collect(),
            cwd: TextOrBytes::new(request.call.cwd),
            leads,
            stdin: inputs.stdin.as_deref().map(TextOrBytes::new),
            files: inputs
                .files
                .iter()
                .map(|(p, f)| (p.clone(), f.clone().map(|b| TextOrBytes::new(&b))))
                .collect(),
            code,
            stdout: TextOrBytes::new(&reply.stdout),
            stderr: TextOrBytes::new(&stderr),
        };
        if let Err(error) = self.calls.append(&call) {
            // a call that is not stored must have no effect, because a later agent could not repeat it
            self.context.writes = before;
            tracing::error!("cannot append to {CALLS}: {error}");
            let stderr = format!("ERROR cannot store the call: {error}\n").into_bytes();
            return Ok(ToolAnswer::Done { code: EXIT_FAILED, stdout: Vec::new(), stderr });
        }
        self.last_call = call.call;
        self.answered.insert(id, (code, call.stdout, call.stderr));
        self.add_reports(call.at_ms, reply.reports);
        Ok(ToolAnswer::Done { code, stdout: reply.stdout, stderr })
    }

    /// Adds the reports of a call that are stored, and passes them on.
    fn add_reports(&mut self, at_ms: i64, contents: Vec<ReportContent>) {
        let stored = contents
            .into_iter()
            .filter(|what| !matches!(what, ReportContent::Log { level, .. } if *level < LEVEL_STORED));
        for what in stored {
            self.last_report += 1;
            let report = RunReport { call: self.last_report, at_ms, what: what.truncated() };
            (self.on_report)(&report);
            if self.reports.len() == REPORTS_REMEMBERED_MAX {
                // the oldest log line is dropped; a status is not
                let oldest = self.reports.iter().position(|report| report.what.is_log_line()).unwrap_or(0);
                self.reports.remove(oldest);
            }
            self.reports.push(report);
        }
    }
}

/// Expands `~/` to the home of the agent's user, which is the charm's user.
fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        (Some(_), None) | (None, _) => PathBuf::from(path),
    }
}

/// The text of Go's os package for an error, which charms match.
fn go_error_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Opens a regular file. Anything else is refused, because a pipe would block the agent.
fn open_regular_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file =
        open_regular_file(OpenOptions::new().write(true).create(true).truncate(true).mode(0o644), path)?;
    file.write_all(bytes)
}

fn read_file(path: &Path, shown_path: &str) -> Result<Vec<u8>, String> {
    let read = || {
        let mut bytes = Vec::new();
        open_regular_file(OpenOptions::new().read(true), path)?
            .take(FILE_BYTES_MAX + 1)
            .read_to_end(&mut bytes)?;
        match bytes.len() as u64 > FILE_BYTES_MAX {
            true => Err(io::Error::other("file too large")),
            false => Ok(bytes),
        }
    };
    read().map_err(|error: io::Error| format!("open {shown_path}: {}", go_error_text(&error)))
}
