//! The log of a daemon: lines on standard error, whose file is rotated (`log_file`), at a level that can be changed
//! while the daemon runs.
//!
//! A line has, after its time and level, the spans it was written in and their fields: `unit`, `hook` and `machine`, and at
//! level `debug` `commit` and `request`, with which the lines about one hook can be found in the logs of the agent and of
//! the controller. The level is the content of a file: `debug`, or a default with levels of modules, such as
//! `info,agent=debug`. Without the file the level is `info`.
//!
//! The program calls [`LogFilter::read`] whenever the file may have changed.

use crate::escape::one_line;
use crate::file::{ignore_not_found, read_regular_text};
use crate::log_file::rotate_stderr;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

/// The largest size of the file of the level in bytes, which may name a level for each of many modules.
const FILTER_BYTES_MAX: u64 = 4 << 10;

/// The name of the file that holds the level, in the data folder of a machine or a controller.
pub const LEVEL_FILE: &str = "log-level";

/// The filter of this process's log, whose level can be changed.
#[derive(Clone)]
pub struct LogFilter {
    filter: reload::Handle<Targets, Registry>,
    /// The text of the file, or why it could not be read, when it was read last.
    seen: Arc<Mutex<Result<String, String>>>,
}

/// Starts the log of this process, at level `info`.
///
/// # Panics
/// If the process has a log already.
pub fn start() -> LogFilter {
    // The first call stores the name of the log, which the process that opened it may rotate later.
    rotate_stderr();
    start_with(|| {
        rotate_stderr();
        OneLine(std::io::stderr())
    })
}

/// Starts the log of this process with another writer: a test must not rotate the file with the output of all tests.
fn start_with<W: Write + 'static>(writer: impl Fn() -> W + Send + Sync + 'static) -> LogFilter {
    let (filter, handle) = reload::Layer::new(Targets::new().with_default(LevelFilter::INFO));
    let lines = fmt::layer().with_writer(writer).with_ansi(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    LogFilter { filter: handle, seen: Arc::new(Mutex::new(Ok(String::new()))) }
}

/// Writes each event as one line: text of charms and agents in it cannot forge another line.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    /// Writes one event, which the layer formats into one buffer that ends with a line break.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = event.strip_suffix(b"\n").unwrap_or(event);
        let is_safe = |byte: &u8| !byte.is_ascii_control() || *byte == b'\t';
        if text.iter().all(is_safe) {
            self.0.write_all(event)?;
        } else {
            let line = one_line(&String::from_utf8_lossy(text)) + "\n";
            self.0.write_all(line.as_bytes())?;
        }
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

impl LogFilter {
    /// Applies the level in `file`. Returns whether the file has changed since it was last read. A file that cannot be
    /// read, and a level that cannot be parsed, are logged as a warning and change nothing.
    pub fn read(&self, file: &Path) -> bool {
        let read = ignore_not_found(read_regular_text(file, FILTER_BYTES_MAX));
        let read = read.map(Option::unwrap_or_default).map_err(|error| error.to_string());
        if std::mem::replace(&mut *self.seen.lock().expect("no holder panics"), read.clone()) == read {
            return false;
        }
        let text = match read {
            Ok(text) => text,
            Err(error) => {
                tracing::warn!("cannot read {}: {error}; the log level stays as it is", file.display());
                return true;
            }
        };
        match parse(&text) {
            Some(targets) => {
                // this fails only after the subscriber was dropped
                let _ = self.filter.reload(targets);
                tracing::info!("the log level is now {:?}", text.trim());
            }
            None => tracing::warn!(
                "ignored invalid log level {:?} in {}: expected a level (error, warn, info, debug, trace), or for \
                 example info,agent=debug",
                text.trim(),
                file.display()
            ),
        }
        true
    }
}

fn parse(text: &str) -> Option<Targets> {
    match text.trim() {
        "" => Some(Targets::new().with_default(LevelFilter::INFO)),
        // `Targets` parses an unknown word as a module name, which would disable all other modules
        text if text.split(',').any(|part| part.trim().parse::<LevelFilter>().is_ok()) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn an_event_is_one_line_whatever_its_text_contains() {
        let mut written = Vec::new();
        let events = ["INFO safe\ttext\n", "WARN 1\nERROR \u{1b}[2J\n"];
        for event in events {
            OneLine(&mut written).write_all(event.as_bytes()).expect("memory takes it");
        }
        let lines = String::from_utf8(written).expect("escaped text");
        assert_eq!(lines, [events[0], "WARN 1\\nERROR \\u{1b}[2J\n"].concat());
    }

    #[test]
    fn a_level_applies_to_all_modules_or_to_the_listed_ones() {
        let at = |text: &str, target: &str| parse(text).expect("a level").would_enable(target, &Level::DEBUG);
        assert!(!at("", "agent::unit_agent"));
        assert!(at("debug\n", "agent::unit_agent"));
        assert!(at("info,agent=debug", "agent::unit_agent") && !at("info,agent=debug", "hyper"));
        assert!(
            parse("info,agent=loud").is_none() && parse("loud").is_none() && parse("agent=debug").is_none()
        );
    }

    #[test]
    fn the_level_follows_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, level) = (folder.path().join(LEVEL_FILE), start_with(std::io::sink));
        assert!(!level.read(&file) && !tracing::enabled!(Level::DEBUG));
        std::fs::write(&file, "debug\n").expect("written");
        assert!(level.read(&file) && tracing::enabled!(Level::DEBUG));
        assert!(!level.read(&file));
        std::fs::write(&file, "loud=loud").expect("written");
        assert!(level.read(&file) && tracing::enabled!(Level::DEBUG), "nothing has changed");
        std::fs::remove_file(&file).expect("removed");
        // a folder cannot be read as a file: this is a change, and no level that is invalid
        std::fs::create_dir(&file).expect("made");
        assert!(level.read(&file) && tracing::enabled!(Level::DEBUG), "the level stays");
        assert!(level.seen.lock().expect("no holder panics").is_err() && !level.read(&file));
        std::fs::remove_dir(&file).expect("removed");
        assert!(level.read(&file) && !tracing::enabled!(Level::DEBUG));
    }
}
