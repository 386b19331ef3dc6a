//! Design 9, I46, I48: the fold of what an agent was shown is the whole view, and it never goes back within a history.

use super::{Check, End, Fact};
use state::model::view;
use state::names::Uuid;
use state::unit::local::Event;
use state::unit::snapshot::{Position, Snapshot};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Views(BTreeMap<Uuid, Position>);

impl Check for Views {
    fn name(&self) -> &'static str {
        "views"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        match fact {
            // another agent begins with what was kept, which may be older
            Fact::Loaded { folder: unit, .. } | Fact::Begins { folder: unit, .. } => {
                self.0.remove(unit);
            }
            Fact::Recorded { folder: unit, events, .. } => {
                let began = events.iter().filter_map(|event| match event {
                    Event::Began(run) => run.position,
                    _ => None,
                });
                for position in began {
                    let before = self.0.insert(*unit, position).unwrap_or_default();
                    if before.history == position.history && before.revision > position.revision {
                        found.push(format!(
                            "{unit} acts on revision {} after {}",
                            position.revision, before.revision
                        ));
                    }
                }
            }
            _ => {}
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
