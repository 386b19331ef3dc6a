//! The state of a running agent that the checks examine when the simulated system is at rest.

use state::terms::cause::Cause;
use state::terms::names::{UnitName, Uuid};
use state::unit::local::Local;
use state::unit::snapshot::Snapshot;
use std::sync::Arc;

/// An agent that is running when the system is examined.
pub struct RunningAgent {
    pub unit: Uuid,
    pub folder: Uuid,
    pub name: UnitName,
    /// The current boot of its machine.
    pub boot: String,
    /// The token with which it authenticates.
    pub token: Option<String>,
    pub local: Arc<Local>,
    pub view: Option<Arc<Snapshot>>,
    /// The blockers that it reports.
    pub waits: Vec<Cause>,
}
