//! What a run has changed, according to its calls.
//!
//! The buffered writes take effect if the run succeeds, and are discarded otherwise. Statuses, leader settings, the results
//! of an action, and a reboot that was requested at once (`juju-reboot --now`) take effect whether or not the run succeeds.
//! Used by `show`, `replay` and `ops_test`.

use crate::hook_session::{CallsFile, CallsLine, HookSession};
use serde_json::{Map, Value, json};
use state::terms::settings::BagChange;
use state::terms::status::WorkloadStatus;
use state::unit::hook_context::{BagWrites, HookContext, Ports, Reboot, ReportContent, Writes};
use state::unit::record::RunReport;
use state::unit::secrets::{SecretRemoval, SecretWrite};
use std::slice;

/// What is shown instead of a new content of a secret.
const CONTENT: &str = "<content>";

/// The changes of one run.
pub(super) struct Changes {
    /// The buffered writes.
    pub(super) writes: Writes,
    /// The leader settings that the run has changed; an empty value marks a removed key.
    pub(super) leader_settings: BagChange,
    /// The last status of the unit, its application and its workload version, by name.
    pub(super) statuses: Vec<Status>,
}

/// A status or version that a run has set last.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Status {
    /// The entity or workload version that was set.
    pub(super) subject: StatusSubject,
    /// The status; none for a workload version.
    pub(super) status: Option<WorkloadStatus>,
    /// The message, or the version.
    pub(super) text: String,
}

/// What has a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatusSubject {
    Unit,
    Application,
    WorkloadVersion,
}

impl Changes {
    /// Repeats the calls of a run in its context. A call that would be answered differently today counts, too.
    pub(super) fn of(context: &HookContext, lines: &[CallsLine]) -> Changes {
        let (on_report, is_leader) = (|_: &RunReport| {}, || true);
        let mut session = HookSession::new(
            context.clone(),
            context.id.clone(),
            CallsFile::closed(),
            &on_report,
            &is_leader,
        );
        for line in lines {
            session.recover(slice::from_ref(line));
        }
        let leader_settings = change(&context.leader_settings, &session.context().leader_settings);
        let (writes, reports) = session.close();
        let mut statuses: Vec<Status> = Vec::new();
        for status in reports.into_iter().filter_map(|report| status(report.what)) {
            statuses.retain(|known| known.subject != status.subject);
            statuses.push(status);
        }
        Changes { writes, leader_settings, statuses }
    }

    /// A line for each change.
    pub(super) fn lines(&self, context: &HookContext) -> Vec<String> {
        let Writes { bags, ports, state, action, secrets, storage, reboot } = &self.writes;
        let mut lines = Vec::new();
        for (number, BagWrites { unit, application }) in bags {
            let relation = context.relation_id(*number).unwrap_or_else(|| number.to_string());
            for (owner, change) in
                [(context.unit.to_string(), unit), (context.unit.application.clone(), application)]
            {
                lines.extend(settings(&format!("relation {relation}, settings of {owner}"), change));
            }
        }
        lines.extend(settings("leader settings", &self.leader_settings));
        lines.extend(port_lines("opened port", &ports.open));
        lines.extend(port_lines("closed port", &ports.close));
        lines.extend(state.iter().map(|(key, value)| match value {
            Some(value) => format!("stored state: {key} = {value}"),
            None => format!("stored state: removed {key}"),
        }));
        lines.extend(action.results.iter().map(|(key, value)| format!("action result: {key} = {value}")));
        lines.extend(action.failed.iter().map(|message| format!("action failed: {message}")));
        lines.extend(secrets.iter().map(|(id, write)| format!("secret {id}: {}", secret_change(write))));
        lines.extend(storage.iter().map(|(name, count)| format!("requested storage: {name} {count}")));
        lines.extend(reboot.iter().map(|reboot| match reboot {
            Reboot::AfterHook => "requested a reboot after the hook".to_owned(),
            Reboot::Now => "requested a reboot at once".to_owned(),
        }));
        lines.extend(self.statuses.iter().map(Status::line));
        lines
    }

