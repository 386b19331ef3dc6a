//! A fake controller: it answers with samples and with what a test configures, and records the requests that it receives.

use api::all_requests;
use api::error::{ApiError, ErrorCode};
use api::request::Message;
use api::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use state::charm::Action;
use state::terms::cause::Entity;
use state::terms::names::{UnitName, Uuid};
use state::terms::position::{Committed, Position};
use state::terms::refusal::{EntityKind, RefusalReason};
use state::terms::secret::{SecretContent, SecretId};
use state::terms::status::{ActionStatus, AgentStatus, WorkloadStatus};
use state::terms::status_message::StatusMessage;
use state::terms::unit_documents::CharmDoc;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub struct FakeController {
    /// Requests in order, as `verb arguments`.
    pub requests: Mutex<Vec<String>>,
    /// Units that exist for `run` and `exec`.
    pub units: Vec<String>,
    /// What every task has as its result; `None`: no task completes.
    pub task: Option<ActionDoc>,
    /// The numbers of the tasks that never finish, even if `task` is set.
    pub unfinished: Vec<u64>,
    /// The tasks that were enqueued.
    pub enqueued: Mutex<Vec<ActionDoc>>,
    /// The actions that each charm declares.
    pub declared: BTreeMap<String, Action>,
    /// Whether the controller already has the archive.
    pub has_archive: bool,
    /// Pages of the log, in order.
    pub pages: Mutex<Vec<LogPage>>,
    /// Statuses, in order; the last one is repeated. If empty, the sample is returned.
    pub statuses: Mutex<Vec<Status>>,
    /// Which of the next status requests is the first that does not find the model, counted from 1; 0: the model is never
    /// removed.
    pub status_requests_left: Mutex<usize>,
    /// Units, entities and tasks that are not found, with the error text.
    pub refuses: BTreeMap<String, String>,
    /// Units, entities and tasks for which a request is not allowed yet, with the error text.
    pub blocked: BTreeMap<String, String>,
}

impl FakeController {
    fn record(&self, text: String) {
        self.requests.lock().expect("no holder panics").push(text);
    }

    fn require_known(&self, name: &str) -> Result<(), ApiError> {
        let unknown = self.refuses.get(name).map(|text| ApiError::new(ErrorCode::NotFound, text));
        let blocked = self.blocked.get(name).map(|text| ApiError::new(ErrorCode::Blocked, text));
        unknown.or(blocked).map_or(Ok(()), Err)
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("no holder panics").clone()
    }

    /// The requests without those of the status, which change nothing.
    pub fn changes(&self) -> Vec<String> {
        self.requests().into_iter().filter(|request| request != "status").collect()
    }
}

/// A client of the fake controller, bound to one model.
#[derive(Clone)]
pub struct FakeClient {
    fake: Arc<FakeController>,
    model: String,
}

impl FakeClient {
    pub fn new(fake: FakeController, model: &str) -> FakeClient {
        FakeClient { fake: Arc::new(fake), model: model.to_owned() }
    }
}

impl Deref for FakeClient {
    type Target = FakeController;

    fn deref(&self) -> &FakeController {
        &self.fake
    }
}

impl InModel for FakeClient {
    fn in_model(&self, model: &str) -> FakeClient {
        FakeClient { fake: self.fake.clone(), model: model.to_owned() }
    }
}

