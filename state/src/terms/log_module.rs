//! The modules of the lines of the debug log, as Juju names them (spec/clients.md 1.8 and 3.6). `logging-config` and the
//! filters of `debug-log` select lines by the beginnings of these names.

use crate::terms::activity::Activity;
use crate::terms::names::UnitName;

/// The module of the lines about hooks that have ended: that of Juju's uniter.
pub const UNITER_OPERATION: &str = "juju.worker.uniter.operation";

/// The module of what a charm logs with juju-log: `unit.web/0.juju-log`.
pub fn juju_log(unit: &UnitName) -> String {
    format!("unit.{unit}.juju-log")
}

/// The module of what a program of the charm prints in a run: `unit.web/0.config-changed`.
pub fn of_run(unit: &UnitName, activity: &Activity) -> String {
    match activity {
        Activity::Hook { name, .. } => format!("unit.{unit}.{name}"),
        Activity::Action { id, name } => format!("unit.{unit}.action {name} {id}"),
        Activity::Commands => format!("unit.{unit}.commands"),
        Activity::InstallCharm => format!("unit.{unit}.install charm"),
        Activity::EnterScope { relation, endpoint } => {
            format!("unit.{unit}.enter scope {endpoint}:{relation}")
        }
        Activity::LeaveScope { relation } => format!("unit.{unit}.leave scope {relation}"),
        Activity::Resync => format!("unit.{unit}.resync"),
        Activity::SetDead => format!("unit.{unit}.set dead"),
    }
}
