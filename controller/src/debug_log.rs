//! The response of `pintle debug-log`: pages of the log lines of a model, in the order in which they were stored.
//!
//! The position of a line is the revision and the key of its document. A cursor is a position as text. The lines after
//! a cursor are read from the change log, until they fill a page. The first page, and a page whose cursor is older than
//! the change log, scan all lines, because these are stored in the order of their units: a part of them at a time, and
//! only the lines that the request selects are kept.
//!
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
use std::sync::Arc;
use wildmatch::WildMatch;

/// Revisions per read of the change log while a client follows the log.
const REVISIONS_PER_READ: usize = 256;
/// Lines per read of a scan: about as many as a page may have.
const LINES_PER_SCAN: usize = LOG_PAGE_LINES as usize;
/// The lines that show that a page is full: those of the page and one more.
const PAGE_FULL: usize = LOG_PAGE_LINES as usize + 1;
/// Sorts after every key.
const KEY_MAX: &str = "\u{7f}";

type LogPosition = (u64, String);

/// Lines by position.
type LogLines = BTreeMap<LogPosition, LogDoc>;

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
    let (newest, wait) = (query.newest, query.wait);
    let mut filter = LogFilter::new(query)?;
    loop {
        let (lines, end) = match (&after, newest) {
            (Some(after), _) => lines_after(controller, model, after, &mut filter).await,
            (None, Some(newest)) => scan(controller, model, Kept::Newest(newest as usize), &mut filter).await,
            (None, None) => {
                scan(controller, model, Kept::PageAfter(LogPosition::default()), &mut filter).await
            }
        };
        if !lines.is_empty() || !wait || controller.environment.monotonic_ms() >= until_ms {
            return Ok(to_page(lines, &end));
        }
        controller.wait_past_until(end.0, until_ms).await;
        after = Some(end);
    }
}

/// The page with the first of these lines. `end`: the position up to which the log was read.
fn to_page(mut lines: LogLines, end: &LogPosition) -> LogPage {
    let further = lines.keys().nth(LOG_PAGE_LINES as usize).cloned();
    if let Some(further) = &further {
        lines.split_off(further);
    }
    let more = further.is_some();
    let cursor = cursor(lines.keys().next_back().filter(|_| more).unwrap_or(end));
    let line = |doc: LogDoc| LogLine {
        at_ms: doc.at_ms,
        level: doc.level,
        unit: doc.unit,
        source: doc.source,
        text: doc.text,
    };
    LogPage { lines: lines.into_values().map(line).collect(), cursor, more }
}

/// Which of the matching lines a scan keeps.
#[derive(Clone)]
enum Kept {
    /// The first lines after this position: [`PAGE_FULL`].
    PageAfter(LogPosition),
    /// This number of the newest lines.
    Newest(usize),
}

impl Kept {
    fn insert(&self, lines: &mut LogLines, position: LogPosition, doc: LogDoc) {
        match self {
            Kept::PageAfter(after) if position <= *after => {}
            Kept::PageAfter(_) => {
                lines.insert(position, doc);
                if lines.len() > PAGE_FULL {
                    lines.pop_last();
                }
            }
            Kept::Newest(count) => {
                lines.insert(position, doc);
                if lines.len() > *count {
                    lines.pop_first();
                }
            }
        }
    }
}

/// Reads all lines, and keeps those that match. Returns them with the position after the last line.
async fn scan<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
    kept: Kept,
    filter: &mut LogFilter,
) -> (LogLines, LogPosition) {
    let mut scanning = filter.clone();
    let read = controller.read_available(move |reader: &dyn Reader| {
        let (prefix, mut last_key, mut lines) = (model.logs(), String::new(), LogLines::new());
        loop {
            let part = reader.scan(&prefix, &last_key, LINES_PER_SCAN);
            let Some(last) = part.last() else { break };
            last_key.clone_from(&last.key);
            for stored in part {
                if let Some(doc) = parse(reader, &stored)
                    && scanning.matches(&doc)
                {
                    kept.insert(&mut lines, (stored.revision, stored.key), doc);
                }
            }
        }
        (lines, (reader.revision(), KEY_MAX.to_owned()), scanning)
    });
    let (lines, end, scanned) = read.await;
    *filter = scanned;
    (lines, end)
}

