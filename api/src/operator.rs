//! What people, the command `pintle` and the supervisor ask of the controller. Who asks is the session's.
//!
//! `model` is a model's name or uuid in every call. Times are milliseconds since the epoch, in UTC. A refusal's code
//! is named at the call where a caller decides on it; all calls can end in `Unreachable` or `Unauthorised`.

use crate::error::ApiError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::charm::{Base, Charm, OptionType, Role, Scope};
use state::life::Life;
use state::names::{RelationNumber, UnitName, Uuid};
use state::settings::Bag;
use state::unit::snapshot::Position;
use std::collections::BTreeMap;
use std::future::Future;

/// Longest a `changes` or a waiting `debug_log` call is held before it answers without news.
pub const LONG_POLL_MS: u64 = 25_000;
/// Most lines of one debug-log page.
pub const LOG_PAGE_LINES: u32 = 1_000;
/// Largest charm archive.
pub const ARCHIVE_BYTES_MAX: usize = 512 << 20;

/// The 0600 file through which a person's command finds and trusts its controller: YAML in `DIR/client.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFile {
    /// `127.0.0.1:17070`.
    pub controller: String,
    /// The name in the controller's certificate: its uuid.
    pub server_name: String,
    /// The only CA that is trusted, PEM.
    pub ca: String,
    pub user: String,
    pub token: String,
    /// Name of the model that commands without `-m` mean; empty = none: it was destroyed.
    pub model: String,
}

/// What answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Pintle's own version.
    pub version: String,
    /// What charms and clients are told: [`crate::JUJU_VERSION`].
    pub juju_version: String,
    pub controller: Uuid,
    pub history: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    pub uuid: Uuid,
    pub name: String,
    pub life: Life,
    pub controller: Uuid,
    pub created_ms: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateModel {
    pub name: String,
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

/// One model setting and where it comes from: `default` or `model`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSetting {
    pub value: Value,
    pub source: String,
}

/// A change of settings, all or nothing. Values are as typed; the controller parses them by type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigChange {
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    #[serde(default)]
    pub reset: Vec<String>,
}

/// A write that was done (or had been done before): where it stands in the history, and what is worth a warning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How long what is removed has for going by itself, before the controller does what its agents owe (spec E.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// As long as it takes.
    #[default]
    No,
    /// A minute: `--force`.
    AfterWait,
    /// No time: `--force --no-wait`.
    AtOnce,
}

impl Force {
    /// `no_wait` says nothing by itself.
    pub fn of(force: bool, no_wait: bool) -> Force {
        match (force, no_wait) {
            (false, _) => Force::No,
            (true, false) => Force::AfterWait,
            (true, true) => Force::AtOnce,
        }
    }

    /// The two flags.
    pub fn flags(self) -> (bool, bool) {
        (self != Force::No, self == Force::AtOnce)
    }
}

/// A charm archive the controller holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Uploaded {
    pub sha256: String,
    pub bytes: u64,
    pub charm: Charm,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deploy {
    /// None = the charm's name.
    pub application: Option<String>,
    /// Of an uploaded archive; `NotFound` when it is not there (any more).
    pub sha256: String,
    /// Ignored for a subordinate charm, which has no units of its own.
    pub units: u32,
    /// Name of the machine for the first unit; none = each unit on a new one.
    pub to: Option<String>,
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployed {
    pub application: String,
    /// `local:web-0`.
    pub charm_url: String,
    pub units: Vec<UnitName>,
    pub revision: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddUnits {
    pub application: String,
    pub units: u32,
    pub to: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Added {
    pub units: Vec<UnitName>,
    pub revision: u64,
}

/// Two ends of a relation, each `application` or `application:endpoint`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    pub a: String,
    pub b: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integrated {
    pub relation: RelationNumber,
    /// `db:server web:db`.
    pub key: String,
    pub revision: u64,
}

/// Which relation to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RelationChoice {
    Ends(Ends),
    Number(RelationNumber),
}

/// What is to be removed, as a person names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Removable {
    Unit(String),
    Application(String),
    Relation(RelationChoice),
    Machine(String),
}

/// Removals that are foretold together: each of them may be a whole application's.
pub const FORETOLD_MAX: usize = 20;

/// What a removal would come to if every hook succeeded; nothing was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forecast {
    /// Gone with the removal itself: `unit web/0`.
    pub at_once: Vec<String>,
    /// Dying with it.
    pub dying: Vec<String>,
    /// In the order in which they would run.
    pub hooks: Vec<Foretold>,
    /// Those of units that force removes at once: they run only if their agents are quicker.
    #[serde(default)]
    pub left_out: Vec<Foretold>,
    /// Gone once all these hooks have succeeded.
    pub gone: Vec<String>,
    /// What would hold up the rest.
    pub blocked: Vec<Cause>,
    /// There is more of these than a forecast looks at.
    #[serde(default)]
    pub more: bool,
}

