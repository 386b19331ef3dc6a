//! The levels of the loggers of a model: the setting `logging-config`, in the form of Juju:
//! `<root>=INFO;unit=DEBUG;unit.web/0=TRACE`.
//!
//! A logger matches the module of its name, and those whose names continue after a dot. The logger with the longest
//! name that matches a module has its level. Lines of charms and of hooks that ran below the level are not stored
//! (spec/clients.md 3.6); the controller's and the agents' own logs do not depend on it.

use crate::unit::writes::Level;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The logger that is the beginning of every module.
const ROOT: &str = "<root>";
/// The level of a module that no logger fits: that of Juju's models.
const LEVEL_DEFAULT: Level = Level::Info;

/// Levels by the names of loggers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct LoggingConfig(BTreeMap<String, Level>);

impl LoggingConfig {
    /// Parses the setting as Juju does (loggo): entries are separated by semicolons, colons or, here, the ends of lines, with
    /// spaces around names and levels, in any case. A text that is only a level is that of the root, `UNSPECIFIED` leaves a
    /// logger to the shorter ones, and the last entry of a logger counts. None if the text is in another form.
    pub fn parse(text: &str) -> Option<LoggingConfig> {
        let mut levels = BTreeMap::new();
        let entries: Vec<&str> =
            text.split([';', ':', '\n']).map(str::trim).filter(|entry| !entry.is_empty()).collect();
        for entry in &entries {
            let only = (entries.len() == 1).then_some((ROOT, *entry));
            let (logger, level) = entry.split_once('=').or(only)?;
            match (logger.trim(), level.trim().to_uppercase().as_str()) {
                ("", _) => return None,
                (logger, "UNSPECIFIED") => drop(levels.remove(logger)),
                (logger, "WARN") => drop(levels.insert(logger.to_owned(), Level::Warning)),
                (logger, level) => drop(levels.insert(logger.to_owned(), level.parse().ok()?)),
            }
        }
        // the default need not be in every view
        levels.retain(|logger, level| logger != ROOT || *level != LEVEL_DEFAULT);
        Some(LoggingConfig(levels))
    }

    /// Whether every logger has its default level.
    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest level at which lines of a module are stored. See [`log_module`](crate::terms::log_module).
    pub fn level_of(&self, module: &str) -> Level {
        let mut prefix = module;
        loop {
            if let Some(level) = self.0.get(prefix) {
                return *level;
            }
            match prefix.rsplit_once('.') {
                Some((shorter, _)) => prefix = shorter,
                None => return self.0.get(ROOT).copied().unwrap_or(LEVEL_DEFAULT),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::log_module::UNITER_OPERATION;

    fn level(text: &str) -> Level {
        LoggingConfig::parse(text).expect("a valid setting").level_of("unit.web/0.juju-log")
    }

    #[test]
    fn lines_about_hooks_have_the_level_of_their_own_module() {
        let level = |text| LoggingConfig::parse(text).expect("a valid setting").level_of(UNITER_OPERATION);
        assert_eq!(level("unit=TRACE"), Level::Info);
        assert_eq!(level("<root>=WARNING;juju.worker=DEBUG"), Level::Debug);
        assert_eq!(level("juju.worker.uniter.operation=ERROR;juju=DEBUG"), Level::Error);
    }

    #[test]
    fn the_longest_logger_that_fits_decides() {
        assert_eq!(level(""), Level::Info);
        assert_eq!(level("WARNING"), Level::Warning);
        assert_eq!(level("<root>=WARN"), Level::Warning);
        assert_eq!(level("<root>=WARNING;unit=DEBUG"), Level::Debug);
        assert_eq!(level("<root>=WARNING; unit=UNSPECIFIED"), Level::Warning);
        assert_eq!(level("unit=debug\nunit.web/0=ERROR"), Level::Error);
        assert_eq!(level(" <root> = warn : unit = Debug ;"), Level::Debug);
        assert_eq!(level("unit=ERROR;unit=TRACE"), Level::Trace);
        assert_eq!(level("<root>=CRITICAL"), Level::Critical);
        assert_eq!(level("#charmhub=TRACE;nosuch.module=ERROR"), Level::Info, "no such loggers");
        assert_eq!(level("unit.web/0.juju-log=TRACE;unit.web/0=ERROR"), Level::Trace);
        assert_eq!(
            level("unit.web=ERROR;juju.worker=TRACE;uni=TRACE"),
            Level::Info,
            "no whole parts of the module"
        );
    }

    #[test]
    fn what_is_no_level_is_refused() {
        for text in ["<root>=LOUD", "=INFO", "unit", "unit=INFO=DEBUG"] {
            assert_eq!(LoggingConfig::parse(text), None, "{text}");
        }
    }
}
