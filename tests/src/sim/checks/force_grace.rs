//! A unit that is removed by force, but not at once, has a grace period of one minute before the controller acts in
//! place of its agent (spec E.6). The exception is a model that is destroyed with force: the controller does not wait
//! for a unit in error, or for an agent that is away. `state/src/tests/force/destroyed.rs` tests these.

use super::check::{Check, Commit, kind_of};
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{ForcedRemovalDoc, Kind, Model, last_id};
use state::terms::force::{Force, ForcedBy};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The grace period of a forced removal.
const WAIT_MS: u64 = 60_000;

#[derive(Default)]
pub struct ForceGrace {
    /// Units whose removal is forced after the grace period, with the stored time of the request. A removal
    /// that is part of another has the time of that one.
    marked: BTreeMap<Uuid, i64>,
    /// The virtual time at which each of these times was first stored.
    since: BTreeMap<i64, u64>,
    /// Units that the teardown budget forced as well: the budget may be shorter than the grace period.
    budgeted: BTreeSet<Uuid>,
    /// Units that the controller has started to act for.
    acted: BTreeSet<Uuid>,
}

impl Check for ForceGrace {
    fn name(&self) -> &'static str {
        "force-grace"
    }

    /// Waits in the backup continue from their stored times. They are not measured here.
    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let forced = read_all::<ForcedRemovalDoc>(reader, &model.prefix(Kind::ForcedRemoval));
        self.since.extend(forced.iter().map(|(_, forced)| (forced.since_ms, 0)));
        // a request that was repeated after the backup waits from the earlier request again
        let waits = forced.into_iter().filter(|(_, forced)| !forced.no_wait);
        self.marked = waits.filter_map(|(key, forced)| Some((last_id(&key)?, forced.since_ms))).collect();
        self.acted.clear();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            let Some(id) = last_id(&change.key) else { continue };
            match kind_of(&change.key) {
                Kind::ForcedRemoval => {
                    let forced = read(commit.reader, &commit.model.forced_removal(id));
                    self.budgeted.extend(forced.iter().filter(|f| f.by == ForcedBy::Budget).map(|_| id));
                    match forced.filter(|forced| !forced.no_wait && !self.budgeted.contains(&id)) {
                        Some(forced) => {
                            self.since.entry(forced.since_ms).or_insert(commit.now_ms);
                            let is_new = self.marked.insert(id, forced.since_ms).is_none();
                            let wait_ms = forced.due_ms - forced.since_ms;
                            if is_new && wait_ms < WAIT_MS as i64 {
                                found.push(format!(
                                    "{id}: the grace period is {wait_ms} ms instead of {WAIT_MS} ms"
                                ));
                            }
                        }
                        None => drop(self.marked.remove(&id)),
                    }
                }
                Kind::UnitLife => {
                    let dead = read(commit.reader, &commit.model.unit_life(id)) == Some(Life::Dead);
                    let is_changed = |key: &str| commit.changes.entries.iter().any(|entry| entry.key == key);
                    let (wait, replica) = (commit.model.forced_removal(id), commit.model.replica(id));
                    let acts = self.acted.contains(&id) && self.marked.contains_key(&id);
                    if dead && acts && !is_changed(wait.text()) && !is_changed(replica.text()) {
                        found
                            .push(format!("{id}: is Dead by force before its machine agent could recall it"));
                    }
                }
                Kind::Session => {
                    let session = read(commit.reader, &commit.model.session(id));
                    let fenced = session.is_some_and(|session| session.epoch > 0 && session.nonce == Uuid(0));
                    let destruction = read(commit.reader, &commit.model.model_destruction());
                    if destruction.is_some_and(|destruction| destruction.force != Force::No) {
                        continue;
                    }
                    let Some(since_ms) = self.marked.get(&id).filter(|_| fenced) else { continue };
                    let passed_ms = commit.now_ms - self.since.get(since_ms).copied().unwrap_or(0);
                    if self.acted.insert(id) && passed_ms < WAIT_MS {
                        found.push(format!(
                            "{id}: is forced after {passed_ms} ms of a grace period of {WAIT_MS} ms"
                        ));
                    }
                }
                _ => {}
            }
        }
    }
}
