//! Rendering of causes: a sentence, and its hint below it.
//!
//! Used by `why` and by dry runs. The sentences themselves are shared with the controller (`api::text::cause`).

use crate::command_flags::CommandFlags;
use crate::output::Output;
use crate::terminal_escape::safe_line;
use crate::times::Zone;
use api::text::cause::{self, Times};
use serde_json::{Value, json};
use state::terms::cause::Cause;

/// Two lines, the hint indented below its sentence. Both are escaped, because they may contain text of charms. The commands of
/// the hint get the flags of this command line.
pub fn lines(cause: &Cause, now_ms: i64, zone: &Zone, flags: &CommandFlags) -> String {
    let time_of_day = |ms| zone.time_of_day(ms);
    let times = Times { now_ms, time_of_day: Some(&time_of_day) };
    let (sentence, hint) = (cause::sentence(cause, &times), flags.complete(&cause::hint(cause, &times)));
    format!("  {}\n    hint: {}\n", safe_line(&sentence), safe_line(&hint))
}

/// The document of a cause, for JSON and YAML: its fields, its sentence and its hint.
pub fn structured(cause: &Cause, now_ms: i64, output: &Output) -> Value {
    let times = Times { now_ms, time_of_day: None };
    let mut value = serde_json::to_value(cause).expect("plain data");
    value["message"] = json!(cause::sentence(cause, &times));
    value["hint"] = json!(output.complete(&cause::hint(cause, &times)));
    value
}
