//! Every route there is: one row each, read by the client (what to call), the server (what to serve) and the OpenAPI
//! document. Who may call it stands in the controller's `authority`.
//!
//! What the path names is checked against the session, never the other way round: an agent that carries another
//! unit's token is refused instead of acting as that unit.

use crate::machine_agent::*;
use crate::operator::*;
use crate::schema::Types;
use crate::unit_agent::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use state::names::{RelationNumber, Uuid};
use state::unit::snapshot::{BagAsked, BagView, Position};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Route {
    Attach,
    Commit,
    Report,
    Claim,
    WatchUnit,
    Bag,
    Archive,
    WatchMachine,
    Fate,
    UnitToken,
    RemoveDeadUnit,
    Here,
    MachineDead,
    Enrol,
    MachineGone,
    About,
    OpenApi,
    Models,
    CreateModel,
    DestroyModel,
    ForceModel,
    ModelConfig,
    ConfigureModel,
    ArchiveInfo,
    UploadArchive,
    Deploy,
    AddUnits,
    Refresh,
    Integrate,
    Config,
    Configure,
    Status,
    ShowUnit,
    DebugLog,
    Why,
    Resolved,
    Run,
    Action,
    Actions,
    RemoveUnit,
    RemoveApplication,
    RemoveRelation,
    SuspendRelation,
    ResumeRelation,
    Forecast,
    ForecastForce,
    Machines,
    AddMachines,
    RemoveMachine,
    RemoveMachineOnly,
    RetryProvisioning,
    Invite,
    Provisioned,
    MachineFate,
    MachineToken,
    MachineRemoved,
    Changes,
}

/// What a route takes.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// GET, no body.
    Nothing,
    /// POST, a JSON document whose schema this is.
    Json(fn(&Types) -> Value),
    /// POST, bytes.
    Bytes,
}

/// What a route gives back.
#[derive(Clone, Copy, Debug)]
pub enum Gives {
    Json(fn(&Types) -> Value),
    Bytes,
    /// One JSON [`Line`] after the other, until either end closes.
    Lines(fn(&Types) -> Value),
}

#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub route: Route,
    /// With `{model}`, `{agent}` or `{sha256}` where the caller fills in.
    pub path: &'static str,
    pub takes: Takes,
    pub gives: Gives,
    pub about: &'static str,
}

use Takes::Nothing;

const fn row(route: Route, path: &'static str, takes: Takes, gives: Gives, about: &'static str) -> Row {
    Row { route, path, takes, gives, about }
}

const fn takes<T: DeserializeOwned>() -> Takes {
    Takes::Json(Types::describe::<T>)
}

const fn gives<T: DeserializeOwned>() -> Gives {
    Gives::Json(Types::describe::<T>)
}

const fn lines<T: DeserializeOwned>() -> Gives {
    Gives::Lines(Types::describe::<Line<T>>)
}

