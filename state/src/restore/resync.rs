//! The store was restored from an older copy: the unit says again all it has published (design 4), in bites, since a
//! unit may be in more relations than one transaction holds. The last bite goes with the record itself
//! ([`commit`](crate::operations::hook_commit::commit)), and is the only one of most units: until it is applied the agent sends all of it again, and what was done
//! before changes nothing.

use crate::documents::draft::Draft;
use crate::documents::keys::{Model, last_id};
use crate::documents::refusal::Refusal;
use crate::lifecycle::{relation, unit};
use crate::operations::hook_commit;
use crate::operations::session;
use crate::terms::names::{RelationNumber, Uuid};
use crate::unit::local::{Local, RelationLocal};
use crate::unit::record::Record;
use crate::unit::writes::HOOK_WRITES_BYTES_MAX;
use std::collections::BTreeSet;
use std::ops::Bound;

/// Scopes looked at in one bite. Each that is left (2 writes) may remove a relation (9 writes) and both its applications
/// (10 writes each): 3 × 31 are 93 of a transaction's 100.
const LEFT_AT_ONCE: usize = 3;
/// Relations entered at once: 6 reads each (relation, life, suspension, the other application's life, scope, bag) and 3
/// writes; of those that bring a subordinate 5 reads (which there is, its application, the sequence, room) and 9 writes
/// more. The machine's room is 25 reads in all. The last of them go with the record, whose other reads are 40 of 20 lost
/// actions and some 17 of its own: 40 + 17 + 25 + 11 leave 7 of 100. Nearly every unit that restates is in scope
/// already, so that each relation costs it a bite of little.
const ENTERED_AT_ONCE: usize = 1;

/// How far a restatement is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResyncProgress {
    /// Scopes up to this key were looked at.
    Leave { after: String },
    /// Relations up to this number were entered; none = not one yet.
    Enter { after: Option<RelationNumber> },
}

impl Default for ResyncProgress {
    fn default() -> ResyncProgress {
        ResyncProgress::Leave { after: String::new() }
    }
}

/// Does one bite of `record`, which restates: the next one, and what was dropped. None = the rest is the record's.
pub fn bite(
    draft: &mut Draft,
    model: Model,
    (id, epoch): (Uuid, u64),
    record: &Record,
    bite: &ResyncProgress,
    ids: &mut dyn FnMut() -> Uuid,
) -> Result<(Option<ResyncProgress>, Vec<String>), Refusal> {
    session::check_epoch(draft, model, id, epoch)?;
    if !hook_commit::is_next(draft, model, id, record)? {
        return Ok((None, Vec::new()));
    }
    let Some(memory) = &record.memory else { return Ok((None, Vec::new())) };
    if memory.is_tearing_down() {
        // before it would enter anything (I21)
        unit::resume_teardown(draft, model, id);
    }
    Ok(match bite {
        ResyncProgress::Leave { after } => {
            if after.is_empty() {
                // whom it could not be let into by its last word
                session::pending_reentry(draft, model, id, BTreeSet::clear);
            }
            (Some(leave(draft, model, id, memory, after)), Vec::new())
        }
        ResyncProgress::Enter { after } => match portion(memory, *after) {
            (_, true) => (None, Vec::new()),
            (portion, false) => {
                let after = portion.last().map(|(number, _)| *number);
                (
                    Some(ResyncProgress::Enter { after }),
                    enter(draft, model, id, &portion, (record.at_ms, ids)),
                )
            }
        },
    })
}

/// What the unit had left when the store was lost it leaves again: nobody else would, and it could never be Dead.
fn leave(draft: &mut Draft, model: Model, unit: Uuid, memory: &Local, after: &str) -> ResyncProgress {
    let known = |id: &Uuid| memory.relations.values().any(|relation| relation.uuid == *id);
    let scopes = draft.page::<()>(&model.scopes_of(unit), after, LEFT_AT_ONCE);
    for left in scopes.iter().filter_map(|(key, ())| last_id(key)).filter(|id| !known(id)) {
        relation::leave_scope(draft, model, unit, left);
    }
    match scopes.last() {
        Some((last, ())) if scopes.len() == LEFT_AT_ONCE => ResyncProgress::Leave { after: last.clone() },
        Some(_) | None => ResyncProgress::Enter { after: None },
    }
}

/// The relations that are entered at once after `after`; true = the last ones.
fn portion(memory: &Local, after: Option<RelationNumber>) -> (Vec<(RelationNumber, &RelationLocal)>, bool) {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let (mut portion, mut bytes) = (Vec::new(), 0);
    for (number, mine) in memory.relations.range((from, Bound::Unbounded)) {
        bytes += mine.bag.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        if portion.len() == ENTERED_AT_ONCE || (!portion.is_empty() && bytes > HOOK_WRITES_BYTES_MAX) {
            return (portion, false);
        }
        portion.push((*number, mine));
    }
    (portion, true)
}

/// What it was part of and the store does not know is dropped; the unit sees it missing and departs from it.
fn enter(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    portion: &[(RelationNumber, &RelationLocal)],
    (now_ms, ids): (i64, &mut dyn FnMut() -> Uuid),
) -> Vec<String> {
    let mut dropped = Vec::new();
    for (number, mine) in portion {
        let entered =
            relation::reenter_scope(draft, model, unit, mine.uuid, &mine.bag, (now_ms, &mut || ids()));
        if let Err(refusal) = entered {
            dropped.push(format!("relation {number}: {}", refusal.message));
        }
    }
    dropped
}

/// The last relations: all of them, of most units. They go with the record.
pub(crate) fn enter_last(
    draft: &mut Draft,
    model: Model,
    unit: Uuid,
    memory: &Local,
    given: (i64, &mut dyn FnMut() -> Uuid),
) -> Vec<String> {
    let mut after = None;
    loop {
        match portion(memory, after) {
            (last, true) => return enter(draft, model, unit, &last, given),
            (earlier, false) => after = earlier.last().map(|(number, _)| *number),
        }
    }
}
