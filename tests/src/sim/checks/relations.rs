//! I2, I3: what one unit is told of one relation and of each unit in it.

use super::{Check, Fact, hooks_done};
use state::names::{RelationNumber, UnitName, Uuid};
use state::unit::operation::{Hook, RelationEvent, Version};
use std::collections::BTreeMap;

#[derive(Default)]
struct Relation {
    created: bool,
    broken: bool,
    /// Joined units, and what changed delivered last.
    members: BTreeMap<UnitName, Option<Version>>,
    /// Its changed comes next.
    owed: Option<UnitName>,
}

#[derive(Default)]
pub struct Relations(BTreeMap<(Uuid, RelationNumber), Relation>);

impl Relation {
    fn take(&mut self, event: &RelationEvent) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut hold = |holds: bool, what: &str| {
            if !holds {
                wrong.push(what.to_owned());
            }
        };
        hold(!self.broken, "nothing follows broken");
        if let Some(owed) = &self.owed {
            let paid = matches!(event, RelationEvent::Changed { unit, .. } if unit == owed);
            hold(paid, "changed follows its joined directly");
        }
        hold(self.created != matches!(event, RelationEvent::Created), "created comes first, and once");
        match event {
            RelationEvent::Created => self.created = true,
            RelationEvent::Joined { unit, .. } => {
                let known = self.members.insert(unit.clone(), None).is_some();
                hold(!known, "a unit joins once");
                self.owed = Some(unit.clone());
            }
            RelationEvent::Changed { unit, version } => {
                let seen = self.members.insert(unit.clone(), Some(*version));
                hold(seen.is_some(), "only joined units change");
                let newer = seen.flatten().is_none_or(|seen| seen < *version);
                hold(newer, "each changed shows a newer version (I6)");
                self.owed = None;
            }
            RelationEvent::Departed { unit, .. } => {
                let seen = self.members.remove(unit);
                hold(seen.is_some_and(|seen| seen.is_some()), "only units that joined and changed depart");
            }
            RelationEvent::Broken => {
                hold(self.members.is_empty(), "all have departed before broken");
                self.broken = true;
            }
            RelationEvent::ApplicationChanged { .. } => {}
        }
        wrong
    }
}

impl Check for Relations {
    fn name(&self) -> &'static str {
        "relations"
    }

    fn see(&mut self, fact: &Fact, found: &mut Vec<String>) {
        let Fact::Recorded { unit, events } = fact else { return };
        for hook in hooks_done(events) {
            let Hook::Relation { relation, event, .. } = hook else { continue };
            let wrong = self.0.entry((*unit, *relation)).or_default().take(event);
            found.extend(wrong.into_iter().map(|wrong| {
                let about = event.remote_unit().map_or(String::new(), |remote| format!(" for {remote}"));
                format!("{unit}: {}{about} in relation {relation}: {wrong}", hook.name())
            }));
        }
    }
}