/// All routes, agents' first.
#[rustfmt::skip]
pub const ROUTES: &[Row] = &[
    row(Route::Attach, "/v1/models/{model}/unit-agents/{agent}/attach", takes::<Attach>(), gives::<Attached>(), "Begin a session: raises the unit's epoch"),
    row(Route::Commit, "/v1/models/{model}/unit-agents/{agent}/commit", takes::<Commit>(), gives::<Committed>(), "Apply one record, exactly once"),
    row(Route::Report, "/v1/models/{model}/unit-agents/{agent}/report", takes::<Report>(), gives::<()>(), "Statuses and log lines sent early"),
    row(Route::Claim, "/v1/models/{model}/unit-agents/{agent}/claim", takes::<Claim>(), gives::<Claimed>(), "Claim, renew or release leadership"),
    row(Route::WatchUnit, "/v1/models/{model}/unit-agents/{agent}/watch", takes::<WatchFrom>(), lines::<Shown>(), "The unit's view: whole, then one delta a revision"),
    row(Route::Bag, "/v1/models/{model}/unit-agents/{agent}/bag", takes::<BagAsked>(), gives::<Option<BagView>>(), "One bag that did not come along with the view"),
    row(Route::Archive, "/v1/models/{model}/unit-agents/{agent}/archives/{sha256}", Nothing, Gives::Bytes, "A charm archive"),
    row(Route::WatchMachine, "/v1/models/{model}/machine-agents/{agent}/watch", Nothing, lines::<MachineShown>(), "The machine's view, again whenever it changed"),
    row(Route::Fate, "/v1/models/{model}/machine-agents/{agent}/fate", takes::<Id>(), gives::<Fate>(), "What is known of a unit's uuid"),
    row(Route::UnitToken, "/v1/models/{model}/machine-agents/{agent}/unit-token", takes::<Token>(), gives::<()>(), "Set the token of a unit on this machine"),
    row(Route::RemoveDeadUnit, "/v1/models/{model}/machine-agents/{agent}/remove-unit", takes::<Id>(), gives::<()>(), "Remove a Dead unit that was recalled"),
    row(Route::Here, "/v1/models/{model}/machine-agents/{agent}/here", takes::<()>(), gives::<()>(), "This agent is at work"),
    row(Route::MachineDead, "/v1/models/{model}/machine-agents/{agent}/dead", takes::<()>(), gives::<()>(), "This Dying machine has no units left"),
    row(Route::Enrol, "/v1/models/{model}/machine-agents/{agent}/enrol", takes::<Enrol>(), gives::<()>(), "A machine that a person brings introduces itself"),
    row(Route::MachineGone, "/v1/models/{model}/machine-agents/{agent}/gone", takes::<()>(), gives::<()>(), "This Dead machine's agent has taken itself away"),
    row(Route::About, "/v1/about", Nothing, gives::<About>(), "Versions, controller and history"),
    row(Route::OpenApi, "/v1/openapi.json", Nothing, gives::<Value>(), "This document"),
    row(Route::Models, "/v1/models", Nothing, gives::<Vec<ModelInfo>>(), "All models"),
    row(Route::CreateModel, "/v1/models", takes::<CreateModel>(), gives::<ModelInfo>(), "Create a model"),
    row(Route::DestroyModel, "/v1/models/{model}/destroy", takes::<()>(), gives::<Changed>(), "Destroy a model"),
    row(Route::ForceModel, "/v1/models/{model}/destroy-by-force", takes::<ForceModel>(), gives::<Changed>(), "Destroy a model by force"),
    row(Route::ModelConfig, "/v1/models/{model}/model-config", Nothing, gives::<BTreeMap<String, ModelSetting>>(), "A model's settings"),
    row(Route::ConfigureModel, "/v1/models/{model}/model-config", takes::<ConfigChange>(), gives::<Changed>(), "Change a model's settings"),
    row(Route::ArchiveInfo, "/v1/archives/info", takes::<Name>(), gives::<Option<Uploaded>>(), "The archive of this digest, if it is held"),
    row(Route::UploadArchive, "/v1/archives", Takes::Bytes, gives::<Uploaded>(), "Check and keep a charm archive"),
    row(Route::Deploy, "/v1/models/{model}/deploy", takes::<Deploy>(), gives::<Deployed>(), "Deploy an application"),
    row(Route::AddUnits, "/v1/models/{model}/add-units", takes::<AddUnits>(), gives::<Added>(), "Add units"),
    row(Route::Refresh, "/v1/models/{model}/refresh", takes::<Refresh>(), gives::<Refreshed>(), "Change an application's charm"),
    row(Route::Integrate, "/v1/models/{model}/integrate", takes::<Ends>(), gives::<Integrated>(), "Relate two applications"),
    row(Route::Config, "/v1/models/{model}/config", takes::<Name>(), gives::<ApplicationConfig>(), "An application's settings"),
    row(Route::Configure, "/v1/models/{model}/configure", takes::<Configure>(), gives::<Changed>(), "Change an application's settings"),
    row(Route::Status, "/v1/models/{model}/status", Nothing, gives::<Status>(), "The whole model"),
    row(Route::ShowUnit, "/v1/models/{model}/show-unit", takes::<Name>(), gives::<UnitInfo>(), "One unit with its relations' data"),
    row(Route::DebugLog, "/v1/models/{model}/debug-log", takes::<LogQuery>(), gives::<LogPage>(), "A page of log lines"),
    row(Route::Why, "/v1/models/{model}/why", takes::<Name>(), gives::<Why>(), "What an entity waits for"),
    row(Route::Resolved, "/v1/models/{model}/resolved", takes::<Resolve>(), gives::<Changed>(), "End a unit's error"),
    row(Route::Run, "/v1/models/{model}/run", takes::<Run>(), gives::<Enqueued>(), "Queue an action"),
    row(Route::Action, "/v1/models/{model}/action", takes::<Number>(), gives::<ActionInfo>(), "An action's state"),
    row(Route::Actions, "/v1/models/{model}/actions", Nothing, gives::<Vec<ActionInfo>>(), "All actions, without results"),
    row(Route::RemoveUnit, "/v1/models/{model}/remove-unit", takes::<Remove>(), gives::<Changed>(), "Destroy a unit"),
    row(Route::RemoveApplication, "/v1/models/{model}/remove-application", takes::<Remove>(), gives::<Changed>(), "Destroy an application"),
    row(Route::RemoveRelation, "/v1/models/{model}/remove-relation", takes::<RemoveRelation>(), gives::<Changed>(), "Destroy a relation"),
    row(Route::SuspendRelation, "/v1/models/{model}/suspend-relation", takes::<Suspend>(), gives::<Changed>(), "Suspend a relation: its units leave it"),
    row(Route::ResumeRelation, "/v1/models/{model}/resume-relation", takes::<Resume>(), gives::<Changed>(), "Let the units of a suspended relation enter it again"),
    row(Route::Forecast, "/v1/models/{model}/forecast", takes::<Vec<Removable>>(), gives::<Forecast>(), "What a removal would come to"),
    row(Route::ForecastForce, "/v1/models/{model}/forecast-by-force", takes::<ForecastForce>(), gives::<Forecast>(), "What a removal by force would come to"),
    row(Route::Machines, "/v1/models/{model}/machines", Nothing, gives::<Vec<MachineInfo>>(), "All machines, for their provider"),
    row(Route::AddMachines, "/v1/models/{model}/add-machines", takes::<AddMachines>(), gives::<AddedMachines>(), "Add machines"),
    row(Route::RemoveMachine, "/v1/models/{model}/remove-machine", takes::<Remove>(), gives::<Changed>(), "Destroy a machine"),
    row(Route::RemoveMachineOnly, "/v1/models/{model}/remove-machine-only", takes::<Remove>(), gives::<Changed>(), "Destroy a machine and keep its instance"),
    row(Route::RetryProvisioning, "/v1/models/{model}/retry-provisioning", takes::<Name>(), gives::<Changed>(), "Try again what its provider failed at"),
    row(Route::Invite, "/v1/models/{model}/invite-machine", takes::<Name>(), gives::<Invitation>(), "A token for a machine that a person brings"),
    row(Route::Provisioned, "/v1/models/{model}/provisioned", takes::<MachineProvisioned>(), gives::<Uuid>(), "What a provider says of a machine"),
    row(Route::MachineFate, "/v1/models/{model}/machine-fate", takes::<Id>(), gives::<Fate>(), "What is known of a machine's uuid"),
    row(Route::MachineToken, "/v1/models/{model}/machine-token", takes::<Token>(), gives::<()>(), "Set the token of a machine's agent"),
    row(Route::MachineRemoved, "/v1/models/{model}/machine-removed", takes::<Id>(), gives::<()>(), "Its provider took a Dead machine away"),
    row(Route::Changes, "/v1/models/{model}/changes", takes::<ChangesAfter>(), gives::<Position>(), "Wait for the next revision"),
];

