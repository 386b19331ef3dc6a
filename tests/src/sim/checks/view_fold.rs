//! Design 9, I46, I48: the fold of what an agent was shown is the whole view, and it never goes back within a history.

use crate::sim::checks::{Check, End, Fact};
use state::terms::names::Uuid;
use state::terms::position::Position;
use state::unit::local::{Event, Run};
use state::unit::operation::{Hook, Operation};
use state::unit::snapshot::Snapshot;
use state::views::view;
use std::collections::BTreeMap;

/// By folder, where its agents were.
#[derive(Default)]
pub struct ViewFold {
    /// The newest that any of them acted on.
    newest: BTreeMap<Uuid, Position>,
    /// The newest of the one that runs. The view on disk is a cache: an agent that starts may have an older one. It
    /// may begin with it what is local; no hook of a relation (design 9).
    running: BTreeMap<Uuid, Position>,
}

impl ViewFold {
    fn acts(&mut self, folder: Uuid, run: &Run) -> Option<String> {
        let position = run.position?;
        let of_relation = matches!(run.operation, Operation::Hook(Hook::Relation { .. }));
        let goes_back = |before: &Position| {
            before.store_generation == position.store_generation && before.revision > position.revision
        };
        let newest = self.newest.get(&folder).filter(|before| of_relation && goes_back(before));
        let before = newest.or_else(|| self.running.get(&folder).filter(|before| goes_back(before)));
        let found = before.map(|before| {
            let (revision, before) = (position.revision, before.revision);
            format!("{folder} acts on revision {revision} after {before}: {}", run.operation)
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
        "views"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            Fact::Loaded { folder: unit, .. } => drop(self.running.remove(unit)),
            Fact::JournalStarted { folder: unit, .. } => {
                self.newest.remove(unit);
                self.running.remove(unit);
            }
            Fact::Recorded { folder: unit, events, .. } => {
                let began = events.iter().filter_map(|event| match event {
                    Event::Started(run) => Some(run),
                    _ => None,
                });
                found.extend(began.filter_map(|run| self.acts(*unit, run)));
            }
            _ => {}
        }
    }

    fn copy(&mut self, folder: Uuid, copy: Uuid) {
        if let Some(newest) = self.newest.get(&folder).copied() {
            self.newest.insert(copy, newest);
        }
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.rests) {
            let Some(shown) = &agent.view else { continue };
            let Some(whole) = view::full(end.reader, end.model, agent.unit) else { continue };
            let mut whole = Snapshot::from_full(whole.delta).expect("a full view is complete");
            whole.position = shown.position;
            forget_withheld(shown, &mut whole);
            if whole != **shown {
                found.push(format!("{} sees {}", agent.name, difference(shown, &whole)));
            }
        }
    }
}

/// Which bags come along is the world's choice, and what was fetched is the agent's.
fn forget_withheld(shown: &Snapshot, whole: &mut Snapshot) {
    whole.fetched = shown.fetched.clone();
    for (number, view) in &mut whole.relations {
        let bags = shown.relations.get(number).map_or(&[][..], |view| &view.bags);
        for (owner, bag) in &mut view.bags {
            let withheld = bags.iter().any(|(other, bag)| other == owner && bag.values.is_none());
            bag.values.take_if(|_| withheld);
        }
    }
}

/// The first part that differs, as it is shown and as it should be.
fn difference(shown: &Snapshot, whole: &Snapshot) -> String {
    let (shown, whole) = (format!("{shown:#?}"), format!("{whole:#?}"));
    let line = shown.lines().zip(whole.lines()).find(|(a, b)| a != b);
    line.map_or("less or more than there is".to_owned(), |(a, b)| {
        format!("{:?}, there is {:?}", a.trim(), b.trim())
    })
}
