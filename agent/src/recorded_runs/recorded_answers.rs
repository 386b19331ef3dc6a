//! Answers the tools of a replayed run as the controller has answered those of the recorded run.
//!
//! What was not recorded is answered as if the controller could not be reached. The content of a secret is a placeholder,
//! because the answer of `secret-get` is not stored; a content that the replayed run writes itself is known until it ends.

use crate::hook_process::RESOURCES_DIR;
use crate::hook_session::{CallsLine, ConfidentialCall, FetchedBagLine, StoredBytes};
use crate::ports::HookHost;
use crate::unit_agent::no_response_in_time;
use base64::prelude::{BASE64_STANDARD, Engine};
use commands::{ResourceRequest, SecretAnswer, SecretRequest};
use state::agents::secret_read::SecretRead;
use state::terms::owner::Owner;
use state::terms::secret::{SecretContent, SecretId};
use state::terms::settings::{Bag, BagChange};
use state::unit::record::RunReport;
use state::unit::relation_view::BagRequest;
use state::unit::secrets::HookSecret;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

/// What stands for a sealed content: the replayed run passes it back to read what it has written.
const SEALED: &str = "replayed";

/// The recorded answers of one run.
pub(super) struct RecordedAnswers {
    bags: Vec<FetchedBagLine>,
    /// For each call, in order, whether the unit led.
    leads: Vec<bool>,
    /// How often the session has requested whether the unit leads, without the repetitions of one call.
    calls: Cell<usize>,
    /// The outcomes of leader-set, in order; the error is what it printed.
    leader_writes: RefCell<VecDeque<Result<(), String>>>,
    /// The calls that read a secret, in order.
    reads: RefCell<Vec<ConfidentialCall>>,
    /// The secrets that the run has created, in order.
    created: RefCell<VecDeque<SecretId>>,
    /// The labels of the unit's secrets.
    labels: BTreeMap<SecretId, String>,
    /// What the replayed run has written.
    written: RefCell<BTreeMap<SecretId, SecretContent>>,
    /// The folder with the files of resources.
    resources: PathBuf,
    /// What the replayed run has requested and the recorded run has not read.
    missing: RefCell<BTreeSet<String>>,
    /// Whether the replayed run has read a placeholder.
    has_read_placeholder: Cell<bool>,
}

/// The reason in what a tool has printed on stderr.
fn reason(stderr: &str) -> String {
    stderr.trim_end().trim_start_matches("ERROR ").to_owned()
}

impl RecordedAnswers {
    /// The answers to the calls of a run of the unit in this folder, which had these secrets.
    pub(super) fn new(
        secrets: &BTreeMap<SecretId, HookSecret>,
        lines: &[CallsLine],
        unit: PathBuf,
    ) -> RecordedAnswers {
        let mut answers = RecordedAnswers {
            bags: Vec::new(),
            leads: Vec::new(),
            calls: Cell::new(0),
            leader_writes: RefCell::default(),
            reads: RefCell::default(),
            created: RefCell::default(),
            labels: secrets.iter().map(|(id, secret)| (*id, secret.label.clone())).collect(),
            written: RefCell::default(),
            resources: unit.join(RESOURCES_DIR),
            missing: RefCell::default(),
            has_read_placeholder: Cell::new(false),
        };
        for line in lines {
            answers.add(line);
        }
        answers
    }

    fn add(&mut self, line: &CallsLine) {
        match line {
            CallsLine::Bag(bag) => self.bags.push(bag.clone()),
            CallsLine::Call(call) => {
                self.leads.push(call.is_leader);
                if call.tool == "leader-set" {
                    let stderr = match &call.stderr {
                        StoredBytes::Text(text) => reason(text),
                        StoredBytes::Raw { .. } | StoredBytes::Digest { .. } => String::new(),
                    };
                    let outcome = if call.code == 0 { Ok(()) } else { Err(stderr) };
                    self.leader_writes.get_mut().push_back(outcome);
                }
            }
            CallsLine::Confidential(call) => {
                self.leads.push(call.is_leader);
                if !call.keys.is_empty() || call.error.is_some() {
                    self.reads.get_mut().push(call.clone());
                }
                let writes = call.effect.iter().flat_map(|effect| &effect.secrets);
                for (id, _) in writes.filter(|(_, write)| write.created.is_some()) {
                    if !self.created.get_mut().contains(id) {
                        self.created.get_mut().push_back(*id);
                    }
                }
            }
        }
    }

    /// What the replayed run has requested and was not recorded.
    pub(super) fn missing(&self) -> BTreeSet<String> {
        self.missing.borrow().clone()
    }

