//! debug-log: pages over the log lines of a model, in the order in which they were stored.
//!
//! A line's place is the revision of its document and its key; a cursor is such a place. What is new after a cursor
//! comes from the change log; only the first page, or one after a very long pause, reads all lines.

use crate::environment::Environment;
use crate::session::{Controller, store_position};
use crate::store::Store;
use api::error::{ApiError, ErrorCode};
use api::{LOG_PAGE_LINES, LONG_POLL_MS, LogLine, LogPage, LogQuery};
use state::documents::draft::Reader;
use state::documents::keys::{LogDoc, Model};

/// Revisions read at once from the change log while following.
const REVISIONS_PER_READ: usize = 256;
/// Comes after every key.
const KEY_MAX: &str = "\u{7f}";
/// The levels, least first.
const LEVELS: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

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
    parsed
        .ok_or_else(|| ApiError::new(ErrorCode::Invalid, format!("{cursor:?} is not a cursor of debug-log")))
}

/// One page.
pub(crate) async fn page<S: Store, O: Environment>(
    controller: &Controller<S, O>,
    model: Model,
    query: LogQuery,
) -> Result<LogPage, ApiError> {
    let least = least_level(query.level.as_deref())?;
    let until_ms = controller.environment.monotonic_ms() + LONG_POLL_MS;
    let mut after = query.after.as_deref().map(parse_cursor).transpose()?;
    loop {
        let (lines, end) = match &after {
            Some(after) => lines_after(controller, model, after).await,
            None => all_lines(controller, model).await,
        };
        let mut found: Vec<LogEntry> =
            lines.into_iter().filter(|line| matches(&query, least, &line.doc)).collect();
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
        module: line.doc.module,
        entity: line.doc.entity,
        text: line.doc.text,
    };
    LogPage { lines: found.into_iter().map(line).collect(), cursor, more }
}

/// All lines, and the place after them.
async fn all_lines<S: Store, O: Environment>(controller: &Controller<S, O>, model: Model) -> (Vec<LogEntry>, LogPosition) {
    let read = controller.read(move |reader: &dyn Reader| {
        let lines = reader.scan(&model.logs(), "", usize::MAX).into_iter().map(|stored| LogEntry {
            doc: serde_json::from_str(&stored.value).expect("log documents are what transitions wrote"),
            position: (stored.revision, stored.key),
        });
        (lines.collect::<Vec<_>>(), (reader.revision(), KEY_MAX.to_owned()))
    });
    let (mut lines, end) = read.await;
    lines.sort_by(|a, b| a.position.cmp(&b.position));
    (lines, end)
}

/// The lines after a place, and the place after them.
async fn lines_after<S: Store, O: Environment>(
    controller: &Controller<S, O>,
    model: Model,
    after: &LogPosition,
) -> (Vec<LogEntry>, LogPosition) {
    let (prefix, mut lines) = (model.logs(), Vec::new());
    // The revision of the cursor itself may hold lines after it.
    let mut at = after.0.saturating_sub(1);
    loop {
        let position = store_position(controller.position(at));
        let Ok(changes) = controller.store.changes_after(position, REVISIONS_PER_READ).await else {
            let (mut lines, end) = all_lines(controller, model).await;
            lines.retain(|line| line.position > *after);
            return (lines, end);
        };
        let Some(last) = changes.last().map(|changes| changes.revision) else { break };
        at = last;
        for changes in changes {
            for entry in changes.entries.iter().filter(|entry| entry.key.starts_with(&prefix)) {
                let place = (changes.revision, entry.key.clone());
                if let (Some(value), true) = (&entry.value, place > *after) {
                    let doc = value.parse().expect("log documents are what transitions wrote");
                    lines.push(LogEntry { position: place, doc });
                }
            }
        }
    }
    let end = (at, KEY_MAX.to_owned());
    (lines, end.max(after.clone()))
}

fn least_level(level: Option<&str>) -> Result<usize, ApiError> {
    let Some(level) = level else { return Ok(0) };
    let found = LEVELS.iter().position(|known| known.eq_ignore_ascii_case(level));
    found.ok_or_else(|| {
        let text = format!("level {level:?} is not one of TRACE, DEBUG, INFO, WARNING, ERROR");
        ApiError::new(ErrorCode::Invalid, text)
    })
}

fn matches(query: &LogQuery, least: usize, line: &LogDoc) -> bool {
    let level = LEVELS.iter().position(|level| *level == line.level).unwrap_or(0);
    let entity = |wanted: &String| is_entity(&line.entity, wanted);
    let module = |wanted: &String| is_module(&line.module, wanted);
    level >= least
        && (query.include.is_empty() || query.include.iter().any(entity))
        && !query.exclude.iter().any(entity)
        && (query.include_module.is_empty() || query.include_module.iter().any(module))
        && !query.exclude_module.iter().any(module)
}

/// `unit-web-0` is meant by itself, by `web/0`, by `unit-web-*` and by the application `web`.
fn is_entity(entity: &str, wanted: &str) -> bool {
    if let Some(begin) = wanted.strip_suffix('*') {
        return entity.starts_with(begin);
    }
    let of_application = || {
        let number =
            entity.strip_prefix("unit-").and_then(|rest| rest.strip_prefix(wanted)?.strip_prefix('-'));
        number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
    };
    entity == wanted
        || wanted.split_once('/').is_some_and(|(name, number)| entity == format!("unit-{name}-{number}"))
        || of_application()
}

/// A module is meant by its own name and by any of the parts it begins with.
fn is_module(module: &str, wanted: &str) -> bool {
    module.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_are_named_in_four_ways() {
        for wanted in ["unit-web-0", "web/0", "unit-web-*", "web"] {
            assert!(is_entity("unit-web-0", wanted), "{wanted}");
        }
        for wanted in ["web/1", "we", "unit-web-1", "web-0", "machine-0", "unit-we-*"] {
            assert!(!is_entity("unit-web-0", wanted), "{wanted}");
        }
        assert!(!is_entity("unit-web-db-0", "web"), "web-db is another application");
    }

    #[test]
    fn modules_are_meant_by_what_they_begin_with() {
        assert!(is_module("unit.web/0.juju-log", "unit"));
        assert!(is_module("unit.web/0.juju-log", "unit.web/0"));
        assert!(!is_module("unit.web/0.juju-log", "unit.web"));
    }

    #[test]
    fn a_cursor_is_read_back_as_it_was_given() {
        let there = (41, "m/log/u/0000000001/000002".to_owned());
        assert_eq!(parse_cursor(&cursor(&there)), Ok(there));
        assert!(parse_cursor("latest").is_err());
    }
}
