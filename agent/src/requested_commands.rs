//! The commands that processes on the machine have requested from a unit agent (juju-exec), until they have run.
//!
//! They are queued in the order of their requests and kept in memory only: commands never run twice, so a restarted
//! agent must not repeat them. If a process disconnects before its commands start, its request is dropped; if it
//! disconnects later, the commands continue. Commands whose changes the controller may refuse are answered after it has
//! accepted or refused them: a refusal fails them, as a failed flush does in Juju (spec/hook-tools.md 3).
//!
//! The tool socket passes the requests on; the unit agent runs them; `juju_exec` is the client.

use crate::folder::UnitFolder;
use crate::hook_process::unmodified_output;
use crate::tool_socket::{ToolCall, bad_request, encode};
use api::text::refusal;
use hook_client::{ReplyFrame, RequestFrame};
use state::terms::commands::CommandsRequest;
use state::terms::failure_reason::FailureReason;
use state::terms::refusal::RefusalReason;
use state::unit::commands_context::{ContextProblem, RequestedRelation, relation_context};
use state::unit::local::Local;
use state::unit::outcome::RunExit;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc, oneshot};

struct Waiting {
    request: CommandsRequest,
    script: Arc<str>,
    answer: oneshot::Sender<Vec<u8>>,
}

/// The answer to a request whose commands have finished, until the controller's response to their record is known.
struct Unconfirmed {
    sequence: u64,
    code: u8,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    answer: oneshot::Sender<Vec<u8>>,
}

impl Unconfirmed {
    fn send(mut self, code: u8, error: Option<String>) {
        self.stderr.extend(error.into_iter().flat_map(|error| format!("ERROR {error}\n").into_bytes()));
        let (stdout, stderr) = (&self.stdout[..], &self.stderr[..]);
        // the process may have disconnected
        self.answer.send(encode(ReplyFrame::Done { code, stdout, stderr })).ok();
    }
}

/// The queue of one unit agent.
#[derive(Default)]
pub struct RequestedCommands {
    /// None if this agent accepts no requests.
    calls: Option<(Mutex<mpsc::Receiver<ToolCall>>, UnitFolder)>,
    waiting: RefCell<VecDeque<Waiting>>,
    /// At most one: a unit starts nothing until it has the controller's response to such a record.
    unconfirmed: RefCell<Option<Unconfirmed>>,
}

impl RequestedCommands {
    /// The queue of the requests that this channel delivers, for the unit in this folder.
    pub fn new(calls: mpsc::Receiver<ToolCall>, folder: UnitFolder) -> RequestedCommands {
        RequestedCommands { calls: Some((Mutex::new(calls), folder)), ..RequestedCommands::default() }
    }

    /// Waits for a request and adds it to the queue, or answers why it cannot run.
    pub async fn receive(&self, local: impl Fn() -> Arc<Local>) {
        let Some((calls, _)) = &self.calls else { return std::future::pending().await };
        let Some(call) = calls.lock().await.recv().await else { return std::future::pending().await };
        match decode(&call.frame) {
            Ok((relation, script)) => match relation_context(&local(), &relation) {
                Ok(about) => {
                    let request = CommandsRequest { id: crate::clock::random_uuid(), about };
                    let waiting = Waiting { request, script: script.into(), answer: call.answer };
                    self.waiting.borrow_mut().push_back(waiting);
                }
                Err(problem) => drop(call.answer.send(failed(&problem_text(&problem)))),
            },
            Err(why) => drop(call.answer.send(bad_request(why))),
        }
    }

