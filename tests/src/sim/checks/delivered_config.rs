//! I6 for settings of an application, by their content: at rest the last config-changed of each unit began when the
//! settings were what they are now.

use crate::sim::checks::{Check, Commit, End, Fact, place};
use crate::sim::script::LEVEL;
use state::documents::draft::{Reader, Revision, read};
use state::documents::keys::{Kind, Model, last_id};
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::unit::local::{Event, Local};
use state::unit::operation::{Hook, Operation};
use state::unit::record::{Outcome, Record};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct DeliveredConfig {
    /// By application, what was set from which revision on, as JSON.
    set: BTreeMap<Uuid, Vec<(Revision, String)>>,
    /// By folder, the config-changed that was begun last: its run, and the view it began on.
    begun: BTreeMap<Uuid, (u64, Position)>,
    /// The view on which the last one began that is done.
    seen: BTreeMap<Uuid, Position>,
    /// By folder, the newest run: its unit, and the view it began on.
    runs: BTreeMap<Uuid, (Uuid, u64, Position)>,
    applications: BTreeMap<Uuid, Uuid>,
    was_restored: bool,
}

impl DeliveredConfig {
    /// It reads what is set, or was when its hook was decided, or since.
    fn reads(&self, (folder, run): (Uuid, u64), text: &str) -> Option<String> {
        let (unit, _, position) = self.runs.get(&folder).filter(|(_, number, _)| *number == run)?;
        let set = self.set.get(self.applications.get(unit)?).filter(|_| !self.was_restored)?;
        let from = set.iter().rposition(|(revision, _)| *revision <= position.revision)?;
        let level = |(_, json): &(Revision, String)| {
            let set: BTreeMap<String, serde_json::Value> = serde_json::from_str(json).unwrap_or_default();
            set.get("level").and_then(|level| level.as_str()).unwrap_or("a").to_owned()
        };
        let levels: Vec<String> = set[from..].iter().map(level).collect();
        (!levels.iter().any(|level| level == text))
            .then(|| format!("{folder}: run {run} reads {text:?}, and {levels:?} were set"))
    }
}

impl Check for DeliveredConfig {
    fn name(&self) -> &'static str {
        "configured"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        if let Fact::HookRead { folder, run, what, text } = fact
            && what == LEVEL
        {
            found.extend(self.reads((*folder, *run), text));
        }
        let Fact::Recorded { folder, of, events } = fact else { return };
        for event in events.iter() {
            let Event::Started(run) = event else { continue };
            self.runs.extend(run.position.map(|position| (*folder, (*of, run.number, position))));
            if matches!(run.operation, Operation::Hook(Hook::ConfigChanged(_))) {
                self.begun.extend(run.position.map(|position| (*folder, (run.number, position))));
            }
        }
    }

    fn done(&mut self, folder: Uuid, record: &Record, _found: &mut Vec<String>) {
        if !matches!(record.operation, Operation::Hook(Hook::ConfigChanged(_))) {
            return;
        }
        let begun = self.begun.get(&folder).filter(|(run, _)| *run == record.run);
        match begun.filter(|_| record.outcome != Outcome::Skipped) {
            Some((_, position)) => drop(self.seen.insert(folder, *position)),
            // a person gave it up: nobody knows on which settings
            None => drop(self.seen.remove(&folder)),
        }
    }

    fn begin(&mut self, folder: Uuid, _memory: &Local) {
        self.begun.remove(&folder);
        self.seen.remove(&folder);
    }

    fn copy(&mut self, folder: Uuid, copy: Uuid) {
        self.begun.extend(self.begun.get(&folder).copied().map(|begun| (copy, begun)));
        self.seen.extend(self.seen.get(&folder).copied().map(|seen| (copy, seen)));
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        let stored = reader.scan(&model.all(Kind::ApplicationConfig), "", usize::MAX).into_iter();
        let set =
            stored.filter_map(|stored| Some((last_id(&stored.key)?, vec![(0, stored.value.to_string())])));
        self.set = set.collect();
        self.was_restored = true;
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let revision = commit.changes.revision;
        for change in commit.changes.entries.iter().filter(|change| place(&change.key).0 == "unit") {
            let doc =
                last_id(&change.key).and_then(|id| Some((id, read(commit.reader, &commit.model.unit(id))?)));
            self.applications.extend(doc.map(|(id, doc)| (id, doc.application)));
        }
        for change in commit.changes.entries.iter().filter(|c| place(&c.key).0 == "application-config") {
            let text = change.value.as_ref().map_or(String::new(), |value| value.to_string());
            // all charms here declare the same option
            let charm = last_id(&change.key).map(|id| commit.model.application_charm(id));
            let with = |key: &str| commit.changes.entries.iter().any(|entry| entry.key == key);
            let made = last_id(&change.key).is_some_and(|id| with(commit.model.application(id).text()));
            if charm.is_some_and(|charm| with(charm.text())) && !made {
                found.push(format!("{} changes with a refresh, and is {text}", change.key));
            }
            self.set.extend(last_id(&change.key).map(|id| {
                let mut set = self.set.get(&id).cloned().unwrap_or_default();
                set.push((revision, text));
                (id, set)
            }));
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.rests) {
            let store_generation = agent.view.as_ref().map(|view| view.position.store_generation);
            let seen =
                self.seen.get(&agent.folder).filter(|seen| Some(seen.store_generation) == store_generation);
            let unit = read(end.reader, &end.model.unit(agent.unit));
            let set = unit.and_then(|unit| self.set.get(&unit.application));
            let (Some(seen), Some(set)) = (seen, set) else { continue };
            let then = set.iter().rev().find(|(revision, _)| *revision <= seen.revision);
            let (then, now) = (then.map(|(_, text)| text), set.last().map(|(_, text)| text));
            if then != now {
                let name = &agent.name;
                found.push(format!("{name} was configured with {then:?}, and {now:?} is set"));
            }
        }
    }
}
