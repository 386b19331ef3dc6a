//! The calls of a recorded and of a replayed run as they are compared, and the differences of two sequences.
//!
//! A call is compared by its arguments, what it read from stdin and from files, its exit code and its stdout, but not its
//! stderr; of a secret's content only the keys are compared. Ids, times and the working directory differ in every run. Lines
//! that are logged for debugging are not compared. Called by `replay`, for the calls and for the changes.

use super::page::cut;
use super::show::{format_bytes, format_command};
use crate::hook_session::{AnsweredCall, CallsLine, ConfidentialCall, StoredBytes};

/// The most cells of the table of a comparison: runs of a thousand calls each that differ from the first to the last one take
/// 1 Mi cells of 4 bytes. Of larger ones the whole different part is shown.
const CELLS_MAX: usize = 1 << 20;

/// Whether both have the same items, in different orders.
pub(super) fn is_other_order<T: Ord>(recorded: &[T], replayed: &[T]) -> bool {
    let sorted = |items: &[T]| -> Vec<usize> {
        let mut places: Vec<usize> = (0..items.len()).collect();
        places.sort_by(|a, b| items[*a].cmp(&items[*b]));
        places
    };
    let (a, b) = (sorted(recorded), sorted(replayed));
    let is_same = a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| recorded[*a] == replayed[*b]);
    is_same && recorded != replayed
}

/// One call as it is compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ComparedCall {
    /// The tool with its arguments and inputs.
    line: String,
    code: u8,
    stdout: String,
}

impl ComparedCall {
    /// The calls of a run. `in_recorded_paths` rewrites each text, because a replayed run has other paths.
    pub(super) fn all(lines: &[CallsLine], in_recorded_paths: impl Fn(&str) -> String) -> Vec<ComparedCall> {
        let call = |line: &CallsLine| match line {
            CallsLine::Call(call) if is_debug_line(call) => None,
            CallsLine::Call(call) => Some(ComparedCall::of(call, &in_recorded_paths)),
            CallsLine::Confidential(call) => Some(ComparedCall::confidential(call, &in_recorded_paths)),
            CallsLine::Bag(_) => None,
        };
        lines.iter().filter_map(call).collect()
    }

    fn of(call: &AnsweredCall, in_recorded_paths: &impl Fn(&str) -> String) -> ComparedCall {
        let text = |bytes: &StoredBytes| in_recorded_paths(&format_bytes(bytes));
        // the name of a temporary file differs, its content counts
        let arg = |arg: &StoredBytes| match call.files.contains_key(&format_bytes(arg)) {
            true => "FILE".to_owned(),
            false => text(arg),
        };
        let args: Vec<String> = call.args.iter().map(arg).collect();
        let file = |found: &Result<StoredBytes, String>| {
            found.as_ref().map_or_else(|error| in_recorded_paths(error), text)
        };
        let files = call.files.values().map(|found| ("file", file(found)));
        let inputs = call.stdin.iter().map(|stdin| ("stdin", text(stdin))).chain(files);
        let inputs: String = inputs.map(|(name, content)| format!("  {name}: {content}")).collect();
        ComparedCall {
            line: format_command(&call.tool, &args) + &inputs,
            code: call.code,
            stdout: text(&call.stdout),
        }
    }

    fn confidential(call: &ConfidentialCall, in_recorded_paths: &impl Fn(&str) -> String) -> ComparedCall {
        let printed = call.effect.as_ref().and_then(|effect| effect.printed.clone());
        let keys = || call.keys.keys().map(|key| format!("{key} ")).collect();
        let args: Vec<String> = call.args.iter().map(|arg| in_recorded_paths(arg)).collect();
        ComparedCall {
            line: format_command(&call.confidential_tool, &args),
            code: call.code,
            stdout: printed.unwrap_or_else(keys),
        }
    }

    /// The call in one line: what was called, and the answer.
    pub(super) fn text(&self) -> String {
        let exit = if self.code == 0 { String::new() } else { format!("  exit {}", self.code) };
        let answer =
            if self.stdout.is_empty() { String::new() } else { format!("  → {}", cut(&self.stdout).0) };
        format!("{}{exit}{answer}", cut(&self.line).0)
    }
}

