//! The sum of the deltas that an agent received equals the full view (I46, I48, design 9).
//!
//! Within one store generation the view never goes back.

use super::check::{Check, FinalState};
use crate::sim::fact::Fact;
use state::terms::names::Uuid;
use state::terms::operation::{Hook, Operation};
use state::terms::position::Position;
use state::unit::local::{Event, Run};
use state::unit::snapshot::Snapshot;
use state::views::view;
use std::collections::BTreeMap;

/// The positions of the views on which the agents of each folder acted.
#[derive(Default)]
pub struct ViewFold {
    /// The newest position on which any agent of the folder acted.
    newest: BTreeMap<Uuid, Position>,
    /// The newest position of the running agent. The view on disk is a cache: an agent that starts may have an
    /// older one and may start local hooks with it, but no relation hook (design 9).
    running: BTreeMap<Uuid, Position>,
}

impl ViewFold {
    fn run_started(&mut self, folder: Uuid, run: &Run) -> Option<String> {
        let position = run.position?;
        let of_relation = matches!(run.operation, Operation::Hook(Hook::Relation { .. }));
        let goes_back = |before: &Position| {
            before.store_generation == position.store_generation && before.revision > position.revision
        };
        let newest = self.newest.get(&folder).filter(|before| of_relation && goes_back(before));
        let before = newest.or_else(|| self.running.get(&folder).filter(|before| goes_back(before)));
        let found = before.map(|before| {
            let (revision, before) = (position.revision, before.revision);
            format!("{folder}: acts on revision {revision} after revision {before}: {}", run.operation)
        });
        self.running.insert(folder, position);
        if !self.newest.get(&folder).is_some_and(goes_back) {
            self.newest.insert(folder, position);
        }
        found
    }
}

impl Check for ViewFold {
    fn name(&self) -> &'static str {
        "view-fold"
    }

    fn observe(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::Loaded { folder: unit, .. } => drop(self.running.remove(unit)),
            Fact::JournalStarted { folder: unit, .. } => {
                self.newest.remove(unit);
                self.running.remove(unit);
            }
            Fact::EventsPersisted { folder: unit, events, .. } => {
                let began = events.iter().filter_map(|event| match event {
                    Event::Started(run) => Some(run),
                    _ => None,
                });
                found.extend(began.filter_map(|run| self.run_started(*unit, run)));
            }
            _ => {}
        }
    }

    fn folder_copied(&mut self, folder: Uuid, copy: Uuid) {
        if let Some(newest) = self.newest.get(&folder).copied() {
            self.newest.insert(copy, newest);
        }
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.is_at_rest) {
            let Some(shown) = &agent.view else { continue };
            let Some(whole) = view::full_view(end.reader, end.model, agent.unit) else { continue };
            let mut whole = Snapshot::from_full(whole.delta).expect("a full view is complete");
            whole.position = shown.position;
            remove_omitted(shown, &mut whole);
            if whole != **shown {
                found.push(format!("{}: the view differs: {}", agent.name, difference(shown, &whole)));
            }
        }
    }
}

/// Removes the allowed differences: the simulator chooses which bags are inlined, and the agent which bags are
/// fetched.
fn remove_omitted(shown: &Snapshot, whole: &mut Snapshot) {
    whole.fetched_bag = shown.fetched_bag.clone();
    for (number, view) in &mut whole.relations {
        let bags = shown.relations.get(number).map_or(&[][..], |view| &view.bags);
        for (owner, bag) in &mut view.bags {
            let is_omitted = bags.iter().any(|(other, bag)| other == owner && bag.values.is_none());
            bag.values.take_if(|_| is_omitted);
        }
    }
}

/// The first line that differs, as it is and as it should be.
fn difference(shown: &Snapshot, whole: &Snapshot) -> String {
    let (shown, whole) = (format!("{shown:#?}"), format!("{whole:#?}"));
    let line = shown.lines().zip(whole.lines()).find(|(a, b)| a != b);
    line.map_or("one view is longer than the other".to_owned(), |(a, b)| {
        format!("{:?} instead of {:?}", a.trim(), b.trim())
    })
}
