//! A model that is being destroyed accepts no new entity, and a destroyed model leaves nothing behind (I25). A destruction
//! with force removes each application with force.
//!
//! At rest all its documents are deleted, its name is free, its tokens are revoked, and a tombstone records it.

use super::check::{Check, Commit, FinalState, kind_of};
use state::documents::draft::{Reader, read, read_all};
use state::documents::prelude::{GLOBAL, Kind, Model, TokenHolder, last_id};
use state::terms::force::Force;
use state::terms::life::Life;
use state::terms::names::Uuid;

/// Kinds of documents that are created together with a new entity.
const NEW: [Kind; 4] = [Kind::ApplicationName, Kind::MachineName, Kind::RelationKey, Kind::UnitName];

#[derive(Default)]
pub struct DestroyedModel {
    /// Whether the model is no longer Alive.
    is_dying: bool,
}

impl Check for DestroyedModel {
    fn name(&self) -> &'static str {
        "destroyed-model"
    }

    fn store_restored(&mut self, reader: &dyn Reader, model: Model) {
        self.is_dying = read(reader, &model.model_life()) != Some(Life::Alive);
    }

    fn commit(&mut self, commit: &Commit<'_>, found: &mut Vec<String>) {
        for change in commit.changes.entries.iter() {
            // Until the janitor reaches its application, a principal that enters a relation still creates a subordinate. It
            // is removed with that application.
            let is_subordinate = || {
                let unit = change.value.as_ref().and_then(|text| text.parse::<Uuid>().ok());
                let doc = unit.and_then(|id| read(commit.reader, &commit.model.unit(id)));
                kind_of(&change.key) == Kind::UnitName && doc.is_some_and(|doc| doc.principal.is_some())
            };
            let is_new = change.value.is_some() && NEW.contains(&kind_of(&change.key));
            if self.is_dying && is_new && !is_subordinate() {
                found.push(format!("{} was created in a model that is being destroyed", change.key));
            }
            if kind_of(&change.key) == Kind::ApplicationLife
                && let Some(id) = last_id(&change.key)
                && commit
                    .changes
                    .entries
                    .iter()
                    .any(|entry| entry.key == commit.model.model_destruction().text())
                && read(commit.reader, &commit.model.model_destruction())
                    .is_some_and(|destruction| destruction.force != Force::No)
                && read(commit.reader, &commit.model.application(id)).is_some()
                && read(commit.reader, &commit.model.forced_removal(id)).is_none()
            {
                found.push(format!(
                    "{} is removed without force, but its model is destroyed with force",
                    change.key
                ));
            }
            if change.key == commit.model.model_life().text() {
                let life = change.value.as_ref();
                let life = life.map(|text| text.parse::<Life>().expect("documents are what was written"));
                self.is_dying = life != Some(Life::Alive);
            }
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        let id = end.model.0;
        match read(end.reader, &end.model.model_life()) {
            Some(Life::Alive) => return,
            Some(life) if end.is_at_rest => return found.push(format!("the model is still {life} at rest")),
            Some(_) => return,
            None => {}
        }
        for left in end.reader.scan(&format!("{id}/"), "", usize::MAX) {
            found.push(format!("{} remains after the model was destroyed", left.key));
        }
        for (name, model) in read_all::<Uuid>(end.reader, &GLOBAL.prefix(Kind::ModelName)) {
            if model == id {
                found.push(format!("{name} still refers to the destroyed model"));
            }
        }
        for (key, principal) in read_all::<TokenHolder>(end.reader, &GLOBAL.prefix(Kind::Token)) {
            let is_accepted = match principal {
                TokenHolder::Machine { model, .. }
                | TokenHolder::EnrollingMachine { model, .. }
                | TokenHolder::Unit { model, .. } => model == end.model,
                // a retired token only informs a machine of its removal
                TokenHolder::User { .. } | TokenHolder::RemovedMachine { .. } => false,
            };
            if is_accepted {
                found.push(format!("{key} still authenticates {principal:?}, whose model was destroyed"));
            }
        }
        if read(end.reader, &GLOBAL.tombstone(id)).is_none() {
            found.push(format!("model {id} was destroyed without a tombstone"));
        }
        if end.reader.get(GLOBAL.cleanup(id).text()).is_some() {
            found.push(format!("the cleanup of model {id} is not finished"));
        }
    }
}