/// A hook that would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foretold {
    pub unit: UnitName,
    /// `db-relation-departed db:1 db/0 departing=web/0`.
    pub hook: String,
}

/// One option of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    #[serde(rename = "type")]
    pub kind: OptionType,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// In force now: what the user set, else the default; none = unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// The value in force was set by a user.
    pub user: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationConfig {
    pub application: String,
    /// Name of its charm.
    pub charm: String,
    pub settings: BTreeMap<String, Setting>,
}

/// A status as it is to be shown: what is derived (an agent's error shown as the workload's, an application's worst
/// unit; spec/uniter.md F.5) is derived already.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusInfo {
    pub current: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
}

/// A whole model at one revision, by names. The text forms (spec/clients.md 2.4, 3.3) are the command's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub position: Position,
    /// The controller's clock when it answered.
    pub now_ms: i64,
    pub model: ModelStatus,
    pub machines: BTreeMap<String, MachineStatus>,
    pub applications: BTreeMap<String, ApplicationStatus>,
    pub relations: Vec<RelationStatus>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelStatus {
    pub name: String,
    pub uuid: Uuid,
    pub life: Life,
    /// Name of the controller people see: `here`.
    pub controller: String,
    pub cloud: String,
    pub region: String,
    /// [`crate::JUJU_VERSION`].
    pub version: String,
    pub status: StatusInfo,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineStatus {
    pub uuid: Uuid,
    pub life: Life,
    /// Of its agent: pending, started, stopped, down, error.
    pub agent: StatusInfo,
    /// Of the machine itself: pending, running, ...
    pub instance: StatusInfo,
    pub address: String,
    pub instance_id: String,
    pub base: Base,
    pub zone: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationStatus {
    pub uuid: Uuid,
    pub life: Life,
    pub charm_name: String,
    pub charm_url: String,
    pub charm_revision: u32,
    /// The charm's own word for its version, of its file `version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charm_version: Option<String>,
    pub base: Base,
    pub exposed: bool,
    pub subordinate: bool,
    /// The principals' applications, of a subordinate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subordinate_to: Vec<String>,
    /// What `application-version-set` said last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workload_version: String,
    pub status: StatusInfo,
    /// By own endpoint.
    #[serde(default)]
    pub relations: BTreeMap<String, Vec<Related>>,
    /// All units, subordinate ones too: those name their principal.
    pub units: BTreeMap<UnitName, UnitStatus>,
}

/// One relation as an application sees it. For a peer relation the related application is itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Related {
    pub application: String,
    pub interface: String,
    pub scope: Scope,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitStatus {
    pub uuid: Uuid,
    pub life: Life,
    pub machine: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<UnitName>,
    pub leader: bool,
    pub workload: StatusInfo,
    /// `idle` only when nothing that concerns the unit is undone.
    pub agent: StatusInfo,
    pub address: String,
    /// `80/tcp`, `8000-8100/tcp`, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationEnd {
    pub application: String,
    pub endpoint: String,
    pub role: Role,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationStatus {
    pub uuid: Uuid,
    pub number: RelationNumber,
    pub life: Life,
    pub interface: String,
    pub scope: Scope,
    /// One end for a peer relation; else the provider first.
    pub ends: Vec<RelationEnd>,
    /// joining, joined, suspending, suspended, broken, error.
    pub status: StatusInfo,
}

/// One side's data as a unit's relation shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInfo {
    pub in_scope: bool,
    pub data: Bag,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRelation {
    pub number: RelationNumber,
    pub endpoint: String,
    pub related_endpoint: String,
    /// The remote application's bag; of a peer relation, the own application's.
    pub application_data: Bag,
    pub local_unit: MemberInfo,
    pub related_units: BTreeMap<UnitName, MemberInfo>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitInfo {
    pub name: UnitName,
    pub uuid: Uuid,
    pub machine: String,
    pub life: Life,
    pub leader: bool,
    /// `local:web-0`.
    pub charm_url: String,
    pub address: String,
    #[serde(default)]
    pub ports: Vec<String>,
    #[serde(default)]
    pub workload_version: String,
    pub relations: Vec<UnitRelation>,
}

/// Which log lines. Inside a group a line needs one match, and it must pass every group (spec/clients.md 3.6).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogQuery {
    /// Lines after this cursor of an earlier page; none = from the first line, or from the newest `newest` on.
    #[serde(default)]
    pub after: Option<String>,
    /// Without a cursor: only the newest so many of the lines that match.
    #[serde(default)]
    pub newest: Option<u32>,
    /// Hold the answer until there is a line, or [`LONG_POLL_MS`].
    #[serde(default)]
    pub wait: bool,
    /// Least level: TRACE, DEBUG, INFO, WARNING, ERROR.
    #[serde(default)]
    pub level: Option<String>,
    /// Entities: `web/0`, `unit-web-0`, `unit-web-*`, `machine-0`, or an application, which means its units.
    #[serde(default)]
    pub include: Vec<String>,
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Prefixes of module names.
    #[serde(default)]
    pub include_module: Vec<String>,
    #[serde(default)]
    pub exclude_module: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    pub at_ms: i64,
    pub level: String,
    /// `unit.web/0.juju-log`.
    pub module: String,
    /// `unit-web-0`.
    pub entity: String,
    pub text: String,
}

/// Lines in the order they were stored, at most [`LOG_PAGE_LINES`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPage {
    pub lines: Vec<LogLine>,
    /// Where the next page begins; also set on an empty page.
    pub cursor: String,
    /// There are more lines now.
    pub more: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refresh {
    pub application: String,
    pub sha256: String,
    /// `--force-units`: replace the charm even while a hook is in error.
    pub forced: bool,
    #[serde(default)]
    pub config: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refreshed {
    pub charm_url: String,
    pub revision: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// `web/0` or `web/leader`.
    pub unit: String,
    pub action: String,
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueued {
    /// Of the task; also its operation's.
    pub id: u64,
    /// The unit itself, where `run` named a leader.
    pub unit: UnitName,
    pub revision: u64,
}

/// A task, under way or done (spec/clients.md 2.4 "task").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionInfo {
    pub id: u64,
    pub unit: UnitName,
    pub action: String,
    /// pending, running, completed, failed.
    pub status: String,
    /// What `action-fail` said, or why it could not run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// As the action set them: dotted keys nested, values strings. `return-code` (a number) once its process ended;
    /// `stdout` and `stderr` when they are not empty.
    #[serde(default)]
    pub results: BTreeMap<String, Value>,
    #[serde(default)]
    pub log: Vec<(i64, String)>,
    pub enqueued_ms: i64,
    #[serde(default)]
    pub started_ms: Option<i64>,
    #[serde(default)]
    pub completed_ms: Option<i64>,
}

/// One thing that an entity waits for, computed when it was asked for (design 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// Who is held up: `unit web/0`.
    pub entity: String,
    /// What is owed: `run db-relation-broken for relation 3`.
    pub duty: String,
    /// Who owes it: `unit agent of web/0`, `machine agent 0`, `you`.
    pub owner: String,
    #[serde(default)]
    pub since_ms: Option<i64>,
    #[serde(default)]
    pub last_error: Option<String>,
    /// A command that moves it on, or what it will pass by itself with; may be empty.
    #[serde(default)]
    pub help: String,
}

/// Everything that holds an entity up; empty = nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// `unit web/0`, `application web`, `relation 3`, `machine 0`.
    pub entity: String,
    pub life: Life,
    /// What it does now, in words: `idle`, `running config-changed hook`.
    pub now: String,
    pub causes: Vec<Cause>,
    /// There are more causes than these.
    #[serde(default)]
    pub more: bool,
}

/// A machine as its provider (the supervisor of `pintle up`) needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineInfo {
    pub uuid: Uuid,
    pub name: String,
    pub address: String,
    pub life: Life,
    /// A person brings it.
    #[serde(default)]
    pub manual: bool,
    /// Its instance stays when it goes.
    #[serde(default)]
    pub kept: bool,
    /// Of one that is Dead and kept: nobody waits for its agent any more.
    #[serde(default)]
    pub left: bool,
    /// Units are assigned to it.
    #[serde(default)]
    pub occupied: bool,
    /// It is Dying, and one of them has lived: that one cannot go without an agent that brings it to its end.
    #[serde(default)]
    pub lived: bool,
    /// The nonce of its instance, once its start was recorded.
    #[serde(default)]
    pub nonce: Option<Uuid>,
    /// The instance, once it is there.
    #[serde(default)]
    pub instance_id: Option<String>,
    /// After a failure: when the provider tries again.
    #[serde(default)]
    pub retry_ms: Option<i64>,
}

/// What a provider says of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provisioned {
    /// An instance is about to be made, under this nonce if none is recorded.
    Intended { provider: String, nonce: Uuid },
    /// It is there.
    Started { instance_id: String, address: String },
    /// It could not be made, kept, or taken away.
    Failed { message: String },
    /// There is none and none will be: the Dying machine is Dead.
    Absent,
}

