//! At rest the last joined or changed hook about each member has read the current settings of that member (I6, by
//! content).

use super::check::{Check, FinalState};
use crate::sim::fact::Fact;
use crate::sim::script::{COUNTER, SETTINGS};
use state::documents::draft::{Reader, read};
use state::documents::prelude::Model;
use state::terms::names::{RelationNumber, UnitName, Uuid};
use state::terms::operation::{Hook, Operation, RelationEvent};
use state::unit::local::Local;
use state::unit::record::{Outcome, Record};
use std::collections::BTreeMap;

/// Identifies a bag: relation and member.
type BagOfMember = (RelationNumber, UnitName);

#[derive(Default)]
pub struct DeliveredSettings {
    /// The newest run of each folder and the counters that it has read.
    reads: BTreeMap<Uuid, (u64, BTreeMap<BagOfMember, Option<String>>)>,
    /// The counter that the last hook about the member has read.
    seen: BTreeMap<(Uuid, BagOfMember), Option<String>>,
    was_restored: bool,
}

/// Parses `settings of db/0 in echo:3`.
fn bag_of_read(what: &str) -> Option<BagOfMember> {
    let (unit, relation) = what.strip_prefix(SETTINGS)?.strip_prefix(" of ")?.split_once(" in ")?;
    Some((relation.rsplit(':').next()?.parse().ok()?, unit.parse().ok()?))
}

fn counter(text: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(": "));
    let (_, value) = lines.find(|(key, _)| key.trim_matches('"') == COUNTER)?;
    Some(value.trim_matches('"').to_owned())
}

impl Check for DeliveredSettings {
    fn name(&self) -> &'static str {
        "delivered-settings"
    }

    fn observe(&mut self, fact: &Fact, _found: &mut Vec<String>) {
        match fact {
            // a folder that was lost numbers its runs from 1 again
            Fact::HookStarted { folder, run, .. } => {
                drop(self.reads.insert(*folder, (*run, BTreeMap::new())))
            }
            Fact::HookRead { folder, run, what, text } => {
                let known = self.reads.get_mut(folder).filter(|(newest, _)| newest == run);
                if let Some(((_, reads), member)) = known.zip(bag_of_read(what)) {
                    reads.insert(member, counter(text));
                }
            }
            _ => {}
        }
    }

    fn record_done(&mut self, folder: Uuid, record: &Record, _found: &mut Vec<String>) {
        let Operation::Hook(Hook::Relation { relation, event, .. }) = &record.operation else { return };
        match event {
            RelationEvent::Joined { unit, .. } | RelationEvent::Changed { unit, .. } => {
                let member = (*relation, unit.clone());
                let ran = self.reads.get(&folder).filter(|(run, _)| *run == record.run);
                let read =
                    ran.filter(|_| record.outcome == Outcome::Ok).and_then(|(_, reads)| reads.get(&member));
                match read.cloned() {
                    Some(read) => drop(self.seen.insert((folder, member), read)),
                    None => drop(self.seen.remove(&(folder, member))),
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

    fn journal_started(&mut self, folder: Uuid, _stored: &Local) {
        self.seen.retain(|(of, _), _| *of != folder);
    }

    fn folder_copied(&mut self, folder: Uuid, copy: Uuid) {
        let copied = self.seen.iter().filter(|((of, _), _)| *of == folder);
        let copied: Vec<_> =
            copied.map(|((_, member), read)| ((copy, member.clone()), read.clone())).collect();
        self.seen.extend(copied);
    }

    /// A restored store reuses counters, so one version may have two contents: nothing is checked afterwards.
    fn store_restored(&mut self, _reader: &dyn Reader, _model: Model) {
        self.was_restored = true;
    }

    fn check_final_state(&mut self, end: &FinalState<'_>, found: &mut Vec<String>) {
        for agent in end.agents.iter().filter(|_| end.is_at_rest && !self.was_restored) {
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
                            "{name}: the last hook about {unit} in relation {number} \
                             read {read_then:?}, current is {now:?}"
                        ));
                    }
                }
            }
        }
    }
}