/// Reads the matching lines after a position, until they fill a page. Returns them with the position up to which the log
/// was read.
async fn lines_after<S: Store, E: Environment>(
    controller: &Controller<S, E>,
    model: Model,
    after: &LogPosition,
    filter: &mut LogFilter,
) -> (LogLines, LogPosition) {
    let (prefix, mut lines) = (model.logs(), LogLines::new());
    // The revision of the cursor may contain further lines after the cursor.
    let mut at = after.0.saturating_sub(1);
    while lines.len() < PAGE_FULL {
        let position = controller.position(at);
        let Ok(changes) = controller.store.changes_after(position, REVISIONS_PER_READ).await else {
            return scan(controller, model, Kept::PageAfter(after.clone()), filter).await;
        };
        let Some(last) = changes.last().map(|changes| changes.revision) else { break };
        at = last;
        for changes in changes {
            for entry in changes.entries.iter().filter(|entry| entry.key.starts_with(&prefix)) {
                let position = (changes.revision, entry.key.clone());
                let Some(value) = entry.value.as_ref().filter(|_| position > *after) else { continue };
                match value.parse::<LogDoc>() {
                    Ok(doc) if filter.matches(&doc) => drop(lines.insert(position, doc)),
                    Ok(_) => {}
                    Err(error) => tracing::warn!("cannot read the log line {}: {error}", entry.key),
                }
            }
        }
    }
    let end = (at, KEY_MAX.to_owned());
    (lines, end.max(after.clone()))
}

/// The filters of a query. A pattern is compiled once for the query, and compared once with each unit.
#[derive(Clone)]
struct LogFilter {
    query: Arc<LogQuery>,
    include: Arc<[UnitPattern]>,
    exclude: Arc<[UnitPattern]>,
    /// Whether the units that were seen are selected.
    units: BTreeMap<UnitName, bool>,
}

impl LogFilter {
    /// An error if the query has too many entries, or too long ones.
    fn new(query: LogQuery) -> Result<LogFilter, ApiError> {
        let LogQuery { include, exclude, include_module, exclude_module, .. } = &query;
        let entries = || [include, exclude, include_module, exclude_module].into_iter().flatten();
        let (count, longest) = (entries().count(), entries().map(String::len).max().unwrap_or(0));
        if count > LOG_FILTERS_MAX || longest > LOG_FILTER_BYTES_MAX {
            let text = format!(
                "invalid debug-log filters: expected at most {LOG_FILTERS_MAX}, of {LOG_FILTER_BYTES_MAX} bytes each"
            );
            return Err(ApiError::new(ErrorCode::Invalid, text).hint("use wildcards: --include 'unit-web-*'"));
        }
        let patterns = |all: &[String]| all.iter().map(|text| UnitPattern::new(text)).collect();
        let (include, exclude) = (patterns(include), patterns(exclude));
        Ok(LogFilter { query: Arc::new(query), include, exclude, units: BTreeMap::new() })
    }

    fn matches(&mut self, line: &LogDoc) -> bool {
        let name = text::log::module(&line.unit, &line.source);
        let module = |filter: &String| is_module(&name, filter);
        self.query.level.is_none_or(|least| line.level >= least)
            && self.selects_unit(&line.unit)
            && (self.query.include_module.is_empty() || self.query.include_module.iter().any(module))
            && !self.query.exclude_module.iter().any(module)
    }

