//! The parts of a tool: its description, one invocation of it, and its results.
//!
//! A tool reads the context and writes to it only if it succeeds. Used by every file that implements a tool.

use crate::flags::{Flag, ParsedArguments};
use crate::quote::quote_all;
use crate::settings_file;
use crate::value::Value;
use state::agents::secret_read::SecretRead;
use state::terms::names::RelationNumber;
use state::terms::owner::Owner;
use state::terms::port_range::PORT_RANGES_MAX;
use state::terms::secret::{SecretContent, SecretId, SecretOwnerKind};
use state::terms::settings::{BAG_BYTES_MAX, BagChange};
use state::terms::store_engine::StoreEngine;
use state::unit::hook_context::{
    HOOK_DOCUMENTS_MAX, HOOK_WRITES_BYTES_MAX, HookContext, HookRelation, HookWriteError, ReportContent,
};
use state::unit::relation_view::BagRequest;
use std::collections::BTreeMap;

/// The description of one tool.
pub struct Tool {
    /// The name under which hooks call it.
    pub name: &'static str,
    /// The positional arguments, for the usage line.
    pub arguments: &'static str,
    /// One sentence for the help.
    pub summary: &'static str,
    /// Further sentences for the help; may be empty.
    pub details: &'static str,
    /// The flags that it accepts.
    pub flags: &'static [Flag],
    /// Whether it refuses arguments that are not UTF-8 (design 17). Other tools receive invalid bytes as replacement
    /// characters.
    pub requires_utf8: bool,
    /// Whether its arguments, inputs or output may contain the content of a secret ([`crate::is_confidential`]).
    pub is_confidential: bool,
    /// Its implementation.
    pub run: fn(&mut Invocation) -> Result<ToolOutput, ToolError>,
}

/// One call of a tool, with its arguments parsed.
pub struct Invocation<'a> {
    /// The context of the hook that calls the tool.
    pub context: &'a mut HookContext,
    /// The arguments.
    pub parsed: ParsedArguments,
    /// The content that the caller has supplied.
    pub inputs: &'a Inputs,
}

/// Content that the caller has read for the tool.
///
/// It is empty in the first call. Standard input is read only if a tool requires it, because a tool inside a `while
/// read` loop must not consume the input of the loop.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// All of standard input; `None` if it was not read.
    pub stdin: Option<Vec<u8>>,
    /// The content of files, by the path as the tool named it. The error is the text of the failed open
    /// (`open /x: no such file or directory`).
    pub files: BTreeMap<String, Result<Vec<u8>, String>>,
    /// The controller's answer to [`Need::LeaderSettings`]; the error is the reason for the charm. `None` if the
    /// change was not requested yet.
    pub leader_write: Option<Result<(), String>>,
    /// The controller's answer to [`Need::Secret`]; the error is the text for the charm. `None` if it was not asked.
    pub secret: Option<Result<SecretAnswer, String>>,
    /// The path of the file that [`Need::Resource`] requires; the error is the reason for the charm. `None` if it was not
    /// requested yet.
    pub resource: Option<Result<String, String>>,
    /// The wall clock in milliseconds since 1970, for the time at which a secret expires.
    pub now_ms: i64,
}

/// What a tool requires of the controller for a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretRequest {
    /// Seal a content, so that the writes of the hook can contain it.
    Seal {
        /// The secret; none for a new one.
        secret: Option<SecretId>,
        /// The owner.
        owner: SecretOwnerKind,
        /// The content.
        content: SecretContent,
    },
    /// Read a stored content.
    Read(SecretRead),
    /// Open a content that this hook has written.
    Open {
        /// The secret.
        secret: SecretId,
        /// The sealed content.
        sealed: String,
    },
}

/// What the controller answers to a [`SecretRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretAnswer {
    /// The sealed content.
    Sealed {
        /// The secret.
        secret: SecretId,
        /// The content, which only the controller can open.
        sealed: String,
    },
    /// The content.
    Content(SecretContent),
}