    /// The changes as a document.
    pub(super) fn document(&self) -> Value {
        let mut writes = self.writes.clone();
        for write in writes.secrets.values_mut() {
            write.sealed = write.sealed.take().map(|_| CONTENT.to_owned());
        }
        let mut document = serde_json::to_value(writes).expect("plain data");
        let map = document.as_object_mut().expect("a struct");
        if !self.leader_settings.is_empty() {
            map.insert("leader-settings".to_owned(), json!(self.leader_settings));
        }
        for Status { subject, status, text } in &self.statuses {
            let (name, value) = match subject {
                StatusSubject::Unit => ("unit-status", json!({ "status": status, "message": text })),
                StatusSubject::Application => {
                    ("application-status", json!({ "status": status, "message": text }))
                }
                StatusSubject::WorkloadVersion => ("workload-version", json!(text)),
            };
            map.insert(name.to_owned(), value);
        }
        Value::Object(std::mem::take::<Map<String, Value>>(map))
    }
}

impl Status {
    fn line(&self) -> String {
        let subject = match self.subject {
            StatusSubject::Unit => "status of the unit",
            StatusSubject::Application => "status of the application",
            StatusSubject::WorkloadVersion => "version of the workload",
        };
        let status = self.status.map(|status| status.to_string());
        let text = Some(self.text.clone()).filter(|text| !text.is_empty());
        format!("{subject}: {}", status.into_iter().chain(text).collect::<Vec<_>>().join(": "))
    }
}

fn status(report: ReportContent) -> Option<Status> {
    match report {
        ReportContent::UnitStatus { status, message } => {
            Some(Status { subject: StatusSubject::Unit, status: Some(status), text: message })
        }
        ReportContent::ApplicationStatus { status, message } => {
            Some(Status { subject: StatusSubject::Application, status: Some(status), text: message })
        }
        ReportContent::WorkloadVersion(text) => {
            Some(Status { subject: StatusSubject::WorkloadVersion, status: None, text })
        }
        ReportContent::Log { .. } | ReportContent::ActionLog(_) | ReportContent::Output { .. } => None,
    }
}

/// The keys that differ, with the new value; empty if the key was removed.
fn change(before: &BagChange, after: &BagChange) -> BagChange {
    let changed = after.iter().filter(|(key, value)| before.get(*key) != Some(*value));
    let removed = before.keys().filter(|key| !after.contains_key(*key));
    let removed = removed.map(|key| (key.clone(), String::new()));
    changed.map(|(key, value)| (key.clone(), value.clone())).chain(removed).collect()
}

fn settings(of: &str, change: &BagChange) -> Vec<String> {
    let line = |(key, value): (&String, &String)| match value.is_empty() {
        true => format!("{of}: removed {key}"),
        false => format!("{of}: {key} = {value}"),
    };
    change.iter().map(line).collect()
}

fn port_lines(what: &str, ports: &Ports) -> Vec<String> {
    let of = |endpoint: &str| match endpoint {
        state::unit::hook_context::ALL_ENDPOINTS => String::new(),
        endpoint => format!(" on {endpoint}"),
    };
    let lines = ports.iter().flat_map(|(endpoint, ranges)| {
        ranges.iter().map(move |range| format!("{what} {range}{}", of(endpoint)))
    });
    lines.collect()
}

fn secret_change(write: &SecretWrite) -> String {
    let SecretWrite { created, label, description, rotate, expire_at_ms, sealed, access, removed, .. } =
        write;
    let removal = |removed: &SecretRemoval| match removed {
        SecretRemoval::All => "removed".to_owned(),
        SecretRemoval::Revisions(revisions) => format!("removed revisions {revisions:?}"),
    };
    let parts = [
        created.map(|owner| format!("created, owner {owner}")),
        label.as_ref().map(|label| format!("label {label}")),
        description.as_ref().map(|description| format!("description {description}")),
        rotate.map(|rotate| format!("rotate {rotate}")),
        expire_at_ms.map(|_| "expires".to_owned()),
        sealed.as_ref().map(|_| "new content".to_owned()),
        (!access.is_empty()).then(|| format!("{} changes of access", access.len())),
        removed.as_ref().map(removal),
        write.refreshed.then(|| "fixed to its newest revision".to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
