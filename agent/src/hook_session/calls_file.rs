//! `calls.yaml`, the file of a run's tool calls: one line per call with its inputs and its answer.
//!
//! A later agent rebuilds the context of the hook from it. It is appended to and never synced, because it must
//! outlive the agent but not the boot. Its size is bounded.

mod call_text;

pub use call_text::ShownCall;
use host::escape::json_as_yaml;
use host::file::{ignore_not_found, open_regular, read_regular};
use serde::{Deserialize, Serialize};
use state::terms::secret::SecretId;
use state::terms::settings::Bag;
use state::unit::relation_view::BagRequest;
use state::unit::secret_mask::SecretMask;
use state::unit::secrets::SecretWrites;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The size of `calls.yaml` beyond which calls that change nothing are refused. Most take 300 bytes: usually 100,000
/// calls of one hook. A log line, or a relation-set that does not change the value, is stored whole: some 30 of 1 MiB.
pub const CALLS_BYTES_MAX: u64 = 32 << 20;
/// The size beyond which every call is refused. It is a budget for calls with an effect and fetched settings. The
/// largest stdin fits: 16 MiB, each byte up to six times as long in JSON, are 96 MiB. With a masked copy of such a
/// stdin, 192 MiB, it does not fit, and the call is refused.
pub const CALLS_WITH_EFFECT_BYTES_MAX: u64 = 128 << 20;
/// The largest file that is read: what is appended, twice for the marks in the place of masked contents.
const CALLS_FILE_BYTES_MAX: u64 = 2 * CALLS_WITH_EFFECT_BYTES_MAX;
/// The part of a failed call's output and tool name that is stored if the call is long: enough to recognise it.
const EXCERPT_BYTES: usize = 200;
/// What people are shown instead of a text that has no placeholder: the value of an argument `key=value`, or the parts
/// of a hidden call.
pub(crate) const HIDDEN: &str = "*****";
/// The tool that reads the content of a secret. Its arguments never contain one.
pub(super) const SECRET_GET: &str = "secret-get";
/// The tool whose answer is never shown: it contains the keys to a cloud.
pub(super) const CREDENTIAL_GET: &str = "credential-get";
/// The file of the calls, in the folder of the run.
pub(crate) const CALLS: &str = "calls.yaml";

/// Bytes that are stored as text if they are valid UTF-8, so that they are readable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StoredBytes {
    Text(String),
    Raw {
        bytes: Vec<u8>,
    },
    /// The bytes can be produced again; only their digest and their number are stored.
    Digest {
        sha256: String,
        length: usize,
    },
}

impl StoredBytes {
    pub(crate) fn new(bytes: &[u8]) -> StoredBytes {
        match std::str::from_utf8(bytes) {
            Ok(text) => StoredBytes::Text(text.to_owned()),
            Err(_) => StoredBytes::Raw { bytes: bytes.to_vec() },
        }
    }
    pub(crate) fn from_vec(bytes: Vec<u8>) -> StoredBytes {
        match String::from_utf8(bytes) {
            Ok(text) => StoredBytes::Text(text),
            Err(error) => StoredBytes::Raw { bytes: error.into_bytes() },
        }
    }
    pub(crate) fn digest(bytes: &[u8]) -> StoredBytes {
        StoredBytes::Digest { sha256: host::digest::sha256(bytes), length: bytes.len() }
    }
    /// The beginning of the bytes, as text.
    fn excerpt(bytes: &[u8]) -> StoredBytes {
        StoredBytes::Text(String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT_BYTES)]).into_owned())
    }
    /// The bytes; none if only their digest is stored.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            StoredBytes::Text(text) => text.as_bytes(),
            StoredBytes::Raw { bytes } => bytes,
            StoredBytes::Digest { .. } => &[],
        }
    }
    pub(crate) fn is(&self, other: &[u8]) -> bool {
        match self {
            StoredBytes::Digest { .. } => *self == StoredBytes::digest(other),
            StoredBytes::Text(_) | StoredBytes::Raw { .. } => self.as_slice() == other,
        }
    }
}

/// One answered call in `calls.yaml`: the inputs, so that the context can be rebuilt, and the answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnsweredCall {
    pub(crate) call: u32,
    pub(crate) id: String,
    pub(crate) at_ms: i64,
    /// The process that called. None if the kernel did not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<i32>,
    pub(crate) tool: String,
    pub(crate) args: Vec<StoredBytes>,
    pub(crate) cwd: StoredBytes,
    /// Whether the unit led when the call was answered.
    pub(crate) is_leader: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdin: Option<StoredBytes>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) files: BTreeMap<String, Result<StoredBytes, String>>,
    /// The digest of the whole request of a failed call, whose inputs are not stored: nothing depends on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request_digest: Option<StoredBytes>,
    pub(crate) code: u8,
    pub(crate) stdout: StoredBytes,
    pub(crate) stderr: StoredBytes,
    /// What people are shown of the call, if its inputs or its answer contain the content of a secret that the hook had
    /// read or written, or if the call is hidden ([`AnsweredCall::hide`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) masked: Option<MaskedCall>,
}

