//! The response of `pintle debug-log`: pages of the log lines of a model, in the order in which they were stored.
//!
//! The position of a line is the revision and the key of its document. A cursor is a position as text. The lines after
//! a cursor are read from the change log; only the first page, or a page after a very long pause, reads all lines.
//! Called by the handler of `LogQuery`.

use crate::callers::Controller;
use crate::environment::Environment;
use crate::store::Store;
use api::error::{ApiError, ErrorCode};
use api::text;
use api::{LOG_FILTER_BYTES_MAX, LOG_FILTERS_MAX, LOG_PAGE_LINES, LONG_POLL_MS, LogLine, LogPage, LogQuery};
use state::documents::draft::{Reader, parse};
use state::documents::prelude::{LogDoc, Model};
use state::terms::names::UnitName;
use std::collections::BTreeMap;
use wildmatch::WildMatch;

/// Revisions per read of the change log while a client follows the log.
const REVISIONS_PER_READ: usize = 256;
/// Sorts after every key.
const KEY_MAX: &str = "\u{7f}";

type LogPosition = (u64, String);

struct LogEntry {
    position: LogPosition,
    doc: LogDoc,
}

fn cursor(position: &LogPosition) -> String {
    format!("{}:{}", position.0, position.1)
}

fn parse_cursor(cursor: &str) -> Result<LogPosition, ApiError> {
    let parsed =
        cursor.split_once(':').and_then(|(revision, key)| Some((revision.parse().ok()?, key.to_owned())));
    parsed.ok_or_else(|| ApiError::new(ErrorCode::Invalid, format!("invalid debug-log cursor {cursor:?}")))
}

/// Returns one page. If the query waits, the call blocks for at most [`LONG_POLL_MS`] until a matching line is stored.
pub(crate) async fn page<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
    query: LogQuery,
) -> Result<LogPage, ApiError> {
    let until_ms = controller.environment.monotonic_ms() + LONG_POLL_MS;
    let mut after = query.after.as_deref().map(parse_cursor).transpose()?;
    let mut filter = LogFilter::new(&query)?;
    loop {
        let (lines, end) = match &after {
            Some(after) => lines_after(controller, model, after).await,
            None => all_lines(controller, model).await,
        };
        let mut found: Vec<LogEntry> = lines.into_iter().filter(|line| filter.matches(&line.doc)).collect();
        if let (None, Some(newest)) = (&after, query.newest) {
            found.drain(..found.len().saturating_sub(newest as usize));
        }
        if !found.is_empty() || !query.wait || controller.environment.monotonic_ms() >= until_ms {
            return Ok(to_page(found, &end));
        }
        controller.wait_past_until(end.0, until_ms).await;
        after = Some(end);
    }
}

fn to_page(mut found: Vec<LogEntry>, end: &LogPosition) -> LogPage {
    let more = found.len() > LOG_PAGE_LINES as usize;
    found.truncate(LOG_PAGE_LINES as usize);
    let end = found.last().filter(|_| more).map_or(end, |line| &line.position);
    let cursor = cursor(end);
    let line = |line: LogEntry| LogLine {
        at_ms: line.doc.at_ms,
        level: line.doc.level,
        unit: line.doc.unit,
        source: line.doc.source,
        text: line.doc.text,
    };
    LogPage { lines: found.into_iter().map(line).collect(), cursor, more }
}

/// Reads all lines. Returns them with the position after the last one.
async fn all_lines<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
) -> (Vec<LogEntry>, LogPosition) {
    let read = controller.read_available(move |reader: &dyn Reader| {
        let lines = reader.scan(&model.logs(), "", usize::MAX).into_iter().filter_map(|stored| {
            Some(LogEntry { doc: parse(reader, &stored)?, position: (stored.revision, stored.key) })
        });
        (lines.collect::<Vec<_>>(), (reader.revision(), KEY_MAX.to_owned()))
    });
    let (mut lines, end) = read.await;
    lines.sort_by(|a, b| a.position.cmp(&b.position));
    (lines, end)
}

/// Reads the lines after a position. Returns them with the position after the last one.
async fn lines_after<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
    after: &LogPosition,
) -> (Vec<LogEntry>, LogPosition) {
    let (prefix, mut lines) = (model.logs(), Vec::new());
    // The revision of the cursor may contain further lines after the cursor.
    let mut at = after.0.saturating_sub(1);
    loop {
        let position = controller.position(at);
        let Ok(changes) = controller.store.changes_after(position, REVISIONS_PER_READ).await else {
            let (mut lines, end) = all_lines(controller, model).await;
            lines.retain(|line| line.position > *after);
            return (lines, end);
        };
        let Some(last) = changes.last().map(|changes| changes.revision) else { break };
        at = last;
        for changes in changes {
            for entry in changes.entries.iter().filter(|entry| entry.key.starts_with(&prefix)) {
                let position = (changes.revision, entry.key.clone());
                if let (Some(value), true) = (&entry.value, position > *after) {
                    lines.extend(value.parse().ok().map(|doc| LogEntry { position, doc }));
                }
            }
        }
    }
    let end = (at, KEY_MAX.to_owned());
    (lines, end.max(after.clone()))
}

