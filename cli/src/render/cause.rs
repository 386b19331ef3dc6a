//! Rendering of causes: a sentence, and its hint below it.
//!
//! Used by `why`, by dry runs, and for the blockers of a rejected request. The sentences themselves are shared with
//! the controller (`api::text::cause`).

use crate::terminal_escape::safe_line;
use crate::times::Zone;
use api::text::cause::{self, Times};
use serde_json::{Value, json};
use state::terms::cause::Cause;

/// Largest number of blockers that are printed for a rejected request; of more, only their existence is reported.
const BLOCKERS_MAX: usize = state::documents::blockers::BLOCKERS_MAX;

/// Two lines, the hint indented below its sentence. Both are escaped, because they may contain text of charms.
pub fn lines(cause: &Cause, now_ms: i64, zone: &Zone) -> String {
    let time_of_day = |ms| zone.time_of_day(ms);
    let times = Times { now_ms, time_of_day: Some(&time_of_day) };
    let (sentence, hint) = (cause::sentence(cause, &times), cause::hint(cause, &times));
    format!("  {}\n    hint: {}\n", safe_line(&sentence), safe_line(&hint))
}

/// The blockers of a rejected request as lines of its message, and the hint if all blockers have the same one.
/// Otherwise each blocker has its own hint in the line below it.
pub fn refusal_lines(blockers: &[Cause], now_ms: i64) -> (Vec<String>, Option<String>) {
    let times = Times { now_ms, time_of_day: None };
    let hints: Vec<String> = blockers.iter().map(|cause| cause::hint(cause, &times)).collect();
    let common = hints.first().filter(|first| hints.iter().all(|hint| hint == *first));
    let mut lines = Vec::new();
    for (cause, hint) in blockers.iter().zip(&hints).take(BLOCKERS_MAX) {
        lines.push(cause::sentence(cause, &times));
        if common.is_none() {
            lines.push(format!("  hint: {hint}"));
        }
    }
    if blockers.len() > BLOCKERS_MAX {
        lines.push("and more".to_owned());
    }
    (lines, common.cloned())
}

/// The document of a cause, for JSON and YAML: its fields, its sentence and its hint.
pub fn structured(cause: &Cause, now_ms: i64) -> Value {
    let times = Times { now_ms, time_of_day: None };
    let mut value = serde_json::to_value(cause).expect("plain data");
    value["message"] = json!(cause::sentence(cause, &times));
    value["hint"] = json!(cause::hint(cause, &times));
    value
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn no_more_than_20_blockers_are_printed() {
        let many: Vec<Cause> = (0..21).map(removed_by_hand).collect();
        let (lines, _) = refusal_lines(&many, 0);
        assert_eq!((lines.len(), lines[40].as_str()), (41, "and more"));
    }
}