impl Route {
    pub fn row(self) -> &'static Row {
        ROUTES.iter().find(|row| row.route == self).expect("every route has a row; a test calls each")
    }
}

impl Row {
    pub fn method(&self) -> &'static str {
        match self.takes {
            Takes::Nothing => "GET",
            Takes::Json(_) | Takes::Bytes => "POST",
        }
    }
}

/// A name of the entity meant: a unit, an application, a digest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Name {
    pub name: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Id {
    pub id: Uuid,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Number {
    pub id: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Token {
    pub id: Uuid,
    pub token: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Enrol {
    pub token: String,
    pub address: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MachineProvisioned {
    pub id: Uuid,
    pub what: Provisioned,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Configure {
    pub application: String,
    pub change: ConfigChange,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resolve {
    pub unit: String,
    pub retry: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Remove {
    pub name: String,
    #[serde(default)]
    pub force: bool,
    #[serde(default)]
    pub no_wait: bool,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ForceModel {
    #[serde(default)]
    pub no_wait: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ForecastForce {
    pub removed: Vec<Removable>,
    #[serde(default)]
    pub no_wait: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RemoveRelation {
    pub relation: RelationChoice,
    #[serde(default)]
    pub force: bool,
    #[serde(default)]
    pub no_wait: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Suspend {
    pub relation: RelationNumber,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resume {
    pub relation: RelationNumber,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangesAfter {
    pub after: Option<Position>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WatchFrom {
    pub epoch: u64,
    pub from: Option<Position>,
}

/// One line of a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line<T> {
    Item(T),
    /// The last one.
    Error(crate::error::ApiError),
}