/// A file of a resource that a tool requires on the disk of the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRequest {
    /// The resource.
    pub name: String,
    /// The name of the file, as the charm declares it.
    pub filename: String,
    /// The digest of the file.
    pub sha256: String,
}

/// Content that a tool requires before it can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// All of standard input.
    Stdin,
    /// A file. The caller resolves the path against the working directory of the client, and a leading `~/`.
    File(String),
    /// A bag that the view omits. The caller adds it to the context of the hook.
    Bag(BagRequest),
    /// A change of the leader settings at the controller, which must succeed before the tool does.
    LeaderSettings(BagChange),
    /// A request about a secret to the controller.
    Secret(SecretRequest),
    /// The file of a resource.
    Resource(ResourceRequest),
}

/// The outcome of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallOutcome {
    /// The tool has run, or was refused.
    Reply(ToolReply),
    /// The tool requires content. Nothing has changed.
    Need(Need),
}

/// The output and exit code for the client, and what the caller does for the tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolReply {
    /// The exit code: 0 for success, 1 for a failure, 2 for a usage error.
    pub code: u8,
    /// The text for standard output.
    pub stdout: Vec<u8>,
    /// The text for standard error.
    pub stderr: Vec<u8>,
    /// Statuses and log lines that the caller sends at once, in this order, even if the hook fails later.
    pub reports: Vec<ReportContent>,
    /// A file to write instead of standard output. The path is relative to the working directory of the client.
    pub output_file: Option<(String, Vec<u8>)>,
}

impl ToolReply {
    /// Success that prints `text`.
    pub fn printed(text: String) -> ToolReply {
        ToolReply { stdout: text.into_bytes(), ..ToolReply::default() }
    }

    /// A failure with the exit code `code` that prints `ERROR text`.
    pub fn error(code: u8, text: &str) -> ToolReply {
        ToolReply { code, stderr: format!("ERROR {text}\n").into_bytes(), ..ToolReply::default() }
    }
}

/// The result of a tool that succeeded.
#[derive(Debug, Default)]
pub struct ToolOutput {
    /// The value to print in the format that was requested; `None` prints nothing.
    pub value: Option<Value>,
    /// A line to print, for a tool without formats.
    pub line: Option<String>,
    /// Text to print without a newline.
    pub unterminated: Option<String>,
    /// Statuses and log lines to send at once, in this order.
    pub reports: Vec<ReportContent>,
}

impl ToolOutput {
    /// Prints and sends nothing.
    pub fn silent() -> ToolOutput {
        ToolOutput::default()
    }

    /// Prints a value.
    pub fn value(value: Value) -> ToolOutput {
        ToolOutput { value: Some(value), ..ToolOutput::default() }
    }

    /// Prints nothing and sends one report.
    pub fn report(report: ReportContent) -> ToolOutput {
        ToolOutput { reports: vec![report], ..ToolOutput::default() }
    }
}

/// Why a tool did not succeed, or not yet.
#[derive(Debug)]
pub enum ToolError {
    /// The tool was called with invalid arguments: exit code 2. charm-helpers interprets this code as "no data", so it
    /// is never used for a failure.
    Usage(String),
    /// The tool failed: exit code 1.
    Failed(String),
    /// The tool requires content first.
    Need(Need),
}

