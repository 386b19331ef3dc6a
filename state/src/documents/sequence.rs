//! Numbers that are never used twice.

use crate::documents::draft::Draft;
use crate::documents::keys::Model;

/// The next number of a sequence, from 0.
pub fn take(draft: &mut Draft, model: Model, name: &str) -> u64 {
    let key = model.sequence(name);
    let number = draft.get(&key).unwrap_or(0);
    draft.put(&key, &(number + 1));
    number
}

/// The next number is `number` or more: a restored store counts on from what it has forgotten.
pub fn advance_to(draft: &mut Draft, model: Model, name: &str, number: u64) {
    let key = model.sequence(name);
    if draft.get(&key).unwrap_or(0) < number {
        draft.put(&key, &number);
    }
}
