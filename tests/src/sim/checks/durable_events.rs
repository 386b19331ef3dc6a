//! The next agent of a folder loads exactly the events that were acknowledged as durable to the agent before it (I10,
//! first half).

use super::check::Check;
use crate::sim::fact::Fact;
use state::terms::names::Uuid;
use state::unit::local::{Event, Local};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Default)]
pub struct DurableEvents(BTreeMap<Uuid, KnownLocal>);

/// The state that an agent loaded, and the events that were acknowledged since.
type KnownLocal = (Local, Vec<Arc<[Event]>>);

impl Check for DurableEvents {
    fn name(&self) -> &'static str {
        "durable-events"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::EventsPersisted { folder, events, .. } => {
                if let Some((_, since)) = self.0.get_mut(folder) {
                    since.push(events.clone());
                }
            }
            Fact::Loaded { folder, local } => {
                if let Some((mut known, since)) = self.0.remove(folder) {
                    since.iter().flat_map(|events| events.iter()).for_each(|event| known.apply(event));
                    if known != **local {
                        let (known, loaded) = ((known.run, known.sequence), (local.run, local.sequence));
                        found.push(format!(
                            "{folder}: run and record {known:?} were acknowledged, but {loaded:?} was loaded"
                        ));
                    }
                }
                self.0.insert(*folder, (Local::clone(local), Vec::new()));
            }
            Fact::JournalStarted { folder, local } => {
                self.0.insert(*folder, (Local::clone(local), Vec::new()));
            }
            Fact::Copied { folder, copy } => {
                if let Some(known) = self.0.get(folder).cloned() {
                    self.0.insert(*copy, known);
                }
            }
            _ => {}
        }
    }
}