    /// Whether the replayed run has read a placeholder instead of the content of a secret.
    pub(super) fn has_read_placeholder(&self) -> bool {
        self.has_read_placeholder.get()
    }

    /// The answer to what was not recorded.
    fn not_recorded(&self, what: String) -> String {
        self.missing.borrow_mut().insert(what);
        no_response_in_time()
    }

    /// Corrects the count of calls: the session evaluates the call again, whose request now has its response.
    fn repeats_call(&self) {
        self.calls.set(self.calls.get().saturating_sub(1));
    }

    /// The recorded answer to the next read of a secret, or to an earlier one: a secret can be read again and again.
    fn read(&self, request: &SecretRead) -> Result<SecretAnswer, String> {
        let label = request.id.as_ref().and_then(|id| self.labels.get(id));
        let id = request.id.as_ref().map(|id| id.as_str().to_owned());
        let names: Vec<String> = id.into_iter().chain(request.label.clone()).chain(label.cloned()).collect();
        let is_named = |arg: &String| {
            let arg = arg.rsplit(['/', ':', '=']).next().unwrap_or(arg);
            names.iter().any(|name| name == arg)
        };
        let mut reads = self.reads.borrow_mut();
        let at = reads.iter().position(|call| call.args.iter().any(is_named));
        let named = || format!("secret {}", names.first().map_or("", String::as_str));
        let call = at.map(|at| reads.remove(at)).ok_or_else(|| self.not_recorded(named()))?;
        let answer = match &call.error {
            Some(error) if call.keys.is_empty() => Err(reason(error)),
            Some(_) | None => {
                let content = |(key, placeholder): (&String, &String)| {
                    (key.clone(), BASE64_STANDARD.encode(placeholder))
                };
                self.has_read_placeholder.set(true);
                Ok(SecretAnswer::Content(SecretContent(call.keys.iter().map(content).collect())))
            }
        };
        // after all others: it is used again if the replayed run reads more often
        reads.push(call);
        answer
    }

    fn seal(&self, secret: Option<SecretId>, content: &SecretContent) -> SecretAnswer {
        let next = || self.created.borrow_mut().pop_front();
        let secret = secret.or_else(next).unwrap_or_else(|| SecretId::from_bits(host::random::random_u128()));
        self.written.borrow_mut().insert(secret, content.clone());
        SecretAnswer::Sealed { secret, sealed: SEALED.to_owned() }
    }
}

impl HookHost for RecordedAnswers {
    fn report(&self, _: &RunReport) {}

    fn is_leader(&self) -> bool {
        let call = self.calls.replace(self.calls.get() + 1);
        self.leads.get(call).or(self.leads.last()).copied().unwrap_or(true)
    }

    async fn fetch_bag(&self, request: &BagRequest) -> Result<Option<Bag>, String> {
        self.repeats_call();
        let recorded = self.bags.iter().find(|bag| bag.fetched == *request);
        let owner = match &request.owner {
            Owner::Unit(unit) => unit.to_string(),
            Owner::Application(name) => name.clone(),
        };
        let missing = || self.not_recorded(format!("settings of {owner}"));
        recorded.map(|bag| bag.values.clone()).ok_or_else(missing)
    }

    async fn write_leader_settings(&self, _: u64, _: u32, _: &BagChange) -> Result<(), String> {
        self.repeats_call();
        let recorded = self.leader_writes.borrow_mut().pop_front();
        recorded.unwrap_or_else(|| Err(self.not_recorded("an answer to leader-set".to_owned())))
    }

    async fn request_secret(&self, request: &SecretRequest) -> Result<SecretAnswer, String> {
        self.repeats_call();
        match request {
            SecretRequest::Read(read) => self.read(read),
            SecretRequest::Seal { secret, content, .. } => Ok(self.seal(*secret, content)),
            SecretRequest::Open { secret, .. } => {
                let written = self.written.borrow().get(secret).cloned();
                written.map(SecretAnswer::Content).ok_or_else(no_response_in_time)
            }
        }
    }

