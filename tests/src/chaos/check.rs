//! What must be there after a run, compared with what the units have written and what the controllers show.

use std::collections::BTreeMap;

/// What two units have received from each other.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// The names of the applications, for messages.
    pub name: String,
    /// What the unit that has passed the first ball has received, in the order of its hooks.
    pub first: Vec<u64>,
    /// What the other one has received.
    pub second: Vec<u64>,
    /// The ball that the controller shows in the settings of each of them; none if it has not passed one.
    pub shown: [Option<u64>; 2],
}

/// Returns what is wrong with a pair.
///
/// The first unit receives 2, 4, ... and the second one 1, 3, ...: a ball is passed only when it has arrived. A pass that is
/// lost or not shown ends the game early or leaves a gap; a hook whose effects are there and that runs again receives a
/// number twice.
pub fn of_pair(pair: &Pair) -> Vec<String> {
    let mut violations = Vec::new();
    let last = pair.first.iter().chain(&pair.second).copied().max().unwrap_or_default();
    for (received, from) in [(&pair.first, 2), (&pair.second, 1)] {
        let expected: Vec<u64> = (from..=last).step_by(2).collect();
        if let Some(index) =
            (0..received.len().max(expected.len())).find(|index| received.get(*index) != expected.get(*index))
        {
            violations.push(format!(
                "{}: number {} of what a unit has received is {:?} instead of {:?}",
                pair.name,
                index + 1,
                received.get(index),
                expected.get(index)
            ));
        }
    }
    let shown = pair.shown.iter().flatten().copied().max().unwrap_or_default();
    if last == 0 || shown != last {
        violations.push(format!("{}: the ball {last} was received and {shown} is shown", pair.name));
    }
    violations
}

/// What the controller has answered to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// It is not known whether it was done.
    Unknown,
}

/// Returns what is wrong with the notes: one that was answered must be there once, another one at most once.
pub fn of_notes(answers: &BTreeMap<u64, Answer>, notes: &[u64]) -> Vec<String> {
    let mut written: BTreeMap<u64, usize> = BTreeMap::new();
    notes.iter().for_each(|id| *written.entry(*id).or_default() += 1);
    let mut violations = Vec::new();
    for (id, answer) in answers {
        let times = written.remove(id).unwrap_or_default();
        let is_right = match answer {
            Answer::Done => times == 1,
            Answer::Unknown => times <= 1,
        };
        if !is_right {
            violations.push(format!("note {id} was answered with {answer:?} and is there {times} times"));
        }
    }
    violations.extend(written.keys().map(|id| format!("note {id} was never sent")));
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(first: &[u64], second: &[u64], shown: [Option<u64>; 2]) -> Pair {
        Pair { name: "a".to_owned(), first: first.to_vec(), second: second.to_vec(), shown }
    }

    #[test]
    fn each_ball_is_received_once() {
        let right = pair(&[2, 4], &[1, 3], [Some(3), Some(4)]);
        assert_eq!(of_pair(&right), [""; 0]);
        assert_eq!(of_pair(&pair(&[2], &[1, 3], [Some(3), Some(2)])), [""; 0], "the other one received last");
        for wrong in [
            pair(&[2, 2, 4], &[1, 3], right.shown),
            pair(&[2, 4], &[1, 1, 3], right.shown),
            pair(&[2, 6], &[1, 3, 5], [Some(5), Some(6)]),
            pair(&[2, 4], &[3], right.shown),
            pair(&[4, 2], &[1, 3], right.shown),
            pair(&[2, 4], &[1, 3], [Some(3), Some(2)]),
            pair(&[2, 4], &[1, 3], [Some(5), Some(4)]),
            pair(&[], &[], [None, None]),
        ] {
            assert!(!of_pair(&wrong).is_empty(), "{wrong:?}");
        }
    }

    #[test]
    fn a_note_that_was_answered_is_there_once_and_another_one_at_most_once() {
        let answers = BTreeMap::from([(1, Answer::Done), (2, Answer::Unknown)]);
        assert_eq!(of_notes(&answers, &[1]), [""; 0]);
        assert_eq!(of_notes(&answers, &[2, 1]), [""; 0]);
        for wrong in [&[][..], &[2], &[1, 1], &[1, 2, 2], &[1, 3]] {
            assert_eq!(of_notes(&answers, wrong).len(), 1, "{wrong:?}");
        }
    }
}
