//! The documents of a state, and the transitions of the controller on them.

use state::documents::draft::{Draft, Reader, Revision, StoredDocument, read};
use state::documents::json_text::Text;
use state::documents::prelude::{Kind, Model, last_id};
use state::documents::refusal::Refusal;
use state::lifecycle::leadership;
use state::lifecycle::{cleanup, machine};
use state::terms::life::Life;
use state::terms::names::Uuid;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The model of every state.
pub const MODEL: Model = Model(Uuid(7));

#[derive(Clone, Default)]
pub struct Documents(pub(super) BTreeMap<Arc<str>, Text>);

impl Reader for Documents {
    fn revision(&self) -> Revision {
        1
    }
    fn get(&self, key: &str) -> Option<StoredDocument> {
        let value = self.0.get(key)?;
        Some(StoredDocument { key: key.to_owned(), revision: 1, value: value.clone() })
    }
    fn scan(&self, prefix: &str, after: &str, limit: usize) -> Vec<StoredDocument> {
        let from: Arc<str> = prefix.max(after).into();
        let range = self.0.range(from..);
        let range = range.skip_while(|(key, _)| &***key <= after);
        let below = range.take_while(|(key, _)| key.starts_with(prefix)).take(limit);
        below
            .map(|(key, value)| StoredDocument { key: key.to_string(), revision: 1, value: value.clone() })
            .collect()
    }
}

impl Documents {
    pub fn run<T>(
        &mut self,
        transition: impl FnOnce(&mut Draft) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut draft = Draft::new(self);
        let answer = transition(&mut draft)?;
        let transaction = draft.finish().expect("transactions are bounded");
        for (key, value) in transaction.writes {
            match value {
                Some(value) => drop(self.0.insert(key.into(), value)),
                None => drop(self.0.remove(&*key)),
            }
        }
        Ok(answer)
    }

    /// Returns the ids of all documents of a kind.
    pub fn ids(&self, kind: Kind) -> Vec<Uuid> {
        let prefix = MODEL.prefix(kind);
        self.scan(&prefix, "", usize::MAX).iter().filter_map(|stored| last_id(&stored.key)).collect()
    }

    /// Performs the automatic transitions whose order cannot be observed: machines without units are removed, the
    /// janitor cleans up, the first Alive unit of an application without a leader becomes the leader.
    pub fn run_automatic_transitions(&mut self) {
        loop {
            let before = self.0.len();
            for id in self.ids(Kind::Machine) {
                if read(self, &MODEL.machine_life(id)) == Some(Life::Dying)
                    && self.scan(&MODEL.machine_units(id), "", 1).is_empty()
                {
                    self.run(|draft| machine::set_dead(draft, MODEL, id)).expect("it is dying and empty");
                    self.run(|draft| machine::remove(draft, MODEL, id)).expect("it is dead");
                }
            }
            for id in self.ids(Kind::Cleanup) {
                self.run(|draft| Ok(cleanup::clean_batch(draft, MODEL, id))).expect("nothing is refused");
            }
            for id in self.ids(Kind::Application) {
                let units = self.scan(&MODEL.units_of(id), "", usize::MAX);
                let alive = units.iter().filter_map(|stored| last_id(&stored.key));
                let alive = alive.filter(|unit| read(self, &MODEL.unit_life(*unit)) == Some(Life::Alive));
                if let (None, Some(first)) = (read(self, &MODEL.leader(id)), alive.min()) {
                    self.run(|draft| leadership::claim(draft, MODEL, first, false)).expect("it is free");
                }
            }
            if self.0.len() == before {
                return;
            }
        }
    }
}
