//! The unit's own hooks run in the specified order: install first, start once per boot, stop before remove (I1,
//! I16, G2 to G4). Relation, storage and secret hooks run in the phases where they may, and a reboot that a hook requested
//! ends the boot.

use super::check::{Check, FinalState};
use super::running_agent::RunningAgent;
use crate::sim::fact::Fact;
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation, RelationEvent};
use state::terms::storage::{StorageEvent, StorageId};
use state::unit::local::{Event, FollowUp, Local};
use state::unit::record::Record;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Default)]
struct Unit {
    installed: bool,
    configured: bool,
    boot: Option<String>,
    started: bool,
    stopped: bool,
    removed: bool,
    /// upgrade-charm has run, and the config-changed after it has not.
    config_pending: bool,
    /// The charm was replaced after install, and upgrade-charm has not run.
    upgrade_pending: bool,
    /// The storage for which storage-attached has run and storage-detaching has not.
    storage: BTreeSet<StorageId>,
}

/// A reboot that a hook requested.
struct RequestedReboot {
    /// The boot that the reboot must end.
    boot: String,
    /// The record of the hook. `None`: the hook requested the reboot at once.
    sequence: Option<u64>,
}

/// The progress of each folder's hooks, and the last reboot that a hook requested.
#[derive(Default)]
pub struct Hooks(BTreeMap<Uuid, Unit>, BTreeMap<Uuid, RequestedReboot>);

impl Unit {
    /// Applies a hook and returns the rules that it breaks.
    fn apply(&mut self, hook: &Hook) -> Vec<&'static str> {
        let mut wrong = Vec::new();
        let mut hold = |holds: bool, what| {
            if !holds {
                wrong.push(what);
            }
        };
        hold(!self.removed, "no hook runs after remove");
        let is_of_storage = matches!(hook, Hook::Storage { .. });
        hold(self.installed || *hook == Hook::Install || is_of_storage, "install runs first");
        match hook {
            Hook::Install => {
                hold(!self.installed, "install runs once");
                self.installed = true;
            }
            Hook::ConfigChanged(_) => {
                self.configured = true;
                self.config_pending = false;
            }
            Hook::Start { boot } => {
                hold(self.configured, "config-changed runs before start");
                hold(self.boot.as_ref() != Some(boot), "start runs once per boot");
                hold(!self.stopped, "start never follows stop");
                self.boot = Some(boot.clone());
                self.started = true;
            }
            Hook::UpgradeCharm => (self.config_pending, self.upgrade_pending) = (true, false),
            Hook::UpdateStatus => hold(self.started, "update-status runs only after start"),
            Hook::Stop => {
                hold(self.started && !self.stopped, "stop runs once, after start");
                self.stopped = true;
            }
            Hook::Remove => {
                hold(self.stopped || !self.started, "a started unit is stopped before remove");
                self.removed = true;
            }
            Hook::Relation {
                event: RelationEvent::Joined { .. } | RelationEvent::Changed { .. }, ..
            } => {
                hold(self.started, "relation-joined and relation-changed run after start");
                hold(!self.stopped, "relation-joined and relation-changed do not run after stop");
                hold(!self.config_pending, "config-changed follows upgrade-charm");
            }
            Hook::LeaderSettingsChanged { .. } => {
                hold(self.installed, "leader-settings-changed runs after install");
            }
            Hook::Storage { id, event: StorageEvent::Attached, .. } => {
                hold(!self.stopped, "storage-attached does not run after stop");
                hold(self.storage.insert(id.clone()), "storage-attached runs once");
            }
            Hook::Storage { id, event: StorageEvent::Detaching, .. } => {
                hold(!self.stopped, "storage-detaching runs before stop");
                hold(self.storage.remove(id), "storage-detaching runs once, after storage-attached");
            }
            Hook::Secret { .. } => hold(!self.stopped, "secret hooks do not run after stop"),
            Hook::Relation { .. } | Hook::LeaderElected { .. } => {}
        }
        wrong
    }

    /// The rule that the unit breaks if it becomes Dead now.
    fn premature_end(&self) -> Option<&'static str> {
        match self {
            Unit { storage, .. } if !storage.is_empty() => {
                Some("a unit detaches its storage before it becomes Dead")
            }
            Unit { started: true, stopped: false, .. } => {
                Some("a started unit runs stop before it becomes Dead")
            }
            Unit { installed: true, removed: false, .. } => {
                Some("an installed unit runs remove before it becomes Dead")
            }
            _ => None,
        }
    }
}

impl Check for Hooks {
    fn name(&self) -> &'static str {
        "hooks"
    }

    fn record_done(&mut self, unit: Uuid, record: &Record, found: &mut Vec<String>) {
        if record.operation == Operation::SetDead {
            let progress = self.0.get(&unit).cloned().unwrap_or_default();
            let wrong = progress.premature_end().map(|wrong| format!("{unit}: set dead: {wrong}"));
            found.extend(wrong);
        }
        let progress = self.0.entry(unit).or_default();
        if matches!(record.operation, Operation::InstallCharm(_)) && progress.installed {
            progress.upgrade_pending = true;
        }
        let Operation::Hook(hook) = &record.operation else { return };
        let wrong = self.0.entry(unit).or_default().apply(hook);
        found.extend(wrong.into_iter().map(|wrong| format!("{unit}: {}: {wrong}", hook.name())));
    }

    fn journal_started(&mut self, unit: Uuid, stored: &Local) {
        let progress = Unit {
            installed: stored.installed,
            configured: stored.config.is_some(),
            boot: stored.boot.clone(),
            started: stored.started,
            stopped: stored.stopped,
            removed: stored.removed,
            config_pending: false,
            storage: stored.storage.keys().cloned().collect(),
            upgrade_pending: stored.upgrade_pending || stored.follow_up == Some(FollowUp::UpgradeCharm),
        };
        self.0.insert(unit, progress);
        self.1.remove(&unit);
    }

    fn folder_copied(&mut self, from: Uuid, to: Uuid) {
        if let Some(unit) = self.0.get(&from).cloned() {
            self.0.insert(to, unit);
        }
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        let Fact::EventsPersisted { folder, events, .. } = fact else { return };
        for event in events.iter() {
            let (boot, sequence) = match event {
                Event::RebootRequested(boot) => (boot, None),
                Event::Finished(Record { reboot: Some(boot), sequence, .. }) => (boot, Some(*sequence)),
                // the writes are refused: the hook has failed and requests nothing (cargo sim 71036393)
                Event::Acknowledged { sequence, refusal: Some(_), .. } => {
                    let is_refused =
                        self.1.get(folder).is_some_and(|requested| requested.sequence == Some(*sequence));
                    if is_refused {
                        self.1.remove(folder);
                    }
                    continue;
                }
                _ => continue,
            };
            self.1.insert(*folder, RequestedReboot { boot: boot.clone(), sequence });
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for RunningAgent { folder, name, boot, .. } in end.agents.iter().filter(|_| end.is_at_rest) {
            if self.0.get(folder).is_some_and(|unit| unit.upgrade_pending) {
                found.push(format!("{name}: upgrade-charm has not run after the charm was replaced"));
            }
            if self.1.get(folder).is_some_and(|requested| requested.boot == *boot) {
                found.push(format!(
                    "{name}: a hook requested a reboot, and the machine is still in boot {boot}"
                ));
            }
        }
    }
}
