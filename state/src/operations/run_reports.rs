//! What a unit says at once, and what its records say about it: statuses, log lines, workload version (design 4,
//! spec C.4). Numbered (run, call): the highest stands, a line sent twice is stored once.

use crate::documents::draft::Draft;
use crate::documents::keys::{LogDoc, Model, StatusDoc, UnitDoc};
use crate::terms::names::Uuid;
use crate::unit::activity::Activity;
use crate::unit::hook::{Level, ReportContent};
use crate::unit::hook_name::HookName;
use crate::unit::local::{Episode, FollowUp, Local};
use crate::unit::operation::{Hook, Operation};
use crate::unit::record::{Outcome, Record, Said};
use serde_json::Value;
use std::collections::BTreeMap;

/// The number of a status the agent sets when a run has ended: after everything the run itself said.
const AFTER_RUN: u32 = u32::MAX;

pub(crate) fn take(
    draft: &mut Draft,
    model: Model,
    (unit, doc): (Uuid, &UnitDoc),
    (run, said): (u64, &[Said]),
    dropped: &mut Vec<String>,
) {
    for Said { call, at_ms, what } in said {
        let mut log = |module: String, level: &Level, text: &str| {
            let (entity, level) = (doc.name.tag(), level.to_string());
            let line = LogDoc { at_ms: *at_ms, level, module, entity, text: text.to_owned() };
            draft.put_once(&model.log(unit, run, *call), &line);
        };
        match what {
            ReportContent::Log { level, text } => log(format!("unit.{}.juju-log", doc.name), level, text),
            ReportContent::Output { hook, level, text } => {
                log(format!("unit.{}.{hook}", doc.name), level, text)
            }
            ReportContent::UnitStatus { status, message } => {
                let status = status_doc(status, message, *at_ms, (run, *call));
                put_newer(draft, &model.unit_status(unit), &status);
            }
            ReportContent::ApplicationStatus { status, message } => {
                let grant = draft.get(&model.leader(doc.application));
                match grant.filter(|grant| grant.holder == unit) {
                    // Runs of different leaders are not comparable; their generations are.
                    Some(grant) => {
                        let number = ((grant.generation << 40) + run, *call);
                        let status = status_doc(status, message, *at_ms, number);
                        put_newer(draft, &model.application_status(doc.application), &status);
                    }
                    None => dropped.push(format!("application status: {} is not the leader", doc.name)),
                }
            }
            ReportContent::WorkloadVersion(version) => put_version(draft, model, unit, version),
            ReportContent::ActionLog(_) => {}
        }
    }
}

fn put_version(draft: &mut Draft, model: Model, unit: Uuid, version: &String) {
    let key = model.workload_version(unit);
    if draft.get(&key).as_ref() != Some(version) {
        draft.put(&key, version);
    }
}

/// A restored store shows what was said before: the unit's last word stands (cargo sim 53003374: a unit that had said
/// that it was active was shown as waiting for its machine).
pub(crate) fn restate(draft: &mut Draft, model: Model, unit: Uuid, record: &Record, memory: &Local) {
    if let Some((status, message)) = &memory.status {
        let status = status_doc(status, message, record.at_ms, (record.run, AFTER_RUN));
        put_newer(draft, &model.unit_status(unit), &status);
    }
    if !memory.workload_version.is_empty() {
        put_version(draft, model, unit, &memory.workload_version);
    }
}

fn status_doc(status: &str, message: &str, since_ms: i64, number: (u64, u32)) -> StatusDoc {
    StatusDoc {
        status: status.to_owned(),
        message: message.to_owned(),
        data: BTreeMap::new(),
        since_ms,
        number,
    }
}

/// 1. A folder is copied while its agent attaches. 2. The copy's run 8 says something, and has no record: the copy is
///    fenced. 3. The record of the other's run 8 says something else by the same number, and that stands (cargo sim
///    66130146).
fn put_newer(draft: &mut Draft, key: &crate::documents::draft::Key<StatusDoc>, status: &StatusDoc) {
    let says = |status: &StatusDoc| (status.number, status.status.clone(), status.message.clone());
    let late =
        draft.get(key).is_some_and(|stored| stored.number > status.number || says(&stored) == says(status));
    if !late {
        draft.put(key, status);
    }
}

/// A hook's calls are counted from 1.
fn is_the_charms(status: &StatusDoc) -> bool {
    !matches!(status.number.1, 0 | AFTER_RUN)
}

/// What is said of the workload before `hook` runs, whatever becomes of it; what the hook itself says stands over it
/// (spec C.4).
fn ahead_of(hook: &HookName) -> Option<(&'static str, &'static str)> {
    match hook {
        HookName::Stop => Some(("maintenance", "stopping charm software")),
        HookName::Remove => Some(("maintenance", "cleaning up prior to charm deletion")),
        HookName::Install
        | HookName::LeaderElected
        | HookName::ConfigChanged
        | HookName::Start
        | HookName::UpgradeCharm
        | HookName::UpdateStatus
        | HookName::Relation { .. } => None,
    }
}

/// A run has begun.
pub(crate) fn begun(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    (run, activity): (u64, &Activity),
    at_ms: i64,
) {
    if let Activity::Hook { name, .. } = activity
        && let Some((status, message)) = ahead_of(name)
    {
        put_newer(draft, &model.unit_status(unit), &status_doc(status, message, at_ms, (run, 0)));
    }
}

