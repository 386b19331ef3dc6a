//! The lines of `debug-log` (spec/clients.md 3.6). Clients match them, so their shape is fixed.

use crate::render::colour::Colour;
use crate::render::json;
use crate::terminal_escape;
use crate::times::Zone;
use api::LogLine;
use api::text::log::{self, module};
use state::unit::writes::Level;

/// The style of log lines.
#[derive(Clone)]
pub struct LogLineStyle {
    /// Time zone of the times.
    pub zone: Zone,
    /// Whether dates are shown.
    pub date: bool,
    /// Whether milliseconds are shown.
    pub millis: bool,
    /// Whether each line is a JSON object.
    pub json: bool,
    /// Whether the levels of warnings and errors have colours.
    pub colours: bool,
}

/// One line, or one for each line of the text:
/// `unit-ledger-0: 10:00:05 INFO unit.ledger/0.juju-log ledger:1: text`.
pub fn text(line: &LogLine, style: &LogLineStyle) -> String {
    let (entity, module) = (line.unit.tag(), module(&line.unit, &line.source));
    let message = log::line(&line.source, &line.text);
    if style.json {
        return json(&serde_json::json!({
            "timestamp": style.zone.iso(line.at_ms),
            "entity": entity,
            "level": line.level,
            "module": module,
            "message": message,
        }));
    }
    let time = style.zone.log_time(line.at_ms, style.date, style.millis);
    let entity = terminal_escape::safe_line(&entity);
    let (level, module) = (level_text(line.level, style.colours), terminal_escape::safe_line(&module));
    let prefix = format!("{entity}: {time} {level} {module}");
    // every line of the text has the prefix: a charm cannot print a line that looks like one of another unit
    let text = terminal_escape::safe_text(&message);
    text.split('\n').map(|text| format!("{prefix} {text}\n")).collect()
}

fn level_text(level: Level, colours: bool) -> String {
    let colour = match level {
        _ if !colours => None,
        Level::Error | Level::Critical => Some(Colour::Red),
        Level::Warning => Some(Colour::Yellow),
        Level::Trace | Level::Debug | Level::Info => None,
    };
    match colour {
        Some(colour) => colour.of_text(&level.to_string()),
        None => level.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::LogSource;
    use state::terms::failure_reason::FailureReason;
    use state::terms::hook_name::HookName;
    use state::terms::names::UnitName;
    use state::unit::hook_log::{HookEnd, HookHandler};

    #[test]
    fn a_line_has_the_shape_that_clients_match() {
        let line = LogLine {
            at_ms: 36_005_000, // 10:00:05
            level: Level::Info,
            unit: UnitName::new("ledger", 0),
            source: LogSource::JujuLog,
            text: "ledger:1: text\u{1b}[2J".to_owned(),
        };
        let style =
            LogLineStyle { zone: Zone::new(true), date: false, millis: false, json: false, colours: false };
        assert_eq!(
            text(&line, &style),
            "unit-ledger-0: 10:00:05 INFO unit.ledger/0.juju-log ledger:1: text\\u{1b}[2J\n"
        );
    }

    #[test]
    fn the_end_of_a_hook_has_the_shapes_that_clients_match() {
        let shown = |handler, end| {
            let source = LogSource::HookEnd { hook: HookName::ConfigChanged, handler, end };
            let (at_ms, unit) = (36_005_000, UnitName::new("ledger", 0));
            let line = LogLine { at_ms, level: Level::Info, unit, source, text: String::new() };
            text(
                &line,
                &LogLineStyle {
                    zone: Zone::new(true),
                    date: false,
                    millis: false,
                    json: false,
                    colours: false,
                },
            )
        };
        let lines = [
            shown(Some(HookHandler::Dispatch), HookEnd::Ran),
            shown(Some(HookHandler::Explicit), HookEnd::Ran),
            shown(Some(HookHandler::Dispatch), HookEnd::Failed(FailureReason::exit(1))),
            shown(None, HookEnd::Missing),
        ];
        test_support::golden::compare("commands/hook_ends.txt", &lines.concat());
    }

    #[test]
    fn warnings_and_errors_have_colours_that_end_with_the_word() {
        let coloured = |level| level_text(level, true);
        assert_eq!(
            [coloured(Level::Warning), coloured(Level::Error)],
            ["\x1b[33mWARNING\x1b[0m", "\x1b[31mERROR\x1b[0m"]
        );
        assert_eq!([coloured(Level::Info), level_text(Level::Error, false)], ["INFO", "ERROR"]);
    }

    #[test]
    fn a_line_break_in_a_text_does_not_forge_a_line_of_another_unit() {
        let forged = "unit-web-0: 10:00:06 ERROR unit.web/0.juju-log forged";
        let line = LogLine {
            at_ms: 36_005_000,
            level: Level::Info,
            unit: UnitName::new("ledger", 0),
            source: LogSource::JujuLog,
            text: format!("one\n{forged}\r"),
        };
        let style =
            LogLineStyle { zone: Zone::new(true), date: false, millis: false, json: false, colours: false };
        let prefix = "unit-ledger-0: 10:00:05 INFO unit.ledger/0.juju-log";
        assert_eq!(text(&line, &style), format!("{prefix} one\n{prefix} {forged}\\u{{d}}\n"));
    }
}
