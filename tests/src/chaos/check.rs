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
    /// What each of them has kept because the game was over.
    pub kept: [Vec<u64>; 2],
}

/// Returns what is wrong with a pair.
///
/// The first unit receives 2, 4, ... and the second one 1, 3, ...: a ball is passed only when it has arrived. A pass that is
/// lost or not shown leaves a gap, or ends the game before the receiver of the last ball has kept it; a hook whose effects are
/// there and that runs again receives a number twice.
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
    let keeper = usize::from(last % 2 == 1); // the first unit receives the even numbers
    let mut expected = [Vec::new(), Vec::new()];
    expected[keeper].push(last);
    if pair.kept != expected {
        violations.push(format!("{}: {:?} was kept instead of {expected:?}", pair.name, pair.kept));
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

    fn pair(first: &[u64], second: &[u64], shown: [Option<u64>; 2], kept: [&[u64]; 2]) -> Pair {
        let (first, second, kept) = (first.to_vec(), second.to_vec(), kept.map(<[u64]>::to_vec));
        Pair { name: "a".to_owned(), first, second, shown, kept }
    }

    #[test]
    fn each_ball_is_received_once() {
        let (shown, kept): (_, [&[u64]; 2]) = ([Some(3), Some(4)], [&[4], &[]]);
        assert_eq!(of_pair(&pair(&[2, 4], &[1, 3], shown, kept)), [""; 0]);
        let odd = pair(&[2], &[1, 3], [Some(3), Some(2)], [&[], &[3]]);
        assert_eq!(of_pair(&odd), [""; 0], "the other one received last");
        for wrong in [
            pair(&[2, 2, 4], &[1, 3], shown, kept),
            pair(&[2, 4], &[1, 1, 3], shown, kept),
            pair(&[2, 6], &[1, 3, 5], [Some(5), Some(6)], [&[6], &[]]),
            pair(&[2, 4], &[3], shown, kept),
            pair(&[4, 2], &[1, 3], shown, kept),
            pair(&[2, 4], &[1, 3], [Some(3), Some(2)], kept),
            pair(&[2, 4], &[1, 3], [Some(5), Some(4)], kept),
            pair(&[], &[], [None, None], [&[0], &[]]),
        ] {
            assert!(!of_pair(&wrong).is_empty(), "{wrong:?}");
        }
    }

    /// The receiver of the last ball has passed it, and the pass is lost: nothing else is wrong.
    #[test]
    fn the_game_ends_only_when_the_receiver_of_the_last_ball_keeps_it() {
        let shown = [Some(3), Some(4)];
        for kept in [[&[][..], &[]], [&[], &[4]], [&[4, 4], &[]], [&[4], &[3]]] {
            assert_eq!(of_pair(&pair(&[2, 4], &[1, 3], shown, kept)).len(), 1, "{kept:?}");
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
