//! The settings of applications reach the charms of their units (design 9).
//!
//! 1. At rest the last config-changed of each unit ran with the current settings of its application.
//! 2. A hook reads settings that applied at the revision of its view, or later.
//! 3. A refresh does not change the settings of an application.

use super::check::{Check, Commit, FinalState};
use crate::sim::fact::Fact;
use crate::sim::script::LEVEL;
use state::documents::draft::{Reader, Revision, read};
use state::documents::prelude::{Kind, Model, last_id};
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation};
use state::terms::position::Position;
use state::unit::local::{Event, Local};
use state::unit::record::{Outcome, Record};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct DeliveredConfig {
    /// The settings of each application as JSON, with the revision from which they apply.
    set: BTreeMap<Uuid, Vec<(Revision, String)>>,
    /// The last config-changed that started, by folder: its run and the position of its view.
    started: BTreeMap<Uuid, (u64, Position)>,
    /// The position of the view on which the last completed config-changed started, by folder.
    delivered: BTreeMap<Uuid, Position>,
    /// The newest run, by folder: its unit, its number and the position of its view.
    runs: BTreeMap<Uuid, (Uuid, u64, Position)>,
    applications: BTreeMap<Uuid, Uuid>,
    was_restored: bool,
}

impl DeliveredConfig {
    /// Returns a violation unless the hook reads settings that applied when it was decided, or later.
    fn check_read(&self, (folder, run): (Uuid, u64), text: &str) -> Option<String> {
        let (unit, _, position) = self.runs.get(&folder).filter(|(_, number, _)| *number == run)?;
        let set = self.set.get(self.applications.get(unit)?).filter(|_| !self.was_restored)?;
        let from = set.iter().rposition(|(revision, _)| *revision <= position.revision)?;
        let level = |(_, json): &(Revision, String)| {
            let set: BTreeMap<String, serde_json::Value> = serde_json::from_str(json).unwrap_or_default();
            set.get("level").and_then(|level| level.as_str()).unwrap_or("a").to_owned()
        };
        let levels: Vec<String> = set[from..].iter().map(level).collect();
        (!levels.iter().any(|level| level == text))
            .then(|| format!("{folder}: run {run} reads {text:?}, expected one of {levels:?}"))
    }
}

impl Check for DeliveredConfig {
    fn name(&self) -> &'static str {
        "delivered-config"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        if let Fact::HookRead { folder, run, what, text } = fact
            && what == LEVEL
        {
            found.extend(self.check_read((*folder, *run), text));
        }
        let Fact::EventsPersisted { folder, unit, events } = fact else { return };
        for event in events.iter() {
            let Event::Started(run) = event else { continue };
            self.runs.extend(run.position.map(|position| (*folder, (*unit, run.number, position))));
            if matches!(run.operation, Operation::Hook(Hook::ConfigChanged(_))) {
                self.started.extend(run.position.map(|position| (*folder, (run.number, position))));
            }
        }
    }

    fn record_done(&mut self, folder: Uuid, record: &Record, _found: &mut Vec<String>) {
        if !matches!(record.operation, Operation::Hook(Hook::ConfigChanged(_))) {
            return;
        }
        let started = self.started.get(&folder).filter(|(run, _)| *run == record.run);
        match started.filter(|_| record.outcome != Outcome::Skipped) {
            Some((_, position)) => drop(self.delivered.insert(folder, *position)),
            // an operator skipped the hook, so the settings that the charm has are unknown
            None => drop(self.delivered.remove(&folder)),
        }
    }

    fn journal_started(&mut self, folder: Uuid, _stored: &Local) {
        self.started.remove(&folder);
        self.delivered.remove(&folder);
    }

    fn folder_copied(&mut self, folder: Uuid, copy: Uuid) {
        self.started.extend(self.started.get(&folder).copied().map(|started| (copy, started)));
        self.delivered.extend(self.delivered.get(&folder).copied().map(|position| (copy, position)));
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let stored = reader.scan(&model.prefix(Kind::ApplicationConfig), "", usize::MAX).into_iter();
        let set =
            stored.filter_map(|stored| Some((last_id(&stored.key)?, vec![(0, stored.value.to_string())])));
        self.set = set.collect();
        self.was_restored = true;
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let revision = commit.changes.revision;
        for change in commit.changes_of(Kind::Unit) {
            let doc =
                last_id(&change.key).and_then(|id| Some((id, read(commit.reader, &commit.model.unit(id))?)));
            self.applications.extend(doc.map(|(id, doc)| (id, doc.application)));
        }
        for change in commit.changes_of(Kind::ApplicationConfig) {
            let text = change.value.as_ref().map_or(String::new(), |value| value.to_string());
            // all charms of the simulator declare the same option, so a refresh does not change the settings
            let charm = last_id(&change.key).map(|id| commit.model.application_charm(id));
            let is_changed = |key: &str| commit.changes.entries.iter().any(|entry| entry.key == key);
            let is_new =
                last_id(&change.key).is_some_and(|id| is_changed(commit.model.application(id).text()));
            if charm.is_some_and(|charm| is_changed(charm.text())) && !is_new {
                found.push(format!("{} changes with a refresh, to {text}", change.key));
            }
            self.set.extend(last_id(&change.key).map(|id| {
                let mut set = self.set.get(&id).cloned().unwrap_or_default();
                set.push((revision, text));
                (id, set)
            }));
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.is_at_rest) {
            let store_generation = agent.view.as_ref().map(|view| view.position.store_generation);
            let seen = self
                .delivered
                .get(&agent.folder)
                .filter(|seen| Some(seen.store_generation) == store_generation);
            let unit = read(end.reader, &end.model.unit(agent.unit));
            let set = unit.and_then(|unit| self.set.get(&unit.application));
            let (Some(seen), Some(set)) = (seen, set) else { continue };
            let then = set.iter().rev().find(|(revision, _)| *revision <= seen.revision);
            let (then, now) = (then.map(|(_, text)| text), set.last().map(|(_, text)| text));
            if then != now {
                let name = &agent.name;
                found.push(format!("{name}: config-changed delivered {then:?}, current is {now:?}"));
            }
        }
    }
}
