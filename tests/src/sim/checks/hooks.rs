//! I1, I16, G2 to G4: the order of a unit's own hooks.

use super::{Agent, Check, End, Fact};
use state::terms::names::Uuid;
use state::unit::local::{Event, FollowUp, Local};
use state::unit::operation::{Hook, Operation, RelationEvent};
use state::unit::record::Record;
use std::collections::BTreeMap;

#[derive(Clone, Default)]
struct Unit {
    installed: bool,
    configured: bool,
    boot: Option<String>,
    started: bool,
    stopped: bool,
    removed: bool,
    /// upgrade-charm ran and its config-changed has not.
    config_owed: bool,
    /// The charm was replaced since install, and upgrade-charm has not run.
    upgrade_owed: bool,
}

/// What a hook asked for.
struct Asked {
    /// The boot whose end it is to be.
    boot: String,
    /// Its record, unless it asked for it at once.
    sequence: Option<u64>,
}

/// By folder what it has run, and the last boot whose end a hook asked for.
#[derive(Default)]
pub struct Hooks(BTreeMap<Uuid, Unit>, BTreeMap<Uuid, Asked>);

impl Unit {
    /// What is wrong with this hook now; empty = nothing.
    fn take(&mut self, hook: &Hook) -> Vec<&'static str> {
        let mut wrong = Vec::new();
        let mut hold = |holds: bool, what| {
            if !holds {
                wrong.push(what);
            }
        };
        hold(!self.removed, "nothing runs after remove");
        hold(self.installed || *hook == Hook::Install, "install comes first");
        match hook {
            Hook::Install => {
                hold(!self.installed, "install runs once");
                self.installed = true;
            }
            Hook::ConfigChanged(_) => {
                self.configured = true;
                self.config_owed = false;
            }
            Hook::Start { boot } => {
                hold(self.configured, "config-changed comes before start");
                hold(self.boot.as_ref() != Some(boot), "start runs once a boot");
                hold(!self.stopped, "start never follows stop");
                self.boot = Some(boot.clone());
                self.started = true;
            }
            Hook::UpgradeCharm => (self.config_owed, self.upgrade_owed) = (true, false),
            Hook::UpdateStatus => hold(self.started, "update-status only once started"),
            Hook::Stop => {
                hold(self.started && !self.stopped, "stop runs once, of what was started");
                self.stopped = true;
            }
            Hook::Remove => {
                hold(self.stopped || !self.started, "what was started is stopped before remove");
                self.removed = true;
            }
            Hook::Relation {
                event: RelationEvent::Joined { .. } | RelationEvent::Changed { .. }, ..
            } => {
                hold(self.started, "start comes before the news of relations");
                hold(!self.stopped, "no news of relations after stop");
                hold(!self.config_owed, "config-changed follows upgrade-charm");
            }
            Hook::Relation { .. } | Hook::LeaderElected { .. } => {}
        }
        wrong
    }

    /// What is wrong with its end now.
    fn ends(&self) -> Option<&'static str> {
        match self {
            Unit { started: true, stopped: false, .. } => {
                Some("stop of what was started comes before the end")
            }
            Unit { installed: true, removed: false, .. } => Some("remove comes before the end"),
            _ => None,
        }
    }
}

impl Check for Hooks {
    fn name(&self) -> &'static str {
        "hooks"
    }

    fn done(&mut self, unit: Uuid, record: &Record, found: &mut Vec<String>) {
        if record.operation == Operation::SetDead {
            let known = self.0.get(&unit).cloned().unwrap_or_default();
            let wrong = known.ends().map(|wrong| format!("{unit}: set dead: {wrong}"));
            found.extend(wrong);
        }
        let known = self.0.entry(unit).or_default();
        if matches!(record.operation, Operation::InstallCharm(_)) && known.installed {
            known.upgrade_owed = true;
        }
        let Operation::Hook(hook) = &record.operation else { return };
        let wrong = self.0.entry(unit).or_default().take(hook);
        found.extend(wrong.into_iter().map(|wrong| format!("{unit}: {}: {wrong}", hook.name())));
    }

    fn begin(&mut self, unit: Uuid, memory: &Local) {
        let known = Unit {
            installed: memory.installed,
            configured: memory.config.is_some(),
            boot: memory.boot.clone(),
            started: memory.started,
            stopped: memory.stopped,
            removed: memory.removed,
            config_owed: false,
            upgrade_owed: memory.upgrade_owed || memory.follow_up == Some(FollowUp::UpgradeCharm),
        };
        self.0.insert(unit, known);
        self.1.remove(&unit);
    }

    fn copy(&mut self, from: Uuid, to: Uuid) {
        if let Some(unit) = self.0.get(&from).cloned() {
            self.0.insert(to, unit);
        }
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        let Fact::Recorded { folder, events, .. } = fact else { return };
        for event in events.iter() {
            let (boot, sequence) = match event {
                Event::RebootRequested(boot) => (boot, None),
                Event::Finished(Record { reboot: Some(boot), sequence, .. }) => (boot, Some(*sequence)),
                // what it wrote is refused: the hook has failed, and asks for nothing (cargo sim 71036393)
                Event::Acknowledged { sequence, refusal: Some(_), .. } => {
                    let asked = self.1.get(folder).is_some_and(|asked| asked.sequence == Some(*sequence));
                    if asked {
                        self.1.remove(folder);
                    }
                    continue;
                }
                _ => continue,
            };
            self.1.insert(*folder, Asked { boot: boot.clone(), sequence });
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for Agent { folder, name, boot, .. } in end.agents.iter().filter(|_| end.rests) {
            if self.0.get(folder).is_some_and(|unit| unit.upgrade_owed) {
                found.push(format!("{name} rests, and was never told that its charm was replaced"));
            }
            if self.1.get(folder).is_some_and(|asked| asked.boot == *boot) {
                found.push(format!(
                    "{name}: a hook asked for the end of {boot}, and its machine is in it still"
                ));
            }
        }
    }
}