    async fn fetch_resource(&self, request: &ResourceRequest) -> Result<Vec<u8>, String> {
        self.repeats_call();
        let path = self.resources.join(&request.name).join(&request.filename);
        std::fs::read(path).map_err(|_| self.not_recorded(format!("resource {}", request.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use state::terms::names::Uuid;
    use state::terms::position::Position;
    use state::terms::secret::SecretOwnerKind;

    fn answers(lines: serde_json::Value) -> RecordedAnswers {
        let lines: Vec<CallsLine> = serde_json::from_value(lines).expect("lines of a calls.yaml");
        RecordedAnswers::new(&BTreeMap::new(), &lines, PathBuf::from("/nowhere"))
    }

    fn bag(owner: &str) -> BagRequest {
        BagRequest {
            relation: Uuid(1),
            owner: Owner::Application(owner.to_owned()),
            position: Position::default(),
        }
    }

    fn read(id: SecretId) -> SecretRequest {
        SecretRequest::Read(SecretRead { id: Some(id), label: None, peek: false, refresh: false })
    }

    #[tokio::test]
    async fn what_was_not_recorded_is_answered_as_by_a_controller_that_cannot_be_reached() {
        let (answers, unreachable) = (answers(json!([])), no_response_in_time());
        assert_eq!(answers.fetch_bag(&bag("db")).await, Err(unreachable.clone()));
        let id = SecretId::from_bits(1 << 100);
        assert_eq!(answers.request_secret(&read(id)).await, Err(unreachable.clone()));
        assert_eq!(answers.write_leader_settings(1, 1, &BagChange::new()).await, Err(unreachable.clone()));
        let resource =
            ResourceRequest { name: "a".to_owned(), filename: "a".to_owned(), sha256: String::new() };
        assert_eq!(answers.fetch_resource(&resource).await, Err(unreachable));
        let missing = answers.missing();
        assert_eq!(missing.len(), 4, "{missing:?}");
        for named in ["db", id.as_str(), "leader-set", "a"] {
            assert!(
                missing.iter().any(|missing| missing.ends_with(&format!(" {named}"))),
                "{named}: {missing:?}"
            );
        }
        assert!(answers.is_leader(), "the context says whether the unit leads");
        let content = SecretContent(BTreeMap::from([("key".to_owned(), "czNjcmV0".to_owned())]));
        let seal =
            SecretRequest::Seal { secret: None, owner: SecretOwnerKind::Unit, content: content.clone() };
        let Ok(SecretAnswer::Sealed { secret, sealed }) = answers.request_secret(&seal).await else {
            panic!("a content can be written")
        };
        let open = SecretRequest::Open { secret, sealed };
        assert_eq!(answers.request_secret(&open).await, Ok(SecretAnswer::Content(content)));
    }

    #[tokio::test]
    async fn recorded_answers_are_given_again() {
        let (first, second) = (SecretId::from_bits(1 << 100), SecretId::from_bits(2 << 100));
        let get = |call: u32, id: SecretId, rest: serde_json::Value| {
            let mut line = json!({
                "call": call, "id": "", "at_ms": 0, "pid": null, "confidential_tool": "secret-get", "is_leader": true,
                "args": [format!("secret:{id}")], "code": 0, "effect": null
            });
            line.as_object_mut().expect("a line").extend(rest.as_object().expect("fields").clone());
            line
        };
        let set = json!({
            "call": 3, "id": "", "at_ms": 0, "tool": "leader-set", "args": ["a=b"], "cwd": "/", "is_leader": false,
            "code": 1, "stdout": "", "stderr": "ERROR not the leader\n"
        });
        let fetched = json!({ "at_ms": 0, "fetched": bag("db"), "values": { "host": "h" } });
        let placeholder = format!("SECRET({first} password)");
        let lines = json!([
            get(1, first, json!({ "keys": { "password": placeholder } })),
            get(2, second, json!({ "code": 1, "error": "ERROR permission denied\n" })),
            set,
            fetched
        ]);
        let answers = answers(lines);
        let content =
            SecretContent(BTreeMap::from([("password".to_owned(), BASE64_STANDARD.encode(placeholder))]));
        assert!(!answers.has_read_placeholder());
        for _ in 0..2 {
            assert_eq!(
                answers.request_secret(&read(first)).await,
                Ok(SecretAnswer::Content(content.clone()))
            );
        }
        assert_eq!(answers.request_secret(&read(second)).await, Err("permission denied".to_owned()));
        assert_eq!(
            answers.write_leader_settings(1, 1, &BagChange::new()).await,
            Err("not the leader".to_owned())
        );
        let host = Bag::from([("host".to_owned(), "h".to_owned())]);
        assert_eq!(answers.fetch_bag(&bag("db")).await, Ok(Some(host)));
        let leads: Vec<bool> = (0..4).map(|_| answers.is_leader()).collect();
        assert_eq!(leads, [true, true, false, false]);
        assert!(answers.has_read_placeholder() && answers.missing().is_empty());
    }
}
