//! I6 by content: at rest the last joined or changed of each member, by which its last version counts as delivered, has
//! read what that member says.

use crate::sim::checks::{Check, End, Fact};
use crate::sim::script::{COUNTER, SETTINGS};
use state::documents::draft::{Reader, read};
use state::documents::keys::Model;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::unit::local::Local;
use state::unit::operation::{Hook, Operation, RelationEvent};
use state::unit::record::{Outcome, Record};
use std::collections::BTreeMap;

/// Whose settings in which relation.
type Whose = (RelationNumber, UnitName);

#[derive(Default)]
pub struct Delivered {
    /// By folder, what its newest run has read: the counters, where there were any.
    reads: BTreeMap<Uuid, (u64, BTreeMap<Whose, Option<String>>)>,
    /// What the last hook about it has read.
    seen: BTreeMap<(Uuid, Whose), Option<String>>,
    was_restored: bool,
}

/// Of `settings of db/0 in echo:3`.
fn whose(what: &str) -> Option<Whose> {
    let (unit, relation) = what.strip_prefix(SETTINGS)?.strip_prefix(" of ")?.split_once(" in ")?;
    Some((relation.rsplit(':').next()?.parse().ok()?, unit.parse().ok()?))
}

fn counter(text: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(": "));
    let (_, value) = lines.find(|(key, _)| key.trim_matches('"') == COUNTER)?;
    Some(value.trim_matches('"').to_owned())
}

impl Check for Delivered {
    fn name(&self) -> &'static str {
        "delivered"
    }

    fn see(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        match fact {
            // a folder that was lost counts its runs anew
            Fact::HookStarted { folder, run, .. } => {
                drop(self.reads.insert(*folder, (*run, BTreeMap::new())))
            }
            Fact::HookRead { folder, run, what, text } => {
                let known = self.reads.get_mut(folder).filter(|(newest, _)| newest == run);
                if let Some(((_, reads), whose)) = known.zip(whose(what)) {
                    reads.insert(whose, counter(text));
                }
            }
            _ => {}
        }
    }

    fn done(&mut self, folder: Uuid, record: &Record, _found: &mut Vec<String>) {
        let Operation::Hook(Hook::Relation { relation, event, .. }) = &record.operation else { return };
        match event {
            RelationEvent::Joined { unit, .. } | RelationEvent::Changed { unit, .. } => {
                let whose = (*relation, unit.clone());
                let ran = self.reads.get(&folder).filter(|(run, _)| *run == record.run);
                let read =
                    ran.filter(|_| record.outcome == Outcome::Ok).and_then(|(_, reads)| reads.get(&whose));
                match read.cloned() {
                    Some(read) => drop(self.seen.insert((folder, whose), read)),
                    None => drop(self.seen.remove(&(folder, whose))),
                }
            }
            RelationEvent::Departed { unit, .. } => {
                drop(self.seen.remove(&(folder, (*relation, unit.clone()))))
            }
            RelationEvent::Broken => {
                self.seen.retain(|(of, (number, _)), _| *of != folder || number != relation)
            }
            RelationEvent::Created | RelationEvent::ApplicationChanged { .. } => {}
        }
    }

    fn begin(&mut self, folder: Uuid, _memory: &Local) {
        self.seen.retain(|(of, _), _| *of != folder);
    }

    fn copy(&mut self, folder: Uuid, copy: Uuid) {
        let of = self.seen.iter().filter(|((of, _), _)| *of == folder);
        let of: Vec<_> = of.map(|((_, whose), read)| ((copy, whose.clone()), read.clone())).collect();
        self.seen.extend(of);
    }

    /// What it counts it counts again: a version may be that of another content.
    fn restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }

    fn settle(&mut self, end: &End<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.rests && !self.was_restored) {
            for (number, known) in &agent.local.relations {
                for unit in known.members.keys() {
                    let Some(read_then) = self.seen.get(&(agent.folder, (*number, unit.clone()))) else {
                        continue;
                    };
                    let Some(owner) = read(end.reader, &end.model.unit_name(unit)) else { continue };
                    let Some(bag) = read(end.reader, &end.model.bag(known.uuid, owner)) else { continue };
                    let now = bag.values.get(COUNTER);
                    if read_then.as_ref() != now {
                        let name = &agent.name;
                        found.push(format!(
                            "{name} has read {read_then:?} of {unit} in relation {number} last, and it says {now:?}"
                        ));
                    }
                }
            }
        }
    }
}