/// The inputs and the answer of a call in which the contents of secrets are masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MaskedCall {
    pub(crate) args: Vec<StoredBytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stdin: Option<StoredBytes>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) files: BTreeMap<String, Result<StoredBytes, String>>,
    pub(crate) stdout: StoredBytes,
    pub(crate) stderr: StoredBytes,
}

impl AnsweredCall {
    /// Records what people are shown of the call. The call itself is stored unchanged, because a later agent repeats
    /// it.
    pub(crate) fn mask(&mut self, secrets: &SecretMask) {
        if secrets.is_empty() {
            return;
        }
        let masked = |bytes: &StoredBytes| match bytes {
            StoredBytes::Text(text) => secrets.masked(text).map_or_else(|| bytes.clone(), StoredBytes::Text),
            StoredBytes::Raw { bytes: raw } => {
                let masked = secrets.masked(&String::from_utf8_lossy(raw));
                masked.map_or_else(|| bytes.clone(), StoredBytes::Text)
            }
            StoredBytes::Digest { .. } => bytes.clone(),
        };
        let file = |(path, found): (&String, &Result<StoredBytes, String>)| {
            (path.clone(), found.as_ref().map(masked).map_err(Clone::clone))
        };
        let shown = MaskedCall {
            args: self.args.iter().map(masked).collect(),
            stdin: self.stdin.as_ref().map(masked),
            files: self.files.iter().map(file).collect(),
            stdout: masked(&self.stdout),
            stderr: masked(&self.stderr),
        };
        let unmasked = MaskedCall {
            args: self.args.clone(),
            stdin: self.stdin.clone(),
            files: self.files.clone(),
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
        };
        self.masked = (shown != unmasked).then_some(shown);
    }

    /// Hides the arguments, stdin, files and output of the call from people: they may contain the keys to a cloud
    /// (credential-get), or contents of secrets that an earlier agent has answered with. The tool, the folder and the
    /// exit code are still shown.
    pub(crate) fn hide(&mut self) {
        let hidden = || StoredBytes::Text(HIDDEN.to_owned());
        let (args, files) = (self.args.iter().map(|_| hidden()).collect(), BTreeMap::new());
        let (stdin, stdout, stderr) = (self.stdin.as_ref().map(|_| hidden()), hidden(), hidden());
        self.masked = Some(MaskedCall { args, stdin, files, stdout, stderr });
    }

    /// The call as people are shown it.
    pub(crate) fn shown(self) -> AnsweredCall {
        let Some(MaskedCall { args, stdin, files, stdout, stderr }) = self.masked else { return self };
        AnsweredCall { args, stdin, files, stdout, stderr, masked: None, ..self }
    }

    /// Replaces the output of a call that has changed nothing by its digest.
    pub(crate) fn replace_stdout_by_digest(&mut self) {
        self.stdout = StoredBytes::digest(self.stdout.as_slice());
        if let Some(masked) = &mut self.masked {
            masked.stdout = self.stdout.clone();
        }
    }

    /// Replaces the inputs of a failed call by the digest of its request, and cuts the tool's name and the answer to
    /// [`EXCERPT_BYTES`]: an error message may repeat long inputs.
    pub(crate) fn replace_inputs_by_digest(&mut self, request: &[u8]) {
        self.request_digest = Some(StoredBytes::digest(request));
        self.tool =
            String::from_utf8_lossy(&self.tool.as_bytes()[..self.tool.len().min(EXCERPT_BYTES)]).into_owned();
        (self.args, self.stdin, self.files) = Default::default();
        self.cwd = StoredBytes::new(b"");
        if let Some(MaskedCall { stdout, stderr, .. }) = self.masked.take() {
            (self.stdout, self.stderr) = (stdout, stderr);
        }
        self.stdout = StoredBytes::excerpt(self.stdout.as_slice());
        self.stderr = StoredBytes::excerpt(self.stderr.as_slice());
    }
}

/// One answered call of a tool whose inputs or output may contain the content of a secret: its arguments and its effect
/// without the content, which is sealed. A repetition of a call without an effect, and of every secret-get, is answered
/// anew.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConfidentialCall {
    pub(crate) call: u32,
    pub(crate) id: String,
    pub(crate) at_ms: i64,
    pub(crate) pid: Option<i32>,
    pub(crate) confidential_tool: String,
    /// The arguments, without contents; none for a call that failed, unless it is secret-get, whose arguments contain
    /// no content.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<String>,
    /// The placeholders of the content that was read, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) keys: BTreeMap<String, String>,
    /// What a secret-get that failed has printed on stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    pub(crate) is_leader: bool,
    pub(crate) code: u8,
    /// What the call has changed, and what it printed; none if it changed nothing.
    pub(crate) effect: Option<SecretEffect>,
}

/// The effect of a call on the buffer of the hook.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SecretEffect {
    /// None if it contains the content of a secret.
    pub(crate) printed: Option<String>,
    pub(crate) secrets: SecretWrites,
    /// Secrets that the hook had created and removes again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) dropped: BTreeSet<SecretId>,
}