/// Whether the call logs a line for the developer of the charm, below the levels that a model stores by default. The library
/// ops logs at these levels the paths at which it found its files, which differ in a replay.
fn is_debug_line(call: &AnsweredCall) -> bool {
    let is_debug = |level: &str| ["debug", "trace"].iter().any(|debug| level.eq_ignore_ascii_case(debug));
    let args: Vec<String> = call.args.iter().map(format_bytes).collect();
    let follows = |pair: &[String]| matches!(pair[0].as_str(), "-l" | "--log-level") && is_debug(&pair[1]);
    let is_one = |arg: &String| arg == "--debug" || arg.strip_prefix("--log-level=").is_some_and(is_debug);
    call.tool == "juju-log" && (args.windows(2).any(follows) || args.iter().any(is_one))
}

/// One item of two sequences that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference<'a, T> {
    /// Only the recorded run has it.
    Recorded(&'a T),
    /// Only the replayed run has it.
    Replayed(&'a T),
}

/// What two sequences do not have in common, in order.
pub(super) fn differences<'a, T: PartialEq>(recorded: &'a [T], replayed: &'a [T]) -> Vec<Difference<'a, T>> {
    let same = |(a, b): &(&T, &T)| a == b;
    let prefix = recorded.iter().zip(replayed).take_while(same).count();
    let (recorded, replayed) = (&recorded[prefix..], &replayed[prefix..]);
    let suffix = recorded.iter().rev().zip(replayed.iter().rev()).take_while(same).count();
    let (recorded, replayed) = (&recorded[..recorded.len() - suffix], &replayed[..replayed.len() - suffix]);
    let width = replayed.len() + 1;
    if (recorded.len() + 1).saturating_mul(width) > CELLS_MAX {
        let only_replayed = replayed.iter().map(Difference::Replayed);
        return recorded.iter().map(Difference::Recorded).chain(only_replayed).collect();
    }
    // the length of the longest common subsequence of what follows each pair of positions
    let mut common = vec![0_u32; (recorded.len() + 1) * width];
    for a in (0..recorded.len()).rev() {
        for b in (0..replayed.len()).rev() {
            common[a * width + b] = match recorded[a] == replayed[b] {
                true => common[(a + 1) * width + b + 1] + 1,
                false => common[(a + 1) * width + b].max(common[a * width + b + 1]),
            };
        }
    }
    let (mut a, mut b, mut found) = (0, 0, Vec::new());
    while a < recorded.len() || b < replayed.len() {
        if a < recorded.len() && b < replayed.len() && recorded[a] == replayed[b] {
            (a, b) = (a + 1, b + 1);
        } else if b == replayed.len()
            || (a < recorded.len() && common[(a + 1) * width + b] >= common[a * width + b + 1])
        {
            found.push(Difference::Recorded(&recorded[a]));
            a += 1;
        } else {
            found.push(Difference::Replayed(&replayed[b]));
            b += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use Difference::{Recorded, Replayed};

    #[test]
    fn what_both_have_in_the_same_order_is_no_difference() {
        assert_eq!(differences(b"abcd", b"abcd"), []);
        assert_eq!(differences(b"abcd", b"axcd"), [Recorded(&b'b'), Replayed(&b'x')]);
        assert_eq!(differences(b"abc", b"abxbc"), [Replayed(&b'x'), Replayed(&b'b')]);
        assert_eq!(differences(b"ab", b"ba"), [Recorded(&b'a'), Replayed(&b'a')]);
        assert_eq!(differences(b"", b"z"), [Replayed(&b'z')]);
    }

    #[test]
    fn the_same_items_in_another_order_are_found() {
        assert!(is_other_order(b"abca", b"caab"));
        for (a, b) in [("abc", "abc"), ("ab", "aba"), ("aab", "abb"), ("", "")] {
            assert!(!is_other_order(a.as_bytes(), b.as_bytes()), "{a} {b}");
        }
    }

    #[test]
    fn long_sequences_without_anything_in_common_are_listed_as_they_are() {
        let (a, b) = (vec![1; 2_000], vec![2; 2_000]);
        let found = differences(&a, &b);
        assert_eq!((found.len(), found[0], found[2_000]), (4_000, Recorded(&1), Replayed(&2)));
    }
}
