//! What a machine agent asks of the controller. The machine is the session's.

use crate::error::ApiError;
use serde::{Deserialize, Serialize};
use state::life::Life;
use state::names::{UnitName, Uuid};
use state::unit::snapshot::Position;
use std::collections::BTreeMap;
use std::future::Future;

/// A unit this machine is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assigned {
    pub name: UnitName,
    /// Effective life; Dead = its agent has finished, recall it.
    pub life: Life,
}

/// What this machine is to run, whole, as of one position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineView {
    pub position: Position,
    pub model: Uuid,
    pub name: String,
    pub address: String,
    pub life: Life,
    pub units: BTreeMap<Uuid, Assigned>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MachineShown {
    View(MachineView),
    Heartbeat(Position),
}

/// What the controller knows of a unit's uuid (design 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    Known(Life),
    /// Removed, in this history.
    Tombstone,
    /// Nothing is known: never a reason to tear down.
    Unknown,
}

pub trait MachineWatch {
    /// May be dropped before it is over: the next call answers what that one would have.
    fn next(&mut self) -> impl Future<Output = Result<MachineShown, ApiError>> + Send;
}

/// What a machine agent asks. Implemented by the HTTP client and by the controller's sessions.
pub trait MachineApi {
    type Watch: MachineWatch + Send;
    /// The whole view at once, again whenever it changed.
    fn watch_machine(&self) -> impl Future<Output = Result<Self::Watch, ApiError>> + Send;
    fn fate(&self, unit: Uuid) -> impl Future<Output = Result<Fate, ApiError>> + Send;
    /// Sets the unit's token: the caller made it and has written it down first, so a repeated call changes
    /// nothing.
    fn set_token(&self, unit: Uuid, token: &str) -> impl Future<Output = Result<(), ApiError>> + Send;
    /// Removes a Dead unit after its recall, or a Dying one that was never deployed (spec F.2). Twice is once.
    fn remove_unit(&self, unit: Uuid) -> impl Future<Output = Result<(), ApiError>> + Send;
    /// This agent is at work: said every [`crate::HEARTBEAT_MS`]. An open stream does not say it, since that of a
    /// stopped process stays open.
    fn here(&self) -> impl Future<Output = Result<(), ApiError>> + Send;
    /// This machine, which a person brought, introduces itself with the token it made, in place of the one it was
    /// invited with.
    fn enrol(&self, token: &str, address: &str) -> impl Future<Output = Result<(), ApiError>> + Send;
    /// This machine is Dead, and its agent has taken away what it brought.
    fn machine_gone(&self) -> impl Future<Output = Result<(), ApiError>> + Send;
    /// This Dying machine has no units left.
    fn machine_dead(&self) -> impl Future<Output = Result<(), ApiError>> + Send;
}