    /// The oldest request whose process still waits.
    pub fn oldest(&self) -> Option<CommandsRequest> {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|waiting| !waiting.answer.is_closed());
        waiting.front().map(|waiting| waiting.request.clone())
    }

    /// The script of a request.
    pub fn script(&self, request: &CommandsRequest) -> Option<Arc<str>> {
        let waiting = self.waiting.borrow();
        waiting.iter().find(|waiting| waiting.request.id == request.id).map(|waiting| waiting.script.clone())
    }

    /// Answers a request whose commands have finished, with what they printed into the folder of run `run`. If the
    /// controller has to accept their changes first, in the record of this sequence number, the request is answered by
    /// [`Self::confirm`].
    pub fn answer(&self, request: &CommandsRequest, exit: &RunExit, run: u64, unconfirmed: Option<u64>) {
        let Some((_, folder)) = &self.calls else { return };
        let mut waiting = self.waiting.borrow_mut();
        let Some(at) = waiting.iter().position(|waiting| waiting.request.id == request.id) else { return };
        let Some(Waiting { answer, .. }) = waiting.remove(at) else { return };
        let [stdout, stderr] = unmodified_output(&folder.run(run));
        let (code, error) = match exit {
            RunExit::Code(code) => (u8::try_from(*code).unwrap_or(1), None),
            RunExit::Signal(signal) => {
                // as a shell reports it
                let why = refusal::failure(&FailureReason::signal(*signal));
                (u8::try_from(128 + signal).unwrap_or(1), Some(why))
            }
            RunExit::Failed(why) => (1, Some(refusal::failure(why))),
            RunExit::Interrupted => {
                (1, Some("the commands were interrupted and do not run again".to_owned()))
            }
            RunExit::Cancelled | RunExit::Missing => (1, Some("the commands did not run".to_owned())),
        };
        let finished =
            Unconfirmed { sequence: unconfirmed.unwrap_or_default(), code, stdout, stderr, answer };
        match unconfirmed {
            Some(_) => *self.unconfirmed.borrow_mut() = Some(finished),
            None => finished.send(code, error),
        }
    }

    /// Answers the request whose record has the controller's response: `awaited` is the record that the unit waits for,
    /// and `refused` the last one that was refused.
    pub fn confirm(&self, awaited: Option<u64>, refused: Option<&(u64, RefusalReason)>) {
        let Some(finished) =
            self.unconfirmed.borrow_mut().take_if(|finished| awaited != Some(finished.sequence))
        else {
            return;
        };
        match refused.filter(|(sequence, _)| *sequence == finished.sequence) {
            Some((_, why)) => finished.send(1, Some(refusal::message(why))),
            None => {
                let code = finished.code;
                finished.send(code, None);
            }
        }
    }
}

/// The parts of a request, as `juju_exec` sends them: an empty text stands for an option that was not given.
pub fn arguments(relation: &RequestedRelation, script: &str) -> [String; 5] {
    let text = |given: &Option<String>| given.clone().unwrap_or_default();
    let force = if relation.force { "force" } else { "" };
    let remote = [text(&relation.relation), text(&relation.remote_unit), text(&relation.remote_application)];
    let [number, unit, application] = remote;
    [number, unit, application, force.to_owned(), script.to_owned()]
}

fn decode(frame: &[u8]) -> Result<(RequestedRelation, String), &'static str> {
    let frame = RequestFrame::decode(frame).map_err(|_| "malformed request")?;
    let texts: Result<Vec<String>, _> = frame.args.map(|arg| String::from_utf8(arg.to_vec())).collect();
    let texts = texts.map_err(|_| "the commands are not UTF-8 text")?;
    let [relation, unit, application, force, script] =
        <[String; 5]>::try_from(texts).map_err(|_| "malformed request")?;
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let relation = RequestedRelation {
        relation: given(relation),
        remote_unit: given(unit),
        remote_application: given(application),
        force: !force.is_empty(),
    };
    Ok((relation, script))
}

fn failed(why: &str) -> Vec<u8> {
    let stderr = format!("ERROR {why}\n");
    encode(ReplyFrame::Done { code: 1, stdout: b"", stderr: stderr.as_bytes() })
}

/// The message that Juju prints (spec/hook-tools.md 6).
fn problem_text(problem: &ContextProblem) -> String {
    match problem {
        ContextProblem::UnitWithoutRelation(unit) => {
            format!("remote unit: {unit}, provided without a relation")
        }
        ContextProblem::InvalidRelation(_) => "invalid relation id".to_owned(),
        ContextProblem::InvalidUnit(unit) => format!("{unit:?} is not a valid remote unit"),
        ContextProblem::NotAMember(unit) => format!("remote unit {unit:?} not found in the relation"),
        ContextProblem::SeveralMembers(units) => {
            let names: Vec<String> = units.iter().map(ToString::to_string).collect();
            format!("unable to determine remote-unit, please disambiguate: [{}]", names.join(" "))
        }
    }
}