    fn selects_unit(&mut self, unit: &UnitName) -> bool {
        if let Some(known) = self.units.get(unit) {
            return *known;
        }
        let selects = |pattern: &UnitPattern| pattern.selects(unit);
        let selected = (self.include.is_empty() || self.include.iter().any(selects))
            && !self.exclude.iter().any(selects);
        self.units.insert(unit.clone(), selected);
        selected
    }
}

/// An entry of a filter of units. `web/0` is selected by `unit-web-0`, `web/0`, `unit-web-*` and the application name
/// `web`.
struct UnitPattern {
    /// The name of a unit or of an application.
    name: String,
    /// The same text as a pattern of tags.
    tag_pattern: WildMatch,
}

impl UnitPattern {
    fn new(text: &str) -> UnitPattern {
        UnitPattern { name: text.to_owned(), tag_pattern: WildMatch::new(text) }
    }

    fn selects(&self, unit: &UnitName) -> bool {
        unit.application == self.name
            || unit.to_string() == self.name
            || self.tag_pattern.matches(&unit.tag())
    }
}

/// Whether a filter selects a module: by its full name or by its leading parts.
fn is_module(module: &str, filter: &str) -> bool {
    module.strip_prefix(filter).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use state::documents::prelude::LogSource;
    use state::unit::hook_context::Level;

    #[test]
    fn a_unit_is_selected_by_tag_name_wildcard_and_application() {
        for text in ["unit-web-0", "web/0", "unit-web-*", "*-0", "web"] {
            assert!(UnitPattern::new(text).selects(&UnitName::new("web", 0)), "{text}");
        }
        for text in ["web/1", "we", "unit-web-1", "web-0", "machine-0", "unit-we-*"] {
            assert!(!UnitPattern::new(text).selects(&UnitName::new("web", 0)), "{text}");
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
        assert!(LogFilter::new(query(LOG_FILTERS_MAX, LOG_FILTER_BYTES_MAX)).is_ok());
        for (count, bytes) in [(LOG_FILTERS_MAX + 1, 1), (1, LOG_FILTER_BYTES_MAX + 1)] {
            let refused = LogFilter::new(query(count, bytes)).err().map(|error| error.code);
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
    fn a_scan_keeps_a_page_and_one_line_or_the_newest_lines() {
        let doc = LogDoc {
            at_ms: 0,
            level: Level::Info,
            unit: UnitName::new("web", 0),
            source: LogSource::JujuLog,
            text: String::new(),
        };
        let all = |kept: Kept| {
            let mut lines = LogLines::new();
            // the keys of several units are not in the order of their revisions
            for revision in (1..=1_500).rev().chain(1_501..=3_000) {
                kept.insert(&mut lines, (revision, format!("{revision}")), doc.clone());
            }
            lines
        };
        let revisions = |lines: &LogLines| {
            let of = |position: Option<&LogPosition>| position.map(|(revision, _)| *revision);
            (of(lines.keys().next()), of(lines.keys().next_back()), lines.len())
        };
        let first = all(Kept::PageAfter(LogPosition::default()));
        assert_eq!(revisions(&first), (Some(1), Some(1_001), 1_001));
        let page = to_page(first, &(3_000, KEY_MAX.to_owned()));
        assert_eq!((page.lines.len(), page.more, page.cursor.as_str()), (1_000, true, "1000:1000"));
        let last = all(Kept::PageAfter((2_000, "2000".to_owned())));
        let page = to_page(last, &(3_000, "end".to_owned()));
        assert_eq!((page.lines.len(), page.more, page.cursor.as_str()), (1_000, false, "3000:end"));
        assert_eq!(revisions(&all(Kept::Newest(10))), (Some(2_991), Some(3_000), 10));
    }

    #[test]
    fn a_parsed_cursor_equals_the_position_it_was_made_of() {
        let position = (41, "m/log/u/0000000001/000002".to_owned());
        assert_eq!(parse_cursor(&cursor(&position)), Ok(position));
        assert!(parse_cursor("latest").is_err());
    }
}
