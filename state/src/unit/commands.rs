//! Commands that run in the context of a unit beside its hooks (juju-exec, spec A.16), and their relation context.
//!
//! They come in two ways. A user requests them at the controller (`juju exec`): then they are an action with the
//! reserved name [`EXEC`], with the results, the log and the cancellation of actions. Or a process on the unit's machine
//! requests them from the unit agent (`juju-exec`): then they are an operation of their own, whose result only that
//! process receives. Either way they run at most once and in any state of the workflow (spec A.2 row 12), and how they
//! end does not change that state.

use super::hook_context::Counterpart;
use super::local::Local;
use super::snapshot::ActionView;
use crate::terms::names::{RelationNumber, UnitName, Uuid};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

/// The relation context that a process requests (spec/hook-tools.md 6).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedRelation {
    /// `--relation`: `db:1` or `1`.
    pub relation: Option<String>,
    /// `--remote-unit`.
    pub remote_unit: Option<String>,
    /// `--remote-app`.
    pub remote_application: Option<String>,
    /// `--force-remote-unit`: the remote unit need not be a member.
    pub force: bool,
}

/// Why there is no such relation context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContextProblem {
    /// A remote unit was named without a relation.
    UnitWithoutRelation(String),
    /// The unit is in no such relation.
    InvalidRelation(String),
    /// The name is no unit name.
    InvalidUnit(String),
    /// The remote unit is no member of the relation.
    NotAMember(String),
    /// The relation has several members, and none was named.
    SeveralMembers(Vec<UnitName>),
}

/// Returns the commands of an action that stands for them.
pub fn of_action(action: &ActionView) -> Option<&str> {
    action.params.get(COMMAND).and_then(Value::as_str).filter(|_| action.name == EXEC)
}

/// Finds the relation and the remote unit that commands run in the context of: a relation with one member has that one,
/// with none it has no remote unit, and with several one must be named.
///
/// # Errors
/// If the unit is in no such relation, or the remote unit is missing or no member of it.
pub fn relation_context(
    local: &Local,
    requested: &RequestedRelation,
) -> Result<Option<Counterpart>, ContextProblem> {
    let Some(text) = &requested.relation else {
        return match &requested.remote_unit {
            Some(unit) => Err(ContextProblem::UnitWithoutRelation(unit.clone())),
            None => Ok(None),
        };
    };
    let (endpoint, number) = text.split_once(':').map_or((None, text.as_str()), |(e, n)| (Some(e), n));
    let named = number.parse::<RelationNumber>().ok().and_then(|number| {
        let known = local.relations.get(&number)?;
        endpoint.is_none_or(|endpoint| endpoint == known.local_endpoint.endpoint).then_some((number, known))
    });
    let Some((relation, known)) = named else {
        return Err(ContextProblem::InvalidRelation(text.clone()));
    };
    let unit = match &requested.remote_unit {
        Some(name) => {
            let unit: UnitName = name.parse().map_err(|_| ContextProblem::InvalidUnit(name.clone()))?;
            if !requested.force && !known.members.contains_key(&unit) {
                return Err(ContextProblem::NotAMember(name.clone()));
            }
            Some(unit)
        }
        None if known.members.len() > 1 => {
            return Err(ContextProblem::SeveralMembers(known.members.keys().cloned().collect()));
        }
        None => known.members.keys().next().cloned(),
    };
    let application = requested.remote_application.clone();
    let application = application.or_else(|| unit.as_ref().map(|unit| unit.application.clone()));
    let application = application.unwrap_or_else(|| known.local_endpoint.remote_application.clone());
    Ok(Some(Counterpart { relation, unit, application, departing: None }))
}
