//! Commands that run in the context of a unit beside its hooks (juju-exec, spec A.16).
//!
//! There are two kinds. Commands that a user requests from the controller (`juju exec`) are an action with the reserved
//! name [`EXEC`], with the results, the log and the cancellation of actions. Commands that a process on the unit's
//! machine requests from the unit agent (`juju-exec`) are an operation of their own, whose result only that process
//! receives. Both kinds run at most once and in any state of the workflow (spec A.2 row 12), and their outcome does not
//! change that state.

use crate::terms::names::{RelationNumber, UnitName, Uuid};
use serde::{Deserialize, Serialize};

/// The name of the action that runs commands of a user. No charm can declare it: names that begin with `juju` are
/// reserved.
pub const EXEC: &str = "juju-exec";
/// The parameter of that action that contains the commands, a script for bash.
pub const COMMAND: &str = "command";
/// The parameter of that action that contains the name of the machine, if the commands run outside of the context of the
/// unit: the user has requested them for its machine.
pub const MACHINE: &str = "machine";

/// Commands that a process on the machine has requested. The commands themselves are not stored, because they never run
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommandsRequest {
    /// The random id of the request.
    pub id: Uuid,
    /// The relation in whose context the commands run, if the process has named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<RelationContext>,
}

/// The relation and the remote unit of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RelationContext {
    /// The relation's number.
    pub relation: RelationNumber,
    /// The remote unit; `None` in created, broken and application-level changed.
    pub unit: Option<UnitName>,
    /// The remote application.
    pub application: String,
    /// The unit that departs, in departed only: the remote unit or this unit.
    pub departing: Option<UnitName>,
}
