//! A unit reads the content of a secret only while it may: it or its application owns the secret, or a grant whose
//! relation exists names one of them (I31); and secret-changed runs once for the newest revision (spec/uniter.md A.14).

use super::check::{Check, Commit, FinalState};
use crate::sim::fact::Fact;
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{KeyParts, Kind, Model, SecretDoc, UnitDoc, last_id, secret_of_key};
use state::terms::life::Life;
use state::terms::names::{UnitName, Uuid};
use state::terms::operation::{Hook, Operation};
use state::terms::secret::{SecretEvent, SecretId, SecretOwnerKind};
use state::unit::local::Local;
use state::unit::record::{Outcome, Record};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub struct Secrets {
    commits: u64,
    readable: BTreeSet<(UnitName, SecretId)>,
    /// The number of the commit after which a unit could not read a secret any more.
    lost: BTreeMap<(UnitName, SecretId), u64>,
    /// By folder: the number of commits when a hook asked for a secret.
    requested: BTreeMap<(Uuid, SecretId), u64>,
    /// By secret; none for those of users.
    written: BTreeSet<(Option<SecretId>, String)>,
    /// The secret-changed hooks that count as done, by folder.
    reported: BTreeSet<(Uuid, SecretId, u64)>,
}

/// Who may read which secret by the documents alone.
fn readable(reader: &dyn Reader, model: Model) -> BTreeSet<(UnitName, SecretId)> {
    let units = read_all::<UnitDoc>(reader, &model.prefix(Kind::Unit));
    let mut pairs = BTreeSet::new();
    for (key, secret) in read_all::<SecretDoc>(reader, &model.prefix(Kind::Secret)) {
        let id = KeyParts::of(&key)
            .and_then(|parts| secret_of_key(parts.rest))
            .expect("keys are what was written");
        let owner = secret.owner.id;
        let owner_exists = match secret.owner.kind {
            SecretOwnerKind::Unit => reader.get(model.unit(owner).text()).is_some(),
            SecretOwnerKind::Application => reader.get(model.application(owner).text()).is_some(),
            SecretOwnerKind::Model => true,
        };
        for (key, unit) in units.iter().filter(|_| owner_exists) {
            let names = [last_id(key).expect("keys are what was written"), unit.application];
            let granted = names.iter().filter_map(|name| secret.grants.get(name)).any(|grant| {
                grant.relation.is_none_or(|relation| reader.get(model.relation(relation).text()).is_some())
            });
            if granted || names.contains(&owner) {
                pairs.insert((unit.name.clone(), id));
            }
        }
    }
    pairs
}

impl Secrets {
    fn note_readable(&mut self, readable: BTreeSet<(UnitName, SecretId)>) {
        for pair in self.readable.difference(&readable) {
            self.lost.insert(pair.clone(), self.commits);
        }
        self.readable = readable;
    }
}

impl Check for Secrets {
    fn name(&self) -> &'static str {
        "secrets"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::SecretWritten { secret, content } => drop(self.written.insert((*secret, content.clone()))),
            Fact::SecretRequested { folder, secret } => {
                self.requested.insert((*folder, *secret), self.commits);
            }
            Fact::SecretRead { folder, unit, secret, content } => {
                let pair = (unit.clone(), *secret);
                let requested = self.requested.get(&(*folder, *secret)).copied().unwrap_or_default();
                // the permission may have ended between the answer and its arrival
                let lost_later = self.lost.get(&pair).is_some_and(|lost| *lost > requested);
                if !self.readable.contains(&pair) && !lost_later {
                    found.push(format!("{unit} reads {secret} without a permission"));
                }
                let writers = [Some(*secret), None];
                if !writers.iter().any(|of| self.written.contains(&(*of, content.clone()))) {
                    found.push(format!("{unit} reads {content:?} of {secret}, which nobody has written"));
                }
            }
            _ => {}
        }
    }

    fn record_done(&mut self, folder: Uuid, record: &Record, found: &mut Vec<String>) {
        if let Operation::Hook(Hook::Secret { secret, revision, event: SecretEvent::Changed, .. }) =
            &record.operation
            && record.outcome == Outcome::Ok
            && !self.reported.insert((folder, *secret, *revision))
        {
            found.push(format!("{folder}: secret-changed ran again for revision {revision} of {secret}"));
        }
    }

    fn journal_started(&mut self, folder: Uuid, _: &Local) {
        self.reported.retain(|(of, ..)| *of != folder);
    }

    fn folder_copied(&mut self, folder: Uuid, copy: Uuid) {
        self.reported.retain(|(of, ..)| *of != folder && *of != copy);
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        self.commits += 1;
        self.reported.clear();
        self.note_readable(readable(reader, model));
    }

    fn commit(&mut self, commit: &Commit<'_>, _: &mut Vec<String>) {
        self.commits += 1;
        let kinds = [Kind::Secret, Kind::Unit, Kind::Application, Kind::Relation];
        if kinds.into_iter().any(|kind| commit.changes_of(kind).next().is_some()) {
            self.note_readable(readable(commit.reader, commit.model));
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        let (reader, model) = (end.reader, end.model);
        let readable = readable(reader, model);
        for agent in end.agents.iter().filter(|_| end.is_at_rest) {
            let alive = read(reader, &model.unit_life(agent.unit)) == Some(Life::Alive);
            if !alive || !agent.local.installed {
                continue;
            }
            for (id, entry) in read(reader, &model.secrets_consumed(agent.unit)).unwrap_or_default() {
                let Some(secret) = read(reader, &model.secret(id)) else { continue };
                let newest = secret.newest();
                let is_known = entry.revision >= newest || entry.reported >= newest;
                if !is_known && readable.contains(&(agent.name.clone(), id)) {
                    let (name, seen) = (&agent.name, entry.reported.max(entry.revision));
                    found.push(format!("{name}: learned of revision {seen} of {id}, the newest is {newest}"));
                }
            }
        }
    }
}