/// The filters of a query. A pattern is compiled once for the query, and compared once with each unit.
struct LogFilter<'q> {
    query: &'q LogQuery,
    include: Vec<UnitPattern<'q>>,
    exclude: Vec<UnitPattern<'q>>,
    /// Whether the units that were seen are selected.
    units: BTreeMap<UnitName, bool>,
}

impl<'q> LogFilter<'q> {
    /// An error if the query has too many entries, or too long ones.
    fn new(query: &'q LogQuery) -> Result<LogFilter<'q>, ApiError> {
        let LogQuery { include, exclude, include_module, exclude_module, .. } = query;
        let entries = || [include, exclude, include_module, exclude_module].into_iter().flatten();
        let (count, longest) = (entries().count(), entries().map(String::len).max().unwrap_or(0));
        if count > LOG_FILTERS_MAX || longest > LOG_FILTER_BYTES_MAX {
            let text = format!(
                "invalid debug-log filters: expected at most {LOG_FILTERS_MAX}, of {LOG_FILTER_BYTES_MAX} bytes each"
            );
            return Err(ApiError::new(ErrorCode::Invalid, text).hint("use wildcards: --include 'unit-web-*'"));
        }
        let patterns = |all: &'q [String]| all.iter().map(|wanted| UnitPattern::new(wanted)).collect();
        Ok(LogFilter {
            query,
            include: patterns(include),
            exclude: patterns(exclude),
            units: BTreeMap::new(),
        })
    }

    fn matches(&mut self, line: &LogDoc) -> bool {
        let name = text::log::module(&line.unit, &line.source);
        let module = |wanted: &String| is_module(&name, wanted);
        self.query.level.is_none_or(|least| line.level >= least)
            && self.selects_unit(&line.unit)
            && (self.query.include_module.is_empty() || self.query.include_module.iter().any(module))
            && !self.query.exclude_module.iter().any(module)
    }

    fn selects_unit(&mut self, unit: &UnitName) -> bool {
        if let Some(known) = self.units.get(unit) {
            return *known;
        }
        let selects = |pattern: &UnitPattern<'_>| pattern.selects(unit);
        let selected = (self.include.is_empty() || self.include.iter().any(selects))
            && !self.exclude.iter().any(selects);
        self.units.insert(unit.clone(), selected);
        selected
    }
}

/// An entry of a filter of units. `web/0` is selected by `unit-web-0`, `web/0`, `unit-web-*` and the application name
/// `web`.
struct UnitPattern<'q> {
    wanted: &'q str,
    tags: WildMatch,
}

impl<'q> UnitPattern<'q> {
    fn new(wanted: &'q str) -> UnitPattern<'q> {
        UnitPattern { wanted, tags: WildMatch::new(wanted) }
    }

    fn selects(&self, unit: &UnitName) -> bool {
        unit.application == self.wanted || unit.to_string() == self.wanted || self.tags.matches(&unit.tag())
    }
}

/// Whether a filter selects a module: by its full name or by its leading parts.
fn is_module(module: &str, wanted: &str) -> bool {
    module.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_selected_by_tag_name_wildcard_and_application() {
        for wanted in ["unit-web-0", "web/0", "unit-web-*", "*-0", "web"] {
            assert!(UnitPattern::new(wanted).selects(&UnitName::new("web", 0)), "{wanted}");
        }
        for wanted in ["web/1", "we", "unit-web-1", "web-0", "machine-0", "unit-we-*"] {
            assert!(!UnitPattern::new(wanted).selects(&UnitName::new("web", 0)), "{wanted}");
        }
        assert!(
            !UnitPattern::new("web").selects(&UnitName::new("web-db", 0)),
            "web-db is another application"
        );
    }

    #[test]
    fn filters_are_bounded_in_number_and_length() {
        let query = |count: usize, bytes: usize| LogQuery {
            include: vec!["w".repeat(bytes)],
            exclude_module: vec!["m".to_owned(); count - 1],
            ..LogQuery::default()
        };
        assert!(LogFilter::new(&query(LOG_FILTERS_MAX, LOG_FILTER_BYTES_MAX)).is_ok());
        for (count, bytes) in [(LOG_FILTERS_MAX + 1, 1), (1, LOG_FILTER_BYTES_MAX + 1)] {
            let refused = LogFilter::new(&query(count, bytes)).err().map(|error| error.code);
            assert_eq!(refused, Some(ErrorCode::Invalid), "{count} of {bytes} bytes");
        }
    }

    #[test]
    fn a_module_is_selected_by_its_leading_parts() {
        assert!(is_module("unit.web/0.juju-log", "unit"));
        assert!(is_module("unit.web/0.juju-log", "unit.web/0"));
        assert!(!is_module("unit.web/0.juju-log", "unit.web"));
    }

    #[test]
    fn a_parsed_cursor_equals_the_position_it_was_made_of() {
        let position = (41, "m/log/u/0000000001/000002".to_owned());
        assert_eq!(parse_cursor(&cursor(&position)), Ok(position));
        assert!(parse_cursor("latest").is_err());
    }
}