/// New machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddMachines {
    pub count: u32,
    /// A person brings them.
    #[serde(default)]
    pub manual: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedMachines {
    pub names: Vec<String>,
    pub revision: u64,
}

/// What a machine that a person brings introduces itself with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    pub machine: Uuid,
    pub name: String,
    pub model: Uuid,
    /// Good for one use, until `expires_ms`.
    pub token: String,
    pub expires_ms: i64,
}

/// What a person or the provider asks. Implemented by the HTTP client and by the controller's sessions.
pub trait OperatorApi {
    fn about(&self) -> impl Future<Output = Result<About, ApiError>> + Send;
    /// The OpenAPI document of all routes.
    fn openapi(&self) -> impl Future<Output = Result<Value, ApiError>> + Send;

    fn models(&self) -> impl Future<Output = Result<Vec<ModelInfo>, ApiError>> + Send;
    /// `AlreadyExists` when the name is taken.
    fn create_model(&self, model: CreateModel) -> impl Future<Output = Result<ModelInfo, ApiError>> + Send;
    /// The model is Dying with all that is in it, and goes when nothing is left in it.
    fn destroy_model(
        &self,
        model: &str,
        force: Force,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;
    fn model_config(
        &self,
        model: &str,
    ) -> impl Future<Output = Result<BTreeMap<String, ModelSetting>, ApiError>> + Send;
    fn configure_model(
        &self,
        model: &str,
        change: ConfigChange,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;

    /// The archive of this digest, if the controller holds it whole.
    fn archive_info(&self, sha256: &str) -> impl Future<Output = Result<Option<Uploaded>, ApiError>> + Send;
    /// `Invalid` names all problems of the charm, one a line.
    fn upload_archive(&self, archive: Vec<u8>) -> impl Future<Output = Result<Uploaded, ApiError>> + Send;

    fn deploy(&self, model: &str, deploy: Deploy) -> impl Future<Output = Result<Deployed, ApiError>> + Send;
    fn add_units(&self, model: &str, add: AddUnits) -> impl Future<Output = Result<Added, ApiError>> + Send;
    fn refresh(
        &self,
        model: &str,
        refresh: Refresh,
    ) -> impl Future<Output = Result<Refreshed, ApiError>> + Send;
    fn integrate(&self, model: &str, ends: Ends)
    -> impl Future<Output = Result<Integrated, ApiError>> + Send;
    fn config(
        &self,
        model: &str,
        application: &str,
    ) -> impl Future<Output = Result<ApplicationConfig, ApiError>> + Send;
    fn configure(
        &self,
        model: &str,
        application: &str,
        change: ConfigChange,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;

    fn status(&self, model: &str) -> impl Future<Output = Result<Status, ApiError>> + Send;
    /// `unit` is `web/0` or `web/leader`.
    fn show_unit(&self, model: &str, unit: &str) -> impl Future<Output = Result<UnitInfo, ApiError>> + Send;
    fn debug_log(
        &self,
        model: &str,
        query: LogQuery,
    ) -> impl Future<Output = Result<LogPage, ApiError>> + Send;
    /// `entity` is a unit, an application, a machine's name, a relation's number or its two ends with a space
    /// between.
    fn why(&self, model: &str, entity: &str) -> impl Future<Output = Result<Why, ApiError>> + Send;

    /// The hook in error again (`retry`) or counted as done. `Invalid`, "is not in an error state", otherwise.
    fn resolved(
        &self,
        model: &str,
        unit: &str,
        retry: bool,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;
    /// `NotFound` when the unit is unknown; `Invalid` with the words `(not found)` when its charm has no such
    /// action.
    fn run(&self, model: &str, run: Run) -> impl Future<Output = Result<Enqueued, ApiError>> + Send;
    fn action(&self, model: &str, id: u64) -> impl Future<Output = Result<ActionInfo, ApiError>> + Send;
    /// All tasks that are kept, oldest first, without their results and log.
    fn actions(&self, model: &str) -> impl Future<Output = Result<Vec<ActionInfo>, ApiError>> + Send;

    fn remove_unit(
        &self,
        model: &str,
        unit: &str,
        force: Force,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;
    fn remove_application(
        &self,
        model: &str,
        application: &str,
        force: Force,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;
    fn remove_relation(
        &self,
        model: &str,
        relation: RelationChoice,
        force: Force,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;
    /// The units of both sides leave, and nobody enters until it is resumed.
    fn suspend_relation(
        &self,
        model: &str,
        relation: RelationNumber,
        message: &str,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;
    fn resume_relation(
        &self,
        model: &str,
        relation: RelationNumber,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;

    /// What removing all these together would come to. `NotFound` and other refusals are the removal's own.
    fn forecast(
        &self,
        model: &str,
        removed: Vec<Removable>,
        force: Force,
    ) -> impl Future<Output = Result<Forecast, ApiError>> + Send;

    fn machines(&self, model: &str) -> impl Future<Output = Result<Vec<MachineInfo>, ApiError>> + Send;
    /// Sets the token of a machine's agent. The caller made it and has written it down first, so a repeated call
    /// changes nothing.
    fn machine_token(
        &self,
        model: &str,
        machine: Uuid,
        token: &str,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;
    /// Machines without units. One that is not manual is made by the provider.
    fn add_machines(
        &self,
        model: &str,
        add: AddMachines,
    ) -> impl Future<Output = Result<AddedMachines, ApiError>> + Send;
    /// `Busy` while a unit on it is alive. `keep_instance`: the instance stays, without an agent, and is the caller's.
    fn remove_machine(
        &self,
        model: &str,
        machine: &str,
        force: Force,
        keep_instance: bool,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;
    /// A machine's provisioning error is tried again now.
    fn retry_provisioning(
        &self,
        model: &str,
        machine: &str,
    ) -> impl Future<Output = Result<Changed, ApiError>> + Send;
    /// A fresh token for a manual machine that has not come yet.
    fn invite(&self, model: &str, machine: &str)
    -> impl Future<Output = Result<Invitation, ApiError>> + Send;

    /// Answers the nonce under which the instance is to be, or was, made.
    fn provisioned(
        &self,
        model: &str,
        machine: Uuid,
        what: Provisioned,
    ) -> impl Future<Output = Result<Uuid, ApiError>> + Send;
    /// What is known of a machine's uuid, in any history of this controller.
    fn machine_fate(
        &self,
        model: &str,
        machine: Uuid,
    ) -> impl Future<Output = Result<crate::machine::Fate, ApiError>> + Send;
    /// The provider has taken a Dead machine away: its record may go. Twice is once.
    fn machine_removed(
        &self,
        model: &str,
        machine: Uuid,
    ) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Answers when the store has gone past `after`, or after [`LONG_POLL_MS`] with the position it is at; at once
    /// when `after` is none or of another history. `model` only says who may ask: the position is the store's.
    fn changes(
        &self,
        model: &str,
        after: Option<Position>,
    ) -> impl Future<Output = Result<Position, ApiError>> + Send;
}
