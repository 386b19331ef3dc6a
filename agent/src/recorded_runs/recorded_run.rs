//! One run, as its folder has recorded it, without the contents of secrets that the agent had masked.
//!
//! Used by every command about recorded runs.

use crate::folder::UnitFolder;
use crate::hook_process::is_running;
use crate::hook_process::run_files::{CONTEXT_FILE, RunFile, read_outcome, read_output, read_run_file};
use crate::hook_session::{CallsFile, CallsLine, masked_context};
use crate::journal;
use anyhow::{Context, Result, bail};
use api::text::refusal;
use charms::yaml;
use hook_client::shim;
use host::escape::json_as_yaml;
use serde_json::Value;
use state::terms::failure_reason::FailureReason;
use state::terms::operation::Operation;
use state::unit::local::Step;
use state::unit::outcome::RunExit;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// How a document is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DocumentFormat {
    /// JSON in one line.
    Json,
    /// YAML.
    Yaml,
}

impl DocumentFormat {
    pub(super) fn write(self, document: &Value) -> Result<String> {
        Ok(match self {
            // a line that is printed has no control characters
            DocumentFormat::Json => json_as_yaml(&format!("{document}\n")).into_owned(),
            DocumentFormat::Yaml => yaml::to_string(document)?,
        })
    }
}

/// How a run has ended, or that it has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Its program has ended, or could not be started.
    Exited(RunExit),
    /// Its processes run.
    Running,
    /// Its processes have ended without an outcome: the operation is run again.
    Interrupted,
}

impl RunEnd {
    fn of(run_folder: &Path) -> RunEnd {
        let is_running = is_running(run_folder);
        match read_outcome(run_folder) {
            Some(exit) => RunEnd::Exited(exit),
            None if is_running => RunEnd::Running,
            None => RunEnd::Interrupted,
        }
    }

    pub(super) fn text(&self) -> String {
        let failed = |reason: &FailureReason| format!("failed: {}", refusal::failure(reason));
        match self {
            RunEnd::Exited(RunExit::Code(0)) => "ok".to_owned(),
            RunEnd::Exited(RunExit::Code(code)) => failed(&FailureReason::exit(*code)),
            RunEnd::Exited(RunExit::Signal(signal)) => failed(&FailureReason::signal(*signal)),
            RunEnd::Exited(RunExit::Failed(reason)) => failed(reason),
            RunEnd::Exited(RunExit::Missing) => "the charm does not implement it".to_owned(),
            RunEnd::Exited(RunExit::Cancelled) => "cancelled".to_owned(),
            RunEnd::Running => "running".to_owned(),
            RunEnd::Exited(RunExit::Interrupted) | RunEnd::Interrupted => "interrupted".to_owned(),
        }
    }
}

/// One run, as its folder has recorded it, without contents of secrets.
pub struct RecordedRun {
    /// Its number.
    pub number: u64,
    /// Its folder.
    pub folder: PathBuf,
    /// What it saw, and why it ran.
    pub file: RunFile,
    /// Its calls and the bags that were fetched for them. None if they cannot be read.
    pub calls: Option<Vec<CallsLine>>,
    /// How it ended.
    pub end: RunEnd,
    /// When it started, in milliseconds since 1970: its context was written then.
    pub started_ms: Option<i64>,
    /// When it ended.
    pub ended_ms: Option<i64>,
}

fn modified_ms(file: &Path) -> Option<i64> {
    let time = fs::metadata(file).ok()?.modified().ok()?;
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

impl RecordedRun {
    /// Reads a run, without its calls. None if its context is absent or unreadable.
    pub(super) fn read_head(number: u64, folder: PathBuf) -> Option<RecordedRun> {
        let file = read_run_file(&folder)?;
        let end = RunEnd::of(&folder);
        let has_ended = matches!(end, RunEnd::Exited(_));
        Some(RecordedRun {
            number,
            file,
            calls: None,
            started_ms: modified_ms(&folder.join(CONTEXT_FILE)),
            ended_ms: modified_ms(&folder.join(shim::OUTCOME)).filter(|_| has_ended),
            end,
            folder,
        })
    }

    /// Reads the run with this number of a unit.
    ///
    /// # Errors
    /// If its folder was deleted or cannot be read.
    pub(super) fn read(unit: &UnitFolder, number: u64) -> Result<RecordedRun> {
        let kept = unit.kept_runs();
        let Some((_, folder)) = kept.iter().find(|(kept, _)| *kept == number) else {
            match (kept.first(), kept.last()) {
                (Some((first, _)), Some((last, _))) => bail!(
                    "no run {number} in {}: the runs that are kept have numbers from {first} to {last}",
                    unit.root().display()
                ),
                _ => bail!("no run {number} in {}: it has no runs", unit.root().display()),
            }
        };
        let Some(run) = RecordedRun::read_head(number, folder.clone()) else {
            bail!("cannot read {}", folder.join(CONTEXT_FILE).display());
        };
        let shown = |line| match line {
            CallsLine::Call(call) => CallsLine::Call(call.shown()),
            CallsLine::Confidential(_) | CallsLine::Bag(_) => line,
        };
        let calls = CallsFile::read(folder).map(|lines| lines.into_iter().map(shown));
        let masked = masked_context::read(folder);
        let masked = masked.with_context(|| format!("cannot read what is shown of run {number}"))?;
        let Some(masked) = masked else {
            return Ok(RecordedRun { calls: calls.map(Iterator::collect), ..run });
        };
        // the fetched bags are in it
        let is_bag = |line: &CallsLine| matches!(line, CallsLine::Bag(_));
        let calls = calls.map(|lines| lines.filter(|line| !is_bag(line)).collect());
        Ok(RecordedRun { calls, file: RunFile { context: masked, ..run.file }, ..run })
    }

    /// What it ran, without the kind: `config-changed`, `action backup 7`.
    pub(super) fn operation(&self) -> String {
        let operation = &self.file.operation;
        if let Operation::Hook(hook) = operation { hook.to_string() } else { operation.to_string() }
    }

    /// Its duration in milliseconds.
    pub(super) fn duration_ms(&self) -> Option<i64> {
        Some(self.ended_ms?.saturating_sub(self.started_ms?).max(0))
    }

    pub(super) fn lines(&self) -> &[CallsLine] {
        self.calls.as_deref().unwrap_or_default()
    }

    /// What the run has printed, line by line. None if it may contain contents of secrets that no agent has masked: the
    /// agent does so before it stores the end of the run.
    pub(super) async fn output(&self, unit: &UnitFolder) -> Option<Vec<String>> {
        let is_confidential = |line: &CallsLine| matches!(line, CallsLine::Confidential(_));
        let may_have_secrets = self.calls.as_ref().is_none_or(|lines| lines.iter().any(is_confidential));
        if may_have_secrets && !self.has_stored_end(unit).await {
            return None;
        }
        let text = read_output(&self.folder.join(shim::OUTPUT));
        Some(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
    }

    async fn has_stored_end(&self, unit: &UnitFolder) -> bool {
        match journal::read_only_load(unit).await {
            Ok(Some(local)) => !matches!(&local.step, Step::Started(run) if run.number == self.number),
            Ok(None) | Err(_) => false,
        }
    }
}

/// The folder of a unit at this path.
///
/// # Errors
/// If the folder at this path has neither run folders nor a charm.
pub(super) fn unit_folder(dir: &Path) -> Result<UnitFolder> {
    let folder = UnitFolder::new(dir.to_path_buf());
    if !folder.runs().is_dir() && !folder.charm().is_dir() {
        bail!("{} is not the folder of a unit that has run anything", dir.display());
    }
    Ok(folder)
}
