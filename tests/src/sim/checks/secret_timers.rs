//! A secret is marked as due for rotation or as expired when its time has come by the clock of the controller, not
//! earlier; its owner then runs the hook, and at rest no time has passed unnoticed (spec/uniter.md A.14).

use super::check::{Check, Commit, FinalState};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{KeyParts, Kind, Model, SecretDoc, secret_of_key};
use state::terms::life::Life;
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation};
use state::terms::secret::{SecretEvent, SecretId};
use state::unit::record::{Outcome, Record};
use std::collections::{BTreeMap, BTreeSet};

/// How late a time may be noticed at rest: several rounds of the janitor, and the hook.
const LATE_MAX_MS: i64 = 60_000;

#[derive(Default)]
pub struct SecretTimers {
    secrets: BTreeMap<SecretId, SecretDoc>,
    /// What was ever marked, with the revision of an expiry.
    marked: BTreeSet<(SecretId, Option<u64>)>,
    /// The latest time that the clock of the controller has shown: it may jump back.
    latest_ms: i64,
}

fn id_of(key: &str) -> SecretId {
    KeyParts::of(key).and_then(|parts| secret_of_key(parts.rest)).expect("keys are what was written")
}

/// What is marked in a document.
fn marks(id: SecretId, secret: &SecretDoc) -> BTreeSet<(SecretId, Option<u64>)> {
    let expired = secret.revisions.iter().filter(|(_, revision)| revision.expired);
    let expired = expired.map(|(number, _)| (id, Some(*number)));
    expired.chain(secret.rotation_due.then_some((id, None))).collect()
}

impl Check for SecretTimers {
    fn name(&self) -> &'static str {
        "secret-timers"
    }

    fn observe(&mut self, fact: &Fact, _: &mut Vec<String>) {
        // the controller may read the clock before it is set back, and commit after that
        if let Fact::ClockSet { latest_ms } = fact {
            self.latest_ms = self.latest_ms.max(*latest_ms);
        }
    }

    fn record_done(&mut self, folder: Uuid, record: &Record, found: &mut Vec<String>) {
        let Operation::Hook(Hook::Secret { secret, revision, event, .. }) = &record.operation else { return };
        let mark = match event {
            SecretEvent::Expired => (*secret, Some(*revision)),
            SecretEvent::Rotate => (*secret, None),
            SecretEvent::Changed | SecretEvent::Remove => return,
        };
        if record.outcome == Outcome::Ok && !self.marked.contains(&mark) {
            found.push(format!("{folder}: {} ran before its time", record.operation));
        }
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        let all = read_all::<SecretDoc>(reader, &model.prefix(Kind::Secret)).into_iter();
        self.secrets = all.map(|(key, secret)| (id_of(&key), secret)).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        self.latest_ms = self.latest_ms.max(commit.wall_ms);
        for change in commit.changes_of(Kind::Secret) {
            let id = id_of(&change.key);
            let Some(after) = read(commit.reader, &commit.model.secret(id)) else {
                self.secrets.remove(&id);
                continue;
            };
            let before = self.secrets.insert(id, after.clone());
            let known = before.as_ref().map(|before| marks(id, before)).unwrap_or_default();
            for mark in marks(id, &after).difference(&known) {
                self.marked.insert(*mark);
                let time = before.as_ref().and_then(|before| match mark.1 {
                    Some(_) => before.expire_at_ms,
                    None => before.rotate_at_ms,
                });
                if time.is_none_or(|at_ms| at_ms > self.latest_ms) {
                    found.push(format!("{id}: {mark:?} is marked at {}, for {time:?}", self.latest_ms));
                }
            }
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        let due_ms = end.wall_ms - LATE_MAX_MS;
        if due_ms < 0 {
            // the clock has jumped to before 1970, where no controller runs
            return;
        }
        let is_alive = |unit: Uuid| read(end.reader, &end.model.unit_life(unit)) == Some(Life::Alive);
        let installed = end.agents.iter().filter(|agent| agent.local.installed && is_alive(agent.unit));
        for agent in installed.filter(|_| end.is_at_rest) {
            for id in read(end.reader, &end.model.secrets_of(agent.unit)).unwrap_or_default().into_keys() {
                let Some(secret) = read(end.reader, &end.model.secret(id)) else { continue };
                let newest = secret.revisions.get(&secret.newest());
                let is_missed = [
                    secret.rotate_at_ms.is_some_and(|at_ms| at_ms <= due_ms),
                    secret.expire_at_ms.is_some_and(|at_ms| at_ms <= due_ms)
                        && newest.is_some_and(|newest| !newest.expired),
                ];
                let is_pending = secret.rotation_due
                    || secret
                        .revisions
                        .values()
                        .any(|revision| revision.expired && revision.expire_again_ms.is_none());
                if is_missed.contains(&true) || is_pending {
                    found.push(format!(
                        "{}: a time of {id} has come, and nothing followed: {secret:?}",
                        agent.name
                    ));
                }
            }
        }
    }
}