impl From<HookWriteError> for ToolError {
    fn from(error: HookWriteError) -> ToolError {
        ToolError::Failed(match error {
            HookWriteError::ContainsNul { key } => {
                format!("relation setting {key:?} contains NUL, which no setting may contain")
            }
            HookWriteError::BagTooLarge { bytes } => format!(
                "relation settings of {bytes} bytes are too large: a bag holds {BAG_BYTES_MAX} bytes at most"
            ),
            HookWriteError::TooManyPorts { count } => {
                format!("{count} port ranges are too many: a unit opens at most {PORT_RANGES_MAX}")
            }
            HookWriteError::TooManyDocuments => {
                format!("one hook may change at most {HOOK_DOCUMENTS_MAX} documents")
            }
            HookWriteError::WritesTooLarge { bytes, engine } => format!(
                "the relation settings of this unit and the changes of this hook would take {bytes} bytes: {} at most{}",
                engine.hook_writes_bytes_max(),
                cause(engine)
            ),
            HookWriteError::OtherWritesTooLarge { bytes } => format!(
                "the stored state of this unit and what this hook changes beside relation settings would take {bytes} \
                 bytes: {HOOK_WRITES_BYTES_MAX} at most"
            ),
            HookWriteError::TooManyChanges { bytes, engine } => format!(
                "the changes of this hook, with the keys that it deletes, take {bytes} bytes: {} at most{}",
                engine.hook_sent_bytes_max(),
                cause(engine)
            ),
            HookWriteError::LeaderSettings(problem) => problem.to_string(),
        })
    }
}

/// The end of a message about a bound that depends on the engine.
fn cause(engine: StoreEngine) -> &'static str {
    match engine {
        StoreEngine::Sqlite => "",
        StoreEngine::Etcd => ", because the controller stores its models in etcd",
    }
}

/// Returns a usage error with this text.
pub fn usage<T>(text: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::Usage(text.into()))
}

/// Returns a failure with this text.
pub fn failed<T>(text: impl Into<String>) -> Result<T, ToolError> {
    Err(ToolError::Failed(text.into()))
}

impl Invocation<'_> {
    /// Returns the positional arguments.
    ///
    /// # Errors
    /// A usage error if there are more than `max`.
    pub fn positionals(&self, max: usize) -> Result<&[String], ToolError> {
        match self.parsed.positionals.get(max..) {
            Some(extra) if !extra.is_empty() => usage(format!("unrecognized args: {}", quote_all(extra))),
            _ => Ok(&self.parsed.positionals),
        }
    }

    /// Returns the relation that `-r` names. The default is the relation of the hook.
    ///
    /// # Errors
    /// A usage error if neither names one, and a failure if the unit is not in it.
    pub fn relation(&self) -> Result<(RelationNumber, &HookRelation), ToolError> {
        let Some(number) = self.parsed.relation else {
            return usage("no relation id specified");
        };
        match self.context.relations.get(&number) {
            Some(relation) => Ok((number, relation)),
            None => failed("relation not found"),
        }
    }

    /// Requires that the bag of `owner` in the relation `number` is in the context.
    ///
    /// # Errors
    /// The need of this bag if the view omits it.
    pub fn require_bag(&self, number: RelationNumber, owner: &Owner) -> Result<(), ToolError> {
        self.context
            .bag_request(number, owner)
            .map_or(Ok(()), |request| Err(ToolError::Need(Need::Bag(request))))
    }

    /// The content of a file; of stdin if `path` is `-`.
    ///
    /// # Errors
    /// The need of the file or of stdin if the caller has not read it yet, and a failure if the file cannot be opened.
    pub fn content(&self, path: &str) -> Result<&[u8], ToolError> {
        if path == "-" {
            return self.inputs.stdin.as_deref().ok_or(ToolError::Need(Need::Stdin));
        }
        match self.inputs.files.get(path) {
            None => Err(ToolError::Need(Need::File(path.to_owned()))),
            Some(Err(reason)) => failed(reason),
            Some(Ok(bytes)) => Ok(bytes),
        }
    }

    /// Reads the settings of `--file`. Without this flag there are none.
    ///
    /// # Errors
    /// The need of the file or of stdin if the caller has not read it yet. A failure if the file cannot be opened, or
    /// is not one mapping of settings.
    pub fn file(&self) -> Result<BTreeMap<String, String>, ToolError> {
        let Some(path) = self.parsed.text("file") else { return Ok(BTreeMap::new()) };
        let bytes = self.content(path)?;
        settings_file::parse(bytes).map_err(ToolError::Failed)
    }
}
