//! The whole text of an error: its message, what has to happen first, and what helps.
//!
//! The command prints it, and the agent gives it to the tool whose request was refused.

use crate::error::ApiError;
use crate::text::cause::{self, Times};
use state::documents::blockers::BLOCKERS_MAX;
use state::terms::cause::Cause;

/// The most blockers that the text of an error names: `why` lists all of them.
const SHOWN_MAX: usize = 3;

/// The message, a line for each blocker, and the hint.
pub fn full_text(error: &ApiError, now_ms: i64) -> String {
    let (blockers, common) = refusal_lines(&error.blockers, now_ms);
    let hint = error.hint.clone().or(common).map(|hint| format!("hint: {hint}"));
    std::iter::once(error.message.clone()).chain(blockers).chain(hint).collect::<Vec<_>>().join("\n")
}

/// The blockers of a rejected request as lines of its message, and the hint if all blockers have the same one.
/// Otherwise each blocker has its own hint in the line below it.
pub fn refusal_lines(blockers: &[Cause], now_ms: i64) -> (Vec<String>, Option<String>) {
    let times = Times { now_ms, time_of_day: None };
    let hints: Vec<String> = blockers.iter().map(|cause| cause::hint(cause, &times)).collect();
    let common = hints.first().filter(|first| hints.iter().all(|hint| hint == *first));
    let mut lines = Vec::new();
    for (cause, hint) in blockers.iter().zip(&hints).take(SHOWN_MAX) {
        lines.push(cause::sentence(cause, &times));
        if common.is_none() {
            lines.push(format!("  hint: {hint}"));
        }
    }
    match blockers.len().saturating_sub(SHOWN_MAX) {
        0 => {}
        _ if blockers.len() > BLOCKERS_MAX => lines.push("and more".to_owned()),
        more => lines.push(format!("and {more} more")),
    }
    (lines, common.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;
    use state::terms::cause::{Actor, Duty, Entity};
    use state::terms::names::UnitName;

    fn removed_by_hand(unit: u32) -> Cause {
        Cause::new(Entity::Unit(UnitName::new("web", unit)), Duty::Remove, Actor::Operator)
    }

    #[test]
    fn a_hint_that_all_blockers_share_is_the_hint_of_the_error() {
        let (lines, hint) = refusal_lines(&[removed_by_hand(0)], 0);
        assert_eq!((lines.len(), hint.as_deref()), (1, Some("pintle remove-unit web/0")));
        let (lines, hint) = refusal_lines(&[removed_by_hand(0), removed_by_hand(1)], 0);
        assert!(lines[3].starts_with("  hint: ") && lines[3].ends_with(" remove-unit web/1"), "{lines:?}");
        assert_eq!(hint, None);
    }

    #[test]
    fn the_text_of_an_error_has_its_blockers_and_its_hint() {
        let refused = ApiError {
            blockers: vec![removed_by_hand(0)],
            ..ApiError::new(ErrorCode::Blocked, "refused").hint("wait")
        };
        let text = full_text(&refused, 0);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            matches!(lines[..], ["refused", blocker, "hint: wait"] if blocker.contains("web/0")),
            "{text}"
        );
        let without = full_text(&ApiError { hint: None, ..refused }, 0);
        let common = refusal_lines(&[removed_by_hand(0)], 0).1.expect("they share it");
        assert!(without.ends_with(&common), "{without}");
    }

    #[test]
    fn three_blockers_are_printed_and_the_number_of_the_others_if_it_is_known() {
        let last_of = |count: u32| {
            let many: Vec<Cause> = (0..count).map(removed_by_hand).collect();
            let (lines, _) = refusal_lines(&many, 0);
            assert_eq!(lines.len(), 7, "{lines:?}");
            lines[6].clone()
        };
        assert!(last_of(20).contains("17"));
        assert_eq!(last_of(21), "and more", "no more than 21 are searched for");
    }
}
