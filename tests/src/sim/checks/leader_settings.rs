//! Only the leader writes leader settings, they are stored in the order of its calls, and every other unit receives
//! them (spec/hook-tools.md 2.2).
//!
//! A leader-set that succeeded is stored, even if its hook fails. At rest every follower has run
//! leader-settings-changed for the last version.

use super::check::{Check, Commit, FinalState};
use crate::sim::fact::Fact;
use crate::sim::script::LEADER_KEY;
use state::documents::draft::{Reader, read};
use state::documents::prelude::{Kind, LeaderSettingsDoc, Model, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct LeaderSettings {
    /// The last settings of each application.
    last: BTreeMap<Uuid, LeaderSettingsDoc>,
    /// Every value that was ever stored.
    stored: BTreeSet<String>,
}

impl Check for LeaderSettings {
    fn name(&self) -> &'static str {
        "leader-settings"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        if let Fact::HookWrote { folder, run, what, text } = fact
            && what == LEADER_KEY
            && !self.stored.contains(text)
        {
            found.push(format!(
                "{folder}: the call of run {run} that stores {text:?} succeeded, and nothing was stored"
            ));
        }
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        self.last.retain(|application, last| {
            *last = read(reader, &model.leader_settings(*application)).unwrap_or_default();
            true
        });
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes_of(Kind::LeaderSettings) {
            let (Some(application), Some(value)) = (last_id(&change.key), &change.value) else { continue };
            let now: LeaderSettingsDoc = value.parse().expect("documents are what was written");
            let before = self.last.insert(application, now.clone()).unwrap_or_default();
            if now.number <= before.number || now.version != before.version + 1 {
                found.push(format!(
                    "{application}: version {} of write {:?} follows version {} of write {:?}",
                    now.version, now.number, before.version, before.number
                ));
            }
            let grant = read(commit.reader, &commit.model.leader(application));
            let holder = grant.as_ref().map(|grant| (grant.generation, grant.holder_name.to_string()));
            let text = now.values.get(LEADER_KEY).cloned().unwrap_or_default();
            let writer = text.split('=').next().map(|writer| (now.number.generation, writer.to_owned()));
            if holder != writer {
                found.push(format!("{application}: {writer:?} writes leader settings, and {holder:?} leads"));
            }
            self.stored.insert(text);
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.is_at_rest) {
            let Some(unit) = read(end.reader, &end.model.unit(agent.unit)) else { continue };
            let grant = read(end.reader, &end.model.leader(unit.application));
            let follows = grant.is_some_and(|grant| grant.holder != agent.unit);
            let alive = read(end.reader, &end.model.unit_life(agent.unit)) == Some(Life::Alive);
            let settings = read(end.reader, &end.model.leader_settings(unit.application)).unwrap_or_default();
            let observed = agent.local.leader_settings_version;
            if follows && alive && agent.local.installed && observed != settings.version {
                let (name, version) = (&agent.name, settings.version);
                found.push(format!("{name}: observed leader settings {observed}, the last are {version}"));
            }
        }
    }
}
