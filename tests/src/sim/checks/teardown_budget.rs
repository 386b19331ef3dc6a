//! A removal is forced by the teardown budget only after the budget has passed (spec A.7: opt-in).
//!
//! If the budget forces a unit, the controller acts in place of its agent only while the model has a budget, and not
//! before the unit was Dying for that long.

use super::check::{Check, Commit, kind_of};
use serde_json::Value;
use state::documents::draft::{Reader, read, read_all};
use state::documents::effective_life;
use state::documents::prelude::{ForcedRemovalDoc, Kind, Model, SessionDoc, last_id};
use state::lifecycle::model;
use state::terms::force::ForcedBy;
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct TeardownBudget {
    /// The budget in the model configuration; `None` if it is not set there.
    budget_ms: Option<i64>,
    /// Units that the budget forces, with the stored start time. A removal that is part of another has the time
    /// of that one.
    marked: BTreeMap<Uuid, i64>,
    /// The virtual time at which each of these times was first stored.
    since: BTreeMap<i64, u64>,
    /// The virtual time of the last commit.
    now_ms: u64,
    /// Units that the controller has started to act for.
    acted: BTreeSet<Uuid>,
}

fn configured_budget_ms(config: &BTreeMap<String, Value>) -> Option<i64> {
    config.get("teardown-budget").and_then(|_| model::teardown_budget_ms(config))
}

impl Check for TeardownBudget {
    fn name(&self) -> &'static str {
        "teardown-budget"
    }

    /// Waits in the backup continue from their stored times.
    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let config = read(reader, &model.model_config()).unwrap_or_default();
        self.budget_ms = configured_budget_ms(&config);
        let forced = read_all::<ForcedRemovalDoc>(reader, &model.prefix(Kind::ForcedRemoval)).into_iter();
        let marked = forced.filter(|(_, forced)| forced.by == ForcedBy::Budget);
        self.marked.clear();
        self.since.clear();
        for (key, forced) in marked {
            self.marked.extend(last_id(&key).map(|id| (id, forced.since_ms)));
            let timer_started_ms = self.now_ms.saturating_sub(forced.waited_ms.unsigned_abs());
            let since = self.since.entry(forced.since_ms).or_insert(timer_started_ms);
            *since = timer_started_ms.min(*since);
        }
        self.acted.clear();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        self.now_ms = commit.now_ms;
        for change in commit.changes.entries.iter() {
            let kind = kind_of(&change.key);
            let value = change.value.as_ref();
            if change.key == commit.model.model_config().text() {
                let config = value.map(|text| text.parse().expect("documents are what was written"));
                self.budget_ms = configured_budget_ms(&config.unwrap_or_default());
            }
            let Some(id) = last_id(&change.key) else { continue };
            if kind == Kind::ForcedRemoval {
                let forced: Option<ForcedRemovalDoc> =
                    value.map(|text| text.parse().expect("documents are what was written"));
                match forced.filter(|forced| forced.by == ForcedBy::Budget) {
                    Some(forced) => {
                        self.since.entry(forced.since_ms).or_insert(commit.now_ms);
                        let is_new = self.marked.insert(id, forced.since_ms).is_none();
                        let life = effective_life::unit_life(&mut { commit.reader }, commit.model, id);
                        if is_new && life.is_some_and(|life| life.is_alive()) {
                            found.push(format!("{id}: is forced by the teardown budget while Alive"));
                        }
                    }
                    None => drop(self.marked.remove(&id)),
                }
            }
            if kind == Kind::Session {
                let session: Option<SessionDoc> =
                    value.map(|text| text.parse().expect("documents are what was written"));
                let fenced = session.is_some_and(|session| session.epoch > 0 && session.nonce == Uuid(0));
                if fenced && self.acted.insert(id) {
                    self.check_wait(id, commit.now_ms, found);
                }
            }
        }
    }
}

impl TeardownBudget {
    fn check_wait(&self, unit: Uuid, now_ms: u64, found: &mut Vec<String>) {
        let Some(since_ms) = self.marked.get(&unit) else { return };
        let Some(budget_ms) = self.budget_ms else {
            found.push(format!("{unit}: is forced by a teardown budget that is not set"));
            return;
        };
        let passed_ms = now_ms - self.since.get(since_ms).copied().unwrap_or(now_ms);
        if passed_ms < budget_ms.unsigned_abs() {
            found.push(format!(
                "{unit}: is forced after {passed_ms} ms of a teardown budget of {budget_ms} ms"
            ));
        }
    }
}
