//! What people, the command `pintle` and the supervisor ask of the controller. Who asks is the session's.
//!
//! `model` is a model's name or uuid in every call. Times are milliseconds since the epoch, in UTC. A refusal's code
//! is named at the call where a caller decides on it; all calls can end in `Unreachable` or `Unauthorised`.

pub use crate::actions::*;
pub use crate::applications::*;
pub use crate::archives::*;
pub use crate::changes::*;
pub use crate::client_file::*;
pub use crate::controller::*;
use crate::error::ApiError;
pub use crate::log::*;
pub use crate::machines::*;
pub use crate::models::*;
pub use crate::provisioning::*;
pub use crate::relations::*;
pub use crate::removal::*;
pub use crate::status::*;
pub use crate::units::*;
pub use crate::why::*;
use serde_json::Value;
use state::names::{RelationNumber, Uuid};
use state::unit::snapshot::Position;
use std::collections::BTreeMap;
use std::future::Future;

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
    ) -> impl Future<Output = Result<crate::machine_agent::Fate, ApiError>> + Send;
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
