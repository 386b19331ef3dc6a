//! The tool calls of one hook: each call is answered from the hook's context, exactly once.
//!
//! A call is appended to `calls.yaml` before it is answered, so that an agent that re-attaches to the hook
//! continues from the same context (design 12). A repeated call with the same id receives the same answer.
//!
//! A hook can call tools without end, so the file is bounded: long inputs of failed calls and long answers are
//! stored by their digest, and once the file is full, further calls that change nothing are refused.
//!
//! Called by `hook_process` with the calls that `tool_socket` accepts, and by `recorded_runs` with recorded calls.

mod calls_file;
mod known_contents;
pub(crate) mod masked_context;
mod named_files;

use crate::tool_socket::{bad_request, closed_reply, encode};
use api::text::log::omitted_bytes;
pub use calls_file::{
    AnsweredCall, CALLS_BYTES_MAX, CALLS_WITH_EFFECT_BYTES_MAX, CallsFile, CallsLine, ConfidentialCall,
    FetchedBagLine, ShownCall, StoredBytes, lines_after,
};
use calls_file::{AppendError, CREDENTIAL_GET, SECRET_GET, SecretEffect};
pub(crate) use calls_file::{CALLS, HIDDEN};
use commands::{CallOutcome, Inputs, Need, ResourceRequest, SecretAnswer, SecretRequest, ToolReply};
use hook_client::{ReplyFrame, RequestFrame};
use known_contents::KnownContents;
use named_files::{absolute, read_file, write_file};
use state::terms::log_module;
use state::terms::secret::SecretId;
use state::terms::settings::{Bag, BagChange};
use state::unit::hook_context::{HookContext, Reboot, ReportContent, Writes};
use state::unit::record::RunReport;
use state::unit::relation_view::BagRequest;
use state::unit::secret_mask::SecretMask;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The number of reports of one hook that are kept until it ends; more are in `calls.yaml` only.
const REPORTS_REMEMBERED_MAX: usize = 2_000;

/// The size up to which the inputs and the answer of a call that has changed nothing are stored literally.
const LITERAL_BYTES_MAX: usize = 4 << 10;

/// A request to the controller that a tool call needs.
#[derive(Clone, Debug, PartialEq)]
pub enum ControllerRequest {
    /// Fetch a bag that the view omits.
    Bag(BagRequest),
    /// Change the leader settings.
    LeaderSettings {
        /// The number of the call in its run.
        call: u32,
        /// The change.
        change: BagChange,
    },
    /// Seal, open or read the content of a secret.
    Secret(SecretRequest),
    /// Provide the file of a resource on the disk of the unit.
    Resource(ResourceRequest),
}

/// The exit code of a tool that failed.
const EXIT_FAILED: u8 = 1;

