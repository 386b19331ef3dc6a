//! I25 for models: into one that is going nothing new comes; at rest one that was destroyed is gone with everything of
//! it, its name is free, and a tombstone says so.

use crate::sim::checks::{Check, Commit, End, place};
use state::documents::draft::{Reader, read, read_all};
use state::documents::keys::{GLOBAL, Kind, Model, TokenHolder, last_id};
use state::terms::life::Life;
use state::terms::names::Uuid;

/// Documents that are made once, with what they name.
const NEW: [&str; 3] = ["application-name", "machine-name", "relation-key"];

#[derive(Default)]
pub struct Destroyed {
    /// The model is not Alive any more.
    going: bool,
}

impl Check for Destroyed {
    fn name(&self) -> &'static str {
        "destroyed"
    }

    fn restored(&mut self, reader: &dyn Reader, model: Model) {
        self.going = read(reader, &model.model_life()) != Some(Life::Alive);
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            if self.going && change.value.is_some() && NEW.contains(&place(&change.key).0) {
                found.push(format!("{} is new, and its model is being destroyed", change.key));
            }
            if place(&change.key).0 == "application-life"
                && let Some(id) = last_id(&change.key)
                && commit.changes.entries.iter().any(|e| e.key == commit.model.model_destruction().text())
                && read(commit.reader, &commit.model.model_destruction())
                    .is_some_and(|d| d.forced_ms.is_some())
                && read(commit.reader, &commit.model.application(id)).is_some()
                && read(commit.reader, &commit.model.forced(id)).is_none()
            {
                found.push(format!("{} goes with a model that is destroyed by force, without", change.key));
            }
            if change.key == commit.model.model_life().text() {
                let life = change.value.as_ref();
                let life = life.map(|text| text.parse::<Life>().expect("documents are what was written"));
                self.going = life != Some(Life::Alive);
            }
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        let id = end.model.0;
        match read(end.reader, &end.model.model_life()) {
            Some(Life::Alive) => return,
            Some(life) => return found.push(format!("the model is still {life}")),
            None => {}
        }
        for left in end.reader.scan(&format!("{id}/"), "", usize::MAX) {
            found.push(format!("{} is left of a model that was destroyed", left.key));
        }
        for (name, model) in read_all::<Uuid>(end.reader, &GLOBAL.all(Kind::ModelName)) {
            if model == id {
                found.push(format!("{name} names a model that was destroyed"));
            }
        }
        for (key, principal) in read_all::<TokenHolder>(end.reader, &GLOBAL.all(Kind::Token)) {
            let lets_in = match principal {
                // one that only tells a machine that it was removed by force (`token::retire`) lets nobody in
                TokenHolder::Machine { model, machine } => {
                    model == end.model && read(end.reader, &GLOBAL.token_of(machine)).is_some()
                }
                TokenHolder::Unit { model, .. } => model == end.model,
                _ => false,
            };
            if lets_in {
                found.push(format!("{key} lets in {principal:?}, whose model was destroyed"));
            }
        }
        if read(end.reader, &GLOBAL.tombstone(id)).is_none() {
            found.push(format!("model {id} is gone, and no tombstone says so"));
        }
        if end.reader.get(GLOBAL.cleanup(id).text()).is_some() {
            found.push(format!("what model {id} left behind is still to be cleared"));
        }
    }
}
