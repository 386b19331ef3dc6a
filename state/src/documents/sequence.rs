//! Sequences: numbers that are never used twice.

use crate::documents::draft::Draft;
use crate::documents::prelude::Model;

/// Returns the next number of a sequence, from 0, and advances the sequence.
pub fn take(draft: &mut Draft, model: Model, name: &str) -> u64 {
    let key = model.sequence(name);
    let number = draft.get(&key).unwrap_or(0);
    draft.put(&key, &(number + 1));
    number
}

/// Ensures that the next number is at least `number`. After a restore, agents report numbers that the restored
/// store no longer contains; those must not be used again.
pub fn advance_to(draft: &mut Draft, model: Model, name: &str, number: u64) {
    let key = model.sequence(name);
    if draft.get(&key).unwrap_or(0) < number {
        draft.put(&key, &number);
    }
}