/// A bag that was omitted from the view and that a tool has read, as `calls.yaml` stores it: every later read
/// in this hook returns the same values, whichever agent answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FetchedBagLine {
    pub(crate) at_ms: i64,
    pub(crate) fetched: BagRequest,
    /// None if the bag no longer existed.
    pub(crate) values: Option<Bag>,
}

/// One line of `calls.yaml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CallsLine {
    /// An answered call.
    Call(AnsweredCall),
    /// A call that may concern the content of a secret.
    Confidential(ConfidentialCall),
    /// A fetched bag.
    Bag(FetchedBagLine),
}

/// `calls.yaml` of one run. It is created with the first call, because most hooks of some charms call no tool.
#[derive(Debug)]
pub struct CallsFile {
    path: PathBuf,
    file: CallsFileState,
}

#[derive(Debug)]
enum CallsFileState {
    Absent,
    Open(File),
    /// Every call is refused.
    Unusable,
}

impl CallsFile {
    /// Opens the file in the folder of a run, if it exists. If that fails, every call is refused.
    pub fn open(run: &Path) -> CallsFile {
        let path = run.join(CALLS);
        let open = || {
            let read = read_regular(&path, CALLS_FILE_BYTES_MAX);
            let Some((bytes, _)) = ignore_not_found(read)? else { return Ok(CallsFileState::Absent) };
            let file = OpenOptions::new().append(true).open(&path)?;
            // an incomplete last line was never answered, and would corrupt the next line
            file.set_len(whole_lines(&bytes) as u64)?;
            Ok(CallsFileState::Open(file))
        };
        let file = open().unwrap_or_else(|error: io::Error| {
            tracing::error!("cannot open {CALLS}: {error}");
            CallsFileState::Unusable
        });
        CallsFile { path, file }
    }

    /// The folder of the run. None if the file cannot be used, or for [`CallsFile::closed`].
    pub(super) fn run_folder(&self) -> Option<&Path> {
        self.path.parent().filter(|_| !matches!(self.file, CallsFileState::Unusable))
    }

    /// No file, for a session that repeats recorded calls and answers no others.
    pub(crate) fn closed() -> CallsFile {
        CallsFile { path: PathBuf::new(), file: CallsFileState::Unusable }
    }

    /// The calls that an earlier agent answered, without an incomplete last line. None if the file or a line of it
    /// cannot be read, so that the answers which the hook has received are unknown.
    pub fn read(run: &Path) -> Option<Vec<CallsLine>> {
        let read = read_regular(&run.join(CALLS), CALLS_FILE_BYTES_MAX);
        let bytes = ignore_not_found(read).ok()?.map_or_else(Vec::new, |(bytes, _)| bytes);
        let lines = bytes[..whole_lines(&bytes)].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line.strip_prefix(b"- ")?).ok()).collect()
    }

    /// Appends a line, unless the file would have more than `bytes_max` bytes then.
    pub fn append(&mut self, line: &impl Serialize, bytes_max: u64) -> Result<(), AppendError> {
        let json = serde_json::to_string(line).expect("calls are plain data");
        let bytes = format!("- {}\n", json_as_yaml(&json)).into_bytes();
        if matches!(self.file, CallsFileState::Absent) {
            let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&self.path)?;
            self.file = CallsFileState::Open(file);
        }
        let CallsFileState::Open(file) = &mut self.file else {
            return Err(io::Error::other("the file is not open").into());
        };
        let length = file.metadata()?.len();
        if length + bytes.len() as u64 > bytes_max {
            return Err(AppendError::Full { bytes_max });
        }
        let written = file.write_all(&bytes);
        // an incomplete line would corrupt the next one; if it cannot be removed, all later calls are refused
        if written.is_err() && file.set_len(length).is_err() {
            self.file = CallsFileState::Unusable;
        }
        Ok(written?)
    }
}

/// Why a call cannot be stored.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error("the stored tool calls of this run would exceed {} MiB", bytes_max >> 20)]
    Full {
        /// The limit that is reached.
        bytes_max: u64,
    },
    #[error(transparent)]
    File(#[from] io::Error),
}

/// The calls that were appended after the first `offset` bytes, and the length of the complete lines; for a reader
/// beside the agent. A line that cannot be read is left out.
pub fn lines_after(run: &Path, offset: u64) -> (Vec<CallsLine>, u64) {
    let mut bytes = Vec::new();
    let mut read = || {
        let (mut file, _) = open_regular(&run.join(CALLS))?;
        file.seek(SeekFrom::Start(offset))?;
        file.take(CALLS_FILE_BYTES_MAX).read_to_end(&mut bytes)
    };
    read().ok();
    bytes.truncate(whole_lines(&bytes));
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"- "));
    (lines.filter_map(|line| serde_json::from_slice(line).ok()).collect(), offset + bytes.len() as u64)
}

/// The length of the complete lines.
fn whole_lines(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1)
}