/// `record` is a sequence and its run. The next record that is applied says how the agent is from then on.
pub(crate) fn refused(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    ((sequence, run), why): ((u64, u64), &str),
    at_ms: i64,
) {
    let message = format!("record {sequence} is refused: {why}");
    let key = model.agent_status(unit);
    if draft.get(&key).is_none_or(|known| known.message != message) {
        draft.put(&key, &status_doc("error", &message, at_ms, (run, AFTER_RUN)));
    }
}

/// What an applied record says of the unit by itself: the agent's status, and the workload statuses that the agent
/// sets around install, start, stop and remove (spec C.4). `local` is the unit's memory after the record.
pub(crate) fn derive(draft: &mut Draft, model: Model, unit: Uuid, record: &Record, local: &Local) {
    let (status, message, data) = agent_status(record, local);
    let key = model.agent_status(unit);
    let before = draft.get(&key).unwrap_or_default();
    if (&before.status, &before.message, &before.data) != (&status, &message, &data) {
        let number = (record.run, AFTER_RUN);
        draft.put(&key, &StatusDoc { status, message, data, since_ms: record.at_ms, number });
    }
    if let (Outcome::Failed { .. }, Operation::Hook(hook)) = (&record.outcome, &record.operation)
        && let Some((status, message)) = ahead_of(&hook.name())
    {
        let status = status_doc(status, message, record.at_ms, (record.run, 0));
        put_newer(draft, &model.unit_status(unit), &status);
    }
    // 1. a hook says "blocked", and calls juju-reboot --now: told, and in no record; 2. it runs again, and says nothing.
    // The replica knows of no status then, but the status itself is the charm's
    let said =
        local.status_set || draft.get(&model.unit_status(unit)).is_some_and(|status| is_the_charms(&status));
    if let Some((status, message)) = workload_status(record, local, said) {
        let status = status_doc(status, message, record.at_ms, (record.run, AFTER_RUN));
        put_newer(draft, &model.unit_status(unit), &status);
    }
}

fn agent_status(record: &Record, local: &Local) -> (String, String, BTreeMap<String, Value>) {
    if let Some(episode) = local.episode() {
        let (message, data) = failure(episode, local);
        return ("error".to_owned(), message, data);
    }
    if local.reboot.is_some() {
        return ("rebooting".to_owned(), String::new(), BTreeMap::new());
    }
    let next = match (&local.follow_up, &record.operation) {
        (Some(FollowUp::Install), _) => Some(HookName::Install),
        (Some(FollowUp::LeaderElected), _) => Some(HookName::LeaderElected),
        (Some(FollowUp::Start), _) => Some(HookName::Start),
        (Some(FollowUp::UpgradeCharm), _) => Some(HookName::UpgradeCharm),
        (Some(FollowUp::ConfigChanged), _) => Some(HookName::ConfigChanged),
        (None, Operation::Hook(Hook::Install)) => Some(HookName::ConfigChanged),
        (None, Operation::Hook(Hook::Stop)) => Some(HookName::Remove),
        (None, _) => None,
    };
    match next {
        Some(hook) => ("executing".to_owned(), Activity::hook(hook).to_string(), BTreeMap::new()),
        None => ("idle".to_owned(), skipped(local), BTreeMap::new()),
    }
}

/// `upgrade-charm skipped`, until it next succeeds (spec A.8, scenario 50).
fn skipped(local: &Local) -> String {
    let hooks: Vec<&str> = local.skipped.iter().map(String::as_str).collect();
    if hooks.is_empty() { String::new() } else { format!("{} skipped", hooks.join(", ")) }
}

/// `hook failed: "db-relation-joined"`, with the data that say which (spec A.8).
pub(crate) fn failure(episode: &Episode, local: &Local) -> (String, BTreeMap<String, Value>) {
    let Operation::Hook(hook) = &episode.operation else {
        return (format!("{} failed: {}", episode.operation, episode.reason), BTreeMap::new());
    };
    let mut data = BTreeMap::from([("hook".to_owned(), Value::from(hook.name().to_string()))]);
    if let Hook::Relation { relation, endpoint, event } = hook {
        data.insert("relation-id".to_owned(), Value::from(*relation));
        data.insert("endpoint".to_owned(), Value::from(endpoint.as_str()));
        if let Some(remote) = event.remote_unit() {
            data.insert("remote-unit".to_owned(), Value::from(remote.to_string()));
        }
        if let Some(known) = local.relations.get(relation) {
            let application = known.local_endpoint.remote_application.as_str();
            data.insert("remote-application".to_owned(), Value::from(application));
        }
    }
    (format!("hook failed: \"{}\"", hook.name()), data)
}

/// The status an agent sets for the workload; each stands for what comes next, since a record is sent when its
/// operation has ended. A skipped operation sets none (spec A.8). `said`: the charm has set one itself.
fn workload_status(record: &Record, local: &Local, said: bool) -> Option<(&'static str, &'static str)> {
    match (&record.outcome, &record.operation) {
        (Outcome::Failed { .. } | Outcome::Skipped, _) => None,
        (_, Operation::InstallCharm(_)) if !local.installed && !said => {
            Some(("maintenance", "installing charm software"))
        }
        (_, Operation::Hook(Hook::Start { .. })) if !said => Some(("unknown", "")),
        (_, Operation::Hook(Hook::Stop)) => Some(("maintenance", "cleaning up prior to charm deletion")),
        (_, Operation::Hook(Hook::Remove)) => Some(("terminated", "")),
        _ => None,
    }
}