/// The session of one running hook with its tools.
pub struct HookSession<'a> {
    context: HookContext,
    context_digest: String,
    calls: CallsFile,
    answered: BTreeMap<String, (u8, StoredBytes, StoredBytes)>,
    reports: Vec<RunReport>,
    last_call: u32,
    /// The number of the last report: one call may make two.
    last_report: u32,
    on_report: &'a dyn Fn(&RunReport),
    is_leader: &'a dyn Fn() -> bool,
    /// Why the bag that the next call needs cannot be fetched.
    fetch_error: Option<String>,
    /// The controller's response to the change of the leader settings that the call which is evaluated now needs.
    leader_write: Option<Result<(), String>>,
    /// The controller's response about the secret that this call needs.
    secret: Option<Result<SecretAnswer, String>>,
    /// The path of the resource file that this call needs, or why it is not on the disk.
    resource: Option<Result<String, String>>,
    /// The contents of secrets that the hook has read or written, which are masked in what people are shown.
    contents: KnownContents,
    /// The number of lines of contents with which the context was masked; none if it has changed since.
    masked_lines: Option<usize>,
    /// Whether it was logged that the file of the calls is full.
    is_full: bool,
    /// Whether an earlier agent has answered calls about secrets: this one cannot mask their contents in the output.
    pub has_unknown_contents: bool,
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
            leader_write: None,
            secret: None,
            resource: None,
            contents: KnownContents::default(),
            masked_lines: None,
            is_full: false,
            has_unknown_contents: false,
        }
    }

    /// Whether the hook requested an immediate reboot: the hook is killed then.
    pub fn requests_reboot(&self) -> bool {
        self.context.writes.reboot == Some(Reboot::Now)
    }

    /// The context as the calls so far have changed it.
    pub(crate) fn context(&self) -> &HookContext {
        &self.context
    }

    /// The contents of secrets that the hook has read or written.
    pub fn secrets(&self) -> &SecretMask {
        &self.contents.mask
    }

    /// Ends the session, and returns what the hook wrote and reported. No later call can change it (invariant
    /// I33).
    pub fn close(self) -> (Writes, Vec<RunReport>) {
        (self.context.writes, self.reports)
    }

    /// Recovers the session of an earlier agent: repeats its calls. Returns false if a call is answered
    /// differently now, so that the context would not match the answers which the hook has received.
    pub fn recover(&mut self, lines: &[CallsLine]) -> bool {
        lines.iter().all(|line| {
            let answered = match line {
                CallsLine::Call(answered) => answered,
                CallsLine::Confidential(call) => {
                    self.recover_confidential(call);
                    return true;
                }
                CallsLine::Bag(FetchedBagLine { fetched, values, .. }) => {
                    self.context.insert_bag(fetched, values.clone());
                    return true;
                }
            };
            self.last_call = answered.call;
            if answered.request_digest.is_some() {
                return true;
            }
            self.context.restrict_leadership(answered.is_leader);
            let args: Vec<Vec<u8>> = answered.args.iter().map(|arg| arg.as_slice().to_vec()).collect();
            let bytes = |stored: &StoredBytes| stored.as_slice().to_vec();
            let files = answered.files.iter();
            let leader_write = if answered.code == 0 { Ok(()) } else { Err(String::new()) };
            // a tool that printed the path of a file prints it again
            let printed = String::from_utf8_lossy(answered.stdout.as_slice()).into_owned();
            let resource = if answered.code == 0 { Ok(printed) } else { Err(String::new()) };
            let inputs = Inputs {
                leader_write: Some(leader_write),
                resource: Some(resource),
                secret: None,
                now_ms: answered.at_ms,
                stdin: answered.stdin.as_ref().map(bytes),
                files: files
                    .map(|(path, found)| (path.clone(), found.as_ref().map(bytes).map_err(Clone::clone)))
                    .collect(),
            };
            let reply = match commands::call(&mut self.context, &answered.tool, &args, &inputs) {
                CallOutcome::Reply(reply) => reply,
                // the file has no such bag: it could not be fetched, and the call failed
                CallOutcome::Need(Need::Bag(_)) => ToolReply { code: EXIT_FAILED, ..ToolReply::default() },
                CallOutcome::Need(
                    Need::Stdin
                    | Need::File(_)
                    | Need::LeaderSettings(_)
                    | Need::Secret(_)
                    | Need::Resource(_),
                ) => return false,
            };
            if !matches!(answered.stdout, StoredBytes::Digest { .. }) {
                self.answered.insert(
                    answered.id.clone(),
                    (answered.code, answered.stdout.clone(), answered.stderr.clone()),
                );
            }
            self.add_reports(answered.at_ms, reply.reports);
            // an output file that could not be written made the answer a failure, whatever the context
            let is_same_code = reply.code == answered.code || reply.output_file.is_some();
            is_same_code && answered.stdout.is(&reply.stdout)
        })
    }

    /// Adds the controller's response about a secret that a call needs.
    pub fn insert_secret_response(&mut self, response: Result<SecretAnswer, String>) {
        self.contents.insert_response(&response);
        self.secret = Some(self.mask_context().and(response));
    }

    /// Adds the bag that a call needs, or the reason why it cannot be fetched. The bag is stored before
    /// anything is read from it.
    pub fn insert_bag(&mut self, request: &BagRequest, fetched: Result<Option<Bag>, String>) {
        let stored = fetched.and_then(|values| {
            let line = FetchedBagLine { at_ms: crate::clock::wall_ms(), fetched: request.clone(), values };
            match self.calls.append(&line, CALLS_WITH_EFFECT_BYTES_MAX) {
                Ok(()) => Ok(line.values),
                Err(error) => Err(format!("cannot store the settings of {}: {error}", request.owner)),
            }
        });
        match stored {
            Ok(values) => {
                self.context.insert_bag(request, values);
                self.masked_lines = None;
                self.fetch_error = self.mask_context().err();
            }
            Err(reason) => self.fetch_error = Some(reason),
        }
    }

    /// Adds the controller's response to the change of the leader settings that a call needs.
    pub fn insert_leader_write_response(&mut self, response: Result<(), String>) {
        self.leader_write = Some(response);
    }

    /// Adds the path of the file that a call needs, or why it is not on the disk.
    pub fn insert_resource_response(&mut self, provided: Result<String, String>) {
        self.resource = Some(provided);
    }

    /// Answers one call of the process `pid`. A repeated id receives the same answer; only a call that has changed
    /// nothing and has a long answer is evaluated again. The call is stored before it is answered. Returns the whole
    /// reply frame.
    ///
    /// # Errors
    /// The request to the controller that the call needs: the caller makes it, passes the response to
    /// [`HookSession::insert_bag`], [`HookSession::insert_leader_write_response`], [`HookSession::insert_secret_response`] or
    /// [`HookSession::insert_resource_response`], and calls again.
    pub fn answer(&mut self, frame: &[u8], pid: Option<i32>) -> Result<Vec<u8>, ControllerRequest> {
        let Ok(request) = RequestFrame::decode(frame) else {
            return Ok(bad_request("malformed request"));
        };
        // the answer does not reveal which context is open (CVE-2024-6984)
        if host::digest::sha256(request.call.context_id) != self.context_digest {
            return Ok(closed_reply());
        }
        let id = format!("{:032x}", u128::from_be_bytes(request.call.call_id));
        if let Some((code, stdout, stderr)) = self.answered.get(&id) {
            let (code, stdout, stderr) = (*code, stdout.as_slice(), stderr.as_slice());
            return Ok(encode(ReplyFrame::Done { code, stdout, stderr }));
        }
        let cwd = PathBuf::from(std::ffi::OsStr::from_bytes(request.call.cwd));
        if !cwd.is_absolute() {
            return Ok(bad_request("Dir is not absolute"));
        }
        let tool = String::from_utf8_lossy(request.call.tool).into_owned();
        let args: Vec<Vec<u8>> = request.args.clone().map(<[u8]>::to_vec).collect();
        let is_leader = (self.is_leader)();
        self.context.restrict_leadership(is_leader);
        let before = self.context.writes.clone();
        let mut inputs = Inputs {
            stdin: request.stdin.map(<[u8]>::to_vec),
            leader_write: self.leader_write.take(),
            secret: self.secret.take(),
            resource: self.resource.take(),
            now_ms: crate::clock::wall_ms(),
            ..Inputs::default()
        };
        let at_ms = inputs.now_ms;
        let mut reply = loop {
            match commands::call(&mut self.context, &tool, &args, &inputs) {
                CallOutcome::Reply(reply) => break reply,
                CallOutcome::Need(Need::Stdin) if inputs.stdin.is_none() => {
                    return Ok(encode(ReplyFrame::NeedStdin));
                }
                CallOutcome::Need(Need::Stdin) => {
                    return Ok(bad_request("stdin is requested twice"));
                }
                CallOutcome::Need(Need::Bag(bag_request)) => match self.fetch_error.take() {
                    Some(reason) => break ToolReply::error(EXIT_FAILED, &reason),
                    None => return Err(ControllerRequest::Bag(bag_request)),
                },
                CallOutcome::Need(Need::LeaderSettings(change)) => {
                    return Err(ControllerRequest::LeaderSettings { call: self.last_call + 1, change });
                }
                CallOutcome::Need(Need::Secret(need)) => {
                    self.contents.insert_request(&need);
                    return Err(ControllerRequest::Secret(need));
                }
                CallOutcome::Need(Need::Resource(need)) => return Err(ControllerRequest::Resource(need)),
                CallOutcome::Need(Need::File(path)) => {
                    let found = read_file(&absolute(&cwd, &path));
                    inputs.files.insert(path, found);
                }
            }
        };
        if let Some((path, bytes)) = &reply.output_file
            && let Err(reason) = write_file(&absolute(&cwd, path), bytes, pid)
        {
            let failed = ToolReply::error(EXIT_FAILED, &reason);
            (reply.code, reply.stderr) = (failed.code, failed.stderr);
        }
        if commands::is_confidential(&tool) {
            let (call, code) = (self.last_call + 1, reply.code);
            let line = ConfidentialCall {
                call,
                id,
                at_ms,
                pid,
                args: self.contents.arguments_without_contents(&tool, &args, code),
                keys: self.contents.take_placeholders(),
                error: (code != 0 && tool == SECRET_GET)
                    .then(|| String::from_utf8_lossy(&reply.stderr).into()),
                confidential_tool: tool,
                is_leader,
                code,
                effect: None,
            };
            return Ok(self.store_confidential(line, before, &reply));
        }
        let changes = self.context.writes != before || inputs.leader_write == Some(Ok(()));
        let answer_bytes = reply.stdout.len() + reply.stderr.len();
        let has_effect = changes || !reply.reports.is_empty();
        let mut call = AnsweredCall {
            call: self.last_call + 1,
            id: id.clone(),
            at_ms,
            pid,
            tool,
            args: args.into_iter().map(StoredBytes::from_vec).collect(),
            cwd: StoredBytes::new(request.call.cwd),
            is_leader,
            stdin: inputs.stdin.map(StoredBytes::from_vec),
            files: inputs
                .files
                .into_iter()
                .map(|(path, found)| (path, found.map(StoredBytes::from_vec)))
                .collect(),
            request_digest: None,
            code: reply.code,
            stdout: StoredBytes::new(&reply.stdout),
            stderr: StoredBytes::new(&reply.stderr),
            masked: None,
        };
        match self.has_unknown_contents || call.tool == CREDENTIAL_GET {
            true => call.hide(),
            false => call.mask(&self.contents.mask),
        }
        let file_bytes: usize = call.files.values().flatten().map(|file| file.as_slice().len()).sum();
        let is_long = frame.len() + file_bytes + answer_bytes > LITERAL_BYTES_MAX;
        if !has_effect && is_long && reply.code != 0 {
            call.replace_inputs_by_digest(frame);
        } else if !has_effect && answer_bytes > LITERAL_BYTES_MAX {
            call.replace_stdout_by_digest();
        }
        let only_logs = reply.reports.iter().all(ReportContent::is_log_line);
        let bytes_max = if changes || !only_logs { CALLS_WITH_EFFECT_BYTES_MAX } else { CALLS_BYTES_MAX };
        if let Err(error) = self.calls.append(&call, bytes_max) {
            return Ok(self.refuse_unstored(before, &error));
        }
        self.last_call = call.call;
        if call.request_digest.is_none() && !matches!(call.stdout, StoredBytes::Digest { .. }) {
            self.answered.insert(id, (reply.code, call.stdout, call.stderr));
        }
        let answer = done(&reply);
        self.add_reports(call.at_ms, reply.reports);
        Ok(answer)
    }

    /// Recovers the effect of a call whose inputs are not stored.
    fn recover_confidential(&mut self, call: &ConfidentialCall) {
        self.has_unknown_contents = true;
        self.last_call = call.call;
        self.context.restrict_leadership(call.is_leader);
        if let Some(effect) = &call.effect {
            self.context.writes.secrets.extend(effect.secrets.clone());
            self.context.writes.secrets.retain(|secret, _| !effect.dropped.contains(secret));
            if effect.printed.is_none() {
                return;
            }
            let printed = StoredBytes::new(effect.printed.as_deref().unwrap_or_default().as_bytes());
            self.answered.insert(call.id.clone(), (call.code, printed, StoredBytes::new(b"")));
        }
    }

    /// Stores what people are shown of the context, if it contains a known content. A content that cannot be hidden from
    /// people is not given to the charm.
    fn mask_context(&mut self) -> Result<(), String> {
        // a mask only grows
        let known = self.contents.mask.lines();
        let is_needed = self.has_unknown_contents || known > 0;
        if !is_needed || self.masked_lines == Some(known) {
            return Ok(());
        }
        let Some(run_folder) = self.calls.run_folder() else { return Ok(()) };
        masked_context::store(run_folder, &self.contents.mask, self.has_unknown_contents)
            .map_err(|error| format!("cannot store what is shown of the context: {error}"))?;
        self.masked_lines = Some(known);
        Ok(())
    }

    /// Stores the effect of a call that may concern the content of a secret, and answers it.
    fn store_confidential(
        &mut self,
        mut line: ConfidentialCall,
        before: Writes,
        reply: &ToolReply,
    ) -> Vec<u8> {
        let after = &self.context.writes.secrets;
        let mut secrets = after.clone();
        secrets.retain(|secret, write| before.secrets.get(secret) != Some(write));
        let dropped: BTreeSet<SecretId> =
            before.secrets.keys().filter(|secret| !after.contains_key(secret)).copied().collect();
        if !secrets.is_empty() || !dropped.is_empty() {
            // secret-get prints a content, and may change which revision the unit reads: it is answered anew
            let is_repeatable = line.confidential_tool != SECRET_GET;
            let printed = is_repeatable.then(|| String::from_utf8_lossy(&reply.stdout).into_owned());
            line.effect = Some(SecretEffect { printed, secrets, dropped });
        }
        let bytes_max = if line.effect.is_some() { CALLS_WITH_EFFECT_BYTES_MAX } else { CALLS_BYTES_MAX };
        if let Err(error) = self.calls.append(&line, bytes_max) {
            return self.refuse_unstored(before, &error);
        }
        self.last_call = line.call;
        if line.effect.is_some_and(|effect| effect.printed.is_some()) {
            let answer = (reply.code, StoredBytes::new(&reply.stdout), StoredBytes::new(b""));
            self.answered.insert(line.id, answer);
        }
        done(reply)
    }

    /// Refuses a call that cannot be stored: it must have no effect, because a later agent could not repeat it.
    fn refuse_unstored(&mut self, before: Writes, error: &AppendError) -> Vec<u8> {
        self.context.writes = before;
        let is_full = matches!(error, AppendError::Full { .. });
        if !(is_full && self.is_full) {
            tracing::error!("cannot append to {CALLS}: {error}");
        }
        self.is_full |= is_full;
        done(&ToolReply::error(EXIT_FAILED, &format!("cannot store the call: {error}")))
    }

    /// Adds the reports of a call, without log lines below the level of the model (spec/clients.md 3.6), and passes them to
    /// `on_report`.
    fn add_reports(&mut self, at_ms: i64, contents: Vec<ReportContent>) {
        let lowest = self.context.model.logging.level_of(&log_module::juju_log(&self.context.unit));
        let stored = contents
            .into_iter()
            .filter(|what| !matches!(what, ReportContent::Log { level, .. } if *level < lowest));
        for what in stored {
            self.last_report += 1;
            let report = RunReport { number: self.last_report, at_ms, what: what.shortened(omitted_bytes) };
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

/// The reply frame with the output and the exit code of a tool.
fn done(ToolReply { code, stdout, stderr, .. }: &ToolReply) -> Vec<u8> {
    encode(ReplyFrame::Done { code: *code, stdout, stderr })
}
