//! Commands that run in the context of a unit beside its hooks (juju-exec, spec A.16).
//!
//! They come in two ways. A user requests them at the controller (`juju exec`): then they are an action with the
//! reserved name [`EXEC`], with the results, the log and the cancellation of actions. Or a process on the unit's machine
//! requests them from the unit agent (`juju-exec`): then they are an operation of their own, whose result only that
//! process receives. Either way they run at most once and in any state of the workflow (spec A.2 row 12), and how they
//! end does not change that state.

use crate::terms::names::{RelationNumber, UnitName, Uuid};
use serde::{Deserialize, Serialize};

/// The name of the action that is commands of a user. No charm can declare it: names that begin with juju are reserved.
pub const EXEC: &str = "juju-exec";
/// The parameter of that action that has the commands, a script for bash.
pub const COMMAND: &str = "command";

/// Commands that a process on the machine has requested. The commands themselves are not stored, because they never run
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandsRequest {
    /// The random id of the request.
    pub id: Uuid,
    /// The relation that the commands run in the context of, if the process has named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Counterpart>,
}

/// The relation and the remote unit of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counterpart {
    /// The relation's number.
    pub relation: RelationNumber,
    /// The remote unit; `None` in created, broken and application-level changed.
    pub unit: Option<UnitName>,
    /// The remote application.
    pub application: String,
    /// The unit that departs, in departed only: the remote unit or this unit.
    pub departing: Option<UnitName>,
}