impl<R: Request> Handle<R> for FakeClient {
    async fn handle(&self, request: R) -> Result<R::Response, ApiError> {
        let entry = all_requests::all()
            .into_iter()
            .find(|entry| entry.route == R::ROUTE)
            .expect("every request is listed");
        let body = request.into_bytes();
        if entry.name == "WaitForChange" && parsed::<WaitForChange>(&body).after.is_some() {
            // The first request is answered at once; after that nothing changes.
            return std::future::pending().await;
        }
        let answer = self.answer(entry.name, body)?;
        Ok(R::Response::from_bytes(answer).expect("the fake answers what the request declares"))
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> T {
    serde_json::from_slice(body).expect("a request")
}

fn json(answer: impl Serialize) -> Result<Vec<u8>, ApiError> {
    Ok(serde_json::to_vec(&answer).expect("plain data"))
}

fn changed() -> WriteResponse {
    WriteResponse { revision: 1, warnings: vec![] }
}

impl FakeClient {
    fn answer(&self, request: &str, body: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        match request {
            "ListModels" => json(vec![super::sample_model()]),
            "GetAbout" => json(ControllerInfo {
                version: "0".to_owned(),
                juju_version: JUJU_VERSION.to_owned(),
                controller: Uuid(8),
                store_generation: Uuid(7),
            }),
            "GetDiskUsage" => json(super::sample_disk_usage()),
            "DestroyModel" => {
                let DestroyModel { force } = parsed(&body);
                self.require_known(&self.model)?;
                self.record(format!("destroy {} {force:?}", self.model));
                json(changed())
            }
            "FindArchive" => {
                let FindArchive { sha256 } = parsed(&body);
                let uploaded = ArchiveInfo { sha256, bytes: 1, charm: Default::default() };
                json(self.has_archive.then_some(uploaded))
            }
            "UploadArchive" => {
                self.record("upload".to_owned());
                let sha256 = host::digest::sha256(&body);
                json(ArchiveInfo { sha256, bytes: 1, charm: Default::default() })
            }
            "FindResource" => json(None::<StoredResource>),
            "UploadResource" => {
                let sha256 = host::digest::sha256(&body);
                self.record(format!("upload {}", String::from_utf8_lossy(&body)));
                json(StoredResource { sha256, bytes: body.len() as u64 })
            }
            "AttachResources" => {
                let AttachResources { application, resources } = parsed(&body);
                self.record(format!("attach {}/{application} {resources:?}", self.model));
                json(changed())
            }
            "ListResources" => {
                let ListResources { application } = parsed(&body);
                self.require_known(&application)?;
                json(super::sample_resources(application))
            }
            "Deploy" => {
                let Deploy { application, units, to, config, resources, .. } = parsed(&body);
                let application = application.unwrap_or_default();
                let attached =
                    if resources.is_empty() { String::new() } else { format!(" resources={resources:?}") };
                self.record(format!(
                    "deploy {application} units={units} to={to:?} config={config:?}{attached}"
                ));
                let charm = sample_charm();
                let units = Vec::new();
                let deployed =
                    Deployed { application: Uuid(1), name: application, charm, units, units_remaining: 0 };
                json(Committed { answer: deployed, revision: 1 })
            }
            "Refresh" => {
                let Refresh { application, .. } = parsed(&body);
                self.record(format!("refresh {application}"));
                json(Committed { answer: Refreshed { charm: sample_charm(), kept: vec![] }, revision: 1 })
            }
            "AddUnits" => {
                let add: AddUnits = parsed(&body);
                self.record(format!("add {} units={} to={:?}", add.application, add.units, add.to));
                json(Committed { answer: Vec::<UnitName>::new(), revision: 1 })
            }
            "GetConfig" => json(super::sample_config()),
            "Configure" => {
                let Configure { application, change } = parsed(&body);
                self.record(format!(
                    "configure {}/{application} {:?} {:?}",
                    self.model, change.set, change.reset
                ));
                json(changed())
            }
            "ConfigureModel" => {
                let ConfigureModel { change } = parsed(&body);
                self.record(format!("configure-model {:?} {:?}", change.set, change.reset));
                json(changed())
            }
            "ListStorage" => json(super::sample_storage()),
            "SetConstraints" => {
                let SetConstraints { application, constraints } = parsed(&body);
                self.record(format!("constraints {application:?} {constraints}"));
                json(changed())
            }
            "ListSshKeys" => json(vec![
                SshKeyInfo {
                    key: "ssh-ed25519 AAAA me@host".to_owned(),
                    fingerprint: "27:d1".to_owned(),
                    comment: "me@host".to_owned(),
                },
                SshKeyInfo {
                    key: "ssh-rsa BBBB".to_owned(),
                    fingerprint: "0f:33".to_owned(),
                    comment: String::new(),
                },
            ]),
            "AddSshKeys" => {
                let AddSshKeys { keys } = parsed(&body);
                self.record(format!("add ssh keys {keys:?}"));
                let duplicate = WriteWarning::DuplicateSshKey { fingerprint: "27:d1".to_owned() };
                json(WriteResponse { warnings: vec![duplicate], ..changed() })
            }
            "RemoveSshKeys" => {
                let RemoveSshKeys { keys } = parsed(&body);
                self.record(format!("remove ssh keys {keys:?}"));
                json(changed())
            }
            "GetConstraints" => json(ConstraintsInfo { constraints: "mem=8G".parse().expect("it is valid") }),
            "SetTrust" => {
                let SetTrust { application, trusted } = parsed(&body);
                self.record(format!("trust {}/{application} {trusted}", self.model));
                json(changed())
            }
            "SetExposed" => {
                let SetExposed { application, exposed } = parsed(&body);
                self.record(format!("expose {}/{application} {exposed}", self.model));
                json(changed())
            }
            "GetStatusLog" => {
                let text = |text: &str| StatusMessage::OfCharm(text.to_owned());
                let change =
                    |second: i64, status, message| StatusChange { since_ms: second * 1000, status, message };
                let changes = vec![
                    change(0, SubjectStatus::Agent(AgentStatus::Idle), StatusMessage::Empty),
                    change(1, SubjectStatus::Workload(WorkloadStatus::Blocked), text("needs \u{1b}[31m")),
                    change(86_400, SubjectStatus::Workload(WorkloadStatus::Active), text("ready")),
                ];
                self.record(format!("{:?}", parsed::<GetStatusLog>(&body)));
                json(StatusLog { changes })
            }
            "GetStatus" => json(self.status()?),
            "ShowUnit" => json(super::sample_unit()),
            "LogQuery" => {
                let query: LogQuery = parsed(&body);
                self.record(format!(
                    "log after={:?} newest={:?} wait={}",
                    query.after, query.newest, query.wait
                ));
                json(self.pages.lock().expect("no holder panics").remove(0))
            }
            "GetWhy" => {
                let GetWhy { entity } = parsed(&body);
                let entity = match entity {
                    EntityChoice::Unit(unit) => Entity::Unit(unit),
                    EntityChoice::Model => Entity::Model(self.model.clone()),
                    entity => panic!("the fake controller does not explain {entity:?}"),
                };
                if let Entity::Unit(unit) = &entity {
                    self.require_known(&unit.to_string())?;
                }
                let idle = StatusInfo { current: AgentStatus::Idle, ..StatusInfo::default() };
                let now = EntityState::Unit { workload: StatusInfo::default(), agent: idle };
                json(Why { entity, life: Default::default(), now, causes: vec![], more: false })
            }
            "EnqueueAction" if self.model != "dev" => Err(not_found(EntityKind::Model, &self.model)),
            "EnqueueAction" => json(self.run(parsed(&body))?),
            "EnqueueExec" => {
                let EnqueueExec { unit, commands, operation } = parsed(&body);
                self.record(format!("exec {unit} {commands}"));
                let name = unit.to_string();
                if !self.units.contains(&name) {
                    return Err(not_found(EntityKind::Unit, &name));
                }
                json(self.enqueue(&name, operation))
            }
            "EnqueueMachineExec" => {
                let EnqueueMachineExec { machine, commands, operation } = parsed(&body);
                self.record(format!("exec machine {machine} {commands}"));
                self.require_known(&machine)?;
                json(self.enqueue("ledger/0", operation))
            }
            "GetAction" => {
                let GetAction { id } = parsed(&body);
                self.require_known(&id.to_string())?;
                let enqueued = self.enqueued.lock().expect("no holder panics");
                let enqueued = enqueued.iter().find(|task| task.id == id).cloned();
                let unit_name = enqueued.unwrap_or_else(super::sample_task).unit_name;
                json(match self.task.as_ref().filter(|_| !self.unfinished.contains(&id)) {
                    Some(task) => ActionDoc { id, unit_name, ..task.clone() },
                    None => {
                        ActionDoc { id, unit_name, status: ActionStatus::Running, ..super::sample_task() }
                    }
                })
            }
            "CancelAction" => {
                let CancelAction { id } = parsed(&body);
                self.record(format!("cancel {id}"));
                self.require_known(&id.to_string())?;
                let answer = ActionDoc { id, status: ActionStatus::Cancelled, ..super::sample_task() };
                json(Committed { answer, revision: 9 })
            }
            "GetDeclaredActions" => {
                let GetDeclaredActions { application } = parsed(&body);
                self.require_known(&application)?;
                json(self.declared.clone())
            }
            "ListActions" => {
                let enqueued = self.enqueued.lock().expect("no holder panics");
                json(if enqueued.is_empty() { self.task.iter().cloned().collect() } else { enqueued.clone() })
            }
            "DryRunRemoval" => {
                let DryRunRemoval { removed, .. } = parsed(&body);
                self.record(format!("dry run {removed:?}"));
                if let [RemovalTarget::Unit(unit)] = &removed[..] {
                    self.require_known(&unit.to_string())?;
                }
                let dying = vec![Entity::Unit(UnitName::new("web", 9))];
                json(DryRun { dying, ..DryRun::default() })
            }
            "DryRunDestroyModel" => {
                let DryRunDestroyModel { force } = parsed(&body);
                self.record(format!("dry-run-model {force:?}"));
                let removed_eventually = vec![Entity::Model("dev".to_owned())];
                json(DryRun { removed_eventually, ..DryRun::default() })
            }
            "RemoveUnit" => {
                let RemoveUnit { unit, force, .. } = parsed(&body);
                self.record(format!("remove {unit} force={force:?}"));
                self.require_known(&unit.to_string())?;
                json(changed())
            }
            "SuspendRelation" => {
                let SuspendRelation { relation, message } = parsed(&body);
                self.record(format!("suspend {relation} {message:?}"));
                json(changed())
            }
            "ResumeRelation" => {
                let ResumeRelation { relation } = parsed(&body);
                self.record(format!("resume {relation}"));
                json(changed())
            }
            "WaitForChange" => json(Position::default()),
            "AddSecret" => {
                self.record(format!("{request} {}", String::from_utf8_lossy(&body)));
                json(AddSecretResponse { secret: SecretId::from_bits(0), revision: 1 })
            }
            "UpdateSecret" | "GrantSecret" | "RevokeSecret" | "RemoveSecret" => {
                self.record(format!("{request} {}", String::from_utf8_lossy(&body)));
                json(changed())
            }
            "ListSecrets" => json(super::sample_secrets()),
            "GetSecret" => {
                let GetSecret { secret } = parsed(&body);
                self.require_known(&secret)?;
                let (id, secret) = super::sample_secrets().pop_first().expect("there is one");
                json(GetSecretResponse { id, secret })
            }
            "RevealSecret" => {
                let content = [("password".to_owned(), "czNjcmV0".to_owned())];
                json(SecretContent(BTreeMap::from(content)))
            }
            _ => Err(ApiError::new(ErrorCode::Broken, "the fake controller does not implement this request")),
        }
    }

    fn status(&self) -> Result<Status, ApiError> {
        self.record("status".to_owned());
        let mut left = self.status_requests_left.lock().expect("no holder panics");
        match *left {
            0 => {}
            1 => return Err(not_found(EntityKind::Model, "dev")),
            _ => *left -= 1,
        }
        let mut statuses = self.statuses.lock().expect("no holder panics");
        Ok(match &statuses[..] {
            [] => super::sample(),
            [last] => last.clone(),
            _ => statuses.remove(0),
        })
    }

    fn run(&self, run: EnqueueAction) -> Result<Committed<ActionDoc>, ApiError> {
        self.record(format!("run {} {} {:?}", run.unit, run.action, run.params));
        let name = run.unit.to_string();
        if !self.units.contains(&name) {
            return Err(not_found(EntityKind::Unit, &name));
        }
        if run.action != "post" {
            let text = format!("action {:?} of ledger (not found)", run.action);
            return Err(ApiError::new(ErrorCode::UnknownAction, text));
        }
        Ok(self.enqueue(&name, run.operation))
    }

    /// Enqueues a task: the first one has number 7.
    fn enqueue(&self, unit: &str, operation: Option<u64>) -> Committed<ActionDoc> {
        let mut enqueued = self.enqueued.lock().expect("no holder panics");
        let (id, unit_name) = (7 + enqueued.len() as u64, unit.parse().expect("a unit"));
        let (operation, status) = (operation.unwrap_or(id), ActionStatus::Pending);
        let task = ActionDoc { id, operation, unit_name, status, ..super::sample_task() };
        enqueued.push(task.clone());
        Committed { answer: task, revision: 1 }
    }
}

fn sample_charm() -> CharmDoc {
    CharmDoc {
        sha256: String::new(),
        name: "web".to_owned(),
        url: "local:web-3".to_owned(),
        revision: 3,
        forced: false,
        previous: vec![],
        resources: Default::default(),
    }
}

fn not_found(kind: EntityKind, name: &str) -> ApiError {
    RefusalReason::NotFound { kind, name: name.to_owned() }.into()
}
