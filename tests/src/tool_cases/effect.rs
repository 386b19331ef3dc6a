//! Compares the effects that a case expects of a call with the actual ones.

use super::difference::difference;
use super::secrets;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use state::terms::names::RelationNumber;
use state::terms::settings::{self, Bag};
use state::unit::hook_context::{BagSide, HookContext, PortWrites, Ports, Reboot, ReportContent};
use std::collections::{BTreeMap, BTreeSet};

/// The expected effects of a call. The default expects none, because a case without effects must change nothing.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Expected {
    /// unit_status, application_status, workload_version, log, action_log and reboot, as [`reports_as_json`] shows them;
    /// leader_settings, as a difference; secret_tracked and secret_consumer_label.
    immediate: Map<String, Value>,
    on_commit: OnCommit,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OnCommit {
    relation_settings: BTreeMap<String, SideChanges>,
    open_ports: Ports,
    close_ports: Ports,
    /// The numbers of instances that the calls request, by the name of the storage.
    storage_add: BTreeMap<String, Vec<u32>>,
    charm_state: Option<BTreeMap<String, String>>,
    action_results: Map<String, Value>,
    action_failed: Option<String>,
    /// Any value: a reboot once the hook has succeeded.
    reboot: Option<Value>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SideChanges {
    unit: BagDifference,
    app: BagDifference,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct BagDifference {
    set: Bag,
    delete: BTreeSet<String>,
}

impl BagDifference {
    fn applied_to(&self, bag: &Bag) -> Bag {
        let mut bag = bag.clone();
        let deleted = self.delete.iter().map(|key| (key.clone(), String::new()));
        settings::apply(&mut bag, &self.set.clone().into_iter().chain(deleted).collect());
        bag
    }
}

impl Expected {
    pub fn problems(
        &self,
        before: &HookContext,
        after: &HookContext,
        reports: &[ReportContent],
        tracked: &Map<String, Value>,
    ) -> Vec<String> {
        let mut problems = self.on_commit.problems(before, after);
        let mut actual = reports_as_json(after, reports);
        actual.extend(tracked.clone());
        let mut immediate = self.immediate.clone();
        let leader_settings = immediate.remove("leader_settings").unwrap_or(json!({}));
        match serde_json::from_value::<BagDifference>(leader_settings) {
            Err(error) => problems.push(format!("  leader_settings: {error}")),
            Ok(change) => {
                let expected = change.applied_to(&before.leader_settings);
                if expected != after.leader_settings {
                    problems.push(difference("leader settings", expected, &after.leader_settings));
                }
            }
        }
        if immediate != actual {
            problems.push(difference("immediate", &immediate, actual));
        }
        problems
    }
}

impl OnCommit {
    fn problems(&self, before: &HookContext, after: &HookContext) -> Vec<String> {
        let mut problems = Vec::new();
        let mut by_number: BTreeMap<RelationNumber, &SideChanges> = BTreeMap::new();
        for (id, changes) in &self.relation_settings {
            match id.rsplit(':').next().and_then(|number| number.parse().ok()) {
                Some(number) => {
                    by_number.insert(number, changes);
                }
                None => problems.push(format!("  relation_settings: {id} is no relation id")),
            }
        }
        let unchanged = SideChanges::default();
        for number in before.relations.keys() {
            let changes = by_number.remove(number).unwrap_or(&unchanged);
            for (side, change) in [(BagSide::Unit, &changes.unit), (BagSide::Application, &changes.app)] {
                let expected = change.applied_to(&before.own_bag(*number, side));
                let actual = after.own_bag(*number, side);
                if expected != actual {
                    problems.push(difference(
                        &format!("{side:?} bag of relation {number}"),
                        expected,
                        actual,
                    ));
                }
            }
        }
        problems.extend(by_number.keys().map(|number| format!("  there is no relation {number}")));
        let ports = PortWrites { open: self.open_ports.clone(), close: self.close_ports.clone() };
        if ports != after.writes.ports {
            problems.push(difference("ports", ports, &after.writes.ports));
        }
        let storage: BTreeMap<String, u32> =
            self.storage_add.iter().map(|(name, counts)| (name.clone(), counts.iter().sum())).collect();
        if storage != after.writes.storage {
            problems.push(difference("storage", storage, &after.writes.storage));
        }
        let state = self.charm_state.as_ref().unwrap_or(&before.charm_state);
        if *state != after.own_state().unwrap_or_default() {
            problems.push(difference("charm state", state, after.own_state()));
        }
        let action = &after.writes.action;
        if (&self.action_results, &self.action_failed) != (&action.results, &action.failed) {
            problems.push(difference("action", (&self.action_results, &self.action_failed), action));
        }
        let after_hook = after.writes.reboot == Some(Reboot::AfterHook);
        if self.reboot.is_some() != after_hook {
            problems.push(difference("reboot", &self.reboot, after_hook));
        }
        let (expected, other): (Map<_, _>, Map<_, _>) =
            self.other.clone().into_iter().partition(|(name, _)| name.starts_with("secret_"));
        let written = secrets::writes_as_json(after);
        if expected != written {
            problems.push(difference("secrets", expected, written));
        }
        problems.extend(other.keys().map(|name| format!("  effect {name} is not known here")));
        problems
    }
}

/// The reports as JSON: the last status and version, and every log line.
fn reports_as_json(context: &HookContext, reports: &[ReportContent]) -> Map<String, Value> {
    let mut shown = Map::new();
    let (mut lines, mut progress) = (Vec::new(), Vec::new());
    for report in reports {
        let status = |status: &str, message: &str| json!({"status": status, "message": message});
        match report {
            ReportContent::UnitStatus { status: to, message } => {
                shown.insert("unit_status".to_owned(), status(to.as_str(), message));
            }
            ReportContent::ApplicationStatus { status: to, message } => {
                shown.insert("application_status".to_owned(), status(to.as_str(), message));
            }
            ReportContent::WorkloadVersion(version) => {
                shown.insert("workload_version".to_owned(), json!(version));
            }
            ReportContent::Log { level, text } => {
                let module = format!("unit.{}.juju-log", context.unit);
                lines.push(json!({"level": level.to_string(), "message": text, "module": module}));
            }
            ReportContent::ActionLog(text) => progress.push(json!(text)),
            ReportContent::Output { .. } => {
                shown.insert("output".to_owned(), json!("no tool reports the hook's own output"));
            }
        }
    }
    if context.writes.reboot == Some(Reboot::Now) {
        shown.insert("reboot".to_owned(), json!("now"));
    }
    for (name, list) in [("log", lines), ("action_log", progress)] {
        if !list.is_empty() {
            shown.insert(name.to_owned(), Value::Array(list));
        }
    }
    shown
}
