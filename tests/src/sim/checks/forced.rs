//! I24, I27, I34 for force: once the controller acts in place of a unit's agent, no record of that agent is taken any
//! more; it acts only for what is forced; and at rest nothing forced is left, though agents of it are down.

use super::{Check, Commit, End, Fact, place};
use crate::sim::checks::true_blockers::StuckSystem;
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{ForcedDoc, Kind, Model, SessionDoc, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeSet;

#[derive(Default)]
pub struct Forced {
    /// What has a document that says so.
    forced: BTreeSet<Uuid>,
    /// Machines that are Dead: their provider takes them away, if it is there.
    released: BTreeSet<Uuid>,
    /// Units for which the controller has acted.
    acted: BTreeSet<Uuid>,
    /// Units whose agents say all again, in bites before the record: these leave scopes, too.
    restating: BTreeSet<Uuid>,
}

/// The session is the controller's own: no agent's record is taken.
fn fences(session: &SessionDoc) -> bool {
    session.nonce == Uuid(0)
}

impl Check for Forced {
    fn name(&self) -> &'static str {
        "forced"
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        if let Fact::RecordReceived { unit, restates: true, .. } = fact {
            self.restating.insert(*unit);
        }
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        let forced = read_all::<ForcedDoc>(reader, &model.all(Kind::Forced));
        self.forced = forced.iter().filter_map(|(key, _)| last_id(key)).collect();
        let sessions = read_all::<SessionDoc>(reader, &model.all(Kind::Session));
        let fenced = sessions.iter().filter(|(_, session)| fences(session));
        self.acted = fenced.filter_map(|(key, _)| last_id(key)).collect();
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        let of = |kind: &'static str| {
            commit.changes.entries.iter().filter(move |change| place(&change.key).0 == kind)
        };
        let speaking: BTreeSet<Uuid> =
            of("replica").filter(|change| change.value.is_some()).filter_map(|c| last_id(&c.key)).collect();
        for unit in speaking.intersection(&self.acted) {
            found.push(format!("{unit}: a record is taken after the controller acted in its agent's place"));
        }
        let left = of("scope-of").filter(|change| change.value.is_none());
        // of a relation that is forced those leave too whose own time has not come
        let left = left.filter(|change| last_id(&change.key).is_none_or(|id| !self.forced.contains(&id)));
        let left = left.filter_map(|change| place(&change.key).1.split('/').next()?.parse::<Uuid>().ok());
        let by_its_agent = |unit: &Uuid| {
            let fenced =
                || read(commit.reader, &commit.model.session(*unit)).is_some_and(|session| fences(&session));
            speaking.contains(unit) || self.restating.contains(unit) && !fenced()
        };
        self.acted.extend(left.filter(|unit| self.forced.contains(unit) && !by_its_agent(unit)));
        self.restating.retain(|unit| !speaking.contains(unit));
        for change in of("unit-life") {
            let life: Option<Life> = change.value.as_ref().and_then(|text| text.parse().ok());
            let Some(unit) = last_id(&change.key).filter(|unit| !speaking.contains(unit)) else { continue };
            if life == Some(Life::Dead) {
                self.acted.insert(unit);
                if !self.forced.contains(&unit) {
                    found.push(format!("{unit} is Dead, not by its agent, and is not forced"));
                }
            }
        }
        for change in of("forced") {
            let entity = last_id(&change.key).expect("it is of an entity");
            match change.value {
                Some(_) => drop(self.forced.insert(entity)),
                None => drop(self.forced.remove(&entity)),
            }
        }
        for change in of("machine-life") {
            let life: Option<Life> = change.value.as_ref().and_then(|text| text.parse().ok());
            self.released.extend(last_id(&change.key).filter(|_| life == Some(Life::Dead)));
        }
    }

    /// At rest, with agents that are down.
    fn explain(&mut self, _stuck: &StuckSystem<'_>, found: &mut Vec<String>) {
        for entity in self.forced.difference(&self.released) {
            found.push(format!("{entity} is forced, and waits for somebody"));
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for (key, forced) in read_all::<ForcedDoc>(end.reader, &end.model.all(Kind::Forced)) {
            found.push(format!("{key} is still there: {forced:?}"));
        }
    }
}
