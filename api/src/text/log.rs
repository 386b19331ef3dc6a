//! The names of what writes lines of the debug log, as Juju has them (spec/clients.md 3.6).
//!
//! Called by the filters of the debug log and by the command that prints it.

use state::documents::prelude::LogSource;
use state::terms::activity::Activity;
use state::terms::names::UnitName;

/// The module of a line: `unit.web/0.juju-log`, `unit.web/0.config-changed`.
pub fn module(unit: &UnitName, source: &LogSource) -> String {
    let last = match source {
        LogSource::JujuLog => "juju-log".to_owned(),
        LogSource::Run(activity) => match activity {
            Activity::Hook { name, .. } => name.to_string(),
            Activity::Action { id, name } => format!("action {name} {id}"),
            Activity::Commands => "commands".to_owned(),
            Activity::InstallCharm => "install charm".to_owned(),
            Activity::EnterScope { relation, endpoint } => format!("enter scope {endpoint}:{relation}"),
            Activity::LeaveScope { relation } => format!("leave scope {relation}"),
            Activity::Resync => "resync".to_owned(),
            Activity::SetDead => "set dead".to_owned(),
        },
    };
    format!("unit.{unit}.{last}")
}
